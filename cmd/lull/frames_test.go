package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const smallCapture = "Application,ProcessID,SwapChainAddress,FrameTime,CPUBusy,CPUWait,GPUBusy\n" +
	"mine.exe,1,0x1,10,8,2,3\nmine.exe,1,0x1,20,18,2,3\nmine.exe,1,0x1,NA,8,2,3\nother.exe,2,0x2,16,1,1,1\n"

// runFrames runs `lull frames` as the program does, but for the process.
func runFrames(ctx context.Context, stdin string, args ...string) (code int, out, notes string) {
	var o, e bytes.Buffer
	a := newApp(strings.NewReader(stdin), &o, &e)
	root := newRoot(a)
	if found, _, err := root.Find([]string{"frames"}); err != nil || found == root {
		root.AddCommand(newFramesCommand(a))
		strict(root)
	}
	root.SetArgs(append([]string{"frames"}, args...))
	err := root.ExecuteContext(ctx)
	if err != nil {
		a.ui.failure(err)
		a.ui.failureObject(err)
	}
	return exitCode(ctx, err), o.String(), e.String()
}

func TestFramesJSON(t *testing.T) {
	code, out, notes := runFrames(t.Context(), smallCapture, "-", "--json", "--target-hz", "60")
	var o struct {
		Rows, Frames int
		Unusable     map[string]int
		Metrics      struct {
			JankRate float64 `json:"jank_rate"`
		}
		Share      map[string]float64 `json:"bottleneck_share"`
		Derivation string
		Process    string
	}
	if err := json.Unmarshal([]byte(out), &o); err != nil {
		t.Fatalf("%v in %s (%s)", err, out, notes)
	}
	if code != exitDone || o.Rows != 4 || o.Frames != 2 || o.Unusable["na"] != 1 || o.Unusable["other-process"] != 1 ||
		o.Metrics.JankRate != 0.5 || o.Derivation == "" || o.Share["unknown"] != 1 || o.Process != "mine.exe" {
		t.Errorf("%d: %s", code, out)
	}
}

func TestFramesTextAndPlot(t *testing.T) {
	dir := t.TempDir()
	file, plot := filepath.Join(dir, "a.csv"), filepath.Join(dir, "a.html")
	if err := os.WriteFile(file, []byte(smallCapture), 0o600); err != nil {
		t.Fatal(err)
	}
	code, out, notes := runFrames(t.Context(), "", file, "--process", "other", "--plot", plot)
	if code != exitDone || !strings.Contains(out, "other.exe: asked for") ||
		!strings.Contains(out, "the median frame time") || !strings.Contains(notes, plot) {
		t.Errorf("%d: %s%s", code, out, notes)
	}
	page, err := os.ReadFile(plot)
	if err != nil || !bytes.Contains(page, []byte("<svg")) {
		t.Errorf("%v: no pictures", err)
	}
	code, out, _ = runFrames(t.Context(), "", "--definitions")
	if code != exitDone || !strings.Contains(out, "jank_rate [fraction of frames]") {
		t.Errorf("%d: %s", code, out)
	}
}

func TestFramesFailures(t *testing.T) {
	dir := t.TempDir()
	for name, c := range map[string]struct {
		stdin string
		args  []string
		code  int
		says  string
	}{
		"no file":        {"", nil, exitUsage, "give a FILE"},
		"two files":      {"", []string{"a", "b"}, exitUsage, "one FILE"},
		"absurd target":  {"", []string{"-", "--target-hz", "0.1"}, exitUsage, "1…1000"},
		"NaN":            {"", []string{"-", "--target-hz", "NaN"}, exitUsage, "finite"},
		"no rate":        {"", []string{"-", "--target-hz", "0"}, exitUsage, "1…1000"},
		"only --plot":    {"", []string{"--definitions", "--plot", "x"}, exitUsage, "--plot does nothing without"},
		"missing file":   {"", []string{filepath.Join(dir, "none.csv")}, exitFailed, "none.csv"},
		"a folder":       {"", []string{dir}, exitFailed, dir},
		"no capture":     {"hello\n", []string{"-"}, exitFailed, "not a frame capture"},
		"nothing usable": {"fps,frametime\n60,NA\n", []string{"-"}, exitFailed, "na:1"},
		"no process":     {smallCapture, []string{"-", "--process", "x"}, exitFailed, "mine.exe, other.exe"},
		"no plot folder": {smallCapture, []string{"-", "--plot", filepath.Join(dir, "no", "x")}, exitFailed, "plot"},
	} {
		code, _, notes := runFrames(t.Context(), c.stdin, c.args...)
		if code != c.code || !strings.Contains(notes, c.says) {
			t.Errorf("%s: exit code %d, want %d: %s", name, code, c.code, notes)
		}
	}
}

func TestFramesInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errInterrupted)
	if code, out, notes := runFrames(ctx, smallCapture, "-"); code != exitInterrupted || out != "" {
		t.Errorf("exit code %d: %s%s", code, out, notes)
	}
	if _, err := (untilDone{ctx, strings.NewReader("x")}).Read(make([]byte, 1)); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}
