//go:build cgo

package llamacpp

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"
)

// TestGateUnderSanitizers builds the gate with a small C program around it
// under the thread, address and undefined-behaviour sanitizers.
func TestGateUnderSanitizers(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skipf("the C compiler's sanitizers are tried on Linux only, not on %s", runtime.GOOS)
	}
	cc, err := exec.LookPath("cc")
	if err != nil {
		t.Skipf("no C compiler: %v", err)
	}
	for _, sanitizer := range []string{"thread", "address,undefined"} {
		program := filepath.Join(t.TempDir(), "gate")
		build := exec.Command(cc, "-std=gnu11", "-g", "-O1", "-Wall", "-Wextra", "-Werror", "-fsanitize="+sanitizer,
			"-fno-sanitize-recover=all", "-I.", "-o", program, "gate_c.c", "head_c.c", "testdata/gate_stress.c",
			"-lpthread")
		if out, err := build.CombinedOutput(); err != nil {
			t.Fatalf("%s: build: %v\n%s", sanitizer, err, out)
		}
		run := exec.Command(program)
		run.Env = append(os.Environ(), "TSAN_OPTIONS=halt_on_error=1", "ASAN_OPTIONS=detect_leaks=1")
		out, err := run.CombinedOutput()
		t.Logf("%s: %s", sanitizer, out)
		if err != nil {
			t.Errorf("%s: %v", sanitizer, err)
		}
	}
}
