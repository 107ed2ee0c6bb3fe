package ctest

import (
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/lull-npc/lull/internal/testassets"
)

var busyLine = regexp.MustCompile(`(?s)frame_begin .*\nframe_end .*\npoll_events .*\nsum .*\n` +
	`busy: frames (\d+), late \d+, texts (\d+), replies \d+\n`)

// TestBusy logs what the calls of a frame take of the game thread while two
// threads of the game compute and a character talks: percentiles of each call and
// of their sum. No time is asserted, only that every call succeeds, text comes
// and the host ends. In a soak the model is real, and the threads compute for 11
// of 16.7 ms, which leaves it little. To measure,
//
//	LULL_SOAK=1 go test ./bindings/ctest -run Busy -v -count 1
func TestBusy(t *testing.T) {
	program := compileC(t, "busy")
	t.Run("scripted", func(t *testing.T) { busy(t, program, "scripted", 40, "2") })
	t.Run("real", func(t *testing.T) {
		if !soak() {
			t.Skip("the model and the host's threads want every core: set LULL_SOAK=1")
		}
		testassets.Locate(t)
		busy(t, program, "real", 3600, "11")
	})
}

func busy(t *testing.T, program, kind string, frames int, workMS string) {
	t.Helper()
	out := command(t, 5*time.Minute, nil, program, kind, strconv.Itoa(frames), workMS)
	m := busyLine.FindStringSubmatch(out)
	if m == nil {
		t.Fatalf("unexpected: %s", out)
	}
	t.Logf("%d ms of work each:\n%s", atoi(t, workMS), strings.TrimSpace(out))
	if played, texts := atoi(t, m[1]), atoi(t, m[2]); played < frames || texts == 0 {
		t.Errorf("%d frames of %d were played, and text came %d times", played, frames, texts)
	}
}

func atoi(t *testing.T, text string) int {
	t.Helper()
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	return n
}
