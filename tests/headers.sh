#!/bin/sh
# Every public header compiles alone, twice over, in strict C11 and in C++17.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
n=0

# compile NAME SOURCE COMPILER...
compile() {
    name=$1 source=$2
    shift 2
    n=$((n + 1))
    if "$@" -Wall -Wextra -Werror -I"$top_srcdir/include" -c -o "$work/object.o" "$source" >"$work/output" 2>&1; then
        echo "ok $n - $name"
    else
        echo "not ok $n - $name"
        sed 's/^/# /' "$work/output"
    fi
}

for header in "$top_srcdir"/include/*.h; do
    header=${header##*/}
    printf '#include <%s>\n#include <%s>\nint main(void) { return 0; }\n' "$header" "$header" >"$work/header.c"
    cp "$work/header.c" "$work/header.cc"
    # shellcheck disable=SC2086 # a compiler may come with flags
    compile "$header in C11" "$work/header.c" $CC -std=c11 -pedantic
    if [ -n "$CXX" ] && command -v "${CXX%% *}" >/dev/null; then
        # shellcheck disable=SC2086
        compile "$header in C++17" "$work/header.cc" $CXX -std=c++17 -pedantic
    else
        n=$((n + 1))
        echo "ok $n # SKIP $header in C++17: no C++ compiler"
    fi
done
echo "1..$n"
