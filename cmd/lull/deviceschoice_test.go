package main

import (
	"strings"
	"testing"

	"github.com/lull-npc/lull/internal/testassets"
)

// TestDevicesFlag: a slip is told before anything is loaded, a device that is not
// here by the list of those that are.
func TestDevicesFlag(t *testing.T) {
	library, model := testassets.Locate(t)
	c := newConsole(t)
	if code := c.run("chat", "--devices", "prefill=cpu"); code != exitUsage ||
		!strings.Contains(c.err.String(), "one of the stages is missing") {
		t.Errorf("%d %s", code, &c.err)
	}
	from := []string{"--llama-lib", library, "--model", model}
	if code := c.run(append(from, "chat", "--devices", "TPU9")...); code != exitFailed ||
		!strings.Contains(c.err.String(), `device "TPU9": no such device`) ||
		!strings.Contains(c.err.String(), "lull devices") {
		t.Errorf("%d %s", code, &c.err)
	}
	if code := c.run(append(from, "devices")...); code != 0 ||
		!strings.Contains(c.out.String(), "auto is the CPU alone: nothing was measured") {
		t.Errorf("%d %s %s", code, &c.out, &c.err)
	}
	if code := c.run(append(from, "devices", "--json")...); code != 0 {
		t.Fatalf("%d %s", code, &c.err)
	}
	choice, _ := c.object()["choice"].(map[string]any)
	if rows, ok := choice["situations"].([]any); !ok || len(rows) != 0 || choice["cpu_alone_because"] == nil {
		t.Errorf("%+v", choice)
	}
}

func TestShowChoice(t *testing.T) {
	c := newConsole(t)
	c.app.showChoice(choiceJSON{Rows: []choiceRow{{"menu", "HTP0", "CPU", true, "phase-free"},
		{"hot", "HTP0", "HTP0", false, "heat"}}, Refused: []refusedJSON{{"GPU0", "GPU0", "too\x1b large"}}})
	want := `
auto, by what was measured:
 when  prefill        decode  rule
 menu  HTP0, no copy  CPU     phase-free
 hot   HTP0           HTP0    heat
not offered: prefill on GPU0, decode on GPU0: too� large
`
	if got := c.out.String(); got != want {
		t.Errorf("%s", got)
	}
}
