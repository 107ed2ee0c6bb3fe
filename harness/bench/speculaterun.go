package bench

import (
	"context"
	_ "embed"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/goccy/go-yaml"

	"github.com/lull-npc/lull/harness/metrics"
	"github.com/lull-npc/lull/runtime/llm"
	"github.com/lull-npc/lull/runtime/speculative"
)

//go:embed speculate.yaml
var speculateTexts []byte

// Kinds of text.
const (
	natural = "natural"
	copying = "copying"
)

// conversation is a prompt, and what plain decoding said to it.
type conversation struct {
	kind, name string
	prompt     []llm.Token
	plain      []llm.Token // nil: not known yet
	other      map[string][]llm.Token
}

// conversations lays out the texts for a model.
func conversations(m llm.Model) ([]*conversation, error) {
	var file map[string][]struct {
		Name  string
		Turns []struct{ Role, Text string }
	}
	if err := yaml.Unmarshal(speculateTexts, &file); err != nil {
		return nil, fmt.Errorf("bench: speculate.yaml: %w", err)
	}
	var list []*conversation
	for _, kind := range []string{natural, copying} {
		for _, c := range file[kind] {
			var turns []llm.Turn
			for _, t := range c.Turns {
				turns = append(turns, llm.Turn{Role: llm.Role(t.Role), Text: t.Text})
			}
			segments, err := m.RenderChat(turns, true)
			if err != nil {
				return nil, err
			}
			prompt, _, err := llm.TokenizeChat(m, segments)
			if err != nil {
				return nil, err
			}
			list = append(list, &conversation{kind: kind, name: c.Name, prompt: prompt,
				other: map[string][]llm.Token{}})
		}
	}
	return list, nil
}

// turns is an llm.Speculator that hands over to the one whose turn it is, so
// that all methods share one engine and its prompts. Nil is plain decoding.
type turns struct{ now *speculative.Speculator }

func (x *turns) Draft(r llm.Reply, g llm.Grant) (llm.Work, bool) {
	if x.now == nil {
		return llm.Work{}, false
	}
	return x.now.Draft(r, g)
}

func (x *turns) Propose(dst []llm.Token, r llm.Reply, g llm.Grant) []llm.Token {
	if x.now == nil {
		return dst
	}
	return x.now.Propose(dst, r, g)
}

func (x *turns) Judged(r llm.Reply, j llm.Judgement) {
	if x.now != nil {
		x.now.Judged(r, j)
	}
}

func (x *turns) Forget(owner string) {
	if x.now != nil {
		x.now.Forget(owner)
	}
}

// Stop and Resume have nothing to do: nobody cancels here.
func (x *turns) Stop()   {}
func (x *turns) Resume() {}

// method is a way to decode. Each kind of text has a speculator of its own, as a
// conversation has its rates.
type method struct {
	name        string
	speculators map[string]*speculative.Speculator // by kind; none: plain
	kinds       map[string]*tally
}

// tally is what a method did on one kind of text.
type tally struct {
	rates         []float64 // tokens per second, of each round
	tokens        int       // of the round
	spent         time.Duration
	plain, guided float64 // tokens, and the time that they should take in units of T(1)
}

// prepare makes the methods and the engine.
func (b *speculation) prepare(costs speculative.Costs) error {
	modes := map[string]speculative.Mode{NGram: speculative.ModeNGram}
	if b.draft != nil {
		modes[WithDraft] = speculative.ModeModel
	}
	add := func(name string) *method {
		m := &method{name, map[string]*speculative.Speculator{}, map[string]*tally{natural: {}, copying: {}}}
		b.methods = append(b.methods, m)
		return m
	}
	add(Plain)
	for _, name := range slices.Sorted(maps.Keys(modes)) {
		m := add(name)
		for kind := range m.kinds {
			o := speculative.Options{Mode: modes[name], Costs: costs}
			if name == WithDraft {
				o.Draft = b.draft
			}
			s, err := speculative.New(b.target, o)
			if err != nil {
				return err
			}
			m.speculators[kind] = s
		}
	}
	slices.SortStableFunc(b.methods, func(x, y *method) int { return rank(x.name) - rank(y.name) })
	var err error
	b.engine, err = llm.NewEngine(b.target, llm.EngineConfig{Clock: b.clock, Speculator: b.turn})
	return err
}

func rank(name string) int { return slices.Index([]string{Plain, NGram, WithDraft}, name) }

// rounds runs every conversation with every method, in a new order each time.
func (b *speculation) rounds(ctx context.Context) error {
	for round := -1; round < b.cfg.Rounds; round++ { // round -1 warms caches and pools, it does not count
		for _, m := range b.methods {
			for _, t := range m.kinds {
				t.tokens, t.spent = 0, 0
			}
		}
		texts, methods := slices.Clone(b.texts), slices.Clone(b.methods)
		b.random.Shuffle(len(texts), func(i, j int) { texts[i], texts[j] = texts[j], texts[i] })
		for i, c := range texts {
			b.random.Shuffle(len(methods), func(i, j int) { methods[i], methods[j] = methods[j], methods[i] })
			for _, m := range methods {
				if err := b.reply(ctx, c, m, round >= 0); err != nil {
					return err
				}
			}
			b.cfg.Progress("replies", (round+1)*len(texts)+i+1, (b.cfg.Rounds+1)*len(texts))
		}
		if round < 0 {
			continue
		}
		b.done = round + 1
		for _, m := range b.methods {
			for _, t := range m.kinds {
				if t.spent > 0 {
					t.rates = append(t.rates, float64(t.tokens)/t.spent.Seconds())
				}
			}
		}
	}
	return nil
}

// reply runs one conversation with one method, greedy.
func (b *speculation) reply(ctx context.Context, c *conversation, m *method, counts bool) error {
	s := m.speculators[c.kind]
	b.turn.now = s
	var before speculative.Stats
	if s != nil {
		before = s.Stats()
		defer s.Forget(c.name)
	}
	id, err := b.engine.Submit(llm.Request{Owner: c.name, Prompt: c.prompt, MaxTokens: b.cfg.Tokens})
	if err != nil {
		return err
	}
	for b.engine.HasWork() {
		if ctx.Err() != nil {
			b.engine.Cancel(id)
			return context.Cause(ctx)
		}
		if _, err := b.engine.Step(llm.Grant{Threads: b.cfg.Threads}); err != nil {
			return err
		}
	}
	for _, e := range b.engine.Poll(nil) {
		switch e.Kind {
		case llm.EventFailed:
			return fmt.Errorf("bench: %s, %s: %w", c.name, m.name, e.Err)
		case llm.EventDone:
			c.said(m.name, e.Reply)
			if counts {
				m.kinds[c.kind].add(e.Usage, before, s)
			}
		}
	}
	return nil
}

// said keeps a reply that may differ from the plain one.
func (c *conversation) said(method string, reply []llm.Token) {
	if method == Plain {
		c.plain = slices.Clone(reply)
		return
	}
	c.other[method] = slices.Clone(reply)
}

// add counts the tokens after the first, which comes with the prompt.
func (t *tally) add(u llm.Usage, before speculative.Stats, s *speculative.Speculator) {
	if u.Generated < fewTokens {
		return
	}
	t.tokens += u.Generated - 1
	t.spent += u.Total - u.TTFT
	if s == nil {
		return
	}
	now := s.Stats()
	rounds := now.Rounds - before.Rounds
	verified := float64(now.VerifyTokens - before.VerifyTokens)
	alone := float64(now.PlainTokens - before.PlainTokens)
	speedup := 1.0
	if rounds > 0 {
		speedup = (now.Expected*float64(now.Rounds) - before.Expected*float64(before.Rounds)) / float64(rounds)
	}
	t.plain += verified + alone
	t.guided += verified/max(speedup, 0.01) + alone
}

// summarise fills in the rows.
func (b *speculation) summarise(r *SpeculateReport) {
	for _, kind := range []string{natural, copying} {
		var plain []float64
		for _, m := range b.methods {
			t := m.kinds[kind]
			row := SpeculateRow{Kind: kind, Method: m.name, Rate: metrics.Quartiles(t.rates), Predicted: 1,
				Acceptance: map[string]float64{}, Judged: map[string]uint64{}}
			if m.name == Plain {
				plain = t.rates
			}
			ratios := make([]float64, min(len(plain), len(t.rates)))
			for i := range ratios {
				ratios[i] = t.rates[i] / plain[i]
			}
			row.Ratio = metrics.Quartiles(ratios)
			row.Low, row.High = medianInterval(ratios)
			if t.guided > 0 {
				row.Predicted = t.plain / t.guided
			}
			if s := m.speculators[kind]; s != nil {
				row.stats(s.Stats())
			}
			r.Rows = append(r.Rows, row)
		}
	}
}

func (row *SpeculateRow) stats(s speculative.Stats) {
	row.Batches, row.VerifyTokens, row.PlainTokens, row.Off = s.Rounds, s.VerifyTokens, s.PlainTokens, s.Off
	for i, x := range s.Sources {
		if x.Judged > 0 {
			name := speculative.Source(i).String()
			row.Acceptance[name], row.Judged[name] = x.Acceptance(), x.Judged
		}
	}
}

// compare finds the replies that differ from plain ones, and by how much the
// logits of the two tokens did where they parted. Call when no reply runs.
func (b *speculation) compare(r *SpeculateReport) error {
	b.engine.Close() // its sequences are needed
	for _, c := range b.texts {
		for _, method := range slices.Sorted(maps.Keys(c.other)) {
			if c.plain == nil {
				continue
			}
			r.Replies.Compared++
			at, got := 0, c.other[method]
			for at < min(len(c.plain), len(got)) && c.plain[at] == got[at] {
				at++
			}
			if at == min(len(c.plain), len(got)) {
				if len(c.plain) == len(got) {
					r.Replies.Equal++
					continue
				}
				return fmt.Errorf("bench: %s, %s: the reply has %d tokens, the plain one %d, of the same beginning",
					c.name, method, len(got), len(c.plain))
			}
			gap, err := b.gap(c, at, got[at])
			if err != nil {
				return err
			}
			r.Replies.Differences = append(r.Replies.Differences, Difference{c.name, method, at, gap})
			r.Replies.LargestGap = max(r.Replies.LargestGap, gap)
		}
	}
	return nil
}

// gap is how far the logits of the plain token and another lie apart, decoded
// plainly.
func (b *speculation) gap(c *conversation, at int, other llm.Token) (float64, error) {
	s, err := b.target.NewSequence()
	if err != nil {
		return 0, err
	}
	defer s.Close()
	var batch llm.Batch
	decode := func(tokens []llm.Token) error {
		batch.Reset()
		for i, t := range tokens {
			batch.Add(s, t, i == len(tokens)-1)
		}
		_, err := b.target.Decode(&batch, llm.Grant{Threads: b.cfg.Threads})
		return err
	}
	for chunk := range slices.Chunk(c.prompt, b.target.Info().MaxBatch) {
		if err := decode(chunk); err != nil {
			return 0, err
		}
	}
	for i := range at {
		if err := decode(c.plain[i : i+1]); err != nil {
			return 0, err
		}
	}
	logits, err := b.target.Logits(0)
	if err != nil {
		return 0, err
	}
	return math.Abs(float64(logits[c.plain[at]]) - float64(logits[other])), nil
}
