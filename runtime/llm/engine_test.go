package llm_test

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lull-npc/lull/runtime/llm"
	"github.com/lull-npc/lull/runtime/scripted"
)

// long is a reply of some hundred tokens.
var long = strings.Repeat("over the old road, ", 40)

// stage is a scripted model under an engine.
type stage struct {
	*testing.T
	m      llm.Model
	e      *llm.Engine
	events []llm.Event
	works  []llm.Work
}

func newStage(t *testing.T, m llm.Model, cfg llm.EngineConfig) *stage {
	t.Helper()
	e, err := llm.NewEngine(m, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Close)
	return &stage{T: t, m: m, e: e}
}

func newModel(t *testing.T, cfg scripted.Config) *scripted.Model {
	t.Helper()
	m, err := scripted.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func prompt(t *testing.T, m llm.Tokenizer, say string) []llm.Token {
	t.Helper()
	segments, err := m.RenderChat([]llm.Turn{{Role: llm.User, Text: say}}, true)
	if err != nil {
		t.Fatal(err)
	}
	p, _, err := llm.TokenizeChat(m, segments)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func (s *stage) submit(r llm.Request) llm.RequestID {
	s.Helper()
	id, err := s.e.Submit(r)
	if err != nil {
		s.Fatal(err)
	}
	return id
}

func (s *stage) step(g llm.Grant) error {
	w, err := s.e.Step(g)
	s.works = append(s.works, w)
	return err
}

func (s *stage) drain(g llm.Grant) {
	s.Helper()
	for range 100_000 {
		if !s.e.HasWork() {
			s.events = s.e.Poll(s.events)
			return
		}
		if err := s.step(g); err != nil {
			s.Log(err)
		}
		s.events = s.e.Poll(s.events)
	}
	s.Fatal("no end")
}

// ending returns the text of a request and its last event.
func (s *stage) ending(id llm.RequestID) (string, llm.Event) {
	s.Helper()
	var text string
	for _, ev := range s.events {
		if ev.Request == id {
			text += ev.Text
			if ev.Kind >= llm.EventDone {
				return text, ev
			}
		}
	}
	s.Fatalf("request %d has not ended", id)
	return "", llm.Event{}
}

func (s *stage) wantText(id llm.RequestID, want string, why llm.DoneReason) llm.Event {
	s.Helper()
	text, ev := s.ending(id)
	if text != want || ev.Kind != llm.EventDone || ev.Reason != why {
		s.Errorf("request %d said %q and ended by %s %q %v; want %q and %q",
			id, text, ev.Kind, ev.Reason, ev.Err, want, why)
	}
	return ev
}

// TestChunks: a stopped chunk is tried again at half size, down to one token,
// and grows back.
func TestChunks(t *testing.T) {
	clock := scripted.NewClock(0)
	stops := 5
	var m *scripted.Model
	m = newModel(t, scripted.Config{
		Clock: clock, Cost: scripted.Cost{LayerNS: 1000}, MaxBatch: 16, Script: scripted.Echo,
		Fault: func(int, *llm.Batch) error {
			if stops > 0 {
				stops--
				clock.At(clock.Now()+2500, m.Stop) // in the third layer
			}
			return nil
		},
	})
	s := newStage(t, m, llm.EngineConfig{Clock: clock})
	id := s.submit(llm.Request{Prompt: prompt(t, m, strings.Repeat("x", 40))})
	n := len(prompt(t, m, strings.Repeat("x", 40)))
	s.drain(llm.Grant{})
	var got []int
	for _, w := range s.works {
		if w.Stage == llm.Prefill {
			got = append(got, w.Tokens)
			if w.Stopped && w.End-w.Start != 2500 {
				t.Errorf("stopped after %d ns, want 2500", w.End-w.Start)
			}
		}
	}
	// Stopped at 16, 8, 4, 2, 1; then 1, 2, 4, 8, 16 go through.
	want := []int{0, 0, 0, 0, 0, 1, 2, 4, 8, 16, 16, n - 47}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("tokens kept by each prefill step (-want +got):\n%s", d)
	}
	s.wantText(id, strings.Repeat("x", 40), llm.DoneEnd)
}

// TestNothingPolled: a game that does not poll finds everything later, in three
// events at most for each request.
func TestNothingPolled(t *testing.T) {
	m := newModel(t, scripted.Config{Script: scripted.Echo, Context: 1024})
	s := newStage(t, m, llm.EngineConfig{MaxQueue: 2})
	p := prompt(t, m, long)
	half := len(p) / 2
	r := llm.Request{Prompt: p, MaxTokens: 1024 - len(p) + half - 4, Cuts: []int{4, 5, half + 1}}
	s.submit(r)
	s.submit(r)
	for s.e.HasWork() {
		if err := s.step(llm.Grant{}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.e.Submit(r); !errors.Is(err, llm.ErrQueueFull) {
		t.Errorf("Submit with two requests unpolled: %v, want ErrQueueFull", err)
	}
	s.events = s.e.Poll(nil)
	if len(s.events) != 6 || s.events[0].Kind != llm.EventOverflow {
		t.Fatalf("%d events, first %s %v; want 6, first overflow", len(s.events), s.events[0].Kind, s.events[0].Err)
	}
	for id := range llm.RequestID(2) {
		if text, ev := s.ending(id + 1); ev.Kind != llm.EventDone || text == "" {
			t.Errorf("request %d: %s with text %q", id+1, ev.Kind, text)
		}
	}
	s.submit(r)
}

// TestModelErrors: the requests of the batch fail, with the cause; the engine
// goes on and trusts nothing that the sequence held.
func TestModelErrors(t *testing.T) {
	boom := errors.New("the device is gone")
	for _, n := range []int{1, 2, 3} {
		m := newModel(t, scripted.Config{Script: scripted.Echo, MaxBatch: 16, Fault: scripted.FailAt(n, boom)})
		s := newStage(t, m, llm.EngineConfig{})
		r := llm.Request{Owner: "mira", Prompt: prompt(t, m, "hi hi hi")}
		id := s.submit(r)
		s.drain(llm.Grant{})
		_, ev := s.ending(id)
		if !errors.Is(ev.Err, boom) || !strings.Contains(ev.Err.Error(), "mira") {
			t.Errorf("decode %d failed: %s, %v; want failed with cause and owner", n, ev.Kind, ev.Err)
		}
		id = s.submit(r)
		s.drain(llm.Grant{})
		if ev := s.wantText(id, "hi hi hi", llm.DoneEnd); ev.Usage.Reused != 0 {
			t.Errorf("%d tokens of a broken sequence reused", ev.Usage.Reused)
		}
	}
}

// TestFullCache: in a cache that all share, idle sequences go first, then the
// worst request waits, and what fills the cache alone ends by context.
func TestFullCache(t *testing.T) {
	m := newModel(t, scripted.Config{Script: scripted.Echo, Context: 200, CacheTokens: 200, MaxSequences: 3})
	s := newStage(t, m, llm.EngineConfig{})
	say := strings.Repeat("y", 50)
	r := llm.Request{Prompt: prompt(t, m, say), MaxTokens: 60}
	r.Owner = "idle"
	s.submit(r)
	s.drain(llm.Grant{})
	r.Owner = "a"
	a := s.submit(r)
	r.Owner = "b"
	b := s.submit(r)
	r.Owner = "c"
	c := s.submit(r)
	s.drain(llm.Grant{})
	for _, id := range []llm.RequestID{a, b, c} {
		s.wantText(id, say, llm.DoneEnd)
	}
	tight := newModel(t, scripted.Config{Script: scripted.Echo, Context: 200, CacheTokens: 80})
	s = newStage(t, tight, llm.EngineConfig{})
	id := s.submit(r)
	s.drain(llm.Grant{})
	s.wantText(id, say[:81-len(r.Prompt)], llm.DoneContext)
	r.Prompt = prompt(t, m, say+say)
	id = s.submit(r)
	s.drain(llm.Grant{})
	if _, ev := s.ending(id); !errors.Is(ev.Err, llm.ErrContextFull) {
		t.Errorf("a prompt larger than the cache: %v, want ErrContextFull", ev.Err)
	}
}

// TestLentRank: a request that waits for its owner's other one lends it its
// rank; without a second sequence, the overtaken reply is computed again.
func TestLentRank(t *testing.T) {
	for _, sequences := range []int{1, 2} {
		m := newModel(t, scripted.Config{Script: scripted.Echo, MaxSequences: sequences})
		s := newStage(t, m, llm.EngineConfig{})
		req := func(owner, say string, priority int) llm.Request {
			return llm.Request{Owner: owner, Prompt: prompt(t, m, say), Priority: priority}
		}
		low := s.submit(req("mira", "the low one", 0))
		for range 4 {
			if err := s.step(llm.Grant{}); err != nil {
				t.Fatal(err)
			}
		}
		mid := s.submit(req("bram", "the middle one", 1))
		for range 4 {
			if err := s.step(llm.Grant{}); err != nil {
				t.Fatal(err)
			}
		}
		high := s.submit(req("mira", "the high one", 2))
		s.drain(llm.Grant{})
		var order []llm.RequestID
		for _, ev := range s.events {
			if ev.Kind == llm.EventDone {
				order = append(order, ev.Request)
			}
		}
		if d := cmp.Diff([]llm.RequestID{low, high, mid}, order); d != "" {
			t.Errorf("%d sequences: order (-want +got):\n%s", sequences, d)
		}
		said := map[llm.RequestID]string{low: "the low one", mid: "the middle one", high: "the high one"}
		for id, want := range said {
			if ev := s.wantText(id, want, llm.DoneEnd); ev.Usage.Reused+ev.Usage.Prefilled != ev.Usage.Prompt {
				t.Errorf("usage of %q does not add up: %+v", want, ev.Usage)
			}
		}
	}
}

// puppet is a scripted model whose samplers say given tokens.
type puppet struct {
	*scripted.Model
	say []llm.Token
}

type puppetSampler struct {
	llm.Sampler
	say *[]llm.Token
}

func (p *puppet) NewSampler(llm.Sampling) (llm.Sampler, error) {
	inner, err := p.Model.NewSampler(llm.Sampling{})
	return puppetSampler{inner, &p.say}, err
}

func (p puppetSampler) Sample(int) (llm.Token, error) {
	if len(*p.say) == 0 {
		return -1, nil
	}
	t := (*p.say)[0]
	*p.say = (*p.say)[1:]
	return t, nil
}

// TestHalfCharacters: one that the model leaves half said becomes U+FFFD; one
// that MaxTokens cuts is not shown; the tokens of the reply say the same.
func TestHalfCharacters(t *testing.T) {
	m := newModel(t, scripted.Config{})
	end, err := m.Tokenize(nil, "<|im_end|>", true)
	if err != nil {
		t.Fatal(err)
	}
	bytes := func(s string) (out []llm.Token) {
		for _, b := range []byte(s) {
			out = append(out, llm.Token(b))
		}
		return out
	}
	for _, c := range []struct {
		name  string
		say   []llm.Token
		max   int
		stop  string
		text  string
		why   llm.DoneReason
		reply []llm.Token
	}{
		{"ended in a character", append(bytes("a\xE2\x82"), end...), 9, "", "a\uFFFD", llm.DoneEnd, bytes("a\uFFFD")},
		{"cut in a character", bytes("a\xE2\x82\xAC"), 3, "", "a", llm.DoneLength, bytes("a")},
		{"cut after a character", bytes("a\xE2\x82\xAC"), 4, "", "a€", llm.DoneLength, bytes("a€")},
		{"never valid", append(bytes("a\xFFb"), end...), 9, "", "a\uFFFDb", llm.DoneEnd, bytes("a\xFFb")},
		{"held and given", bytes("abSTO"), 5, "STOP", "abSTO", llm.DoneLength, bytes("abSTO")},
		{"stopped", bytes("abSTOPc"), 9, "STOP", "ab", llm.DoneStop, bytes("ab")},
		{"bad token", []llm.Token{'a'}, 9, "", "a", "", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newStage(t, &puppet{m, c.say}, llm.EngineConfig{})
			r := llm.Request{Prompt: prompt(t, m, "x"), MaxTokens: c.max}
			if c.stop != "" {
				r.Stop = []string{c.stop}
			}
			id := s.submit(r)
			s.drain(llm.Grant{})
			text, ev := s.ending(id)
			if text != c.text || ev.Reason != c.why || (c.why == "") != (ev.Kind == llm.EventFailed) {
				t.Errorf("said %+q and ended by %s %q %v, want %+q, %q",
					text, ev.Kind, ev.Reason, ev.Err, c.text, c.why)
			}
			if !slices.Equal(ev.Reply, c.reply) {
				t.Errorf("the tokens of the reply are %v, want %v", ev.Reply, c.reply)
			}
		})
	}
}

func TestHugeMaxTokens(t *testing.T) {
	m := newModel(t, scripted.Config{})
	s := newStage(t, m, llm.EngineConfig{})
	id := s.submit(llm.Request{Prompt: prompt(t, m, "x"), MaxTokens: math.MaxInt})
	s.drain(llm.Grant{})
	_, ev := s.ending(id)
	if !errors.Is(ev.Err, llm.ErrContextFull) || !strings.Contains(ev.Err.Error(), "2048") {
		t.Errorf("error %v, want ErrContextFull with the context's size", ev.Err)
	}
}

func TestBadConfig(t *testing.T) {
	m := newModel(t, scripted.Config{})
	for _, cfg := range []llm.EngineConfig{{MaxQueue: -1}, {MaxQueue: 1 << 20}, {Together: -1}} {
		if _, err := llm.NewEngine(m, cfg); err == nil {
			t.Errorf("NewEngine took %+v", cfg)
		}
	}
}

// TestWorkerPanic: a bug under the worker fails every request, and the game
// goes on.
func TestWorkerPanic(t *testing.T) {
	m := newModel(t, scripted.Config{Script: func(scripted.Conversation) string { panic("a bug") }})
	s := newStage(t, m, llm.EngineConfig{Together: 1})
	r := llm.Request{Owner: "mira", Prompt: prompt(t, m, "x")}
	a, b := s.submit(r), s.submit(r)
	w, err := llm.StartWorker(s.e, llm.WorkerConfig{})
	if err != nil {
		t.Fatal(err)
	}
	<-w.Done()
	w.Stop()
	s.events = s.e.Poll(nil)
	for _, id := range []llm.RequestID{a, b, 0} {
		if _, ev := s.ending(id); ev.Kind != llm.EventFailed || !strings.Contains(ev.Err.Error(), "a bug") {
			t.Errorf("request %d: %s, %v; want failed by a bug", id, ev.Kind, ev.Err)
		}
	}
	if _, err := s.e.Submit(r); !errors.Is(err, llm.ErrClosed) {
		t.Errorf("Submit after a panic: %v, want ErrClosed", err)
	}
	e := newStage(t, m, llm.EngineConfig{}).e
	_, err = llm.StartWorker(e, llm.WorkerConfig{OnThread: func() error { panic("in the hook") }})
	if err == nil || !strings.Contains(err.Error(), "in the hook") {
		t.Errorf("a panic in OnThread gives %v", err)
	}
}

// decoding returns an engine in the middle of n long replies.
func decoding(tb testing.TB, n int) *llm.Engine {
	tb.Helper()
	endless := scripted.Table(nil, strings.Repeat(long, 100))
	m, err := scripted.New(scripted.Config{Script: endless, Context: 1 << 19, MaxSequences: 4})
	if err != nil {
		tb.Fatal(err)
	}
	e, err := llm.NewEngine(m, llm.EngineConfig{})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(e.Close)
	p, err := m.Tokenize(nil, "<s><|im_start|>user\nx<|im_end|>\n<|im_start|>assistant\n", true)
	if err != nil {
		tb.Fatal(err)
	}
	for i := range n {
		r := llm.Request{Owner: fmt.Sprint(i), Prompt: p, MaxTokens: 1 << 18, Stop: []string{"the end"}}
		if _, err := e.Submit(r); err != nil {
			tb.Fatal(err)
		}
	}
	for range 100 {
		if _, err := e.Step(llm.Grant{}); err != nil {
			tb.Fatal(err)
		}
	}
	return e
}

// TestSteadyStateAllocates nothing but text, which grows by doubling.
func TestSteadyStateAllocates(t *testing.T) {
	for _, replies := range []int{1, 4} {
		e := decoding(t, replies)
		events := e.Poll(nil)
		n := testing.AllocsPerRun(1000, func() {
			w, err := e.Step(llm.Grant{})
			if err != nil || w.Generated != replies {
				t.Fatalf("step: %+v, %v", w, err)
			}
			events = e.Poll(events[:0])
		})
		if n != 0 {
			t.Errorf("%d replies: a step allocates %v times, want 0", replies, n)
		}
	}
}

func BenchmarkStep(b *testing.B) {
	e := decoding(b, 1)
	var events []llm.Event
	b.ReportAllocs()
	for b.Loop() {
		if _, err := e.Step(llm.Grant{}); err != nil {
			b.Fatal(err)
		}
		events = e.Poll(events[:0])
	}
}
