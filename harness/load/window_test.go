package load

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lull-npc/lull/runtime/llm"
)

// program makes something that stands for the demo game.
func program(t *testing.T, script string) {
	t.Helper()
	if _, err := exec.LookPath("xvfb-run"); err != nil {
		t.Skip("no xvfb-run: internal/setup/setup.sh demo-test installs it")
	}
	file := filepath.Join(t.TempDir(), "game")
	if err := os.WriteFile(file, []byte("#!/bin/sh\n"+script+"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("LULL_DEMO", file)
}

func windowTeam(t *testing.T) (*Team, error) {
	t.Helper()
	timer, err := NewTimer(llm.NewClock())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(timer.Close)
	return NewTeam(Drawn{Idle{}}.Needs(), timer)
}

// A frame ends when the window answers; what the window's process used is known.
func TestWindow(t *testing.T) {
	program(t, `while head -c 1; do i=0; while [ $i -lt 2000 ]; do i=$((i+1)); done; done`)
	team, err := windowTeam(t)
	if err != nil {
		t.Fatal(err)
	}
	defer team.Close()
	var j Job
	before := team.CPU()
	for i := range uint64(8) {
		Drawn{Idle{}}.Job(i, 0, &j)
		team.Run(&j, 0)
	}
	if err := team.Err(); err != nil {
		t.Error(err)
	}
	if used := team.CPU() - before; cpuKnown && used <= 0 {
		t.Errorf("8 frames that compute took %v of CPU time", used)
	}
}

// A window that ends, or never begins, is told with what it said.
func TestWindowEnds(t *testing.T) {
	program(t, "echo no such screen >&2; exit 3")
	if team, err := windowTeam(t); !errors.Is(err, ErrNoWindow) || !strings.Contains(err.Error(), "no such screen") {
		t.Errorf("%v, %v: want why there is no window", team, err)
	}
	program(t, "head -c 1")
	team, err := windowTeam(t)
	if err != nil {
		t.Fatal(err)
	}
	defer team.Close()
	team.Run(&Job{Draw: true}, 0)
	if !errors.Is(team.Err(), ErrNoWindow) {
		t.Errorf("a window that ended: %v", team.Err())
	}
	t.Setenv("LULL_DEMO", filepath.Join(t.TempDir(), "none"))
	if _, err := windowTeam(t); !errors.Is(err, ErrNoWindow) || !strings.Contains(err.Error(), "make build") {
		t.Errorf("no program: %v, want what builds it", err)
	}
}
