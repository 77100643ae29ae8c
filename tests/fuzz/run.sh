#!/bin/sh
# Fuzzing. First the plain programs run each input of the corpus, in every build; then, where there is a clang with
# libFuzzer, each target is fuzzed for SECONDS_PER_TARGET (default 8, at SNUG_TEST_SCALE percent; 0: not at all) with the
# address and undefined behaviour sanitizers. `make fuzz SECONDS=600` for longer.
# A finding is left below tests/fuzz/libfuzzer/ of the build, beside the programs. Reduce it (libfuzzer/NAME -minimize_crash=1
# -runs=100000 FILE), mend the code, and keep it in tests/fuzz/corpus/NAME/.
# Environment: CLANG, the compiler. FUZZ_TARGETS, which of them.
set -u
targets=${FUZZ_TARGETS:-csv ops_handle ops_plan ops_pool ops_range options}
corpus=$top_srcdir/tests/fuzz/corpus
work=$top_builddir/tests/fuzz/libfuzzer
CLANG=${CLANG:-clang}
n=0 failures=0

# ok NAME: prints the line for the status of what ran before.
ok() {
    status=$?
    n=$((n + 1))
    if [ $status -eq 0 ]; then
        echo "ok $n - $1"
    else
        echo "not ok $n - $1"
        failures=1
    fi
}

skip() {
    n=$((n + 1))
    echo "ok $n # SKIP $1: $2"
}

replay() {
    seen=$("$top_builddir/tests/fuzz/$1" "$corpus/$1" 2>"$work/$1.replay")
    status=$?
    tail -n 5 "$work/$1.replay" | sed 's/^/# /'
    (exit $status)
    ok "$1: the corpus, $seen"
}

# Why there is no fuzzing; nothing if there is.
reason() {
    if [ "$seconds" -eq 0 ]; then
        echo "no time is given"
    elif [ -n "$(echo "${SAN_CFLAGS-}" | tr -d ' ')" ]; then
        echo "left to the builds without sanitizers of their own"
    elif ! command -v "$CLANG" >/dev/null; then
        echo "there is no $CLANG"
    elif ! echo 'int LLVMFuzzerTestOneInput(const char *d, unsigned long n) { return d && n > 99; }' |
        "$CLANG" -x c -fsanitize=fuzzer,address,undefined -o "$work/probe" - 2>/dev/null; then
        echo "$CLANG has no libFuzzer"
    fi
}

compile() {
    flags="-std=gnu11 -g -O2 -pthread -D_GNU_SOURCE -DSNUG_DEBUG=1 -I$top_srcdir/include -iquote $top_srcdir/src -iquote \
        $top_srcdir/tests -fsanitize=address,undefined -fno-sanitize-recover=undefined \
        -fsanitize-coverage-ignorelist=$top_srcdir/tests/fuzz/uncounted.txt"
    [ -e "$work/built" ] && [ -z "$(find "$top_srcdir/src" "$top_srcdir/include" "$top_srcdir/tools" "$top_srcdir/tests/fuzz" \
        "$top_srcdir/tests/unit" "$top_srcdir/tests/client.h" -newer "$work/built" -name '*.[ch]')" ] && return
    rm -rf "$work/objects" "$work/built"
    mkdir -p "$work/objects"
    for source in "$top_srcdir"/src/*.c "$top_srcdir"/src/host/*.c "$top_srcdir"/src/sim/*.c "$top_srcdir/tools/trace_csv.c"; do
        [ ! -e "$source" ] || echo "$source $work/objects/$(echo "${source#"$top_srcdir"/}" | tr / _).o"
    done | nice -n 10 xargs -n 2 -P 2 sh -c "$CLANG $flags -fsanitize=fuzzer-no-link -c \$0 -o \$1" || return
    for target in $targets; do
        # shellcheck disable=SC2086
        nice -n 10 "$CLANG" $flags -fsanitize=fuzzer -o "$work/$target" "$top_srcdir/tests/fuzz/$target.c" "$work"/objects/*.o -lm ||
            return
    done
    touch "$work/built"
}

# The runs that libFuzzer makes of what it has found go to a folder of the build; that of the sources stays as it is.
fuzz() {
    mkdir -p "$work/corpus/$1"
    dictionary=
    [ ! -e "$top_srcdir/tests/fuzz/$1.dict" ] || dictionary=-dict=$top_srcdir/tests/fuzz/$1.dict
    # shellcheck disable=SC2086
    nice -n 10 "$work/$1" -max_total_time="$seconds" -timeout=20 -rss_limit_mb=4096 -max_len=240 -len_control=20 -entropic=0 \
        -detect_leaks=0 -print_final_stats=1 $dictionary -artifact_prefix="$work/$1-" "$work/corpus/$1" "$corpus/$1" \
        >"$work/$1.log" 2>&1
    status=$?
    runs=$(sed -n 's/^stat::number_of_executed_units: *//p' "$work/$1.log")
    [ $status -eq 0 ] || grep -a -e 'false:' -e 'ERROR' -e 'SUMMARY' -e 'Test unit written' "$work/$1.log" | sed 's/^/# /'
    (exit $status)
    ok "$1: fuzzed for $seconds s, ${runs:-some} executions"
}

mkdir -p "$work"
seconds=$((${SECONDS_PER_TARGET:-8} * ${SNUG_TEST_SCALE:-100} / 100))
for target in $targets; do replay "$target"; done
why=$(reason)
if [ -n "$why" ]; then
    for target in $targets; do skip "$target: fuzzed" "$why"; done
elif compile >"$work/compile.log" 2>&1; then
    for target in $targets; do fuzz "$target"; done
else
    sed 's/^/# /' "$work/compile.log"
    (exit 1)
    ok "the targets are built with $CLANG"
fi
echo "1..$n"
exit $failures
