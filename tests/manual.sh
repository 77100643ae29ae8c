#!/bin/sh
# The man page is well-formed and tells of every option that --help does.
set -eu
page=$top_srcdir/doc/snug.1
n=0

# result NAME PROBLEMS: no problems, no failure.
result() {
    n=$((n + 1))
    if [ -z "$2" ]; then
        echo "ok $n - $1"
    else
        echo "not ok $n - $1"
        printf '%s\n' "$2" | sed 's/^/# /'
    fi
}

if command -v mandoc >/dev/null; then
    # Warnings and worse. What is left out depends on the system that mandoc was made for.
    result "mandoc has nothing to say" "$(mandoc -Tlint -W warning "$page" 2>&1 || true)"
else
    n=$((n + 1))
    echo "ok $n # SKIP mandoc is missing"
fi
for command in stress replay; do
    options=$("$top_builddir/snug" "$command" --help | sed -n 's/^ *--\([a-z-]*\).*/\1/p' | grep -vx help)
    missing=
    for option in $options; do
        grep -q "^\.It Fl Fl $option\>" "$page" || missing="$missing --$option"
    done
    [ -n "$options" ] || missing=" (--help lists no option)"
    result "the page has every option of snug $command" "${missing:+missing:$missing}"
done
echo "1..$n"
