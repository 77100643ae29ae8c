#!/bin/sh
# What `make install` puts down is enough to compile, link and run a client through pkg-config, shared and static.
set -eu
[ -n "$PKG_CONFIG" ] || { echo "1..0 # SKIP pkg-config is missing"; exit 0; }
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
PKG_CONFIG_SYSROOT_DIR=$root
PKG_CONFIG_LIBDIR=$root$libdir/pkgconfig
PKG_CONFIG_ALLOW_SYSTEM_CFLAGS=1
PKG_CONFIG_ALLOW_SYSTEM_LIBS=1
export PKG_CONFIG_SYSROOT_DIR PKG_CONFIG_LIBDIR PKG_CONFIG_ALLOW_SYSTEM_CFLAGS PKG_CONFIG_ALLOW_SYSTEM_LIBS
unset MAKEFLAGS MFLAGS MAKELEVEL DESTDIR PKG_CONFIG_PATH
n=0

# check NAME COMMAND...
check() {
    name=$1
    shift
    n=$((n + 1))
    if "$@" >"$root/output" 2>&1; then
        echo "ok $n - $name"
    else
        echo "not ok $n - $name"
        sed 's/^/# /' "$root/output"
    fi
}

skip() {
    n=$((n + 1))
    echo "ok $n # SKIP $1"
}

# link STATIC: compiles client.c with what pkg-config says. --static or nothing.
# shellcheck disable=SC2046,SC2086 # all of these are lists of flags
link() {
    $CC $SAN_CFLAGS -o "$root/client" "$root/client.c" $($PKG_CONFIG $1 --cflags --libs snug)
}

# Fills 1000 bytes and reads them back.
cat >"$root/client.c" <<'END'
#include <snug_host.h>

int main(void) {
    snug_pool_options options = snug_pool_options_default();
    snug_pool *pool;
    snug_host_stream *native;
    snug_stream *stream;
    snug_handle handle;
    unsigned char bytes[1000] = {0};
    options.capacity = 1 << 20;
    if (snug_pool_create(&options, &pool) || snug_host_stream_create(&native)) return 1;
    if (snug_stream_attach(pool, native, &stream) || snug_alloc(pool, sizeof bytes, NULL, &handle)) return 2;
    if (snug_fill(stream, handle, 0, 7, sizeof bytes) || snug_read(stream, handle, 0, bytes, sizeof bytes)) return 3;
    if (snug_stream_sync(stream) || bytes[0] != 7 || bytes[999] != 7) return 4;
    if (snug_free(pool, handle) || snug_stream_detach(stream)) return 5;
    if (snug_host_stream_destroy(native) || snug_pool_destroy(pool)) return 6;
    puts(snug_version());
    return 0;
}
END

check "make install" "$MAKE" -C "$top_builddir" install DESTDIR="$root"
check "pkg-config finds snug" $PKG_CONFIG --exists --print-errors snug
version=$($PKG_CONFIG --modversion snug || echo none)
check "the man page is there" find "$root" -name snug.1 -exec grep -q Nm '{}' +

LD_LIBRARY_PATH=$root$libdir
export LD_LIBRARY_PATH
if [ -e "$root$libdir/libsnug.so" ]; then
    check "a client links with the shared library" link ""
    check "and runs" "$root/client"
    cp "$root/output" "$root/says"
    check "the library, pkg-config and the headers name one version, $version" grep -qx "$version" "$root/says"
    check "the installed program runs and says the same" sh -c '"$1" --version | grep -qw "$2"' - "$root$bindir/snug" "$version"
    rm -f "$root$libdir"/libsnug.so*
else
    skip "no shared library in this build"
fi
unset LD_LIBRARY_PATH
if [ -e "$root$libdir/libsnug.a" ]; then
    check "a client links with the static library" link --static
    check "and runs" "$root/client"
else
    skip "no static library in this build"
fi
echo "1..$n"
