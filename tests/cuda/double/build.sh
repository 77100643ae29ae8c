#!/bin/sh
# build.sh OUT [extra cflags] - builds the double as OUT/libcudart.so.13, and OUT/libcudart.so for the linker.
# CUDA names the toolkit (/usr/local/cuda), CC the compiler (gcc).
set -eu
here=$(dirname "$0")
out=$1
shift
mkdir -p "$out"
${CC:-gcc} -std=c11 -D_GNU_SOURCE -Wall -Wextra -Werror -g -O1 -fPIC -shared "$@" \
    -isystem "${CUDA:-/usr/local/cuda}/include" "$here"/*.c -o "$out/libcudart.so.13" \
    -Wl,-soname,libcudart.so.13 -Wl,--version-script="$here/libcudart.map" -Wl,-z,nodelete -pthread
ln -sf libcudart.so.13 "$out/libcudart.so"
