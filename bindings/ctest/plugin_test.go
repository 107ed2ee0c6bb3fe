package ctest

import (
	"debug/elf"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// plugins are the libraries of `make plugin`, each with what compiles talk.c
// for it and what runs that here.
var plugins = []struct {
	target, library string
	compiler        []string // and its first arguments
	install         string   // what brings it
	link            string   // after -L
	run             func(t *testing.T, dist, out string) (env, command []string)
}{
	{"linux-amd64", "liblull.so", []string{"gcc"}, "gcc", "-llull",
		func(_ *testing.T, dist, out string) ([]string, []string) {
			return []string{"LD_LIBRARY_PATH=" + dist}, []string{out}
		}},
	{"linux-arm64", "liblull.so",
		[]string{"python3", "-m", "ziglang", "cc", "-target", "aarch64-linux-gnu.2.28"}, "python3", "-llull",
		func(t *testing.T, dist, out string) ([]string, []string) {
			const root = "/usr/aarch64-linux-gnu"
			if _, err := os.Stat(root + "/lib/libc.so.6"); err != nil {
				t.Skip("no C library for it: install libc6-arm64-cross")
			}
			return nil, []string{need(t, "qemu-aarch64-static", "qemu-user-static"), "-L", root,
				"-E", "LD_LIBRARY_PATH=" + dist, out}
		}},
	{"windows-amd64", "lull.dll", []string{"x86_64-w64-mingw32-gcc"}, "gcc-mingw-w64-x86-64-win32", "-l:lull.lib",
		func(t *testing.T, dist, out string) ([]string, []string) {
			need(t, "wine", "wine and wine64")
			prefix := filepath.Join(t.TempDir(), "wine")
			randomForWine(t, filepath.Join(prefix, "drive_c", "windows", "system32"))
			// Wine's servers outlive the program and hold its output open.
			const run = `wine "$0" "$@" >"$0.txt" 2>"$0.log"; code=$?
PATH=$PATH:/usr/lib/wine wineserver -k || PATH=$PATH:/usr/lib/wine wineserver64 -k
cat "$0.txt"; exit $code`
			return []string{"WINEPATH=" + dist, "WINEDEBUG=-all", "WINEPREFIX=" + prefix},
				[]string{"sh", "-c", run, out}
		}},
}

// randomForWine gives Wine a library that Go wants and Wine 8 has not.
func randomForWine(t *testing.T, system string) {
	t.Helper()
	if err := os.MkdirAll(system, 0o755); err != nil {
		t.Fatal(err)
	}
	source := filepath.Join(t.TempDir(), "random.c")
	text := `#include <windows.h>
BOOLEAN NTAPI SystemFunction036(PVOID, ULONG);
__declspec(dllexport) BOOL WINAPI ProcessPrng(PBYTE p, SIZE_T n) { return SystemFunction036(p, (ULONG)n); }
`
	if err := os.WriteFile(source, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	command(t, time.Minute, nil, "x86_64-w64-mingw32-gcc", "-shared", source, "-ladvapi32",
		"-o", filepath.Join(system, "bcryptprimitives.dll"))
}

// TestPluginLoads has a host open the library of dist/ when it runs already, as
// most engines do: then there is little room for data of each thread, and the
// symbols that a player's C library must have are old ones.
func TestPluginLoads(t *testing.T) {
	if !soak() {
		t.Skip("dist/ may be older than the header: set LULL_SOAK=1 after make plugin")
	}
	for target, newest := range map[string]string{"linux-amd64": "GLIBC_2.17", "linux-arm64": "GLIBC_2.28"} {
		t.Run(target, func(t *testing.T) {
			name := filepath.Join("../../dist", target, "liblull.so")
			f, err := elf.Open(name)
			if err != nil {
				t.Skip("no library: run make plugin")
			}
			defer f.Close()
			for _, p := range f.Progs {
				if p.Type == elf.PT_TLS && p.Memsz > 512 {
					t.Errorf("each thread has %d bytes of the library's: a host that runs can't open it", p.Memsz)
				}
			}
			imports, err := f.ImportedSymbols()
			if err != nil {
				t.Fatal(err)
			}
			for _, s := range imports {
				if strings.HasPrefix(s.Version, "GLIBC_") && older(newest, s.Version) {
					t.Errorf("%s wants %s", s.Name, s.Version)
				}
			}
			libraries, err := f.ImportedLibraries()
			if err != nil {
				t.Fatal(err)
			}
			t.Log("it wants ", strings.Join(libraries, ", "))
		})
	}
	t.Run("python", func(t *testing.T) {
		name, err := filepath.Abs("../../dist/linux-amd64/liblull.so")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(name); err != nil || runtime.GOOS+runtime.GOARCH != "linuxamd64" {
			t.Skip("no library for this machine: run make plugin")
		}
		command(t, time.Minute, nil, need(t, "python3", "python3"), "-c",
			"import ctypes, sys; ctypes.CDLL(sys.argv[1])", name)
	})
}

// older compares versions of the C library, such as GLIBC_2.3.4.
func older(a, b string) bool {
	numbers := func(v string) []int {
		var out []int
		for part := range strings.SplitSeq(strings.TrimPrefix(v, "GLIBC_"), ".") {
			n, err := strconv.Atoi(part)
			if err != nil {
				n = 1 << 20 // GLIBC_PRIVATE: never a symbol to rely on
			}
			out = append(out, n)
		}
		return out
	}
	return slices.Compare(numbers(a), numbers(b)) < 0
}

// TestPlugin lets what stands in dist/ hold the conversation of every client,
// other processors and systems under emulation.
func TestPlugin(t *testing.T) {
	want, err := os.ReadFile(filepath.Join("testdata", "talk.txt"))
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range plugins {
		t.Run(p.target, func(t *testing.T) {
			if !soak() {
				t.Skip("dist/ may be older than the header: set LULL_SOAK=1 after make plugin")
			}
			dist, err := filepath.Abs(filepath.Join("../../dist", p.target))
			if err != nil {
				t.Fatal(err)
			}
			if _, err := os.Stat(filepath.Join(dist, p.library)); err != nil {
				t.Skip("no library: run make plugin")
			}
			out := filepath.Join(t.TempDir(), "talk.exe")
			compiler := need(t, p.compiler[0], p.install)
			args := append(slices.Clone(p.compiler[1:]), "-std=c99", "-I"+filepath.Join(dist, "include"), "c/talk.c",
				"-o", out, "-L"+dist, p.link)
			command(t, 5*time.Minute, pythonEnv(t), compiler, args...)
			env, host := p.run(t, dist, out)
			said := command(t, 5*time.Minute, env, host[0], append(host[1:], "scripted")...)
			said = strings.ReplaceAll(said, "\r\n", "\n")
			cost := costLine.FindString(said)
			if cost == "" || strings.TrimSuffix(said, cost) != string(want) {
				t.Errorf("it said\n%s\nwant\n%s", said, want)
			}
			t.Log(strings.TrimSpace(cost))
		})
	}
}
