package ctest

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// built is what TestMain made: the folder of the library, and why there is none.
var built struct {
	dir  string
	skip string
}

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(run(m))
}

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "lull-ctest-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	built.dir = dir
	if _, err := exec.LookPath("gcc"); err != nil {
		built.skip = "no gcc: install gcc and libc6-dev"
	} else if out, err := buildLibrary(dir); err != nil {
		fmt.Fprintf(os.Stderr, "building liblull.so: %v\n%s", err, out)
		return 1
	}
	return m.Run()
}

// buildLibrary builds what `make plugin` builds, for this machine.
func buildLibrary(dir string) ([]byte, error) {
	exports, err := filepath.Abs("../capi/exports_gen.map")
	if err != nil {
		return nil, err
	}
	c := exec.Command("go", "build", "-buildmode=c-shared", "-trimpath",
		"-ldflags", "-s -w -extldflags '-Wl,--version-script="+exports+"'",
		"-o", filepath.Join(dir, "liblull.so"), "../capi")
	c.Env = append(os.Environ(), "CGO_ENABLED=1")
	return c.CombinedOutput()
}

func library(t *testing.T) string {
	t.Helper()
	if built.skip != "" {
		t.Skip("no library: " + built.skip)
	}
	return filepath.Join(built.dir, "liblull.so")
}

// need skips unless the program is there.
func need(t *testing.T, program, install string) string {
	t.Helper()
	path, err := exec.LookPath(program)
	if err != nil {
		t.Skipf("no %s: install %s", program, install)
	}
	return path
}

// command runs a program to its end and gives back its standard output. The
// host finds the library beside the others of the system.
func command(t *testing.T, limit time.Duration, env []string, name string, args ...string) string {
	t.Helper()
	out, err := tryCommand(t, limit, env, name, args...)
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", filepath.Base(name), strings.Join(args, " "), err, out)
	}
	return out
}

func tryCommand(t *testing.T, limit time.Duration, env []string, name string, args ...string) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	c := exec.CommandContext(ctx, name, args...)
	c.Env = append(append(os.Environ(), "LD_LIBRARY_PATH="+built.dir), env...)
	c.WaitDelay = time.Second
	var complaints strings.Builder
	c.Stderr = &complaints
	out, err := c.Output()
	if ctx.Err() != nil {
		err = errors.Join(err, fmt.Errorf("it did not end within %v", limit))
	}
	if err != nil {
		err = fmt.Errorf("%w\n%s", err, complaints.String())
	}
	return string(out), err
}

// strict are the flags that a header of ours must bear.
var strict = []string{"-Wall", "-Wextra", "-Werror", "-pedantic", "-O1", "-I../include"}

// compileC makes a program of one file in c/.
func compileC(t *testing.T, name string, flags ...string) string {
	t.Helper()
	library(t)
	out := filepath.Join(t.TempDir(), name)
	args := append([]string{"-std=c99"}, strict...)
	args = append(args, flags...)
	args = append(args, "c/"+name+".c", "-o", out, "-L"+built.dir, "-llull", "-lpthread", "-ldl")
	command(t, time.Minute, nil, "gcc", args...)
	return out
}

func soak() bool { return os.Getenv("LULL_SOAK") != "" }

// times is short, or long in a soak.
func times(short, long int) int {
	if soak() {
		return long
	}
	return short
}

// python finds the modules that `make hosts` puts into .cache.
func pythonEnv(t *testing.T) []string {
	t.Helper()
	path, err := filepath.Abs("../../.cache/python")
	if err != nil {
		t.Fatal(err)
	}
	return []string{"PYTHONPATH=" + path, "PYTHONDONTWRITEBYTECODE=1"}
}
