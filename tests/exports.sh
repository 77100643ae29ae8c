#!/bin/sh
# The shared library exports what the public headers declare SNUG_API: no more, no fewer.
set -eu
library=$top_builddir/.libs/libsnug.so
[ -e "$library" ] || { echo "1..0 # SKIP no shared library in this build"; exit 0; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# In the headers: the name before the first parenthesis after SNUG_API and its type.
sed -n 's/^SNUG_API [^(]*[ *]\(snug_[a-z0-9_]*\)(.*/\1/p' "$top_srcdir"/include/*.h | sort >"$work/declared"
grep -ch '^SNUG_API ' "$top_srcdir"/include/*.h | awk '{ n += $1 } END { print n }' >"$work/count"

# In the library: sanitizers and gcov bring symbols of their own.
$NM -D --defined-only "$library" | awk '$2 ~ /^[A-Z]$/ { print $3 }' | sed 's/@.*//' | sort >"$work/exported"
[ -z "${SAN_CFLAGS# }" ] || sed -i '/^__/d;/^mangle_path$/d' "$work/exported"

if [ -s "$work/declared" ] && [ "$(wc -l <"$work/declared")" -eq "$(cat "$work/count")" ]; then
    echo "ok 1 - every SNUG_API of the headers is understood ($(wc -l <"$work/declared") functions)"
else
    echo "not ok 1 - of $(cat "$work/count") lines with SNUG_API only $(wc -l <"$work/declared") are understood"
fi
comm -23 "$work/declared" "$work/exported" >"$work/missing"
comm -13 "$work/declared" "$work/exported" >"$work/extra"
[ -s "$work/missing" ] && printf 'not '
echo "ok 2 - every function declared is exported"
sed 's/^/# declared but not exported: /' "$work/missing"
[ -s "$work/extra" ] && printf 'not '
echo "ok 3 - nothing else is exported"
sed 's/^/# exported but not declared: /' "$work/extra"
echo "1..3"
