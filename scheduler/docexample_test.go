package scheduler

import (
	"math"
	"testing"
	"time"
)

// The numbers that the package's comment works out are those of the code.
func TestNumbersOfTheComment(t *testing.T) {
	const target, work = 16667 * time.Microsecond, 11 * time.Millisecond
	c := lowPriority(t, nil)
	allowed := c.lateness.ownRate() + c.allowance()
	near := func(what string, got, want, by float64) {
		if math.Abs(got-want) > by {
			t.Errorf("%s: %v, and the comment says %v", what, got, want)
		}
	}
	near("p*", allowed, 0.011, 1e-9)
	c.loop.set(0.4)
	late := c.loop
	late.next(frameError{on: true, late: true, allowed: allowed})
	near("what a late frame costs", 0.4-late.openness, 0.0989, 1e-9)
	punctual, banked := c.loop, c.loop
	punctual.next(frameError{on: true, allowed: allowed})
	near("what a punctual one returns", punctual.openness-0.4, 0.0011, 1e-9)
	banked.next(frameError{on: true, allowed: allowed, debt: -debtBanked})
	near("and with a late frame banked", banked.openness-0.4, 4*0.0011, 1e-9)
	frames := 0
	for l := c.lateness; l.debt > -debtBanked; frames++ {
		l.on(false, allowed)
	}
	near("seconds until one is banked", float64(frames)*target.Seconds(), 1.5, 0.05)

	for _, x := range []struct {
		openness    float64
		open, close time.Duration // of the window that stands in the game's work, or after it
	}{{0.25, 11 * time.Millisecond, 15 * time.Millisecond}, {0.75, 5500 * time.Microsecond, target}} {
		var d Decision
		var m Marks
		s := FrameSample{Target: target, End: Instant(work)}
		(&actuators{}).aim(&c.cfg, &d, x.openness, &s, work, true)
		m.Begin(1, target, 0)
		m.End(1, 0, Instant(work))
		w := m.Plan(d)
		if d.OpenAfter != AtFrameEnd {
			w, _ = m.Begin(2, target, Instant(target))
			w.Open, w.Close = w.Open-Instant(target), w.Close-Instant(target)
		}
		near("ms at which the window opens", float64(w.Open)/1e6, x.open.Seconds()*1e3, 0.01)
		near("ms at which it shuts", float64(w.Close)/1e6, x.close.Seconds()*1e3, 0.01)
		const group = 400 * time.Microsecond
		if v, _ := Admit(w.Close.Add(-group), 0, w, group, false); v != Go {
			t.Errorf("a group of 0.4 ms may not begin 0.4 ms before %+v shuts", w)
		}
	}
	if room := target - work; room < takeBack {
		t.Errorf("the example's room of %v is less than TakeBack: openness could not be 0.75", room)
	}
}
