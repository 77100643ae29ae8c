#!/bin/sh
# `snug replay`: small files of each kind with a known outcome, everything a file can do wrong, the command line, and,
# where the public data is at hand, what compaction is worth on it.
set -u
snug=${SNUG:-${top_builddir:-.}/snug}
data=${SNUG_DATA:-${top_srcdir:-${srcdir:-.}}/../shared/data}
[ -x "$snug" ] || { echo "1..0 # SKIP there is no program $snug"; exit 0; }
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
n=0
unset SNUG_OPTIONS

# ok NAME: says how the command just before went; what it printed is in $root/out and $root/err.
ok() {
    state=$?
    n=$((n + 1))
    if [ $state -eq 0 ]; then
        echo "ok $n - $1"
        return
    fi
    echo "not ok $n - $1"
    sed 's/^/# stdout: /' "$root/out" | head -40
    sed 's/^/# stderr: /' "$root/err" | head -5
}

skip() {
    n=$((n + 1))
    echo "ok $n - $1 # SKIP $2"
}

# replay ARGUMENT...: runs it, keeps both outputs, and the exit status in $status.
replay() {
    "$snug" replay "$@" >"$root/out" 2>"$root/err" </dev/null
    status=$?
}

# get KEY RUN: a number or word from the RUNth line of JSON.
get() {
    sed -n "$2s/.*\"$1\": *\"*\([^,\"}]*\).*/\1/p" "$root/out"
}

# has KEY OFF ON: the key's values of the two runs.
has() {
    [ "$(get "$1" 1)" = "$2" ] && [ "$(get "$1" 2)" = "$3" ] && return
    echo "# $1: $(get "$1" 1) and $(get "$1" 2) instead of $2 and $3"
    false
}

# clean: the last replay ended well: status 0, nothing on stderr, nothing corrupted, nothing unexpected.
clean() {
    [ $status -eq 0 ] && [ ! -s "$root/err" ] && has corrupted_buffers 0 0 && has unexpected_statuses 0 0
}

# bad NAME LINE REASON: $root/bad.csv is refused with exit status 1 and exactly one line, FILE:LINE: ...REASON...
bad() {
    replay "$root/bad.csv"
    [ $status -eq 1 ] && [ ! -s "$root/out" ] && [ "$(wc -l <"$root/err")" -eq 1 ] &&
        case $(cat "$root/err") in "$root/bad.csv:$2: "*"$3"*) ;; *) false ;; esac
    ok "refused: $1"
}

# lifetimes LINE..., alloc LINE..., heapmap LINE...: write $root/bad.csv.
lifetimes() { printf '%s\n' id,lower,upper,size "$@" >"$root/bad.csv"; }
alloc() { printf '%s\n' op,id,size,t_us "$@" >"$root/bad.csv"; }
heapmap() { printf '%s\n' segment,segment_size,offset,size,requested_size,state "$@" >"$root/bad.csv"; }

# --------------------------------------------------------------------------------------------- known outcomes

# Four granules; at 5 two that aren't neighbours go, and 512 bytes are asked for.
printf '%s\n' id,lower,upper,size a,0,10,256 b1,0,5,256 c,0,10,1 d,0,5,256 e,5,10,512 >"$root/comb.csv"
# Frees come before allocs of the same time, whatever the order of the lines.
printf '%s\n' id,lower,upper,size late,5,9,512 early,0,5,512 >"$root/turn.csv"
# With an offset column the upper end counts: the two overlap at 5.
printf '%s\n' id,lower,upper,size,offset x,0,5,512,0 y,5,5,512,512 >"$root/placed.csv"
# Live before the recording, an id used again, size 0, something live at the end.
printf '%s\n' op,id,size,t_us p,old,300,0 a,1,0,0 f,1,0,7 a,1,700,7 f,old,300,8 a,z,256,9 f,1,700,9 >"$root/events.csv"
# Two segments with two live blocks and one wholly free one.
printf '%s\n' segment,segment_size,offset,size,requested_size,state \
    0,1024,0,256,200,A 0,1024,256,256,0,F 0,1024,512,256,256,A 0,1024,768,256,256,F \
    1,4096,0,4096,0,F 2,512,0,256,0,F 2,512,256,256,256,A >"$root/map.csv"

replay --json "$root/comb.csv"
if grep -q 'lacks jansson' "$root/err"; then
    json=
    skip "known outcomes" "this build lacks jansson"
else
    json=yes
    replay --json --capacity 1.00x "$root/comb.csv"
    clean && has capacity_bytes 1024 1024 && has requests 5 5 && has refused 1 0 && has FRAGMENTED 1 0 &&
        has granted 4 5 && has verified_buffers 4 5 && has compaction off on && has moves 0 1
    ok "a comb: refused as FRAGMENTED without compaction, granted by one move with it"
    replay --json "$root/comb.csv"
    clean && has capacity_bytes 1024 1024 && replay --json --capacity 1.25x "$root/comb.csv" &&
        has capacity_bytes 1280 1280
    ok "capacity is a factor on the peak, rounded down to the granule; 1.05x by default"
    replay --json --capacity 512 "$root/comb.csv"
    clean && has capacity_bytes 512 512 && has CAPACITY 3 3 && has refused 3 3 && has granted 2 2
    ok "a refused buffer is absent, and its free is skipped"
    replay --json --capacity 1.00x "$root/turn.csv"
    clean && has capacity_bytes 512 512 && has refused 0 0
    ok "at equal times frees come first"
    replay --json --capacity 1.00x "$root/placed.csv"
    clean && has capacity_bytes 1024 1024 && has peak_live_bytes 1024 1024
    ok "with an offset column, upper counts too"
    printf '%s\n%s' id,lower,upper,size,offset x,0,5,512,0 >"$root/open.csv"
    replay --json "$root/open.csv"
    clean && has requests 1 1
    ok "a last line without newline passes where nothing that counts can be missing"
    awk '{ printf "%s\r\n", $0 }' "$root/turn.csv" >"$root/crlf.csv"
    replay --json "$root/crlf.csv"
    clean && has requests 2 2
    ok "lines may end in CR LF"
    replay --json --capacity 1.00x "$root/events.csv"
    clean && has capacity_bytes 1280 1280 && has requests 4 4 && has refused 0 0 && has verified_buffers 3 3 &&
        has request_bytes 1256 1256
    ok "events: live before, ids used again, size 0, live at the end"
    replay --json --unit 1024 --scale 1/3 --capacity 1.00x "$root/comb.csv"
    clean && has capacity_bytes 263168 263168 && has unit "1024 bytes" "1024 bytes" && [ -n "$(get scale 1)" ]
    ok "--unit and --scale: sizes rounded up, the peak taken of them"
    replay --json --streams 3 --background --seed 9 --compaction on "$root/comb.csv"
    [ $status -eq 0 ] && [ "$(wc -l <"$root/out")" -eq 1 ] && [ "$(get streams 1)" = 3 ] && [ "$(get seed 1)" = 9 ]
    ok "--streams, --background, --seed, one run"
    replay --json --no-verify "$root/comb.csv"
    clean && has verified_buffers 0 0
    ok "--no-verify"
    replay --json --request 768 "$root/map.csv"
    clean && has capacity_bytes 1536 1536 && has FRAGMENTED 1 0 && has granted 0 1 && has requests 1 1 &&
        has peak_live_bytes 768 1536 && has verified_buffers 3 4
    ok "a heap map is loaded, and the request is granted with compaction only"
    replay --json --request 769 "$root/map.csv"
    clean && has CAPACITY 1 1
    ok "a heap map: more than is free"
    replay --json --request 512 "$root/map.csv"
    clean && has refused 0 0 && has moves 0 0
    ok "a heap map: holes of neighbouring segments are one"
    replay --json --scale 1/2 "$root/map.csv"
    clean && has capacity_bytes 768 768 && has requests 0 0
    ok "a heap map scaled: the ends are rounded down to the granule"
fi

replay --compaction off "$root/map.csv"
[ $status -eq 0 ] && grep -q 'capacity 1536, live 768, free 768 in 2 holes, largest 512$' "$root/out"
ok "a heap map without a request: the layout's figures"
replay --request 768 "$root/map.csv"
[ $status -eq 0 ] && grep -q 'compaction off: 768 bytes refused, FRAGMENTED' "$root/out" &&
    grep -q 'compaction on: 768 bytes granted' "$root/out"
ok "a heap map with a request: verdict and price as text"
replay --scale 1/2 "$root/comb.csv"
[ $status -eq 0 ] && grep -q 'scaled by 1/2' "$root/out"
ok "the text says that sizes are scaled"
replay --help
[ $status -eq 0 ] && grep -q -e --request "$root/out"
ok "--help"

if [ -n "$json" ]; then
    replay --json --device sim --profile A100 --capacity 1.00x "$root/comb.csv"
    clean && has refused 1 0 && has FRAGMENTED 1 0 && has granted 4 5 && has verified_buffers 4 5 && has moves 0 1 &&
        has device sim sim && has profile "A100 80 GB" "A100 80 GB" && [ -n "$(get device_seconds 1)" ]
    ok "sim: what host says of a comb, and a time"
    lifetimes a,0,9,171798691840 b,0,5,171798691840 c,2,9,171798691840 d,5,9,171798691840
    replay --json --device sim --style random --seed 5 --capacity 512G "$root/bad.csv"
    clean && has granted 4 4 && has capacity_bytes 549755813888 549755813888 && has verified_buffers 4 4
    ok "sim: 480 GiB live in the largest pool"
    replay --json --device sim --request 768 "$root/map.csv"
    clean && has FRAGMENTED 1 0 && has granted 0 1 && has verified_buffers 3 4
    ok "sim: a heap map"
fi

if [ -c /dev/full ]; then
    "$snug" replay "$root/comb.csv" >/dev/full 2>"$root/err"
    [ $? -eq 1 ] && [ "$(wc -l <"$root/err")" -eq 1 ]
    ok "a result that can't be written is an error"
fi

# ------------------------------------------------------------------------------------------------- bad files

: >"$root/bad.csv"; bad "an empty file" 1 "empty"
printf 'a,0,1,2\n' >"$root/bad.csv"; bad "no header" 1 "header"
printf 'id,lower,upper,size' >"$root/bad.csv"; bad "a header only" 2 "no line"
printf '\n' >"$root/bad.csv"; bad "an empty header" 1 "header"
lifetimes a,0,1,2 b,0,1; bad "too few columns" 3 "3 columns"
lifetimes a,0,1,2,3; bad "too many columns" 2 "5 columns"
lifetimes a,0,1,2 ''; bad "an empty line" 3 "0 columns"
lifetimes a,0,1,x; bad "a word for a number" 2 "size is not a whole number: x"
lifetimes a,0,1,1.5; bad "a fraction" 2 "size is not a whole number"
lifetimes a,0,1,0x10; bad "a hexadecimal number" 2 "size is not a whole number"
lifetimes 'a,0,1, 2'; bad "a blank in a number" 2 "size is not a whole number"
lifetimes a,0,1,+2; bad "a plus sign" 2 "size is not a whole number"
lifetimes a,-3,1,2; bad "a negative number" 2 "lower is negative"
lifetimes a,0,1,; bad "a missing number" 2 "size is missing"
lifetimes ,0,1,2; bad "a missing id" 2 "id is missing"
lifetimes a,0,1,18446744073709551616; bad "2^64" 2 "size is above 2^64 - 1"
lifetimes a,0,99999999999999999999999,2; bad "far above 2^64" 2 "upper is above 2^64 - 1"
lifetimes a,0,1,2 b,0,1,18446744073709551615; bad "2^64 - 1 bytes: no wrap" 3 "above the largest"
lifetimes a,5,5,2; bad "lower equals upper" 2 "not below"
lifetimes a,6,5,2; bad "lower above upper" 2 "not below"
lifetimes a,0,1,2 a,1,2,2; bad "an id twice" 3 "double alloc"
printf 'id,lower,upper,size,offset\na,6,5,2,0\n' >"$root/bad.csv"; bad "lower above upper, with offset" 2 "not below"
printf 'id,lower,upper,size,offset\na,0,18446744073709551615,2,0\n' >"$root/bad.csv"
bad "an upper end that can't be passed" 2 "upper is above"
lifetimes a,0,1,2; printf 'b,0,1,25' >>"$root/bad.csv"; bad "a last line without newline" 3 "cut off"
lifetimes a,0,1,2; printf 'b,0' >>"$root/bad.csv"; bad "a truncated last line" 3 "cut off"
lifetimes a,0,1,2; printf 'b,0\0,1,2\n' >>"$root/bad.csv"; bad "a NUL byte" 3 "NUL"
printf 'id,lower\0,upper,size\n' >"$root/bad.csv"; bad "a NUL byte in the header" 1 "NUL"
lifetimes "$(printf '%05000d' 0),0,1,2"; bad "an overlong line" 2 "longer than"
alloc x,a,1,0; bad "an unknown op" 2 "op is none of a, f, p: x"
alloc "$(printf '\033[2J'),a,1,0"; bad "control characters, not passed on" 2 "a, f, p: ?[2J"
alloc ,a,1,0; bad "no op" 2 "op is none"
alloc aa,a,1,0; bad "an op too long" 2 "op is none"
alloc a,a,1,0 f,b,1,0; bad "a free of an unknown id" 3 "never allocated"
alloc a,a,1,0 f,a,1,0 f,a,1,0; bad "a double free" 4 "freed on line 3"
alloc a,a,1,0 a,a,1,0; bad "a double alloc" 3 "live since line 2"
alloc a,a,1,0 f,a,2,0; bad "a free of another size" 3 "which has 1"
alloc a,a,1,5 f,a,1,4; bad "time runs back" 3 "before that of the line above"
alloc a,a,1,5 p,b,1,5; bad "a p after an a" 3 "op p"
alloc a,a,1,0 f,a,1; bad "an event with a column missing" 3 "3 columns"
alloc a,a,-1,0; bad "an event with a negative size" 2 "size is negative"
alloc a,a,1,100 a,b,1,2000; printf 'f,a,1,20' >>"$root/bad.csv"; bad "an event cut off" 4 "before that"
heapmap 0,512,0,256,0,A 0,512,256,256,0,X; bad "an unknown state" 3 "state is neither"
heapmap 0,512,0,256,0,A; printf '0,512,256,256,256,' >>"$root/bad.csv"; bad "a block cut off" 3 "state is neither"
heapmap 0,512,0,256,0,A; bad "blocks that end early" 2 "blocks end at 256"
heapmap 0,512,0,256,0,A 1,256,0,256,0,A; bad "blocks that end early, another segment follows" 2 "blocks end at 256"
heapmap 0,512,0,256,0,A 0,512,512,256,0,A; bad "a gap between blocks" 3 "ends at 256"
heapmap 0,512,0,256,0,A 0,512,0,256,0,A; bad "blocks that overlap" 3 "ends at 256"
heapmap 0,512,256,256,0,A; bad "a first block that isn't at 0" 2 "starts at 256"
heapmap 0,512,0,768,0,A; bad "a block beyond its segment" 2 "beyond"
heapmap 0,512,0,18446744073709551615,0,A; bad "a block of 2^64 - 1 bytes" 2 "beyond"
heapmap 0,512,0,256,0,A 0,768,256,512,0,A; bad "two sizes of one segment" 3 "instead of 512"
heapmap 0,256,0,256,0,A 1,256,0,256,0,A 0,256,0,256,0,A; bad "a segment that comes back" 4 "on line 2"
heapmap 0,256,0,0,0,A; bad "a block without bytes" 2 "size of a block is 0"
heapmap 0,256,0,256,257,A; bad "a block smaller than was requested" 2 "requested_size"
heapmap 0,18446744073709551615,0,18446744073709551615,0,A 1,256,0,256,0,A
bad "segments that add up to more than 2^64" 3 "add up"

heapmap 0,256,0,256,0,F
replay "$root/bad.csv"
[ $status -eq 1 ] && grep -q "^$root/bad.csv: .*no live block" "$root/err"
ok "refused: a heap map without live blocks"
replay --scale 1/2048 "$root/map.csv"
[ $status -eq 1 ] && grep -q "^$root/map.csv: .*no live block" "$root/err"
ok "refused: a heap map scaled to nothing"
heapmap 0,1099511628032,0,1099511628032,0,A
replay "$root/bad.csv"
[ $status -eq 1 ] && grep -q "^$root/bad.csv: .*above the largest" "$root/err"
ok "refused: a heap map above what a pool can be"
lifetimes a,0,9,549755813888 b,0,9,549755813888
replay "$root/bad.csv"
[ $status -eq 1 ] && grep -q "^$root/bad.csv: .*above the largest" "$root/err"
ok "refused: a peak above what a pool can be"
lifetimes a,0,9,549755813888
replay --capacity 1.00x "$root/bad.csv"
if [ $status -eq 0 ]; then
    skip "refused: more than the memory at hand" "this machine can hold the largest pool"
else
    [ $status -eq 1 ] && [ "$(wc -l <"$root/err")" -eq 1 ] && grep -q 'memory.*try --scale 1/[0-9]*$' "$root/err"
    ok "refused: more than the memory at hand, with a scale that fits"
    replay --capacity 1.00x --scale "$(sed 's/.*--scale //' "$root/err")" --compaction off --no-verify "$root/bad.csv"
    [ $status -eq 0 ]
    ok "the scale suggested fits"
    replay --capacity 512G "$root/comb.csv"
    [ $status -eq 1 ] && grep -q 'memory.*try --scale 1/[0-9]* --capacity [0-9]*$' "$root/err"
    ok "refused: a capacity above the memory at hand"
fi
replay "$root/none.csv"
[ $status -eq 1 ] && [ "$(cat "$root/err")" = "$root/none.csv: No such file or directory" ]
ok "refused: no such file"
replay "$root"
[ $status -eq 1 ] && [ "$(wc -l <"$root/err")" -eq 1 ]
ok "refused: a folder"

# ---------------------------------------------------------------------------------------------- command line

# usage NAME ARGUMENT...: exit status 2 and exactly one line on stderr.
usage() {
    name=$1
    shift
    replay "$@"
    [ $status -eq 2 ] && [ ! -s "$root/out" ] && [ "$(wc -l <"$root/err")" -eq 1 ] &&
        grep -q '^snug replay: ' "$root/err"
    ok "usage: $name"
}
usage "no file"
usage "two files" "$root/comb.csv" "$root/turn.csv"
usage "an unknown option" --nonsense "$root/comb.csv"
usage "--capacity with a word" --capacity big "$root/comb.csv"
usage "--capacity 0" --capacity 0 "$root/comb.csv"
usage "--capacity 0x" --capacity 0x "$root/comb.csv"
usage "--capacity x" --capacity x "$root/comb.csv"
usage "--capacity -1" --capacity -1 "$root/comb.csv"
usage "--capacity 1.0.5x" --capacity 1.0.5x "$root/comb.csv"
usage "--capacity above 1 TiB" --capacity 2T "$root/comb.csv"
usage "--capacity with a heap map" --capacity 1M "$root/map.csv"
usage "--request without a heap map" --request 1M "$root/comb.csv"
usage "--scale 0" --scale 0 "$root/comb.csv"
usage "--scale 1/0" --scale 1/0 "$root/comb.csv"
usage "--scale with a word" --scale half "$root/comb.csv"
usage "--scale with two slashes" --scale 1/2/3 "$root/comb.csv"
usage "--unit 0" --unit 0 "$root/comb.csv"
usage "--compaction with a word" --compaction maybe "$root/comb.csv"
usage "--streams 0" --streams 0 "$root/comb.csv"
usage "--device with a word" --device abacus "$root/comb.csv"
usage "--profile of no card" --device sim --profile abacus "$root/comb.csv"
usage "--profile of several cards" --device sim --profile RTX "$root/comb.csv"
usage "--profile on host" --profile A100 "$root/comb.csv"
usage "--style with a word" --device sim --style slow "$root/comb.csv"
usage "--style on host" --style lazy "$root/comb.csv"

# ----------------------------------------------------------------------------------------------- public data

# worth NAME OFF_LEAST ARGUMENT...: with compaction nothing is refused, without at least OFF_LEAST; all contents hold.
worth() {
    name=$1
    off_least=$2
    shift 2
    for file do :; done
    if [ ! -e "$file" ]; then
        skip "$name" "there is no $file"
    elif [ -z "$json" ]; then
        skip "$name" "this build lacks jansson"
    else
        replay --json "$@"
        if grep -q 'of the memory available' "$root/err"; then
            skip "$name" "$(cat "$root/err")"
            return
        fi
        clean && [ "$(get refused 2)" = 0 ] && [ "$(get refused 1)" -ge "$off_least" ]
        ok "$name: $(get refused 1) refused without compaction, $(get refused 2) with it"
    fi
}
for case in A B C D F G H J; do
    worth "minimalloc $case at its peak" 5 --unit 1024 --scale 1/16 --capacity 1.00x \
        "$data/lifetimes/minimalloc_$case.1048576.csv"
done
worth "a training step at its peak" 5 --scale 1/16 --capacity 1.00x "$data/alloc/hta_ddp_v100.csv"
worth "a serving process's heap, scaled, and 1 MiB" 1 --scale 1/64 --request 1M "$data/heapmaps/opt1.3b_serving.csv"


# full NAME ARGUMENT...: on sim, where any size goes: with compaction all is granted, in its place or after moves.
full() {
    worth "$@"
    [ "$status" -ne 0 ] || [ -z "$json" ] || echo "# $(get device_seconds 2) s on the device's clock"
}
full "a large model's step at full size, on sim" 1 --device sim --capacity 1.00x "$data/lifetimes/somas_pangu_13B.csv"
full "30,011 lifetimes at full size, on sim" 0 --device sim "$data/lifetimes/iopddl_google_K_strategy0.csv"
full "a training step at full size and its peak, on sim" 5 --device sim --capacity 1.00x "$data/alloc/hta_ddp_v100.csv"
full "a heap of 13 GB at full size, and 512 MiB, on sim" 1 --device sim --request 512M \
    "$data/heapmaps/medium_1024_training.csv"

# granted_and_refused ARGUMENT...: of both runs.
granted_and_refused() {
    replay --json --unit 1024 --capacity 1.00x "$@" "$data/lifetimes/minimalloc_B.1048576.csv"
    echo "$status $(get granted 1) $(get refused 1) $(get granted 2) $(get refused 2)"
}
if [ -z "$json" ] || [ ! -e "$data/lifetimes/minimalloc_B.1048576.csv" ]; then
    skip "sim grants what host grants" "this build lacks jansson, or the data isn't there"
else
    on_host=$(granted_and_refused --device host --scale 1/16)
    on_sim=$(granted_and_refused --device sim --scale 1/16)
    [ "$on_host" = "$on_sim" ] || echo "# $on_host on host, $on_sim on sim"
    [ "$on_host" = "$on_sim" ] && [ "$(granted_and_refused --device sim)" = "$on_host" ]
    ok "minimalloc B, sim as host, scaled and at full size: $on_sim"
fi

echo "1..$n"
