package speculative_test

import (
	"context"
	"math/rand/v2"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/lull-npc/lull/internal/testassets"
	"github.com/lull-npc/lull/runtime/assets"
	"github.com/lull-npc/lull/runtime/llamacpp"
	"github.com/lull-npc/lull/runtime/llm"
	"github.com/lull-npc/lull/runtime/speculative"
)

// openDraft opens the model in the format that it was published in behind the
// target's gate: the same vocabulary, and about nine tokens in ten the same.
func openDraft(t *testing.T, target llm.Model) scorer {
	t.Helper()
	found, err := assets.Locate(assets.Options{Model: "smollm2-135m-instruct-q4_1"})
	if err != nil {
		t.Skipf("no draft model: %v", err)
	}
	return openFile(t, found.Model.Path, target.Gate())
}

func openFile(t *testing.T, file string, gate llm.Gate) scorer {
	t.Helper()
	m, err := llamacpp.Open(context.Background(), file, llamacpp.Options{
		Clock: llm.NewClock(), Admit: llm.PlainAdmit, Context: 512, MaxSequences: 2, MaxBatch: 64, Gate: gate,
		Threads: 1, // two wait for each other at every node, for long where the machine is busy
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	return m
}

// ask lays out a conversation of one question.
func ask(t *testing.T, m llm.Model, system, user string, most int) llm.Request {
	t.Helper()
	segments, err := m.RenderChat([]llm.Turn{{Role: llm.System, Text: system}, {Role: llm.User, Text: user}}, true)
	if err != nil {
		t.Fatal(err)
	}
	prompt, _, err := llm.TokenizeChat(m, segments)
	if err != nil {
		t.Fatal(err)
	}
	return llm.Request{Owner: "mira", Prompt: prompt, MaxTokens: most}
}

// torment closes the gate, stops models and cancels at random moments, from a
// thread of its own as a game does, from begin on until the returned function is
// called.
func torment(seed uint64, target, draft llm.Model, begin <-chan struct{}, cancel func()) (end func()) {
	random := rand.New(rand.NewPCG(seed, 7))
	clock := llm.NewClock()
	quit := make(chan struct{})
	var over atomic.Bool
	var wait sync.WaitGroup
	wait.Go(func() {
		select {
		case <-begin:
		case <-quit:
		}
		for !over.Load() {
			clock.WaitUntil(clock.Now()+int64(random.IntN(60e6)), quit)
			switch random.IntN(12) {
			case 0:
				target.Stop()
			case 1, 2:
				draft.Stop()
			case 3:
				if random.IntN(6) == 0 {
					cancel()
				}
			default:
				target.Gate().Publish(llm.Window{Mode: llm.GateClosed, LayersPerStop: 1 + random.IntN(4)})
				clock.WaitUntil(clock.Now()+int64(random.IntN(2e6)), quit)
				target.Gate().Publish(llm.Window{LayersPerStop: random.IntN(4)})
			}
		}
	})
	return func() {
		over.Store(true)
		close(quit)
		wait.Wait()
		target.Gate().Publish(llm.Window{})
		target.Resume()
		draft.Resume()
	}
}

// TestRealMixtures: greedy replies of the real model equal plain decoding under
// random mixtures of sources, widths, preempted drafts, stops and cancels.
func TestRealMixtures(t *testing.T) {
	_, file := testassets.Locate(t)
	target := openReal(t)
	draft := openDraft(t, target)
	list := "3 healing potions, 2 torches, 1 rope, 12 silver arrows"
	requests := []llm.Request{
		ask(t, target, "Repeat what the user says, word for word.", list, 24),
		ask(t, target, "You keep the inn at the crossroads.", "What do you sell?", 24),
		ask(t, target, "You answer with actions such as move(x, y).", "move(1, 2) move(2, 2) move(3, 2)", 24),
	}
	var want []*ending
	for _, r := range requests {
		want = append(want, plain(t, target, r))
	}
	cases := 12
	if os.Getenv("LULL_SOAK") != "" {
		cases = 24
	}
	var total speculative.Stats
	cancelled, stopped := 0, 0
	for seed := uint64(0); seed < uint64(cases) || stopped == 0 && seed < 200; seed++ {
		random := rand.New(rand.NewPCG(seed, 9))
		opt := speculative.Options{Draft: draft, MaxWidth: 2 + random.IntN(11), Costs: flat(1)}
		opt.Fixed = random.IntN(3) == 0
		if random.IntN(4) == 0 {
			opt.Mode = speculative.ModeNGram
		}
		calm := seed%4 == 0 // until the draft model had its say, however slow it is here
		if calm {
			opt.Mode, opt.Fixed = speculative.ModeModel, true
		}
		tb := newTable(t, target, opt)
		which := int(seed) % len(requests)
		id, err := tb.engine.Submit(requests[which])
		if err != nil {
			t.Fatal(err)
		}
		begin := make(chan struct{})
		end := torment(seed, target, draft, begin, func() { tb.engine.Cancel(id) })
		stopped += tb.playRandomly(t, random, calm, begin)
		end()
		got := endings(tb.engine.Poll(nil))[id]
		add(&total, tb.spec.Stats())
		if off := tb.spec.Stats().ModelOff; off != "" {
			t.Errorf("case %d: %s", seed, off)
		}
		tb.engine.Close() // its sequence is needed for comparing
		tb.spec.Close()
		if got.Kind == llm.EventCancelled {
			cancelled++
			head := *want[which]
			head.Reply = head.Reply[:min(len(head.Reply), len(got.Reply))]
			if !strings.HasPrefix(head.Text, got.Text) {
				equalUpToTies(t, target, requests[which].Prompt, &head, got)
			}
			continue
		}
		equalUpToTies(t, target, requests[which].Prompt, want[which], got)
	}
	t.Logf("%s: %d cases, %d cancelled, %d drafts preempted, %d rounds gave %d tokens, %d were plain", file, cases,
		cancelled, stopped, total.Rounds, total.VerifyTokens, total.PlainTokens)
	for source, x := range total.Sources {
		t.Logf("%-8s %4d judged, %3.0f %% accepted", speculative.Source(source), x.Judged, 100*x.Acceptance())
	}
	if stopped == 0 || total.Rounds == 0 || total.Sources[speculative.FromModel].Accepted == 0 {
		t.Error("the cases do not try what they should")
	}
}

// TestRealSteadyState: once a conversation is warm, engine and speculator
// allocate nothing for a token of the real models, drafted and judged or decoded
// alone.
func TestRealSteadyState(t *testing.T) {
	target := openReal(t)
	draft := openDraft(t, target)
	defer func(rate int) { runtime.MemProfileRate = rate }(runtime.MemProfileRate)
	runtime.MemProfileRate = 1
	for name, opt := range map[string]speculative.Options{
		"patterns":    {Mode: speculative.ModeNGram, Costs: flat(1)},
		"draft model": {Draft: draft, Costs: flat(1)},
	} {
		t.Run(name, func(t *testing.T) {
			tb := newTable(t, target, opt)
			r := ask(t, target, "You tell long stories.", "Tell me of the old mine, and of the river.", 150)
			if _, err := tb.engine.Submit(r); err != nil {
				t.Fatal(err)
			}
			events := make([]llm.Event, 0, 64)
			until := func(tokens uint64) {
				for tb.tokens() < tokens && tb.engine.HasWork() {
					if _, err := tb.engine.Step(llm.Grant{}); err != nil {
						t.Fatal(err)
					}
					events = tb.engine.Poll(events[:0])
				}
			}
			until(70)
			before, warm := allocations(), tb.tokens()
			until(120)
			n := 0
			for site, x := range allocations() {
				if x -= before[site]; x > 0 {
					n += int(x)
					t.Logf("%3d allocations in %s", x, site)
				}
			}
			t.Logf("%d allocations in %d tokens", n, tb.tokens()-warm)
			if tb.tokens() < 120 || tb.spec.Stats().Rounds == 0 {
				t.Fatalf("only %d tokens, %d rounds", tb.tokens(), tb.spec.Stats().Rounds)
			}
			if n > 5 { // what holds text and guesses grows by doubling
				t.Errorf("%d allocations in 50 tokens", n)
			}
		})
	}
}

func (tb *table) tokens() uint64 {
	s := tb.spec.Stats()
	return s.PlainTokens + s.VerifyTokens
}

// allocations counts objects by the function of engine or speculator in which
// they were allocated, without those of the library's calls.
func allocations() map[string]int64 {
	runtime.GC() // the profile is that of the last collection but one
	runtime.GC()
	records := make([]runtime.MemProfileRecord, 1<<16)
	n, ok := runtime.MemProfile(records, true)
	out := map[string]int64{}
	if !ok {
		return out
	}
	for _, r := range records[:n] {
		frames := runtime.CallersFrames(r.Stack())
		for {
			f, more := frames.Next()
			if llamacpp.GateKind != "C" && strings.Contains(f.Function, "/runtime/llamacpp.") {
				break // purego makes objects of each call's arguments
			}
			head := strings.Contains(f.Function, "/runtime/llamacpp.(*head)")
			if head || strings.Contains(f.Function, ".newContext") {
				break // slices of the head for a width of batch that was never seen: warming up
			}
			if strings.Contains(f.Function, "/lull/runtime/") && !strings.Contains(f.Function, "_test.") {
				out[f.Function] += r.AllocObjects
				break
			}
			if !more {
				break
			}
		}
	}
	return out
}

// playRandomly steps until the engine has nothing to do, with random grants, and
// returns how many drafts were preempted. A calm case first lets the draft model
// have its say; begin is closed when the torment may start.
func (tb *table) playRandomly(t *testing.T, random *rand.Rand, calm bool, begin chan<- struct{}) (stopped int) {
	t.Helper()
	for waits := true; tb.engine.HasWork(); {
		if waits && (!calm || tb.spec.Stats().Sources[speculative.FromModel].Judged > 0) {
			waits = false
			close(begin)
		}
		g := llm.Grant{NoDraftModel: !waits && random.IntN(6) == 0}
		if !waits && random.IntN(5) == 0 {
			g.VerifyWidth = 1 + random.IntN(8)
		}
		w, err := tb.engine.Step(g)
		if err != nil {
			t.Fatal(err)
		}
		if w.Stage == llm.Draft && w.Stopped {
			stopped++
		}
	}
	return stopped
}
