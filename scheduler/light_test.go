package scheduler

import (
	"testing"
	"time"
)

// A light menu is believed after half a second; whatever speaks against it ends
// that at once.
func TestLight(t *testing.T) {
	const target = 16 * time.Millisecond
	menu := func(share float64) *FrameSample {
		return &FrameSample{Phase: PhaseMenu, Target: target, MainBusy: time.Duration(share * float64(target))}
	}
	both := menu(0.1)
	both.RenderBusy = target
	play := menu(0.1)
	play.Phase = PhaseExplore
	for name, c := range map[string]struct {
		s         *FrameSample
		late, hot bool
		want      bool
	}{
		"as before":           {s: menu(0.2), want: true},
		"a little more":       {s: menu(0.4), want: true},
		"half a frame":        {s: menu(0.51)},
		"the render thread":   {s: both},
		"not measured":        {s: menu(0)},
		"play goes on":        {s: play},
		"a late frame":        {s: menu(0.1), late: true},
		"heat":                {s: menu(0.1), hot: true},
		"a target of nothing": {s: &FrameSample{Phase: PhaseMenu, MainBusy: time.Millisecond}},
	} {
		var l light
		for i := range lightFrames {
			if on := l.next(menu(0.1), false, false); on != (i == lightFrames-1) {
				t.Fatalf("frame %d: %v", i, on)
			}
		}
		if got := l.next(c.s, c.late, c.hot); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
		if !c.want && l.next(menu(0.1), false, false) {
			t.Errorf("%s: one light frame is enough to come back", name)
		}
	}
	var l light
	for range 10 * lightFrames {
		if l.next(menu(0.4), false, false) {
			t.Fatal("neither light nor heavy is taken for light")
		}
	}
}
