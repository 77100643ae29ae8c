#!/bin/sh
# Protections of the library taken out one by one, in a copy of src/: each must be seen missing. An entry of mutants.list names
# one, its file, who sees it missing, and the change, for sed. What can be taken out at the device's table is in planted.c.
#   mutants.sh            all of them: a quarter of an hour on one core
#   mutants.sh WORD...    those of whose name or kind a word is part; `quick`: the few that ./check runs. $MUTANT_WORDS: same
# Environment: MUTANT_RUNS: simulation runs after which one counts as not seen; MUTANTS: another list.
# Who sees it:
#   sim [MODE]       tests/sim/run, from seed 1 on, within so many runs of one mode, or of all in turn
#   quick            the same, and among the quick ones
#   unit TEST        a test at exact points, because the simulation's one thread doesn't come between the two steps
#   model NAME BUG   a spin model that has the same bug planted, for the same reason: run.sh looks for it; here the change
#                    must still match and compile
#   nobody           nothing is lost without it but time or clarity, as said there. Built and run all the same, and not seen
# A change that no longer matches, or matches more places than it should, is an error: the list has to follow the code.
set -u
CC=${CC:-gcc}
command -v "${CC%% *}" >/dev/null || { echo "1..0 # SKIP there is no $CC"; exit 0; }
top=$(cd "$(dirname "$0")/../.." && pwd)
runs=${MUTANT_RUNS:-600}
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
words=${*:-${MUTANT_WORDS-}}
n=0 failed=0

# say RESULT NAME
say() {
    n=$((n + 1))
    if [ "$1" -ne 0 ]; then printf 'not '; failed=$((failed + 1)); fi
    echo "ok $n - $2"
}

wanted() {
    [ -n "$words" ] || return 0
    for word in $words; do
        case "$1" in *"$word"*) return 0 ;; esac
    done
    return 1
}

# build SOURCE OUTPUT PROGRAM-SOURCE... : all of it, since a header may have changed. Its own main comes last.
build() {
    from=$1 output=$2
    shift 2
    # shellcheck disable=SC2086 # options
    $CC -std=gnu11 -O1 -w -pthread ${flags-} -I"$top/include" -iquote "$from" -iquote "$top/tests" -o "$output" \
        "$from"/*.c "$from"/host/*.c "$from"/sim/*.c "$@" -lm
}

build_sim() {
    at=$top/tests/sim
    flags='' build "$1" "$2" "$at/run.c" "$at/between.c" "$at/calls.c" "$at/contents.c" "$at/model.c" "$at/pools.c" \
        "$at/process.c" "$at/world.c"
}

between='-Wl,--wrap=pthread_mutex_lock,--wrap=sched_yield,--wrap=snug__entry_begin_move,--wrap=snug__entry_freeze'
build_unit() {
    flags='' test=$3
    case $test in move_between | pins | resize) flags=$between ;; esac
    build "$1" "$2" "$top/tests/unit/$test.c"
}

# change FILE SED PLACES: the copy with it, in $root/src; 1: it doesn't apply to so many places.
change() {
    rm -rf "$root/src"
    cp -r "$top/src" "$root/src"
    sed "$2" "$top/src/$1" >"$root/src/$1"
    hunks=$(diff "$top/src/$1" "$root/src/$1" | grep -c '^[0-9]')
    [ "$hunks" -eq "$3" ] || { echo "# ERROR: the change applies to $hunks places of $1"; return 1; }
}

# mutant NAME FILE BY SED [PLACES]
mutant() {
    wanted "$1 $3" || return 0
    change "$2" "$4" "${5:-1}" || { say 1 "$1"; return 0; }
    case $3 in
    sim* | quick | nobody)
        mode=${3#sim} mode=${mode# }
        case $3 in quick | nobody) mode= ;; esac
        if ! build_sim "$root/src" "$root/run" 2>"$root/out"; then
            echo "# ERROR: it doesn't compile"
            say 1 "$1"
        elif "$root/run" --hunt --seed 1 --seeds "$runs" ${mode:+--mode "$mode"} >"$root/out" 2>/dev/null; then
            [ "$3" = nobody ]
            say $? "$1: not seen in $runs runs"
        else
            [ "$3" != nobody ]
            say $? "$1: seen"
        fi
        ;;
    unit*)
        test=${3#unit }
        if ! build_unit "$root/src" "$root/run" "$test" 2>"$root/out"; then
            echo "# ERROR: it doesn't compile"
            say 1 "$1"
        else
            (cd "$root" && timeout 120 ./run) >"$root/out.all" 2>&1
            grep -v '^ok' "$root/out.all" | grep -m1 -A2 '^not ok' >"$root/out" || tail -2 "$root/out.all" >"$root/out"
            grep -q '^not ok' "$root/out"
            say $? "$1: seen by tests/unit/$test"
        fi
        ;;
    model*)
        bug=${3##* }
        if ! build_sim "$root/src" "$root/run" 2>"$root/out"; then
            echo "# ERROR: it doesn't compile"
            say 1 "$1"
        else
            model=${3#model } model=${model% *}
            sed -n "/^ *caught [a-z0-9]* $model /,/-D/p" "$top/tests/model/run.sh" | grep -qw "$bug"
            say $? "$1: left to model $model, -D$bug"
        fi
        echo "this mutant isn't run" >"$root/out"
        ;;
    esac
    sed 's/^/# /' "$root/out" | cut -c 1-300
}

change_nothing() {
    build_sim "$top/src" "$root/run" || { say 1 "the library as it is: doesn't compile"; return; }
    "$root/run" --hunt --seed 1 --seeds "$runs" >"$root/out" 2>&1
    say $? "nothing changed, nothing seen"
    sed 's/^/# /' "$root/out"
}

[ -n "$words" ] || [ -n "${MUTANTS-}" ] || change_nothing
# shellcheck disable=SC1090 # which list isn't known here
. "${MUTANTS:-$top/tests/sim/mutants.list}"
echo "1..$n"
[ "$failed" -eq 0 ]
