package ctest

import (
	"bufio"
	"context"
	"debug/elf"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/lull-npc/lull/internal/testassets"
)

// TestExports looks into the library: what a host can see is lull.h's.
func TestExports(t *testing.T) {
	f, err := elf.Open(library(t))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	symbols, err := f.DynamicSymbols()
	if err != nil {
		t.Fatal(err)
	}
	want := headerFunctions(t)
	for _, s := range symbols {
		if s.Section == elf.SHN_UNDEF {
			continue
		}
		if !want[s.Name] {
			t.Errorf("%s is exported and not in lull.h", s.Name)
		}
		delete(want, s.Name)
	}
	for name := range want {
		t.Errorf("%s is in lull.h and not exported", name)
	}
}

func headerFunctions(t *testing.T) map[string]bool {
	t.Helper()
	text, err := os.ReadFile("../include/lull.h")
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	for _, m := range regexp.MustCompile(`LULL_API \w+ (lull_\w+)\(`).FindAllStringSubmatch(string(text), -1) {
		names[m[1]] = true
	}
	if len(names) < 40 {
		t.Fatalf("only %d functions were found in lull.h", len(names))
	}
	return names
}

// TestHeaders compiles the headers alone, as every standard that hosts use.
func TestHeaders(t *testing.T) {
	dir := t.TempDir()
	for _, c := range []struct{ compiler, file, flag string }{
		{"gcc", "h.c", "-std=c99"}, {"gcc", "h.c", "-std=c11"}, {"gcc", "h.c", "-std=c17"},
		{"clang", "h.c", "-std=c99"}, {"g++", "h.cpp", "-std=c++98"}, {"g++", "h.cpp", "-std=c++17"},
		{"g++", "hpp.cpp", "-std=c++17"}, {"g++", "hpp.cpp", "-std=c++20"}, {"clang++", "hpp.cpp", "-std=c++17"},
	} {
		t.Run(c.compiler+c.flag, func(t *testing.T) {
			need(t, c.compiler, strings.TrimSuffix(c.compiler, "++"))
			header := "lull.h"
			if c.file == "hpp.cpp" {
				header = "lull.hpp"
			}
			text := "#include \"" + header + "\"\nlull_event e;\nint main(void) { return (int)sizeof e == 0; }\n"
			path := filepath.Join(dir, c.file)
			if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
			args := append([]string{c.flag, "-fsyntax-only", path, "-Wno-long-long"}, strict...)
			command(t, time.Minute, nil, c.compiler, args...)
		})
	}
}

// TestSignals: the host's handlers, before and after, and our threads' masks.
func TestSignals(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("signal handlers are taken over on Linux only")
	}
	for range times(3, 50) {
		t.Log(strings.TrimSpace(command(t, time.Minute, nil, compileC(t, "signals"), library(t))))
	}
}

var cyclesLine = regexp.MustCompile(
	`cycles: (\d+), threads ([+-]\d+), files ([+-]\d+), memory ([+-]\d+) kB, longest destroy ([0-9.]+) ms, late \d+`)

// TestCycles makes and destroys worlds in every state without growth. Threads
// may differ by a few: Go keeps idle ones.
func TestCycles(t *testing.T) {
	for _, c := range []struct {
		kind         string
		short, long  int
		threads, kib int64
	}{
		{"scripted", 100, 1000, 8, 16 << 10},
		{"real", 4, 100, 8, 16 << 10}, // less than a model takes
	} {
		t.Run(c.kind, func(t *testing.T) {
			if c.kind == "real" {
				testassets.Locate(t)
			}
			out := command(t, 30*time.Minute, nil, compileC(t, "life"), "cycles", c.kind,
				strconv.Itoa(times(c.short, c.long)))
			m := cyclesLine.FindStringSubmatch(out)
			if m == nil {
				t.Fatalf("unexpected: %s", out)
			}
			t.Log(m[0])
			for i, limit := range []int64{c.threads, 0, c.kib} {
				if n, err := strconv.ParseInt(m[i+2], 10, 64); err != nil || n > limit {
					t.Errorf("it grew: %s", m[0])
				}
			}
		})
	}
}

// TestExits leaves the process in every state, and tells of each how often, how
// long at most, and what went wrong. How long a clean exit takes is not asserted,
// only that it comes. To measure,
//
//	LULL_SOAK=1 go test ./bindings/ctest -run Exits -v -count 1
func TestExits(t *testing.T) {
	program := compileC(t, "life")
	for _, how := range []string{"return", "exit", "loading", "speaking", "saving"} {
		for _, kind := range []string{"scripted", "real"} {
			t.Run(how+"-"+kind, func(t *testing.T) {
				n := times(10, 100)
				if kind == "real" {
					testassets.Locate(t)
					n = times(1, 100)
				}
				if kind == "real" && how == "speaking" && !soak() {
					t.Skip("it reads a whole prompt: set LULL_SOAK=1")
				}
				exits(t, program, how, kind, n)
			})
		}
	}
}

func exits(t *testing.T, program, how, kind string, n int) {
	t.Helper()
	const promised = 2 * time.Second // LULL_DESTROY_MS_MAX
	longest, late, failed := time.Duration(0), 0, 0
	for i := range n {
		took, err := leave(t, program, how, kind)
		if err != nil {
			t.Errorf("exit %d: %v", i, err)
			failed++
		}
		if took > promised {
			late++
		}
		longest = max(longest, took)
	}
	t.Logf("exits: %d, the longest took %v, beyond %v: %d, failed: %d", n, longest.Round(100*time.Microsecond),
		promised, late, failed)
}

// leave runs life until it exits, and returns how long that took.
func leave(t *testing.T, program, how, kind string) (time.Duration, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	c := exec.CommandContext(ctx, program, "exit", how, kind, t.TempDir())
	c.Env = append(os.Environ(), "LD_LIBRARY_PATH="+built.dir)
	var complaints strings.Builder
	c.Stderr = &complaints
	out, err := c.StdoutPipe()
	if err != nil {
		return 0, err
	}
	if err := c.Start(); err != nil {
		return 0, err
	}
	said, readErr := bufio.NewReader(out).ReadString('\n')
	begin := time.Now()
	err = c.Wait()
	took := time.Since(begin)
	if err == nil && said != "leaving\n" {
		err = fmt.Errorf("it said %q, %w", said, readErr)
	}
	if err != nil {
		err = fmt.Errorf("%w after %v\n%s", err, took, complaints.String())
	}
	return took, err
}

// TestCodes makes the mistakes of a host one by one, under ASan and UBSan.
func TestCodes(t *testing.T) {
	program := compileC(t, "codes", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")
	out, err := tryCommand(t, time.Minute, []string{"ASAN_OPTIONS=detect_leaks=0"}, program)
	if err != nil {
		t.Fatalf("%s\n%v", out, err)
	}
	t.Log(strings.TrimSpace(out))
}

// TestFuzz makes random calls from C under ASan and UBSan.
func TestFuzz(t *testing.T) {
	program := compileC(t, "fuzz", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")
	calls := strconv.Itoa(times(150_000, 1_500_000))
	for seed := range times(2, 4) {
		out := command(t, 8*time.Minute, []string{"ASAN_OPTIONS=detect_leaks=0"}, program, calls,
			strconv.Itoa(seed+1), "3")
		t.Log(strings.TrimSpace(out))
	}
}

// TestStress lets a garbage collector, exceptions and speech meet; in a soak
// also with the real model, whose threads are not Go's.
func TestStress(t *testing.T) {
	for _, c := range clients {
		if !strings.HasPrefix(c.name, "csharp") {
			continue
		}
		for _, kind := range []string{"scripted", "real"} {
			t.Run(c.name+"-"+kind, func(t *testing.T) {
				if kind == "real" {
					if !soak() {
						t.Skip("the model and the host's threads want every core: set LULL_SOAK=1")
					}
					testassets.Locate(t)
				}
				program, first, env := c.start(t)
				for range times(1, 5) {
					seconds := fmt.Sprint(times(3, 30))
					out := command(t, 3*time.Minute, env, program, append(first, "stress", seconds, kind)...)
					if !strings.Contains(out, "stress: ") {
						t.Fatalf("unexpected: %s", out)
					}
					t.Log(strings.TrimSpace(out))
				}
			})
		}
	}
}
