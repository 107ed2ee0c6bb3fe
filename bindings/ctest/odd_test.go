package ctest

import (
	"context"
	"os"
	"os/exec"
	"testing"
	"time"
)

// TestOddHosts: what a host may do, and few think of. Each runs in a folder of
// its own, which it litters.
func TestOddHosts(t *testing.T) {
	program := compileC(t, "odd")
	for _, name := range []string{"forks", "profiler", "paths", "disk", "moves", "closed", "clocks", "unpolled",
		"crowd", "saves", "retries", "stack"} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
			defer cancel()
			c := exec.CommandContext(ctx, program, name)
			c.Dir = t.TempDir()
			c.Env = append(os.Environ(), "LD_LIBRARY_PATH="+built.dir)
			c.WaitDelay = time.Second
			if out, err := c.CombinedOutput(); err != nil {
				t.Errorf("%v\n%s", err, out[:min(len(out), 4000)])
			}
		})
	}
}
