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
# Its program is called itself: through Python, each of a build's hundred calls
# takes a second more.
zig=$(PYTHONPATH="$PWD/.cache/python" python3 -c 'import os, ziglang
print(os.path.join(os.path.dirname(ziglang.__file__), "zig"))')

# ffi ARCH FOLDER SOURCES…: libffi as an archive, built as its package for Node
# builds it. A player's machine may have another libffi, or none.
ffi_package=ffi-napi@4.0.3
ffi_sha256=e33d87c94b2bb59a60cc055bb7c767cbb786156fa696fae20d780da1c521e3a2
ffi() {
    arch=$1 folder=$2
    shift 2
    source=.cache/libffi/package/deps/libffi
    if [ ! -d $source ]; then
        mkdir -p .cache/libffi
        file=$(cd .cache/libffi && npm pack --silent $ffi_package)
        echo "$ffi_sha256  .cache/libffi/$file" | sha256sum -c --quiet
        tar -xzf ".cache/libffi/$file" -C .cache/libffi package/deps/libffi
    fi
    build=$PWD/.cache/libffi/$arch
    mkdir -p "$build"
    for file in prep_cif.c types.c raw_api.c closures.c "$@"; do
        "$zig" cc -target "$abi" -c -O2 -fPIC -w -DPIC -DFFI_BUILDING -DHAVE_CONFIG_H \
            -I$source/include -I"$source/config/linux/$folder" "$source/src/$file" -o "$build/$(basename "$file").o"
    done
    rm -f "$build/libffi.a"
    "$zig" ar rcs "$build/libffi.a" "$build"/*.o
    cp $source/LICENSE "dist/linux-$arch/LICENSE-libffi"
}

# linux ARCH TARGET: a library that needs no newer C library than TARGET says.
linux() {
    out=dist/linux-$1 abi=$2
    case "$1" in
    amd64) ffi amd64 x64 x86/ffi64.c x86/ffiw64.c x86/unix64.S x86/win64.S ;;
    arm64) ffi arm64 arm64 aarch64/ffi.c aarch64/sysv.S ;;
    esac
    # CGO_CFLAGS takes the place of Go's own -O2, and without that zig brings its
    # checks of undefined behaviour, which want 256 KiB of each thread of the host.
    GOOS=linux GOARCH=$1 CGO_ENABLED=1 CC="'$zig' cc -target $abi" \
        CGO_CFLAGS="-O2 -fno-sanitize=undefined -DLULL_STATIC_FFI" \
        CGO_LDFLAGS="-Wl,--wrap=dlopen -Wl,--wrap=dlsym '$build/libffi.a'" \
        go build -buildmode=c-shared -trimpath \
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

# licences TARGET: the texts that must go along with what is linked into the
# library: Go's, and those of the modules, as they lie in their folders.
licences() {
    {
        echo "===== Go, https://go.dev"
        cat "$(go env GOROOT)/LICENSE"
        GOOS=${1%-*} GOARCH=${1#*-} CGO_ENABLED=1 go list -deps \
            -f '{{with .Module}}{{if not .Main}}{{.Path}} {{.Version}} {{.Dir}}{{end}}{{end}}' ./bindings/capi |
            sort -u | while read -r module version folder; do
            [ -n "$module" ] || continue
            for text in "$folder"/LICENSE* "$folder"/assets/libffi/LICENSE; do
                [ ! -f "$text" ] || { echo && echo "===== $module $version, ${text##*/}" && cat "$text"; }
            done
        done
    } >"dist/$1/LICENSE-modules"
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
    cp LICENSE bindings/README.md bindings/abi.golden.txt bindings/love/lull_cdef.lua \
        bindings/unity/com.lull.npc/Runtime/Native.g.cs "dist/$target/"
    licences "$target"
    ls -l "dist/$target"
done
