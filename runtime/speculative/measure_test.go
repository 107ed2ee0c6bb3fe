package speculative_test

import (
	"bytes"
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lull-npc/lull/runtime/llm"
	"github.com/lull-npc/lull/runtime/scripted"
	"github.com/lull-npc/lull/runtime/speculative"
)

func clocked(t *testing.T, cost scripted.Cost, change func(*scripted.Config)) *scripted.Model {
	t.Helper()
	cfg := scripted.Config{Clock: scripted.NewClock(0), Cost: cost, Layers: 30, Threads: 2}
	if change != nil {
		change(&cfg)
	}
	m, err := scripted.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// TestMeasure finds the formula of the scripted model again, in virtual time,
// though it is disturbed an eighth of the time.
func TestMeasure(t *testing.T) {
	cost := scripted.SmolLM2()
	cost.Contention = func(now int64) float64 {
		if now/int64(50*time.Millisecond)%8 == 0 {
			return 3
		}
		return 0
	}
	draftCost := scripted.SmolLM2()
	draftCost.LayerNS, draftCost.TokenNS, draftCost.TailNS = cost.LayerNS/4, cost.TokenNS/4, cost.TailNS/4
	m := clocked(t, cost, nil)
	steps := 0
	got, err := speculative.Measure(context.Background(), m, speculative.MeasureConfig{
		Threads: []int{2, 1, 9}, Widths: []int{8, 2, 4, 4}, Rounds: 31, Budget: time.Hour,
		Draft: clocked(t, draftCost, nil),
		Progress: func(done, of int) {
			if steps++; done != steps || of != 3*32*4 {
				t.Errorf("step %d is told as %d of %d", steps, done, of)
			}
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(got.Rows) != 2 || got.Rows[0].Threads != 1 || got.Rows[1].Threads != 2 {
		t.Fatalf("%+v, want rows for 1 and 2 threads", got)
	}
	for _, r := range got.Rows {
		want := likeCPU().Rows[0]
		speed := 1 + 0.6*float64(r.Threads-1)
		if off := r.Token.Seconds()*speed/want.Token.Seconds() - 1; math.Abs(off) > 0.01 {
			t.Errorf("%d threads: a token takes %v, off by %.0f %%", r.Threads, r.Token, 100*off)
		}
		for _, w := range []int{1, 2, 4, 8} {
			if off := r.Ratio(w)/want.Ratio(w) - 1; math.Abs(off) > 0.1 {
				t.Errorf("%d threads: width %d takes %.2f tokens, want %.2f", r.Threads, w, r.Ratio(w), want.Ratio(w))
			}
		}
		if math.Abs(r.Draft-0.25) > 0.03 {
			t.Errorf("%d threads: a draft takes %.2f tokens, want 0.25", r.Threads, r.Draft)
		}
	}
	for range m.Info().MaxSequences {
		if _, err := m.NewSequence(); err != nil {
			t.Fatalf("a sequence is left open: %v", err)
		}
	}
}

// TestMeasureBudget: a slow machine has fewer rounds, one that stands still is
// not measured.
func TestMeasureBudget(t *testing.T) {
	for _, c := range []struct {
		slower float64
		rounds int // of 1+2+4+6+8 tokens, the first one included; 0: refused
	}{{1, 10}, {3, 7}, {8, 4}, {50, 0}} { // 0.154 s a round at first
		cost := scripted.SmolLM2()
		cost.LayerNS, cost.TokenNS, cost.TailNS = c.slower*cost.LayerNS, c.slower*cost.TokenNS, c.slower*cost.TailNS
		m := clocked(t, cost, func(cfg *scripted.Config) { cfg.Threads = 1 })
		batches := 0
		_, err := speculative.Measure(context.Background(), m, speculative.MeasureConfig{
			Progress: func(int, int) { batches++ },
		})
		if c.rounds == 0 {
			if !errors.Is(err, speculative.ErrBusy) {
				t.Errorf("%v times slower: %v", c.slower, err)
			}
		} else if err != nil || batches != 5*c.rounds {
			t.Errorf("%v times slower: %d batches, %v; want %d", c.slower, batches, err, 5*c.rounds)
		}
	}
}

func TestMeasureRefuses(t *testing.T) {
	boom := errors.New("boom")
	cancelled, cancel := context.WithCancelCause(context.Background())
	cancel(boom)
	stopped := clocked(t, scripted.SmolLM2(), nil)
	stopped.Stop()
	liar := newTiny(5)
	liar.lies = true
	for _, c := range []struct {
		name string
		ctx  context.Context
		m    llm.Model
		cfg  speculative.MeasureConfig
		want string
	}{
		{"cancelled", cancelled, clocked(t, scripted.SmolLM2(), nil), speculative.MeasureConfig{}, "boom"},
		{"stopped", nil, stopped, speculative.MeasureConfig{}, "before the game begins"},
		{"fault", nil, clocked(t, scripted.SmolLM2(), func(c *scripted.Config) { c.Fault = scripted.FailAt(4, boom) }),
			speculative.MeasureConfig{}, "boom"},
		{"recurrent", nil, clocked(t, scripted.SmolLM2(), func(c *scripted.Config) { c.NoTruncate = true }),
			speculative.MeasureConfig{}, "take tokens back"},
		{"cleared", nil, liar, speculative.MeasureConfig{}, "cleared"},
		{"no time passes", nil, clocked(t, scripted.Cost{}, nil), speculative.MeasureConfig{}, "clock"},
		{"width", nil, newTiny(5), speculative.MeasureConfig{Widths: []int{1}}, "width 1"},
		{"wide", nil, newTiny(5), speculative.MeasureConfig{Widths: []int{33}}, "width 33"},
		{"rounds", nil, newTiny(5), speculative.MeasureConfig{Rounds: -1}, "-1 rounds"},
		{"threads", nil, newTiny(5), speculative.MeasureConfig{Threads: []int{-1}}, "-1 threads"},
		{"context", nil, newTiny(5), speculative.MeasureConfig{Context: 400}, "400 tokens"},
	} {
		if c.ctx == nil {
			c.ctx = context.Background()
		}
		if _, err := speculative.Measure(c.ctx, c.m, c.cfg); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
}

var key = speculative.Key{Model: "m", Library: "llama.cpp 1", CPU: "haswell"}

func encoded(t testing.TB, c speculative.Costs) []byte {
	t.Helper()
	b, err := speculative.Encode(nil, key, c)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestProfile(t *testing.T) {
	c := likeCPU()
	c.Rows = append(c.Rows, speculative.Row{Threads: 4, Token: time.Second, Draft: 0.5})
	b := encoded(t, c)
	got, err := speculative.Decode(b, key)
	if d := cmp.Diff(c, got); err != nil || d != "" {
		t.Fatalf("%v (-want +got):\n%s", err, d)
	}
	for name, change := range map[string]func(k *speculative.Key){
		"another model":     func(k *speculative.Key) { k.Model = "n" },
		"another draft":     func(k *speculative.Key) { k.Draft = "d" },
		"another library":   func(k *speculative.Key) { k.Library = "llama.cpp 2" },
		"another processor": func(k *speculative.Key) { k.CPU = "zen4" },
	} {
		other := key
		change(&other)
		_, err := speculative.Decode(b, other)
		if !errors.Is(err, speculative.ErrProfile) || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, data := range map[string][]byte{
		"nothing":         nil,
		"cut short":       b[:len(b)-3],
		"more":            append(slices.Clone(b), 0),
		"too much":        make([]byte, 1<<20),
		"another magic":   bytes.Replace(b, []byte("lull"), []byte("null"), 1),
		"a huge array":    {0x94, 0xdd, 0xff, 0xff, 0xff, 0xff},
		"another version": bytes.Replace(b, []byte("costs\x01"), []byte("costs\x02"), 1),
	} {
		if _, err := speculative.Decode(data, key); !errors.Is(err, speculative.ErrProfile) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := speculative.Encode(nil, key, speculative.Costs{Rows: make([]speculative.Row, 1)}); err == nil {
		t.Error("bad costs are stored")
	}
}

// FuzzProfile: any bytes give valid costs or ErrProfile.
func FuzzProfile(f *testing.F) {
	f.Add(encoded(f, likeCPU()))
	f.Add(encoded(f, speculative.Costs{}))
	f.Add([]byte{0x94, 0xdd, 0xff, 0xff, 0xff, 0xff})
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := speculative.Decode(data, key)
		if err != nil {
			if !errors.Is(err, speculative.ErrProfile) {
				t.Fatal(err)
			}
			return
		}
		if err := c.Validate(); err != nil {
			t.Fatal(err)
		}
		again, err := speculative.Decode(encoded(t, c), key)
		if d := cmp.Diff(c, again); err != nil || d != "" {
			t.Fatalf("%v %s", err, d)
		}
	})
}
