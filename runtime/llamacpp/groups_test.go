package llamacpp

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/lull-npc/lull/runtime/llm"
)

// groupCase is a question at the gate, in seconds: what a test takes to ask it is
// nothing beside them. Layers and slices take whole seconds, windows end a quarter
// of one later, so that no sum lies at a bound.
type groupCase struct {
	w            llm.Window
	predict      []int64 // each layer, then a slice of the head
	slicing      bool
	slice, count int
}

const second = int64(time.Second)

// want is the rule in words: the first layer or slice must fit into what is left of
// a window, or be let in by Spill; the group goes on as long as its sum fits into
// half of that, or for as many as LayersPerStop says where no window stands.
func (c *groupCase) want(left int64) (last int, ok bool) {
	layers := len(c.predict) - 1
	first, limit := 0, layers
	if c.slicing {
		first, limit = layers+c.slice, layers+c.count
	}
	takes := func(i int) int64 { return c.predict[min(i, layers)] }
	window := c.w.Mode == llm.GateWindow && c.w.Expires == 0
	stride := c.w.LayersPerStop
	if stride < 1 || stride > layers {
		stride = layers
	}
	end := min(first+stride, limit) - 1
	halving := c.w.Mode == llm.GateWindow && c.w.LayersPerStop != 1 && left > 0
	if halving {
		end = limit - 1
	}
	sum := takes(first)
	if window && (left < 0 || sum > left && !(c.w.Spill && left >= (c.w.Close-c.w.Open)/4*3)) {
		return 0, false
	}
	for last = first; last < end; last++ {
		sum += takes(last + 1)
		if halving && 2*sum > left || window && sum > left {
			break
		}
	}
	return last, true
}

// The gate in C and the one in Go form the same groups, in every kind of window:
// both builds run this test, against one rule.
func TestGroupsAreThoseOfTheRule(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		layers := rapid.IntRange(1, 12).Draw(t, "layers")
		clock := llm.NewClock()
		g, err := newGate(clock, admit)
		if err != nil {
			t.Fatal(err)
		}
		h, err := newHook(g, layers)
		if err != nil {
			t.Fatal(err)
		}
		defer h.release()
		c := groupCase{slicing: rapid.Bool().Draw(t, "slicing"), count: rapid.IntRange(2, 8).Draw(t, "slices")}
		for range layers + 1 {
			c.predict = append(c.predict, second*rapid.Int64Range(0, 5).Draw(t, "predicted"))
		}
		c.slice = rapid.IntRange(0, c.count-1).Draw(t, "slice")
		now := clock.Now()
		left := second*rapid.Int64Range(-1, 40).Draw(t, "left") + second/4
		c.w = llm.Window{Mode: llm.GateMode(rapid.IntRange(0, 2).Draw(t, "mode")),
			LayersPerStop: rapid.IntRange(-1, layers+1).Draw(t, "per stop"), Spill: rapid.Bool().Draw(t, "spill"),
			Open: now - second*rapid.Int64Range(0, 9).Draw(t, "open for"), Close: now + left}
		if rapid.Bool().Draw(t, "expired") {
			c.w.Expires = max(now, 1)
		}
		want, ok := c.want(left)
		if !ok {
			t.Skip("it would wait")
		}
		h.prepare(&c)
		g.Publish(c.w)
		if !h.enter(1, 1, false) || h.lastOfGroup() != want {
			t.Fatalf("the group ends at %d, want %d: %+v, %d s left", h.lastOfGroup(), want, c, left/second)
		}
	})
}

// A window that opens just when a model goes to sleep at the gate wakes it, however
// the two meet: no wake is lost, though shut windows wake nobody.
func TestNoWakeIsLost(t *testing.T) {
	clock := llm.NewClock()
	g, err := newGate(clock, admit)
	if err != nil {
		t.Fatal(err)
	}
	h, err := newHook(g, 4)
	if err != nil {
		t.Fatal(err)
	}
	defer h.release()
	const hour = 3600 * second
	ask, answer := make(chan struct{}), make(chan bool)
	defer close(ask)
	go func() {
		for range ask {
			answer <- h.enter(1, 1, false)
		}
	}()
	for i := range 1500 {
		shut := llm.Window{Mode: llm.GateWindow, Open: 1, Expires: clock.Now() + hour}
		g.Publish(shut)
		ask <- struct{}{}
		for range i % 300 { // of various length, and no sleep: who asks meets who opens
			clock.Now()
		}
		if i%3 == 0 {
			g.Publish(shut)
		}
		now := clock.Now()
		g.Publish(llm.Window{Mode: llm.GateWindow, Open: now + int64(i%5)*10_000, Close: now + hour})
		select {
		case ok := <-answer:
			if !ok {
				t.Fatalf("round %d: stopped", i)
			}
		case <-time.After(30 * time.Second):
			t.Fatalf("round %d: a model sleeps through an open window", i)
		}
	}
}
