package llamacpp

import (
	"errors"
	"runtime"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lull-npc/lull/runtime/llm"
)

// published runs publish on a second goroutine once the model waits at its
// gate, and keeps running it until the returned function is called: whether
// one window is enough is the model's affair.
func whileWaiting(m *Model, publish func()) (done func()) {
	var stop atomic.Bool
	finished := make(chan struct{})
	go func() {
		defer close(finished)
		for !stop.Load() {
			publish()
		}
	}()
	return func() { stop.Store(true); <-finished }
}

func TestGateSamplesEachLayer(t *testing.T) {
	m := open(t, nil)
	s, _ := m.NewSequence()
	greedy(t, m, tokens(t, m, "Hello", false), 1) // the first head is whole, to learn its slices from
	for _, stride := range []int{1, 2, 7, m.info.Layers, 0} {
		m.Gate().Publish(llm.Window{Mode: llm.GateFree, LayersPerStop: stride})
		var b llm.Batch
		b.Add(s, tokens(t, m, "Hello", false)[0], true)
		w, err := m.Decode(&b, llm.Grant{Threads: 1})
		if err != nil {
			t.Fatal(err)
		}
		next, slices := int16(0), 0
		for _, x := range w.Samples {
			if int(x.First) == m.info.Layers && int(x.Last) == m.info.Layers {
				next = x.First // each slice of the head is a sample of its own
				slices++
			}
			if x.First != next || x.Last < x.First || x.Duration <= 0 || x.Width != 1 || x.Threads != 1 {
				t.Fatalf("stride %d: sample %+v, want it to begin at layer %d", stride, x, next)
			}
			next = x.Last + 1
		}
		if int(next) != m.info.Layers+1 {
			t.Errorf("stride %d: samples end before layer %d, want the head (%d) last", stride, next, m.info.Layers)
		}
		asked, samples, head := 1, 1, 0 // everything in one go, and the question at the entrance
		if stride > 0 && stride < m.info.Layers {
			groups := func(n int) int { return (n + stride - 1) / stride }
			head = max(m.head.count, 1)
			asked, samples = groups(m.info.Layers)+groups(head), groups(m.info.Layers)+head
		}
		if w.Stops != asked || len(w.Samples) != samples || slices != head {
			t.Errorf("stride %d: asked %d times, %d samples, %d of the head, want %d, %d and %d", stride, w.Stops,
				len(w.Samples), slices, asked, samples, head)
		}
	}
}

// In a window, groups are as long as half of what is left of it: one whose half
// holds all layers needs one group for them, whatever LayersPerStop says, unless
// that asks for a look after each.
func TestWindowsTakeLongGroups(t *testing.T) {
	m := open(t, nil)
	prompt := tokens(t, m, "Hello", false)
	greedy(t, m, prompt, 2) // layers and slices of the head are known from here on
	s, _ := m.NewSequence()
	for _, x := range []struct{ perStop, groups int }{{2, 1}, {0, 1}, {1, m.info.Layers}} {
		now := m.opt.Clock.Now()
		m.Gate().Publish(llm.Window{Mode: llm.GateWindow, Open: now, Close: now + 3600e9, LayersPerStop: x.perStop})
		var b llm.Batch
		b.Add(s, prompt[0], true)
		w, err := m.Decode(&b, llm.Grant{Threads: 1})
		if err != nil {
			t.Fatal(err)
		}
		groups := 0
		for _, sample := range w.Samples {
			if int(sample.First) < m.info.Layers {
				groups++
			}
		}
		if groups != x.groups {
			t.Errorf("%d layers a stop: %d groups in an endless window, want %d", x.perStop, groups, x.groups)
		}
	}
}

func TestClosedGateWaitsAndStopEndsIt(t *testing.T) {
	m := open(t, nil)
	prompt := tokens(t, m, "The blacksmith looked up and said", false)
	want := greedy(t, m, prompt, 8)
	s, _ := m.NewSequence()
	m.Gate().Publish(llm.Window{Mode: llm.GateClosed})
	done := whileWaiting(m, m.Stop)
	var b llm.Batch
	for _, tok := range prompt {
		b.Add(s, tok, false)
	}
	w, err := m.Decode(&b, llm.Grant{})
	done()
	if !errors.Is(err, llm.ErrStopped) || !w.Stopped || len(s.Tokens()) != 0 {
		t.Fatalf("stopped at a closed gate: err %v, stopped %v, %d tokens kept", err, w.Stopped, len(s.Tokens()))
	}
	m.Resume()
	m.Gate().Publish(llm.Window{})
	got, err := continueGreedy(m, s, prompt, 8)
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("after a stop: %v (%v), want %v", got, err, want)
	}
}

// A new window costs a system call where a model sleeps before the gate, and none
// where nobody does or the window is shut.
func TestOnlyASleeperIsWoken(t *testing.T) {
	if GateKind != "C" || runtime.GOOS != "linux" {
		t.Skip("only the gate in C on Linux counts its system calls")
	}
	m := open(t, nil)
	waker := m.Gate().(llm.Waker)
	s, _ := m.NewSequence()
	m.Gate().Publish(llm.Window{Mode: llm.GateClosed})
	m.Gate().Publish(llm.Window{Mode: llm.GateWindow, Open: 2, Close: 1})
	if n, took := waker.Woken(); n != 0 || took != 0 {
		t.Fatalf("%d calls of %v while nobody decodes", n, took)
	}
	rest := llm.Window{Mode: llm.GatePaced, Pause: 1000 * time.Hour}
	m.Gate().Publish(rest)
	done := whileWaiting(m, func() {
		if m.Gate().Publish(rest); calls(waker) > 0 {
			m.Gate().Publish(llm.Window{})
		}
	})
	var b llm.Batch
	b.Add(s, tokens(t, m, "Once", false)[0], false)
	_, err := m.Decode(&b, llm.Grant{})
	done()
	if n, took := waker.Woken(); err != nil || n == 0 || took <= 0 {
		t.Errorf("a sleeping model was told twice: %d calls of %v in all (decode: %v)", n, took, err)
	}
}

func calls(w llm.Waker) uint64 {
	n, _ := w.Woken()
	return n
}

// Windows of any length give the same tokens as no gate at all, and the ledger
// holds through every stop.
func TestWindowsChangeNothingInTheReply(t *testing.T) {
	m := open(t, nil)
	prompt := tokens(t, m, "Once upon a time in a village by the sea", false)
	want := greedy(t, m, prompt, 12)
	clock := m.opt.Clock
	m.Gate().Publish(llm.Window{Mode: llm.GateWindow})
	done := whileWaiting(m, func() {
		now := clock.Now()
		m.Gate().Publish(llm.Window{Mode: llm.GateWindow, Open: now, Close: now + 3e6, LayersPerStop: 1})
		clock.WaitUntil(now+2e6, nil)
		m.Gate().Publish(llm.Window{Mode: llm.GateWindow, LayersPerStop: 1})
	})
	defer done()
	got := greedy(t, m, prompt, 12)
	if !slices.Equal(got, want) {
		t.Errorf("inside windows: %v, want %v", got, want)
	}
}

func TestTentativeWorkStopsAtAClosedGate(t *testing.T) {
	m := open(t, nil)
	s, _ := m.NewSequence()
	b := llm.Batch{Tentative: true}
	b.Add(s, 5, true)
	m.Gate().Publish(llm.Window{Mode: llm.GateClosed})
	if w, err := m.Decode(&b, llm.Grant{}); !errors.Is(err, llm.ErrStopped) || !w.Stopped {
		t.Fatalf("tentative at a closed gate: %v", err)
	}
	m.Gate().Publish(llm.Window{Mode: llm.GateFree})
	if _, err := m.Decode(&b, llm.Grant{}); err != nil || len(s.Tokens()) != 1 {
		t.Fatalf("after the gate opened: %v, %d tokens", err, len(s.Tokens()))
	}
}

// A gate that shuts ends tentative work in the middle of a graph that nobody
// asks about layers, and lets work that has been promised go on.
func TestAShutGateDropsTentativeWorkAtOnce(t *testing.T) {
	for _, tentative := range []bool{true, false} {
		m := open(t, nil)
		s, _ := m.NewSequence()
		b := llm.Batch{Tentative: tentative}
		for i := range 64 {
			b.Add(s, llm.Token(5+i%7), i == 63)
		}
		shut := make(chan struct{})
		var over atomic.Bool
		go func() {
			defer close(shut)
			for running := false; !running && !over.Load(); {
				m.opt.Clock.WaitUntil(m.opt.Clock.Now()+100_000, nil)
				running, _ = m.Gate().Activity()
			}
			m.Gate().Publish(llm.Window{Mode: llm.GateClosed, Expires: m.opt.Clock.Now() + 300e9})
			if !tentative {
				m.Gate().Publish(llm.Window{}) // the head would wait
			}
		}()
		w, err := m.Decode(&b, llm.Grant{})
		over.Store(true)
		<-shut
		if w.Stopped != tentative || errors.Is(err, llm.ErrStopped) != tentative {
			t.Errorf("tentative %v: stopped %v, %v", tentative, w.Stopped, err)
		}
		if want := map[bool]int{true: 0, false: 64}[tentative]; len(s.Tokens()) != want {
			t.Errorf("tentative %v: %d tokens kept, want %d", tentative, len(s.Tokens()), want)
		}
		m.Gate().Publish(llm.Window{})
		b.Reset()
		b.Tentative = tentative
		b.Add(s, 5, true)
		if _, err := m.Decode(&b, llm.Grant{}); err != nil {
			t.Errorf("tentative %v, once the gate is free: %v", tentative, err)
		}
	}
}

// A draft that sleeps until a window which comes soon is told when the gate closes:
// it may not run any more, and who decodes wants to go on.
func TestAClosedGateEndsAWaitingDraft(t *testing.T) {
	m := open(t, nil)
	s, _ := m.NewSequence()
	b := llm.Batch{Tentative: true}
	b.Add(s, 5, true)
	soon := m.opt.Clock.Now() + 3600e9
	m.Gate().Publish(llm.Window{Mode: llm.GateWindow, Open: soon, Close: soon + 1e9})
	var over atomic.Bool
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		m.opt.Clock.WaitUntil(m.opt.Clock.Now()+20e6, nil) // it sleeps by now, or sees the closed gate at once
		m.Gate().Publish(llm.Window{Mode: llm.GateClosed})
		for begin := m.opt.Clock.Now(); !over.Load() && m.opt.Clock.Now() < begin+10e9; {
			m.opt.Clock.WaitUntil(m.opt.Clock.Now()+1e6, nil)
		}
		m.Gate().Publish(llm.Window{})
	}()
	w, err := m.Decode(&b, llm.Grant{})
	over.Store(true)
	<-closed
	if !w.Stopped || !errors.Is(err, llm.ErrStopped) {
		t.Errorf("the draft slept on before a closed gate: stopped %v, %v", w.Stopped, err)
	}
}

// A stop from another goroutine at any moment leaves the cache as the ledger
// says: the tokens afterwards are those of an undisturbed run.
func TestStopAnywhereKeepsTheLedger(t *testing.T) {
	m := open(t, nil)
	prompt := tokens(t, m, "A list of things in the shop: bread, cheese, a rope, two lanterns and", false)
	want := greedy(t, m, prompt, 16)
	s, _ := m.NewSequence()
	sampler, _ := m.NewSampler(llm.Sampling{})
	stopped := 0
	step := func(b *llm.Batch) {
		for wait := int64(2e6); ; wait *= 2 { // each try is left alone for longer, so one succeeds
			before := len(s.Tokens())
			enough, finished := make(chan struct{}, 1), make(chan struct{})
			go func() {
				defer close(finished)
				m.opt.Clock.WaitUntil(m.opt.Clock.Now()+wait, enough)
				m.Stop()
			}()
			_, err := m.Decode(b, llm.Grant{})
			enough <- struct{}{}
			<-finished
			m.Resume()
			if err == nil {
				return
			}
			if !errors.Is(err, llm.ErrStopped) || len(s.Tokens()) != before {
				t.Fatalf("%v, %d tokens became %d", err, before, len(s.Tokens()))
			}
			stopped++
		}
	}
	var b llm.Batch
	for i, tok := range prompt {
		b.Reset()
		b.Add(s, tok, i == len(prompt)-1)
		step(&b)
	}
	var got []llm.Token
	for range 16 {
		next, err := sampler.Sample(0)
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, next)
		b.Reset()
		b.Add(s, next, true)
		step(&b)
	}
	t.Logf("stopped %d times", stopped)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("tokens after stops differ (-want +got):\n%s", diff)
	}
}
