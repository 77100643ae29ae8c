#!/bin/sh
# Every example runs, and says by its exit status that all went well.
set -u
n=0
for example in $EXAMPLES; do
    n=$((n + 1))
    if output=$("$top_builddir/$example" 2>&1 </dev/null); then
        echo "ok $n - $example"
    else
        echo "not ok $n - $example (exit status $?)"
        printf '%s\n' "$output" | sed 's/^/# /'
    fi
done
echo "1..$n"
