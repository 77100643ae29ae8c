# steps.sh - what demo and check share: long commands run quietly, builds out of tree. For bash; sourced.
# Everything that they make lies in build/.
# shellcheck shell=bash

top=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
jobs=$(nproc 2>/dev/null || echo 2)
sources=$top # what is configured; see find_sources

# quietly LOG TITLE COMMAND...
# Runs COMMAND with its output in LOG, and nothing on stdin. On a terminal TITLE and the seconds so far show meanwhile.
# Prints no line that stays; what there is to say then is the caller's. Sets took_s. Returns what COMMAND does.
quietly() {
    local log=$1 title=$2 start=$SECONDS ticker='' status=0
    shift 2
    if [ -t 1 ]; then
        (
            trap 'exit 0' TERM
            while :; do
                printf '\r%s ... %d s ' "$title" $((SECONDS - start))
                sleep 1
            done
        ) &
        ticker=$!
    fi
    "$@" >"$log" 2>&1 </dev/null || status=$?
    if [ -n "$ticker" ]; then
        kill "$ticker" 2>/dev/null
        wait "$ticker" 2>/dev/null || true
        printf '\r\033[K'
    fi
    took_s=$((SECONDS - start))
    return "$status"
}

# log_show LOG: what in it tells best why a step failed: compilers' errors, failed checks and what they got.
log_show() {
    grep -E '^(FAIL|ERROR|XPASS): .* |^# [^ ]+:[0-9]+: |^#   |(error|warning): |undefined reference' "$1" |
        awk '!seen[$0]++' | head -n 60 >&2 || true
    echo "--- the end of $1:" >&2
    tail -n 25 "$1" >&2
}

# find_sources: makes sure of configure. A tree that is configured in place can't be built out of place as well, so then
# `sources` is a copy of it, of what a release would hold.
find_sources() {
    if [ -e "$top/config.status" ]; then
        make -s -C "$top" distdir distdir=build/tree && sources=$top/build/tree
    elif [ ! -e "$top/configure" ]; then
        "$top/bootstrap"
    fi
}

# configure_in DIRECTORY FLAG...: configures it, unless it is configured just so.
configure_in() {
    local directory=$1
    shift
    local wanted="$sources/configure $* CC=${CC-} CFLAGS=${CFLAGS-} CPPFLAGS=${CPPFLAGS-} LDFLAGS=${LDFLAGS-}"
    if [ "$(cat "$directory/.configured" 2>/dev/null)" = "$wanted" ]; then return 0; fi
    rm -rf "$directory" &&
        mkdir -p "$directory" &&
        (cd "$directory" && "$sources/configure" "$@") &&
        echo "$wanted" >"$directory/.configured"
}
