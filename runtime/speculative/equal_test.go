package speculative_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lull-npc/lull/runtime/llm"
	"github.com/lull-npc/lull/runtime/scripted"
	"github.com/lull-npc/lull/runtime/speculative"
)

// flat are costs at which almost every candidate pays.
func flat(threads int) speculative.Costs {
	return speculative.Costs{Rows: []speculative.Row{{
		Threads: threads, Token: time.Millisecond, Draft: 0.01, Verify: []speculative.Point{{Width: 32, Ratio: 1.05}},
	}}}
}

// scene is one random case: models, options, requests, and what befalls them.
type scene struct {
	*testing.T
	random   *rand.Rand
	target   llm.Model
	draft    llm.Model // nil: none
	opt      speculative.Options
	requests []llm.Request

	cancelled map[llm.RequestID]bool
	engine    *llm.Engine
	ids       []llm.RequestID
	preempted int
}

func (s *scene) oneIn(n int) bool { return s.random.IntN(n) == 0 }

// newScene draws models. onLayer closes the draft's gate, stops the target and
// cancels, in the middle of batches.
func newScene(t *testing.T, seed uint64) *scene {
	s := &scene{T: t, random: rand.New(rand.NewPCG(seed, 1)), cancelled: map[llm.RequestID]bool{}}
	if s.oneIn(3) {
		s.drawScripted()
	} else {
		s.drawTiny()
	}
	s.opt.Mode = speculative.ModeAuto
	if s.oneIn(3) {
		s.opt.Mode = speculative.ModeNGram
	}
	s.opt.MaxWidth = 2 + s.random.IntN(15)
	s.opt.Fixed = s.oneIn(2)
	s.opt.Conversations = 1 + s.random.IntN(3)
	s.opt.Draft = s.draft
	if !s.opt.Fixed || s.oneIn(2) {
		s.opt.Costs = flat(1 + s.random.IntN(3))
	}
	return s
}

func (s *scene) drawTiny() {
	vocab := 3 + s.random.IntN(6)
	target := newTiny(vocab)
	target.batch = 1 + s.random.IntN(20)
	target.context = 60 + s.random.IntN(100)
	target.noUndo, target.lies = s.oneIn(15), s.oneIn(15)
	target.onLayer = s.befall
	s.target = target
	if !s.oneIn(3) {
		draft := newTiny(vocab)
		draft.noise = s.random.Float64()
		draft.batch = 1 + s.random.IntN(20)
		draft.context = 40 + s.random.IntN(200)
		draft.lies = s.oneIn(15)
		draft.onLayer = s.preempt
		if s.oneIn(10) {
			draft.fault = func() error {
				if s.oneIn(20) {
					return errors.New("broken on purpose")
				}
				return nil
			}
		}
		s.draft = draft
	}
	for range 1 + s.random.IntN(4) {
		prompt := make([]llm.Token, 1+s.random.IntN(40))
		for i := range prompt {
			prompt[i] = llm.Token(s.random.IntN(vocab))
		}
		s.requests = append(s.requests, s.request(prompt))
	}
}

func (s *scene) drawScripted() {
	list := "2 swords, 1 rope, 3 healing potions, 2 swords, 1 rope, 3 torches 😀 "
	cfg := scripted.Config{
		Script: scripted.Echo, Context: 300, MaxBatch: 1 + s.random.IntN(30), NoTruncate: s.oneIn(15),
		CacheTokens: []int{300, 500, 1200}[s.random.IntN(3)],
		Fault:       func(int, *llm.Batch) error { s.befall(); return nil },
	}
	target, err := scripted.New(cfg)
	if err != nil {
		s.Fatal(err)
	}
	s.target = target
	if s.oneIn(2) {
		cfg.NoTruncate, cfg.CacheTokens = false, 0
		cfg.Fault = func(int, *llm.Batch) error { s.preempt(); return nil }
		if s.oneIn(2) {
			cfg.Script = func(c scripted.Conversation) string {
				return strings.Replace(scripted.Echo(c), "rope", "mace", 1)
			}
		}
		if s.draft, err = scripted.New(cfg); err != nil {
			s.Fatal(err)
		}
	}
	for range 1 + s.random.IntN(3) {
		say := list[:len(list)/2] + list[:s.random.IntN(len(list)/2)] // may cut a character: made whole below
		segments, err := target.RenderChat([]llm.Turn{{Role: llm.User, Text: llm.ValidText(say)}}, true)
		if err != nil {
			s.Fatal(err)
		}
		prompt, _, err := llm.TokenizeChat(target, segments)
		if err != nil {
			s.Fatal(err)
		}
		s.requests = append(s.requests, s.request(prompt))
	}
}

func (s *scene) request(prompt []llm.Token) llm.Request {
	r := llm.Request{
		Owner: []string{"", "mira", "tom"}[s.random.IntN(3)], Prompt: prompt,
		MaxTokens: 1 + s.random.IntN(60), Priority: s.random.IntN(2),
	}
	r.Cuts = []int{0, len(prompt)}
	r.MaxTokens = min(r.MaxTokens, s.target.Info().Context-len(prompt))
	if s.oneIn(2) {
		r.Sampling = llm.Sampling{Temperature: 0.8, Seed: s.random.Uint32()}
	}
	if s.oneIn(3) {
		r.Sampling.RepeatPenalty = 1.3
	}
	if s.oneIn(4) {
		r.Stop = []string{[]string{"ab", "rope", "cba", "😀"}[s.random.IntN(4)]}
	}
	return r
}

// befall is what happens in the middle of the target's batches.
func (s *scene) befall() {
	if s.engine == nil {
		return // the plain run
	}
	if s.oneIn(60) {
		s.target.Stop()
	}
	if s.oneIn(150) && len(s.ids) > 0 {
		s.cancel()
	}
}

func (s *scene) cancel() {
	if id := s.ids[s.random.IntN(len(s.ids))]; s.engine.Cancel(id) {
		s.cancelled[id] = true
	}
}

// preempt is what happens in the middle of the draft's batches.
func (s *scene) preempt() {
	switch {
	case s.oneIn(8):
		s.draft.Gate().Publish(llm.Window{Mode: llm.GateClosed})
		if s.opt.Fixed { // its drafts would wait
			s.draft.Gate().Publish(llm.Window{})
		}
		s.preempted++
	case s.oneIn(30):
		s.draft.Stop()
	case s.oneIn(100) && len(s.ids) > 0:
		s.cancel()
	}
}

// play runs all requests with speculation and returns how they ended.
func (s *scene) play() (map[llm.RequestID]*ending, speculative.Stats) {
	spec, err := speculative.New(s.target, s.opt)
	if err != nil {
		s.Fatal(err)
	}
	e, err := llm.NewEngine(s.target, llm.EngineConfig{Speculator: spec, Together: 1 + s.random.IntN(2)})
	if err != nil {
		s.Fatal(err)
	}
	s.engine = e
	var events []llm.Event
	waiting := s.requests
	for n := 0; len(waiting) > 0 || e.HasWork(); n++ {
		if n > 100_000 {
			s.Fatal("no end")
		}
		if len(waiting) > 0 && (s.oneIn(15) || !e.HasWork()) {
			id, err := e.Submit(waiting[0])
			if err != nil {
				s.Fatal(err)
			}
			s.ids, waiting = append(s.ids, id), waiting[1:]
		}
		if s.draft != nil && s.oneIn(4) {
			s.draft.Gate().Publish(llm.Window{})
		}
		if s.oneIn(100) {
			e.Forget("mira")
		}
		g := llm.Grant{Threads: s.random.IntN(3), NoDraftModel: s.oneIn(10), NoPatterns: s.oneIn(10)}
		if s.oneIn(10) {
			g.VerifyWidth = 1 + s.random.IntN(9)
		}
		w, err := e.Step(g)
		if err != nil {
			s.Fatal(err)
		}
		if w.Stage == llm.Verify && !w.Stopped && (w.Drafted < 1 || w.Accepted > w.Drafted || w.Tokens < 1) {
			s.Fatalf("work %+v", w)
		}
		events = e.Poll(events)
	}
	e.Close()
	stats := spec.Stats()
	spec.Close()
	if target, ok := s.target.(*tiny); ok && target.afterEnd > 0 {
		s.Fatal("a token was sampled after the end")
	}
	if d, ok := s.draft.(*tiny); stats.ModelOff != "" && (!ok || d.fault == nil) {
		s.Fatalf("the draft model is off: %s", stats.ModelOff)
	}
	return endings(events), stats
}

// check compares with plain decoding.
func (s *scene) check(got map[llm.RequestID]*ending) {
	s.Helper()
	s.engine = nil
	s.target.Resume()
	for i, id := range s.ids {
		g := got[id]
		if g == nil {
			s.Fatalf("request %d never ended", id)
		}
		want := plain(s, s.target, s.requests[i])
		switch {
		case g.Kind == llm.EventCancelled && s.cancelled[id]:
			if !strings.HasPrefix(want.Text, g.Text) {
				s.Fatalf("request %d was cancelled after %q, want the beginning of %q", id, g.Text, want.Text)
			}
		case s.cancelled[id]:
			s.Fatalf("request %d was cancelled and ended by %s", id, g.Kind)
		default:
			if d := cmp.Diff(want, g); d != "" {
				s.Fatalf("request %d, %+v (-plain +speculative):\n%s", id, s.requests[i], d)
			}
		}
	}
}

// TestEqualsPlainDecoding: whatever the sources, widths, preemptions, stops and
// cancels, a reply is the one of plain decoding, greedy or sampled. The models
// compute the same logits in every batch shape, so there are no near-ties.
func TestEqualsPlainDecoding(t *testing.T) {
	cases := 800
	if os.Getenv("LULL_SOAK") != "" {
		cases = 2400
	}
	var total speculative.Stats
	preempted, cancelled, replies := 0, 0, 0
	for seed := range uint64(cases) {
		s := newScene(t, seed)
		ok := t.Run(fmt.Sprint(seed), func(t *testing.T) {
			s.T = t
			got, stats := s.play()
			s.check(got)
			add(&total, stats)
		})
		if !ok {
			t.Fatalf("seed %d: %+v", seed, s.opt)
		}
		preempted, cancelled, replies = preempted+s.preempted, cancelled+len(s.cancelled), replies+len(s.ids)
	}
	t.Logf("%d replies, %d cancelled, %d preemptions, %d rounds, %d tokens in them, %d plain",
		replies, cancelled, preempted, total.Rounds, total.VerifyTokens, total.PlainTokens)
	for source, x := range total.Sources {
		t.Logf("%-8s %6d judged, %5.1f %% accepted", speculative.Source(source), x.Judged, 100*x.Acceptance())
		if x.Judged < 100 || x.Accepted == 0 || x.Accepted == x.Judged {
			t.Errorf("%s: %+v: the cases do not try it", speculative.Source(source), x)
		}
	}
	if preempted < 1000 || cancelled < 100 || total.Rounds < 5000 {
		t.Error("the cases are too tame")
	}
}

func add(total *speculative.Stats, s speculative.Stats) {
	total.Rounds += s.Rounds
	total.VerifyTokens += s.VerifyTokens
	total.PlainTokens += s.PlainTokens
	for i := range s.Sources {
		total.Sources[i].Judged += s.Sources[i].Judged
		total.Sources[i].Accepted += s.Sources[i].Accepted
	}
}
