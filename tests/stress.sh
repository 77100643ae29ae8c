#!/bin/sh
# snug stress: every workload with compaction off and on, its JSON, its exit states. In a debug build the map is walked after
# every allocation and free of these small pools.
top_srcdir=${top_srcdir:-.}
SNUG=${SNUG:-${top_builddir:-.}/snug}
scale=${SNUG_TEST_SCALE:-100}
unset SNUG_OPTIONS
n=0
failed=0

ok() { # STATUS NAME
    n=$((n + 1))
    if [ "$1" -eq 0 ]; then
        echo "ok $n - $2"
    else
        echo "not ok $n - $2"
        failed=$((failed + 1))
    fi
}
skip() {
    n=$((n + 1))
    echo "ok $n - $1 # SKIP $2"
}
scaled() { echo $(($1 * scale / 100 + 100)); }
number() { printf '%s\n' "$1" | sed -n "s/.*\"$2\":\([0-9.]*\).*/\1/p"; }

text=$(mktemp -d) || exit 1
trap 'rm -rf "$text"' EXIT

# run NAME OPTION...: leaves the JSON lines in $json, the exit state in $state
run() {
    state=0
    json=$("$SNUG" stress --json "$@" 2>"$text/err") || state=$?
    [ "$state" -eq 0 ] || sed 's/^/# /' "$text/err"
}

if ! "$SNUG" stress --json --ops 100 >/dev/null 2>"$text/err"; then
    skip "JSON of the stress test" "this build has no jansson"
    echo "1..$n"
    exit 0
fi

for workload in mixed kv swap train powers; do
    run --workload "$workload" --ops "$(scaled 20000)" --capacity 16M --max-size 256K --compaction both --seed 7
    ok "$state" "$workload: ends well"
    lines=$(printf '%s\n' "$json" | grep -c '"corrupted_buffers":0')
    ok $((lines != 2)) "$workload: nothing corrupted, off or on"
    verified=$(number "$(printf '%s\n' "$json" | tail -1)" verified_buffers)
    ok $((${verified:-0} < 100)) "$workload: $verified buffers verified"
    digests=$(printf '%s\n' "$json" | sed -n 's/.*"sequence":"\([0-9a-f]*\)".*/\1/p' | sort -u | wc -l)
    ok $((digests != 1)) "$workload: the same requests in both runs"
done

run --workload mixed --ops "$(scaled 40000)" --capacity 2M --max-size 64K --jumble --compaction on --seed 11
ok "$state" "jumble, a pool of few ranges: ends well"
ok $(($(number "$json" corrupted_buffers) != 0)) "jumble: nothing corrupted"
ok $(($(number "$json" moves) < 1000)) "jumble: $(number "$json" moves) moves"
run --workload mixed --ops "$(scaled 40000)" --capacity 16M --max-size 256K --pins 0.1 --compaction on --threads 3 --streams 3 --seed 5
ok "$state" "pins, three threads of three streams: ends well"
ok $(($(number "$json" corrupted_buffers) != 0)) "pins: nothing corrupted"

for key in command device workload compaction seed capacity_bytes peak_live_bytes requests granted refused refused_by_verdict \
    live_share_at_first_refusal largest_hole_bytes free_bytes moves moved_bytes cancelled_moves device_calls record wait query \
    copy resolve_release_ns alloc_ns p50 p99 p999 verified_buffers corrupted_buffers seconds LIMIT CAPACITY FRAGMENTED PENDING \
    PINNED DEVICE; do
    printf '%s\n' "$json" | grep -q "\"$key\":"
    ok $? "the JSON has $key"
done

# On sim no bytes are held, so any capacity will do. Its checker's violations are among the corrupted.
huge="--device sim --capacity 141G --max-size 1G --threads 1 --seed 7"
# shellcheck disable=SC2086 # several words
run $huge --ops "$(scaled 20000)" --compaction both
ok "$state" "sim, 141 GiB: ends well"
lines=$(printf '%s\n' "$json" | grep -c '"corrupted_buffers":0,.*"device_seconds":.*"profile":"H200"')
ok $((lines != 2)) "sim, 141 GiB: nothing corrupted, off or on"
ok $(($(number "$(printf '%s\n' "$json" | tail -1)" verified_buffers) < 100)) "sim, 141 GiB: buffers are verified"
first=$(number "$json" device_seconds)
# shellcheck disable=SC2086
run $huge --ops "$(scaled 20000)" --compaction off
[ -n "$first" ] && [ "$(number "$json" device_seconds)" = "$(printf '%s\n' "$first" | head -1)" ]
ok $? "sim: a run on one thread without a compactor repeats to the nanosecond"
for style in timed eager lazy random; do
    run --device sim --profile "RTX 3060" --style "$style" --capacity 8M --max-size 128K --ops "$(scaled 20000)" \
        --compaction on --threads 3 --streams 3 --pins 0.05 --seed 5
    ok "$state" "sim, $style, pins, three threads: ends well"
    ok $(($(number "$json" corrupted_buffers) != 0)) "sim, $style: nothing corrupted"
    ok $(($(number "$json" moves) < 100)) "sim, $style: $(number "$json" moves) moves"
done

# Until requests are refused: with compaction only once the bytes have run out, and not before 1 - 1/64 of them are live.
if [ "$scale" -ge 100 ]; then
    run --workload mixed --ops 400K --capacity 64M --max-size 1M --compaction off --seed 3
    fragmented=$(number "$json" FRAGMENTED)
    ok $((${fragmented:-0} < 1)) "off: $fragmented refusals for fragmentation"
    # a thread that loses its core between resolve and release for longer than the wait would make it PINNED
    export SNUG_OPTIONS=pin_wait_us=1000000
    run --workload mixed --ops 400K --capacity 64M --max-size 1M --compaction on --seed 3
    unset SNUG_OPTIONS
    ok "$state" "on: ends well"
    ok $(($(number "$json" CAPACITY) < 1)) "on: requests are refused for capacity in the end"
    ok $(($(number "$json" FRAGMENTED) + $(number "$json" PINNED) + $(number "$json" PENDING))) "on: and for nothing else"
    share=$(number "$json" live_share_at_first_refusal)
    awk -v share="$share" 'BEGIN { exit !(share >= 0.984) }'
    ok $? "on: the first one at a live share of $share"
else
    skip "refusals of mixed" "only at the full scale"
fi

for bad in "--ops x" "--compaction maybe" "--workload nothing" "--capacity 0" "--threads 0" "--pins 2" "--max-size 1Z" "--what" \
    "--device abacus" "--device sim --profile RTX" "--device sim --style slow" "--style lazy" "--profile A100"; do
    # shellcheck disable=SC2086 # two words
    "$SNUG" stress $bad >"$text/out" 2>"$text/err"
    ok $(($? != 2)) "stress $bad: exit 2"
    ok $(($(wc -l <"$text/err") != 1)) "stress $bad: one line says why"
done

echo "1..$n"
[ "$failed" -eq 0 ]
