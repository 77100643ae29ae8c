#!/bin/sh
# The examples with device code, over the test double of the runtime: what their kernels do, example_kernels.c says. In the
# double each process has a device of its own, so of 06 it can't be shown that a process is refused before the other one trims.
set -u
[ -n "${CUDA_EXAMPLES:-}" ] || { echo "1..0 # SKIP no CUDA compiler in this build: the examples with device code aren't built"; exit 0; }
double=$top_builddir/tests/cuda/double
LD_LIBRARY_PATH=$double${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
SNUG_DOUBLE_MEMORY_MB=256
# The library loaded first stands before the sanitizer's, which does no harm: it calls nothing that is checked.
ASAN_OPTIONS=verify_asan_link_order=0${ASAN_OPTIONS:+:$ASAN_OPTIONS}
# The double joins the threads of destroyed streams when it is reset, and these programs don't know that it is one.
TSAN_OPTIONS=report_thread_leaks=0${TSAN_OPTIONS:+:$TSAN_OPTIONS}
export LD_LIBRARY_PATH SNUG_DOUBLE_MEMORY_MB ASAN_OPTIONS TSAN_OPTIONS
n=0

# result NAME: by the status of the command before it; what it said, if it failed.
result() {
    status=$?
    n=$((n + 1))
    if [ $status -eq 0 ]; then
        echo "ok $n - $1"
    else
        echo "not ok $n - $1 (exit status $status)"
        printf '%s\n' "$output" | sed 's/^/# /'
    fi
}

# over_double EXAMPLE [ARGUMENT]: runs it; its words are in $output.
over_double() {
    output=$(LD_PRELOAD=$top_builddir/tests/cuda/libexample_kernels.so "$top_builddir/examples/$1" ${2:+"$2"} 2>&1 </dev/null)
}

# says PATTERN: a line of the output is like that.
says() {
    printf '%s\n' "$output" | grep -q "$1"
}

for mode in eager timely late; do
    for seed in 1 2; do
        SNUG_DOUBLE_MODE=$mode SNUG_DOUBLE_SEED=$seed
        export SNUG_DOUBLE_MODE SNUG_DOUBLE_SEED
        of="$mode, seed $seed"
        over_double 05_graph
        result "05_graph, $of"
        says '^pinned: 1600 replays, addresses changed in 0 of 8 rounds, 0 patches, all results are right$'
        result "pinned buffers stay ($of)"
        says '^patched: .* changed in [1-4] of 8 rounds, [1-4] patches, all'
        result "patches only after moves ($of)"
        says '^table: .* changed in [1-7] of 8 rounds, 0 patches, all'
        result "by the table it goes without ($of)"
    done
    for seconds in 1 3 10; do # on a busy machine the compactor may find nothing idle in a second
        over_double 04_runtime $seconds || break
        says '^moved meanwhile: [1-9]' && break
    done
    says '^all results are right$'
    result "04_runtime, $mode"
    says '^moved meanwhile: [1-9]'
    result "the compactor moved something meanwhile ($mode)"
done
unset SNUG_DOUBLE_MODE SNUG_DOUBLE_SEED

over_double 06_shrink
result 06_shrink
says '^snug_trim returned 1[0-9][0-9] MiB'
result "most of the pool is returned"
says '^another process asks for 128 MiB: it gets them$'
result "another process gets it"

# What must be refused is refused in one line.
for words in "04_runtime -1" "04_runtime 1x" "06_shrink 1x"; do
    # shellcheck disable=SC2086 # a program and its argument
    if over_double $words; then false; else [ $? -eq 1 ] && [ "$(printf '%s\n' "$output" | wc -l)" -eq 1 ] && says '^usage: '; fi
    result "$words is no good"
done

# A wrong result is found: with this, kernels leave a word out now and then.
SNUG_EXAMPLE_FAULT=1
export SNUG_EXAMPLE_FAULT
for words in "04_runtime 1" 05_graph 06_shrink; do
    # shellcheck disable=SC2086 # a program and its argument
    if over_double $words; then false; else [ $? -eq 1 ] && says ' wrong'; fi
    result "$words, with a word that is wrong"
done
echo "1..$n"
