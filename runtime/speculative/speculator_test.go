package speculative_test

import (
	"errors"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/lull-npc/lull/runtime/llm"
	"github.com/lull-npc/lull/runtime/scripted"
	"github.com/lull-npc/lull/runtime/speculative"
)

// table is a target, a speculator and their engine.
type table struct {
	*testing.T
	target llm.Model
	spec   *speculative.Speculator
	engine *llm.Engine
	works  map[llm.Stage]int           // steps
	busy   map[llm.Stage]time.Duration // their time
}

func newTable(t *testing.T, target llm.Model, o speculative.Options) *table {
	t.Helper()
	spec, err := speculative.New(target, o)
	if err != nil {
		t.Fatal(err)
	}
	e, err := llm.NewEngine(target, llm.EngineConfig{Speculator: spec})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close(); spec.Close() })
	return &table{t, target, spec, e, map[llm.Stage]int{}, map[llm.Stage]time.Duration{}}
}

func (tb *table) run(r llm.Request, g llm.Grant) *ending {
	tb.Helper()
	id, err := tb.engine.Submit(r)
	if err != nil {
		tb.Fatal(err)
	}
	for tb.engine.HasWork() {
		w, err := tb.engine.Step(g)
		if err != nil {
			tb.Fatal(err)
		}
		tb.works[w.Stage]++
		tb.busy[w.Stage] += time.Duration(w.End - w.Start)
	}
	return endings(tb.engine.Poll(nil))[id]
}

func randomPrompt(seed uint64, n, vocab int) []llm.Token {
	random := rand.New(rand.NewPCG(seed, 3))
	p := make([]llm.Token, n)
	for i := range p {
		p[i] = llm.Token(random.IntN(vocab))
	}
	return p
}

// TestPerfectDraft: a draft model that thinks as the target does is right each
// time, from one request and owner to the next.
func TestPerfectDraft(t *testing.T) {
	tb := newTable(t, newTiny(7), speculative.Options{Draft: newTiny(7), Fixed: true, MaxWidth: 5})
	for i := range uint64(40) {
		tb.run(llm.Request{
			Owner: []string{"", "mira", "tom"}[i%3], Prompt: randomPrompt(i, 3+int(i%9), 6), MaxTokens: 30,
		}, llm.Grant{})
	}
	s := tb.spec.Stats()
	if m := s.Sources[speculative.FromModel]; m.Judged < 200 || m.Accepted != m.Judged || s.ModelOff != "" {
		t.Errorf("%+v, off %q; want all of 200 or more accepted", m, s.ModelOff)
	}
	if tb.works[llm.Draft] == 0 || tb.works[llm.Verify] == 0 {
		t.Errorf("steps %v", tb.works)
	}
}

// TestPreempted: a draft cut short by the gate leaves its candidates, and
// patterns fill up the rest. Nothing waits for the draft.
func TestPreempted(t *testing.T) {
	target, draft := newTiny(4), newTiny(4)
	layers := 0
	draft.onLayer = func() {
		layers++
		mode := llm.GateFree
		if layers%(3*tinyLayers) == 0 { // in the third candidate
			mode = llm.GateClosed
		}
		draft.gate.Publish(llm.Window{Mode: mode})
	}
	tb := newTable(t, target, speculative.Options{Draft: draft, Costs: flat(1), MaxWidth: 8})
	for i := range uint64(20) {
		tb.run(llm.Request{Owner: "mira", Prompt: randomPrompt(i, 12, 3), MaxTokens: 60}, llm.Grant{})
	}
	s := tb.spec.Stats()
	model, reply := s.Sources[speculative.FromModel], s.Sources[speculative.FromReply]
	if model.Judged == 0 || model.Accepted != model.Judged {
		t.Errorf("the model's candidates before the cut: %+v, want all accepted", model)
	}
	if reply.Judged == 0 || reply.Accepted == 0 {
		t.Errorf("patterns after the cut: %+v, want some", reply)
	}
}

// TestOff says why nothing is tried, and then the reply is plain.
func TestOff(t *testing.T) {
	recurrent := newTiny(5)
	recurrent.noUndo = true
	steep := speculative.Costs{Rows: []speculative.Row{{
		Threads: 1, Verify: []speculative.Point{{Width: 2, Ratio: 2.1}, {Width: 8, Ratio: 9}},
	}}}
	for _, c := range []struct {
		target *tiny
		opt    speculative.Options
		why    string
	}{
		{newTiny(5), speculative.Options{Mode: speculative.ModeOff, Costs: flat(1)}, "switched off"},
		{newTiny(5), speculative.Options{}, "measure"},
		{newTiny(5), speculative.Options{Costs: steep}, "no verify batch"},
		{recurrent, speculative.Options{Costs: flat(1)}, "recurrent"},
		{recurrent, speculative.Options{Fixed: true}, "recurrent"},
	} {
		tb := newTable(t, c.target, c.opt)
		tb.run(llm.Request{Prompt: []llm.Token{0, 1, 0, 1, 0, 1}, MaxTokens: 30}, llm.Grant{})
		s := tb.spec.Stats()
		if !strings.Contains(s.Off, c.why) || s.Rounds+s.PlainTokens > 0 || tb.works[llm.Verify] > 0 {
			t.Errorf("off because %q, %d rounds; want %q and none", s.Off, s.Rounds, c.why)
		}
	}
}

// TestGrantLimits: the scheduler narrows the batch and stops the draft model
// from one step to the next.
func TestGrantLimits(t *testing.T) {
	r := llm.Request{Prompt: []llm.Token{0, 1, 2, 0, 1, 2, 0, 1, 2}, MaxTokens: 40}
	for _, c := range []struct {
		grant  llm.Grant
		widest int
		drafts bool
	}{
		{llm.Grant{}, 8, true},
		{llm.Grant{VerifyWidth: 3}, 3, true},
		{llm.Grant{VerifyWidth: 1}, 1, false},
		{llm.Grant{NoDraftModel: true}, 8, false},
		{llm.Grant{NoPatterns: true}, 8, true},
		{llm.Grant{NoPatterns: true, NoDraftModel: true}, 1, false},
	} {
		target := newTiny(4)
		tb := newTable(t, target, speculative.Options{Draft: newTiny(4), Fixed: true, MaxWidth: 8})
		c.grant.PrefillChunk = 1 // so that the widest batch is one of verifying
		tb.run(r, c.grant)
		if target.widest != c.widest || (tb.works[llm.Draft] > 0) != c.drafts {
			t.Errorf("%+v: batches of up to %d, %d drafts; want %d, drafts %v",
				c.grant, target.widest, tb.works[llm.Draft], c.widest, c.drafts)
		}
	}
}

// TestUnsuited: what can't be options, and drafts that don't fit.
func TestUnsuited(t *testing.T) {
	recurrent := newTiny(5)
	recurrent.noUndo = true
	words, err := scripted.New(scripted.Config{})
	if err != nil {
		t.Fatal(err)
	}
	noThreads := speculative.Costs{Rows: make([]speculative.Row, 1)}
	for _, c := range []struct {
		name  string
		draft llm.Model
		opt   speculative.Options
		want  string
		err   error
	}{
		{"vocabulary", newTiny(6), speculative.Options{}, "6 tokens, the target's 5", speculative.ErrDraft},
		{"other model", words, speculative.Options{}, "vocabulary", speculative.ErrDraft},
		{"recurrent", recurrent, speculative.Options{}, "recurrent", speculative.ErrDraft},
		{"bos", changed{newTiny(5), "bos"}, speculative.Options{}, "begin with token 3", speculative.ErrDraft},
		{"end", changed{newTiny(5), "end"}, speculative.Options{}, "ends a reply", speculative.ErrDraft},
		{"piece", changed{newTiny(5), "piece"}, speculative.Options{}, `token 2 is "Q"`, speculative.ErrDraft},
		{"template", changed{newTiny(5), "template"}, speculative.Options{}, "chat template", speculative.ErrDraft},
		{"no draft", nil, speculative.Options{Mode: speculative.ModeModel}, "needs a draft model", nil},
		{"mode", nil, speculative.Options{Mode: 9}, "mode 9", nil},
		{"width", nil, speculative.Options{MaxWidth: 1}, "MaxWidth 1", nil},
		{"conversations", nil, speculative.Options{Conversations: -1}, "Conversations -1", nil},
		{"costs", nil, speculative.Options{Costs: noThreads}, "0 threads", nil},
	} {
		c.opt.Draft = c.draft
		if len(c.opt.Costs.Rows) == 0 {
			c.opt.Costs = flat(1)
		}
		_, err := speculative.New(newTiny(5), c.opt)
		if err == nil || !strings.Contains(err.Error(), c.want) || c.err != nil && !errors.Is(err, c.err) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
	if err := speculative.Compatible(newTiny(5), newTiny(5)); err != nil {
		t.Error(err)
	}
	for m := speculative.ModeAuto; m <= speculative.ModeModel; m++ {
		if got, err := speculative.ParseMode(m.String()); got != m || err != nil {
			t.Errorf("%s is read as %s, %v", m, got, err)
		}
	}
	if _, err := speculative.ParseMode("on"); err == nil || !strings.Contains(err.Error(), "ngram") {
		t.Errorf("mode on: %v", err)
	}
}

// changed is a tiny with one thing different.
type changed struct {
	*tiny
	what string
}

func (m changed) BOS() (llm.Token, bool) { return 3, m.what == "bos" }

func (m changed) IsEnd(t llm.Token) bool { return m.tiny.IsEnd(t) || m.what == "end" && t == 1 }

func (m changed) AppendPiece(dst []byte, t llm.Token) []byte {
	if m.what == "piece" && t == 2 {
		return append(dst, 'Q')
	}
	return m.tiny.AppendPiece(dst, t)
}

func (m changed) RenderChat(turns []llm.Turn, reply bool) ([]llm.Segment, error) {
	out, err := m.tiny.RenderChat(turns, reply)
	if m.what == "template" {
		out = append(out, llm.Segment{Text: "ab", Markup: true})
	}
	return out, err
}

// TestForgets: after Forget, and in another conversation, nothing is known of
// what was said before.
func TestForgets(t *testing.T) {
	target, err := scripted.New(scripted.Config{Script: scripted.Table(map[string]string{
		"a": strings.Repeat("over the old road ", 4), "b": strings.Repeat("over the old road ", 4),
	}, "")})
	if err != nil {
		t.Fatal(err)
	}
	tb := newTable(t, target, speculative.Options{Costs: flat(1), Mode: speculative.ModeNGram})
	ask := func(owner, say string) int {
		segments, _ := target.RenderChat([]llm.Turn{{Role: llm.User, Text: say}}, true)
		p, _, _ := llm.TokenizeChat(target, segments)
		before := target.Decodes()
		tb.run(llm.Request{Owner: owner, Prompt: p}, llm.Grant{})
		return target.Decodes() - before
	}
	first := ask("mira", "a")
	known := ask("mira", "b")
	other := ask("tom", "a")
	tb.engine.Forget("mira")
	again := ask("mira", "a")
	if known >= first || other < first-1 || again < first-1 {
		t.Errorf("%d batches at first, %d when known, %d of another owner, %d after Forget", first, known, other, again)
	}
}

// TestWorker is for the race detector: a worker steps while a game submits,
// cancels, shuts and opens the draft's gate, and reads Stats.
func TestWorker(t *testing.T) {
	open := func() *scripted.Model {
		m, err := scripted.New(scripted.Config{Script: scripted.Echo, MaxSequences: 2})
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	target, draft := open(), open()
	tb := newTable(t, target, speculative.Options{Draft: draft, Costs: flat(1)})
	w, err := llm.StartWorker(tb.engine, llm.WorkerConfig{})
	if err != nil {
		t.Fatal(err)
	}
	segments, _ := target.RenderChat([]llm.Turn{{Role: llm.User, Text: strings.Repeat("the old road ", 9)}}, true)
	p, _, _ := llm.TokenizeChat(target, segments)
	want := plain(t, open(), llm.Request{Prompt: p})
	var events []llm.Event
	cancelled := map[llm.RequestID]bool{}
	for i := range 200 {
		id, err := tb.engine.Submit(llm.Request{Owner: []string{"mira", ""}[i%2], Prompt: p})
		if err != nil {
			t.Fatal(err)
		}
		for n := 0; tb.engine.HasWork(); n++ {
			draft.Gate().Publish(llm.Window{Mode: llm.GateMode(n % 2 * 3)}) // free, closed
			if i%4 == 0 && n == i && tb.engine.Cancel(id) {
				cancelled[id] = true
			}
			if i%50 == 1 {
				tb.engine.Forget("mira")
			}
			tb.spec.Stats()
			events = tb.engine.Poll(events)
		}
		events = tb.engine.Poll(events)
	}
	w.Stop()
	for id, end := range endings(tb.engine.Poll(events)) {
		if !cancelled[id] && end.Text != want.Text || !strings.HasPrefix(want.Text, end.Text) {
			t.Errorf("request %d, cancelled %v: %+v, want %q", id, cancelled[id], end, want.Text)
		}
	}
}

// likeCPU are the costs of scripted.SmolLM2 in virtual time: T(8)/T(1) is 3.2.
func likeCPU() speculative.Costs {
	c := scripted.SmolLM2()
	ns := func(width int) float64 { return 30*(c.LayerNS+c.TokenNS*float64(width)) + c.TailNS*float64(width) }
	row := speculative.Row{Threads: 1, Token: time.Duration(ns(1))}
	for w := 1; w <= 8; w++ {
		row.Verify = append(row.Verify, speculative.Point{Width: w, Ratio: ns(w) / ns(1)})
	}
	return speculative.Costs{Rows: []speculative.Row{row}}
}

// TestSpeculationNeverCosts plays small talk, which nothing can guess, and
// lists read back, on a device that verifies as dear as a CPU does.
func TestSpeculationNeverCosts(t *testing.T) {
	for _, c := range []struct {
		name   string
		script scripted.Script // nil: words drawn from a hash
		least  float64         // times plain decoding's tokens per second
	}{
		{"small talk", nil, 0.97},
		{"a list read back", scripted.Echo, 1.3},
	} {
		off, _ := talk(t, c.script, speculative.Options{Mode: speculative.ModeOff})
		on, s := talk(t, c.script, speculative.Options{Costs: likeCPU()})
		gain := float64(off) / float64(on)
		t.Logf("%s: decoding %v, with speculation %v (×%.3f); %d rounds, expected ×%.2f, measured ×%.2f",
			c.name, off, on, gain, s.Rounds, s.Expected, s.Measured())
		if gain < c.least {
			t.Errorf("%s: ×%.3f, want ×%.2f or more", c.name, gain, c.least)
		}
		if s.Rounds > 50 && (s.Measured() < 0.8*s.Expected || s.Measured() > 1.25*s.Expected) {
			t.Errorf("%s: measured ×%.2f, expected ×%.2f", c.name, s.Measured(), s.Expected)
		}
	}
}

// TestHopefulCosts plays on a device where verifying is dearer than its costs say, as
// it is beside a game or another program: what batches take is seen, so what is
// expected of them is what they bring.
func TestHopefulCosts(t *testing.T) {
	costs := likeCPU()
	row := &costs.Rows[0]
	for i := range row.Verify {
		row.Verify[i].Ratio = 1 + (row.Verify[i].Ratio-1)/4
	}
	for _, c := range []struct {
		name   string
		script scripted.Script
		least  float64
	}{{"small talk", nil, 0.96}, {"a list read back", scripted.Echo, 1.3}} {
		off, _ := talk(t, c.script, speculative.Options{Mode: speculative.ModeOff})
		on, s := talk(t, c.script, speculative.Options{Costs: costs})
		gain := float64(off) / float64(on)
		t.Logf("%s: ×%.3f; %d rounds, expected ×%.2f, measured ×%.2f", c.name, gain, s.Rounds, s.Expected, s.Measured())
		if gain < c.least {
			t.Errorf("%s: ×%.3f, want ×%.2f or more", c.name, gain, c.least)
		}
		if s.Rounds > 50 && (s.Expected < 0.8*s.Measured() || s.Expected > 1.25*s.Measured()) {
			t.Errorf("%s: ×%.2f expected of a round, it brought ×%.2f", c.name, s.Expected, s.Measured())
		}
	}
}

// talk plays 40 turns of random words and returns the time of decoding.
func talk(t *testing.T, script scripted.Script, o speculative.Options) (time.Duration, speculative.Stats) {
	t.Helper()
	m, err := scripted.New(scripted.Config{
		Script: script, Clock: scripted.NewClock(0), Cost: scripted.SmolLM2(), Layers: 30,
	})
	if err != nil {
		t.Fatal(err)
	}
	tb := newTable(t, m, o)
	words := strings.Fields("the a you I to of and is in my we not old road gold sword night king river stone")
	random := rand.New(rand.NewPCG(4, 4))
	for range 40 {
		var say strings.Builder
		for range 25 {
			say.WriteString(" " + words[random.IntN(len(words))])
		}
		segments, err := m.RenderChat([]llm.Turn{{Role: llm.User, Text: say.String()}}, true)
		if err != nil {
			t.Fatal(err)
		}
		p, _, err := llm.TokenizeChat(m, segments)
		if err != nil {
			t.Fatal(err)
		}
		tb.run(llm.Request{Owner: "mira", Prompt: p, MaxTokens: 60}, llm.Grant{PrefillChunk: 16})
	}
	return tb.busy[llm.Decode] + tb.busy[llm.Verify] + tb.busy[llm.Draft], tb.spec.Stats()
}
