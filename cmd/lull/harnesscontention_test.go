package main

import (
	"strings"
	"testing"
)

func TestHarnessContentionUsage(t *testing.T) {
	c := newConsole(t)
	for _, x := range []struct {
		args []string
		code int
		says string
	}{
		{[]string{"twice"}, exitUsage, "takes no argument"},
		{[]string{"--rates", "1"}, exitUsage, "two rates at least"},
		{[]string{"--rates", "1,fast"}, exitUsage, `"fast"`},
		{[]string{"--rates", "1,2,1"}, exitUsage, "different numbers"},
		{[]string{"--rates", "0,NaN"}, exitUsage, "different numbers"},
		{[]string{"--seconds", "3"}, exitUsage, "8 (one for each rate)"},
		{[]string{"--threads", "0"}, exitUsage, "1 … 256"},
		{[]string{"--samples", "0"}, exitUsage, "1 or more"},
		{[]string{"--plot", "a.gif"}, exitUsage, ".png or .svg"},
		{[]string{"--plot", "nowhere/a.png"}, exitFailed, "no folder nowhere"},
		{[]string{"--json", "nowhere/a.json"}, exitFailed, "no folder nowhere"},
	} {
		code := c.run(append([]string{"harness", "contention"}, x.args...)...)
		if code != x.code || !strings.Contains(c.err.String(), x.says) {
			t.Errorf("%v: exit code %d, %q: want %d, %q", x.args, code, c.err.String(), x.code, x.says)
		}
	}
	if code := c.run("harness", "contention", "--help"); code != exitDone ||
		!strings.Contains(c.out.String(), "random order") || !strings.Contains(c.out.String(), "--plot") {
		t.Errorf("help: exit code %d\n%s", code, c.out.String())
	}
}
