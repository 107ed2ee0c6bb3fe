#!/bin/sh
# Builds lull as a shared library, with its headers, into dist/.
# Usage: plugin.sh VERSION [TARGET…]   with the targets of the case below; default all.
set -eu
cd "$(dirname "$0")/.."
version=$1
shift
[ $# -gt 0 ] || set -- linux-amd64 linux-arm64 windows-amd64
exports=$PWD/bindings/capi/exports_gen
flags="-s -w -X main.version=$version"

# zig brings a C compiler and the symbols of old C libraries for every system.
zig() {
    PYTHONPATH="$PWD/.cache/python" python3 -m ziglang version >/dev/null
    echo "python3 -m ziglang cc -target $1"
}

# linux ARCH GOARCH TARGET: a library that needs no newer C library than TARGET says.
linux() {
    out=dist/linux-$1
    cc=$(zig "$2")
    PYTHONPATH="$PWD/.cache/python" GOOS=linux GOARCH=$1 CGO_ENABLED=1 CC=$cc go build -buildmode=c-shared -trimpath \
        -ldflags "$flags -extldflags '-Wl,--version-script=$exports.map'" -o "$out/liblull.so" ./bindings/capi
    rm -f "$out/liblull.h" # Go's own header; lull.h is ours
}

# The flags of exports inside Go's objects go beyond the list: they are taken
# out, and the list decides.
windows() {
    out=dist/windows-amd64
    tool=x86_64-w64-mingw32
    GOOS=windows GOARCH=amd64 CGO_ENABLED=1 CC=$tool-gcc go build -buildmode=c-archive -trimpath -ldflags "$flags" \
        -o "$out/lull.a" ./bindings/capi
    $tool-objcopy --remove-section .drectve "$out/lull.a"
    $tool-gcc -shared -s -static-libgcc -o "$out/lull.dll" "$exports.def" \
        -Wl,--whole-archive "$out/lull.a" -Wl,--no-whole-archive -lsynchronization
    $tool-dlltool -d "$exports.def" -l "$out/lull.lib"
    rm -f "$out/lull.a" "$out/lull.h"
}

for target in "$@"; do
    echo "plugin: $target"
    mkdir -p "dist/$target/include"
    case "$target" in
    linux-amd64) linux amd64 x86_64-linux-gnu.2.17 ;;
    linux-arm64) linux arm64 aarch64-linux-gnu.2.28 ;;
    windows-amd64) windows ;;
    *) echo "plugin: no target $target" >&2; exit 2 ;;
    esac
    cp bindings/include/lull.h bindings/include/lull.hpp "dist/$target/include/"
    cp LICENSE "dist/$target/"
    ls -l "dist/$target"
done
