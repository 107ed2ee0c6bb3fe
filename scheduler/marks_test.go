package scheduler

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

const msec = Instant(time.Millisecond)

// marks60 has made frame 1 of 10 ms at 60 Hz from 0, with windows on.
func marks60() *Marks {
	m := new(Marks)
	m.Begin(1, 16*time.Millisecond, 0)
	m.End(1, 16*msec, 10*msec)
	m.Plan(Decision{Gate: GateWindow, Margin: time.Millisecond, OpenAfter: AtFrameEnd})
	return m
}

func TestMarksWindows(t *testing.T) {
	m := marks60()
	// Begin shuts, End opens until the deadline less the margin.
	w, out := m.Begin(2, 16*time.Millisecond, 16*msec)
	if out != MarkOK || w.Close >= w.Open || w.Gate != GateWindow {
		t.Errorf("begin: %+v %v: want shut", w, out)
	}
	s, out := m.End(2, 0, 27*msec)
	if out != MarkOK || s.Deadline != 32*msec || s.Start != 16*msec || s.End != 27*msec || !s.Marked {
		t.Errorf("end: %+v %v", s, out)
	}
	w = m.Plan(Decision{Gate: GateWindow, Margin: time.Millisecond, OpenAfter: 4 * time.Millisecond})
	if w.Open != 27*msec || w.Close != 31*msec {
		t.Errorf("plan: %+v: want [27, 31] ms", w)
	}
	m.Delay = msec.Sub(0) // a window that ends before it would open is shut
	if w = m.Plan(Decision{Gate: GateWindow, OpenAfter: AtFrameEnd}); w.Open != 28*msec {
		t.Errorf("plan with a delay: %+v: want [28, 32] ms", w)
	}
	if w = m.Plan(Decision{Gate: GateWindow, OpenAfter: AtFrameEnd, Margin: 5 * time.Millisecond}); w.Close >= w.Open {
		t.Errorf("plan with a delay longer than the window: %+v: want shut", w)
	}
	m.Delay = 0
	m.Plan(Decision{Gate: GateWindow, Margin: time.Millisecond, OpenAfter: 4 * time.Millisecond})
	// OpenAfter opens beside the game's work.
	if w, _ = m.Begin(3, 16*time.Millisecond, 32*msec); w.Open != 36*msec || w.Close != 47*msec {
		t.Errorf("begin with OpenAfter: %+v: want [36, 47] ms", w)
	}
	// A late frame waits for the next line of the grid.
	if s, _ = m.End(3, 0, 50*msec); overrun(&s) != 2*time.Millisecond {
		t.Errorf("overrun %v: want 2ms", overrun(&s))
	}
	if w = m.Plan(Decision{Gate: GateWindow, OpenAfter: AtFrameEnd}); w.Open != 50*msec || w.Close != 64*msec {
		t.Errorf("plan after a late frame: %+v: want [50, 64] ms", w)
	}
	// A game that begins before the line is learned at once, and unlearned slowly.
	m.Begin(4, 16*time.Millisecond, 58*msec)
	m.End(4, 0, 60*msec)
	if w = m.Plan(Decision{Gate: GateWindow, OpenAfter: AtFrameEnd}); w.Close != 68*msec {
		t.Errorf("plan of an early beginner: close %d: want 74 - 6 ms", w.Close)
	}
	m.Begin(5, 16*time.Millisecond, 74*msec)
	if m.early != 6*time.Millisecond-6*time.Millisecond/8 {
		t.Errorf("early %v: want 7/8 of 6ms", m.early)
	}
	for _, g := range []Gate{GateFree, GatePaced, GateClosed} {
		w = m.Plan(Decision{Gate: g, Pause: 3})
		if w != (Window{Gate: g, Pause: 3, Expires: (74 + 500) * msec}) {
			t.Errorf("plan %v: %+v", g, w)
		}
	}
}

// A game that goes on to begin frames and ends none, after some that it did end,
// does not keep the gate shut for ever: half a second later it is free, until a
// frame ends again.
func TestMarksThatNeverEndFreeTheGate(t *testing.T) {
	m := marks60()
	now := 16 * msec
	for id := uint64(2); id < 100; id++ {
		w, _ := m.Begin(id, 16*time.Millisecond, now)
		m.End(id-1, 0, now+msec) // that of the frame before comes too late to count
		v, _ := Admit(now+10*msec, now, w, 0, false)
		if free := now+10*msec >= 516*msec; (v == Go) != free {
			t.Fatalf("frame %d at %d ms: %v in %+v: want the gate shut until 516 ms, free from then on", id,
				now/msec, v, w)
		}
		now += 16 * msec
	}
	m.End(99, 0, now-6*msec)
	m.Plan(Decision{Gate: GateWindow, OpenAfter: AtFrameEnd})
	if w, _ := m.Begin(100, 16*time.Millisecond, now); w.Expires != now+500*msec || w.Close >= w.Open {
		t.Errorf("after an end: %+v: want a shut window that holds for half a second", w)
	}
}

// TestMarksIgnored: a mark that does not count leaves the window as it is.
func TestMarksIgnored(t *testing.T) {
	m := marks60()
	open := m.stands
	if w, out := m.Begin(1, 16*time.Millisecond, 12*msec); out.Taken() || w != open || w.Close != 15*msec {
		t.Errorf("a begin made twice: %+v %v, want %+v to stand", w, out, open)
	}
}

func TestMarksOutcomes(t *testing.T) {
	const target = 16 * time.Millisecond
	begin := func(id uint64, now Instant) func(*Marks) MarkOutcome {
		return func(m *Marks) MarkOutcome { _, out := m.Begin(id, target, now); return out }
	}
	end := func(id uint64, deadline, now Instant) func(*Marks) MarkOutcome {
		return func(m *Marks) MarkOutcome { _, out := m.End(id, deadline, now); return out }
	}
	timings := func(id uint64) func(*Marks) MarkOutcome {
		return func(m *Marks) MarkOutcome { _, out := m.Timings(id, FrameTimings{GPUBusy: 1}); return out }
	}
	for _, c := range []struct {
		name string
		do   []func(*Marks) MarkOutcome // the last one counts
		want MarkOutcome
	}{
		{"next", []func(*Marks) MarkOutcome{begin(2, 16*msec)}, MarkOK},
		{"again", []func(*Marks) MarkOutcome{begin(1, 16*msec)}, MarkDuplicate},
		{"skipped", []func(*Marks) MarkOutcome{begin(5, 16*msec)}, MarkGap},
		{"lower", []func(*Marks) MarkOutcome{begin(5, 16*msec), begin(3, 17*msec)}, MarkOutOfOrder},
		{"restart", []func(*Marks) MarkOutcome{begin(500, 16*msec), begin(3, 17*msec)}, MarkRestarted},
		{"no end", []func(*Marks) MarkOutcome{begin(2, 16*msec), begin(3, 32*msec)}, MarkNoEnd},
		{"clock", []func(*Marks) MarkOutcome{begin(2, 9*msec)}, MarkClockBack},
		{"end without begin", []func(*Marks) MarkOutcome{end(2, 0, 20*msec)}, MarkNoBegin},
		{"end again", []func(*Marks) MarkOutcome{end(1, 0, 20*msec)}, MarkDuplicate},
		{"end of an older", []func(*Marks) MarkOutcome{begin(2, 16*msec), begin(3, 17*msec), end(2, 0, 20*msec)},
			MarkOutOfOrder},
		{"end before begin", []func(*Marks) MarkOutcome{begin(2, 16*msec), end(2, 0, 15*msec)}, MarkClockBack},
		{"absurd deadline", []func(*Marks) MarkOutcome{begin(2, 16*msec), end(2, Forever, 20*msec)}, MarkBadDeadline},
		{"timings", []func(*Marks) MarkOutcome{timings(1)}, MarkOK},
		{"early timings", []func(*Marks) MarkOutcome{begin(2, 16*msec), timings(2)}, MarkEarly},
		{"unknown timings", []func(*Marks) MarkOutcome{timings(9)}, MarkUnknownFrame},
		{"old timings", []func(*Marks) MarkOutcome{begin(1+markRing, 16*msec), timings(1)}, MarkUnknownFrame},
	} {
		m := marks60()
		var got MarkOutcome
		for _, f := range c.do {
			got = f(m)
		}
		if got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

// TestMarksJoin: timings find their frame by id, four frames later, and fill
// in without forgetting.
func TestMarksJoin(t *testing.T) {
	m := new(Marks)
	for id := uint64(1); id <= 6; id++ {
		begin := Instant(id) * 16 * msec
		m.Begin(id, 16*time.Millisecond, begin)
		if id == 3 {
			m.Timings(id, FrameTimings{MainBusy: 5})
		}
		m.End(id, 0, begin+10*msec)
	}
	s, out := m.Timings(3, FrameTimings{GPUBusy: 7, PresentWait: 2, PresentWaitKnown: true})
	if out != MarkOK || s.Frame != 3 || s.MainBusy != 5 || s.GPUBusy != 7 || s.PresentWait != 2 || s.Start != 48*msec {
		t.Errorf("joined: %+v %v", s, out)
	}
}

// TestMarksNeverOpenInWork: whatever the marks, with OpenAfter at FrameEnd no
// layer that is admitted begins between a begin and its end.
func TestMarksNeverOpenInWork(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var m Marks
		now := Instant(rapid.Int64().Draw(t, "start"))
		for i := range 40 {
			id := uint64(i + rapid.IntRange(-3, 3).Draw(t, "id"))
			target := time.Duration(rapid.OneOf(rapid.Int64Range(-1, 40e6), rapid.Int64()).Draw(t, "target"))
			w, out := m.Begin(id, target, now)
			if !out.Taken() {
				continue
			}
			inside := now.Add(time.Duration(rapid.Int64Range(0, 30e6).Draw(t, "work")))
			if v, _ := Admit(inside, now, w, 0, false); v == Go && w.Gate == GateWindow {
				t.Fatalf("admitted at %d by %+v, in the game's work", inside, w)
			}
			deadline := Instant(rapid.OneOf(rapid.Just(int64(0)), rapid.Int64()).Draw(t, "deadline"))
			m.End(id, deadline, inside)
			m.Timings(id, FrameTimings{GPUBusy: target})
			m.Plan(Decision{Gate: GateWindow, OpenAfter: AtFrameEnd,
				Margin: time.Duration(rapid.Int64().Draw(t, "margin"))})
			now = inside.Add(time.Duration(rapid.Int64Range(-5e6, 60e6).Draw(t, "gap")))
		}
	})
}
