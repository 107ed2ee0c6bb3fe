package llmtest

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/lull-npc/lull/runtime/llm"
)

// few is how long replies are here: a real model takes its time.
const few = 10

func testGreedy(s *subject) {
	d := s.engine(llm.EngineConfig{})
	p := s.prompt(innkeeper("Who are you?"))
	a := d.reply(llm.Request{Owner: "a", Prompt: p, MaxTokens: few})
	b := d.reply(llm.Request{Owner: "b", Prompt: p, MaxTokens: few})
	none := d.reply(llm.Request{Prompt: p, MaxTokens: few})
	if a.text == "" || a.text != b.text || a.text != none.text {
		s.Errorf("the same prompt gave %q, %q and %q", a.text, b.text, none.text)
	}
	if none.last.Usage.Reused != 0 {
		s.Errorf("a request without owner reused %d tokens", none.last.Usage.Reused)
	}
}

func testSeeds(s *subject) {
	d := s.engine(llm.EngineConfig{})
	p := s.prompt(innkeeper("Tell me a story."))
	say := func(seed uint32) string {
		hot := llm.Sampling{Temperature: 1.5, Seed: seed}
		return d.reply(llm.Request{Prompt: p, MaxTokens: few, Sampling: hot}).text
	}
	texts := map[string]bool{}
	for seed := range uint32(6) {
		texts[say(seed)] = true
	}
	if len(texts) == 1 {
		s.Error("six seeds gave one text")
	}
	if a, b := say(3), say(3); a != b {
		s.Errorf("seed 3 gave %q and %q", a, b)
	}
}

func testBadSampling(s *subject) {
	nan := float32(math.NaN())
	for _, bad := range []llm.Sampling{
		{Temperature: nan}, {Temperature: -1}, {TopK: -1}, {TopP: 2}, {TopP: -0.1}, {MinP: -1},
		{RepeatPenalty: nan}, {RepeatLast: -1},
	} {
		_, err := s.m.NewSampler(bad)
		s.wants(fmt.Sprintf("%+v", bad), err, llm.ErrRequest)
	}
}

func testPrefixReuse(s *subject) {
	d := s.engine(llm.EngineConfig{})
	turns := innkeeper("Who are you?")
	p1 := s.prompt(turns)
	first := d.reply(llm.Request{Owner: "mira", Prompt: p1, MaxTokens: few})
	if u := first.last.Usage; u.Reused != 0 || u.Prompt != len(p1) || d.prefills != len(p1) {
		s.Errorf("first reply: %+v and %d tokens in prefill steps, want %d prefilled", u, d.prefills, len(p1))
	}
	turns = append(turns, llm.Turn{Role: llm.Assistant, Text: first.text, Tokens: first.last.Reply},
		llm.Turn{Role: llm.User, Text: "Is the bridge safe at night?"})
	p2 := s.prompt(turns)
	d.prefills = 0
	second := d.reply(llm.Request{Owner: "mira", Prompt: p2, MaxTokens: few})
	known := common(p2, slices.Concat(p1, first.last.Reply))
	if known < len(p1) {
		s.Errorf("the second prompt has only %d of the first one's %d tokens in common", known, len(p1))
	}
	u := second.last.Usage
	if u.Reused < known-1 || u.Reused > known { // the last token of a reply is not always computed
		s.Errorf("second reply: %d tokens reused, want %d or %d", u.Reused, known-1, known)
	}
	if u.Prefilled != len(p2)-u.Reused || d.prefills != u.Prefilled {
		s.Errorf("second reply: %d prefilled, %d in prefill steps; want %d", u.Prefilled, d.prefills, len(p2)-u.Reused)
	}
	other := d.reply(llm.Request{Owner: "bram", Prompt: p2, MaxTokens: few})
	if other.last.Usage.Reused != 0 && s.m.Info().MaxSequences > 1 { // else it takes over the only one
		s.Errorf("another owner reused %d tokens", other.last.Usage.Reused)
	}
	if s.o.Exact && other.text != second.text {
		s.Errorf("with reuse the reply is %q, without %q", second.text, other.text)
	}
	if !s.m.Info().CanTruncate {
		return
	}
	again := d.reply(llm.Request{Owner: "mira", Prompt: p2, MaxTokens: few})
	if u := again.last.Usage; u.Prefilled != 1 {
		s.Errorf("the same prompt again: %d prefilled, want the last token only", u.Prefilled)
	}
}

func common(a, b []llm.Token) int {
	n := 0
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	return n
}

func testForget(s *subject) {
	d := s.engine(llm.EngineConfig{})
	r := llm.Request{Owner: "mira", Prompt: s.prompt(innkeeper("Who are you?")), MaxTokens: 2}
	d.reply(r)
	d.e.Forget("someone else")
	if d.e.HasWork() {
		s.Error("forgetting an unknown owner is work")
	}
	d.e.Forget("mira")
	d.drain()
	if u := d.reply(r).last.Usage; u.Reused != 0 {
		s.Errorf("%d tokens reused after Forget", u.Reused)
	}
}

func testQueueFull(s *subject) {
	d := s.engine(llm.EngineConfig{MaxQueue: 2})
	r := llm.Request{Prompt: s.prompt(innkeeper("Hello")), MaxTokens: 1}
	d.submit(r)
	d.submit(r)
	_, err := d.e.Submit(r)
	s.wants("third request", err, llm.ErrQueueFull)
	d.drain()
	d.reply(r)
}

func testBadRequests(s *subject) {
	d := s.engine(llm.EngineConfig{})
	p := []llm.Token{1, 2, 3, 4}
	for name, r := range map[string]llm.Request{
		"no prompt":        {},
		"negative token":   {Prompt: []llm.Token{1, -1}},
		"token too large":  {Prompt: []llm.Token{1, llm.Token(s.m.Info().Vocab)}},
		"keep too large":   {Prompt: p, Keep: 5},
		"keep negative":    {Prompt: p, Keep: -1},
		"cut before keep":  {Prompt: p, Keep: 2, Cuts: []int{1}},
		"cuts not rising":  {Prompt: p, Cuts: []int{2, 2}},
		"cut after prompt": {Prompt: p, Cuts: []int{5}},
		"max tokens":       {Prompt: p, MaxTokens: -1},
		"empty stop":       {Prompt: p, Stop: []string{""}},
		"invalid stop":     {Prompt: p, Stop: []string{"\xFF"}},
		"long stop":        {Prompt: p, Stop: []string{strings.Repeat("x", 1000)}},
		"many stops":       {Prompt: p, Stop: slices.Repeat([]string{"x"}, 100)},
		"sampling":         {Prompt: p, Sampling: llm.Sampling{TopP: 3}},
	} {
		_, err := d.e.Submit(r)
		s.wants(name, err, llm.ErrRequest)
	}
	if d.e.HasWork() {
		s.Error("a refused request is work")
	}
}

func testPriorities(s *subject) {
	d := s.engine(llm.EngineConfig{})
	p := s.prompt(innkeeper("Who are you?"))
	alone := d.reply(llm.Request{Prompt: p, MaxTokens: few})
	low := d.submit(llm.Request{Owner: "low", Prompt: p, MaxTokens: few, Priority: -1})
	for range len(p)/s.chunk() + 2 {
		d.step()
	}
	high := d.submit(llm.Request{Owner: "high", Prompt: p, MaxTokens: few, Priority: 1})
	if w := d.step(); w.Request != high {
		s.Errorf("the step after a better request served %d, want %d", w.Request, high)
	}
	d.drain()
	if !slices.Equal(d.endings(low, high), []llm.RequestID{high, low}) {
		s.Errorf("ended in the order %v, want %d before %d", d.endings(low, high), high, low)
	}
	if a := d.outcome(high).text; a != alone.text {
		s.Errorf("the better request said %q, alone %q", a, alone.text)
	}
	if b := d.outcome(low).text; s.m.Info().MaxSequences > 1 && b != alone.text {
		s.Errorf("the paused request said %q, alone %q", b, alone.text)
	}
}

// endings lists the requests in the order in which they ended.
func (d *desk) endings(of ...llm.RequestID) []llm.RequestID {
	var out []llm.RequestID
	for _, ev := range d.events {
		if last(ev) && slices.Contains(of, ev.Request) {
			out = append(out, ev.Request)
		}
	}
	return out
}

func testDeadlines(s *subject) {
	d := s.engine(llm.EngineConfig{Together: 1})
	r := llm.Request{Prompt: s.prompt(innkeeper("Hello")), MaxTokens: 2}
	var ids []llm.RequestID
	for _, deadline := range []int64{0, 300, 100, 200} {
		r.Deadline = deadline
		ids = append(ids, d.submit(r))
	}
	d.drain()
	want := []llm.RequestID{ids[2], ids[3], ids[1], ids[0]}
	if got := d.endings(ids...); !slices.Equal(got, want) {
		s.Errorf("ended in the order %v, want %v", got, want)
	}
}

func testStopStrings(s *subject) {
	d := s.engine(llm.EngineConfig{})
	r := llm.Request{Prompt: s.prompt(innkeeper("Who are you?")), MaxTokens: 2 * few}
	whole := d.reply(r)
	stop, ok := middle(whole.text)
	if !ok {
		s.Fatalf("the reply %q is too short to be stopped", whole.text)
	}
	before, _, _ := strings.Cut(whole.text, stop)
	r.Stop = []string{"never\x00said", stop}
	cut := d.reply(r)
	if cut.text != before || cut.last.Reason != llm.DoneStop {
		s.Errorf("stop at %q: said %q and ended by %q, want %q of %q",
			stop, cut.text, cut.last.Reason, before, whole.text)
	}
}

func testMaxTokens(s *subject) {
	d := s.engine(llm.EngineConfig{})
	r := llm.Request{Prompt: s.prompt(innkeeper("Tell me a long story.")), MaxTokens: 3}
	o := d.reply(r)
	if o.last.Reason != llm.DoneLength || o.last.Usage.Generated != 3 || len(o.last.Reply) > 3 {
		s.Errorf("ended by %q after %d tokens, %d in the reply; want length, 3, 3 at most",
			o.last.Reason, o.last.Usage.Generated, len(o.last.Reply))
	}
}

func testOverflow(s *subject) {
	d := s.engine(llm.EngineConfig{})
	turns := innkeeper("one")
	for _, say := range []string{"two", "three", "four"} {
		turns = append(turns, llm.Turn{Role: llm.Assistant, Text: "I see."}, llm.Turn{Role: llm.User, Text: say})
	}
	p, starts := s.promptAndStarts(turns)
	context := s.m.Info().Context
	r := llm.Request{Owner: "mira", Prompt: p, Keep: starts[1], Cuts: []int{starts[1], starts[3], starts[5], starts[7]}}
	r.MaxTokens = context - len(p) + starts[3] - starts[1] + 1 // one stretch is too little by one token
	id := d.submit(r)
	for !slices.ContainsFunc(d.events, func(ev llm.Event) bool { return ev.Kind == llm.EventText }) && d.e.HasWork() {
		d.step()
	}
	d.e.Cancel(id)
	d.drain()
	o := d.outcome(id)
	want := starts[5] - starts[1]
	if d.events[0].Kind != llm.EventOverflow || d.events[0].Tokens != want {
		s.Errorf("first event is %s of %d tokens, want overflow of %d", d.events[0].Kind, d.events[0].Tokens, want)
	}
	if got := o.last.Usage.Prompt; got != len(p)-want {
		s.Errorf("%d tokens of the prompt are left, want %d", got, len(p)-want)
	}
	r.MaxTokens = context
	o = d.run(r)
	s.wants("a reply as long as the context", o.last.Err, llm.ErrContextFull)
	if len(o.kinds) != 1 {
		s.Errorf("events %v, want failed only: nothing was dropped", o.kinds)
	}
	r.MaxTokens = 2
	d.reply(r)
}
