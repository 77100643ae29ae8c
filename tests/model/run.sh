#!/bin/sh
# The spin models of this directory: the protocol as it is holds in every state, and every planted bug is caught.
#   run.sh          settings that take a few minutes on one core; a SNUG_TEST_SCALE below 100 leaves the larger ones out
#   run.sh --long   the largest ones instead: some ten minutes, and up to 3 GB
# Below each result: states stored, memory, the seconds that the search took without its compilation, and the length of the
# counterexample where there is one: the first that a depth first search comes to, not the shortest.
set -u
for tool in spin gcc timeout; do
    command -v $tool >/dev/null || { echo "1..0 # SKIP there is no $tool"; exit 0; }
done
models=$(cd "$(dirname "$0")" && pwd)
scale=${SNUG_TEST_SCALE:-100}
limit_s=600
if [ "${1:-}" = --long ]; then scale=long limit_s=7200; fi
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
n=0

# wanted SCALE: is a setting of that scale to be run?
wanted() {
    if [ "$1" = long ] || [ "$scale" = long ]; then [ "$1" = "$scale" ]; else [ "$scale" -ge "$1" ]; fi
}

# search MODEL SECONDS OPTION...: every state; what it says is in $root/out.
search() {
    model=$1 seconds=$2
    shift 2
    rm -rf "$root/work"
    mkdir "$root/work"
    (
        cd "$root/work" && spin -a "$@" "$models/$model.pml" &&
            gcc "$optimize" -w -DSAFETY -DCOLLAPSE -DMEMLIM=3000 -o pan pan.c && timeout "$seconds" ./pan -m100000 -w22
    ) >"$root/out" 2>&1
}

# say RESULT NAME: the line of TAP, and what was seen.
say() {
    n=$((n + 1))
    [ "$1" -eq 0 ] || printf 'not '
    echo "ok $n - $2"
    states=$(awk '/states, stored/ { print $1 }' "$root/out")
    length=$(sed -n 's/.*assertion violated.*(at depth \([0-9]*\)).*/, counterexample of \1 steps/p' "$root/out")
    seconds=$(sed -n 's/^pan: elapsed time \([0-9.]*\).*/\1/p' "$root/out")
    echo "# ${states:-no} states, $(awk '/total actual memory/ { print $1 }' "$root/out") MB, ${seconds:-0} s$length"
    [ "$1" -eq 0 ] || tail -20 "$root/out" | sed 's/^/# /'
}

# holds SCALE MODEL OPTION...: the search is complete and finds nothing.
holds() {
    wanted "$1" || return 0
    shift
    name="$* holds" model=$1
    shift
    optimize=-O1
    search "$model" $limit_s "$@" && grep -q 'errors: 0$' "$root/out" &&
        ! grep -qE 'not completed|depth too small|out of memory|MEMLIM' "$root/out"
    say $? "$name"
}

# caught SCALE MODEL "BUG..." OPTION...: with any one of these bugs an assertion fails.
caught() {
    wanted "$1" || return 0
    model=$2 bugs=$3 optimize=-O0 # most are found sooner than the search is optimized
    shift 3
    for bug in $bugs; do
        search "$model" $((limit_s / 5)) "$@" "-D$bug"
        grep -q '^pan:1: assertion violated' "$root/out" && grep -q 'errors: 1$' "$root/out"
        say $? "$model -D$bug is caught"
    done
}

small="-DNH=1 -DNR=2 -DRA=1 -DRB=1"
frees="-DFREES -DXALLOC -DNOCACHE -DNH=1 -DNR=2"
reads="-DREADS -DNOCACHE -DNH=2 -DNR=3 -DRA=1 -DRB=1 -DMM=2"
marker="-DSAME -DMARKER -DNOCACHE $small -DMM=1"
polls="-DNW=0 -DNP=2 -DRR=2"

# shellcheck disable=SC2086 # lists of options
{
    holds 1 tso -DFENCE
    holds 10 claims -DR=1 -DMM=1
    holds 10 claims -DR=1 -DMM=1 -DDETACH
    holds 1 protocol -DPINS -DNOCACHE $small -DMM=2
    holds 1 protocol -DLATE -DREADS -DNOCACHE $small -DMM=1
    holds 1 protocol -DLATE $frees -DRA=1 -DRB=1 -DMM=1
    holds 1 epoch $polls
    holds 1 epoch -DMARKER -DNC=1 -DRR=2 -DNP=1 -DNW=1
    holds 1 epoch -DMARKER -DNC=1 -DRR=3 -DNP=1 -DNPL=2 -DNW=0
    holds 10 slide
    holds 10 protocol $small -DMM=2
    holds 10 protocol -DREADS -DSPLIT -DTEN -DNOCACHE $small -DMM=2
    holds 25 protocol -DSAME -DNP=1 $small -DMM=1
    holds 25 protocol $frees -DRA=2 -DRB=1 -DMM=2
    holds 25 protocol $reads
    holds 25 epoch -DMARKER -DNC=1 -DRR=2 -DNP=1 -DNW=1 -DW_WAITRECORDED
    holds 25 resize -DA=0
    holds 50 slide -DFREE
    holds 50 resize -DNC=1
    holds 100 chain
    holds 100 epoch -DNP=1 -DRR=1 -DNW=2
    holds 100 epoch -DMARKER $polls
    holds 100 claims -DR=1 -DMM=2 -DDETACH
    holds long protocol $marker -DNP=1

    holds long protocol -DNH=1 -DNR=2 -DRA=2 -DRB=1 -DMM=2
    holds long protocol -DREADS $frees -DRA=2 -DRB=1 -DMM=2
    holds long protocol -DREADS -DSPLIT -DTEN -DNOCACHE -DNH=1 -DNR=2 -DRA=2 -DRB=1 -DMM=2
    holds long protocol $frees -DRA=2 -DRB=2 -DMM=2
    holds long protocol -DPINS $frees -DRA=2 -DRB=1 -DMM=2
    holds long protocol -DLATE -DREADS $frees -DRA=2 -DRB=1 -DMM=1
    holds long epoch -DMARKER -DWANT $polls
    for reading in W_MAINSTATE W_STATEMAIN W_STRICT W_EARLYSTATE; do
        holds long epoch -DMARKER $polls -D$reading
    done
    holds long epoch -DMARKER -DNC=1 -DRR=3 -DNP=1 -DNPL=2 -DNW=0 -DW_PNOLOCK
    holds long protocol $frees -DRA=2 -DRB=1 -DMM=2 -DW_RANGEFENCE
    holds long resize
    caught long protocol W_READYLESS $frees -DRA=2 -DRB=2 -DMM=2

    caught 1 tso "POLL WAIT"
    caught 1 claims "B_NOFENCE B_ONELOOK B_KILLFIRST B_POPMARK B_COMPACT B_ENDSTORE B_BACKDYING B_LOOKMOVING B_RELDYING" -DR=1 -DMM=1
    caught 1 claims "B_DETACHPOP B_UNPINEND B_HOLDMOVING" -DR=1 -DMM=1 -DDETACH
    caught 1 slide "B_NOFREEZE B_WAITFIRST B_NOREADERS"
    caught 1 slide B_FREEFROZEN -DFREE
    caught 1 chain BATCH
    caught 1 epoch "B_NOADV B_POSTADV B_NEWVAL B_EFIRST B_MAINBEFORE" $polls
    caught 1 epoch "B_COVNOADV B_COVC B_COVLATE B_CACHEFIRST" -DNP=1 -DRR=1 -DNW=2
    caught 1 epoch B_WAITMAIN -DMARKER -DNP=1 -DRR=2 -DNW=1
    caught 10 epoch "B_MKE0 B_MKELATE B_NOMKRULE B_STBEFORE B_MAINBEFORE B_EVFIRST B_IDLEFIRST B_NORECORDING B_RECORDED_EARLY
        B_EFIRST" -DMARKER $polls
    caught 10 epoch B_PNOLOCK -DMARKER -DNC=1 -DRR=3 -DNP=1 -DNPL=2 -DNW=0
    caught 1 protocol "B_UNPINFIRST B_BEGINPINS B_PUBCANCELLED" -DNOCACHE $small -DMM=1
    caught 1 protocol B_CURLOST -DFREES -DXALLOC -DNOCACHE -DNH=1 -DNR=3 -DRA=2 -DRB=1 -DMM=2
    caught 1 protocol "B_PINNOWAIT B_PINNOCLEAR" -DPINS -DNOCACHE $small -DMM=1
    caught 1 protocol "B_LATEBEGIN B_LATERECORD" -DLATE -DNOCACHE $small -DMM=1
    caught 10 protocol "B_ORPHANFREE B_ORPHANNOM B_ORPHANLEAK B_PLANLEAK B_RESETLATE B_FREENOREADY B_TGTNOFENCE B_TGTNOMOVE
        B_SRCNOMOVE B_ALLOCNOFENCE B_NOREADY" $frees -DRA=2 -DRB=1 -DMM=2
    caught 10 protocol B_FREENOREADERS -DREADS $frees -DRA=2 -DRB=2 -DMM=2
    caught 10 protocol "B_PUBREADER B_SRCNOREADERS B_NOCLEAR B_NOWRITERS B_RESETFILL B_RESETPUB B_STAMPEARLY" $reads
    caught 10 protocol "B_COVNOADV B_CACHEFIRST" -DSAME -DNP=1 -DNH=1 -DNR=2 -DRA=2 -DRB=1 -DMM=2
    caught 10 protocol B_WAITMAIN $marker -DNP=1
    caught 25 protocol "B_MKE0 B_EVFIRST" $marker -DNP=2
    caught 25 resize "B_GROWNOFENCE B_GROWREADYLOST B_INPLACE B_SIZELATE" -DA=0
    caught 25 resize "B_SHRINKNOUSERS B_SHRINKNOREADY" -DNC=1
    caught long protocol "B_POLLNOADV B_EFIRST" -DSAME -DNP=1 -DNH=1 -DNR=2 -DRA=2 -DRB=1 -DMM=2
    caught long protocol "B_NOMKRULE B_STBEFORE" $marker -DNP=1
    caught long protocol B_CANCELNOM $frees -DRA=2 -DRB=2 -DMM=2
    caught long protocol W_GENTEST $frees -DRA=1 -DRB=3 -DMM=2
}
echo "1..$n"
