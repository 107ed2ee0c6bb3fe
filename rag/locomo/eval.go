package locomo

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/lull-npc/lull/rag"
)

// Scores are recall at 5 and at 10, in [0, 1].
type Scores struct {
	At5  float64 `json:"5"`
	At10 float64 `json:"10"`
}

// Category is what one kind of question got.
type Category struct {
	Questions int    `json:"questions"`
	Recall    Scores `json:"recall"`
	Any       Scores `json:"any"`
}

// Report is what Eval measured.
type Report struct {
	Questions  int                 `json:"questions"` // with evidence
	Recall     Scores              `json:"recall"`
	Any        Scores              `json:"any"`
	ByCategory map[string]Category `json:"by_category"`
	Baselines  map[string]Scores   `json:"baselines"`

	Conversations []string `json:"conversations"`
	Memories      int      `json:"memories"`
	Embedder      string   `json:"embedder"` // "none": recall is lexical

	runs []run
}

// Of is the report of some of the conversations that Eval was given.
func (r Report) Of(some []Conversation) Report {
	out := Report{ByCategory: map[string]Category{}, Baselines: map[string]Scores{}, Embedder: r.Embedder}
	for _, c := range some {
		out.Conversations = append(out.Conversations, c.ID)
		out.Memories += len(c.Turns)
	}
	for _, x := range r.runs {
		part := x
		part.answers = nil
		for _, a := range x.answers {
			if slices.Contains(out.Conversations, a.conversation) {
				part.answers = append(part.answers, a)
			}
		}
		out.runs = append(out.runs, part)
	}
	out.fill(out.runs)
	return out
}

// Baselines that Eval knows.
const (
	BM25       = "bm25"        // each turn alone
	BM25Window = "bm25_window" // each turn with the one before it
	Dense      = "dense"       // vectors of "speaker: text" alone
)

// Eval measures cfg, whose Dir is not used, and the baselines. Progress is told
// how many of all texts are embedded; it may be nil.
func Eval(ctx context.Context, all []Conversation, cfg rag.Config, progress func(done, of int)) (Report, error) {
	cfg.Dir = ""
	r := Report{ByCategory: map[string]Category{}, Baselines: map[string]Scores{}, Embedder: "none"}
	runs := []run{{name: "", cfg: cfg, scenes: true}, {name: BM25, cfg: plain(cfg)},
		{name: BM25Window, cfg: plain(cfg), scenes: true}}
	if cfg.Embedder != nil {
		r.Embedder = cfg.Embedder.Identity().Model
		dense := cfg
		dense.NoLexical, dense.Weights = true, rag.Weights{Relevance: 1}
		runs = append(runs, run{name: Dense, cfg: dense, prefixed: true})
	}
	texts := 0
	for _, c := range all {
		r.Conversations = append(r.Conversations, c.ID)
		r.Memories += len(c.Turns)
		texts += len(c.Turns)
	}
	if cfg.Embedder != nil {
		texts *= 2
	}
	done := 0
	tick := func() {
		if done++; progress != nil {
			progress(done, texts)
		}
	}
	for i := range runs {
		for _, c := range all {
			if err := runs[i].measure(ctx, c, tick); err != nil {
				return r, fmt.Errorf("locomo: %s: %w", c.ID, err)
			}
		}
	}
	r.runs = runs
	r.fill(runs)
	if r.Questions == 0 {
		return r, fmt.Errorf("%w: no question names a turn", ErrFormat)
	}
	return r, nil
}

// plain is BM25 as textbooks have it, without vectors and by relevance alone.
func plain(cfg rag.Config) rag.Config {
	cfg.Embedder, cfg.NoLexical = nil, false
	cfg.K1, cfg.B = 1.2, 0.75
	cfg.Weights = rag.Weights{Relevance: 1}
	return cfg
}

func (r *Report) fill(runs []run) {
	for _, x := range runs {
		total := x.sum("")
		if x.name != "" {
			r.Baselines[x.name] = total.Recall
			continue
		}
		r.Questions, r.Recall, r.Any = total.Questions, total.Recall, total.Any
		for _, name := range categories {
			if c := x.sum(name); c.Questions > 0 {
				r.ByCategory[name] = c
			}
		}
	}
}

// run is one way to recall, and what it found.
type run struct {
	name     string
	cfg      rag.Config
	scenes   bool // sessions are scenes
	prefixed bool // memories begin with the speaker's name, and have no other speaker
	answers  []answer
}

// answer is what one question got.
type answer struct {
	conversation string
	category     string
	recall       Scores
	any          Scores
}

const listener = "listener"

func (x *run) measure(ctx context.Context, c Conversation, tick func()) error {
	s, err := rag.Open(x.cfg)
	if err != nil {
		return err
	}
	defer s.Close()
	ids := map[string]rag.ID{}
	last := time.Duration(0)
	for _, t := range c.Turns {
		m := rag.Memory{Owner: listener, Speaker: t.Speaker, Text: t.Text, At: t.At}
		if x.scenes {
			m.Scene = fmt.Sprint(t.Session)
		}
		if x.prefixed {
			m.Speaker, m.Text = "", t.Speaker+": "+t.Text
		}
		if ids[t.ID], err = s.Remember(m); err != nil {
			return fmt.Errorf("turn %s: %w", t.ID, err)
		}
		last = max(last, t.At)
	}
	if err := embedAll(ctx, s, x.cfg, tick); err != nil {
		return err
	}
	for _, q := range c.Questions {
		if len(q.Evidence) == 0 {
			continue
		}
		got, err := s.Recall(ctx, rag.Query{Knower: rag.Knower{NPC: listener}, Text: q.Text, Now: last, Limit: 10,
			ReadOnly: true})
		if err = errors.Join(err, got.Err); err != nil {
			return fmt.Errorf("question %q: %w", q.Text, err)
		}
		a := grade(q, got.Found, ids)
		a.conversation = c.ID
		x.answers = append(x.answers, a)
	}
	return nil
}

// embedAll gives each memory its vector.
func embedAll(ctx context.Context, s *rag.Store, cfg rag.Config, tick func()) error {
	slice := cfg.FirstCost
	for cfg.Embedder != nil {
		d := s.WorkContext(ctx, slice)
		for range d.Indexed {
			tick()
		}
		if d.Err != nil || d.Pending == 0 {
			return d.Err
		}
		if d.Next == 0 {
			return fmt.Errorf("%w: %d memories can't be embedded", rag.ErrReindex, d.Pending)
		}
		slice = max(slice, 2*d.Next) // a slow device: a slice must hold one text
	}
	return ctx.Err()
}

func grade(q Question, found []rag.Found, ids map[string]rag.ID) answer {
	want := map[rag.ID]bool{}
	for _, e := range q.Evidence {
		if id := ids[e]; id != 0 {
			want[id] = true
		}
	}
	a := answer{category: categories[q.Category]}
	if a.category == "" {
		a.category = fmt.Sprint("category_", q.Category)
	}
	at := func(k int) (share, any float64) {
		hits := 0
		for _, f := range found[:min(k, len(found))] {
			if want[f.ID] {
				hits++
			}
		}
		return float64(hits) / float64(max(1, len(want))), float64(min(1, hits))
	}
	a.recall.At5, a.any.At5 = at(5)
	a.recall.At10, a.any.At10 = at(10)
	return a
}

// sum is the mean over the answers of one category; "" is all.
func (x *run) sum(category string) Category {
	var c Category
	for _, a := range x.answers {
		if category != "" && a.category != category {
			continue
		}
		c.Questions++
		c.Recall.At5 += a.recall.At5
		c.Recall.At10 += a.recall.At10
		c.Any.At5 += a.any.At5
		c.Any.At10 += a.any.At10
	}
	if n := float64(c.Questions); n > 0 {
		for _, v := range []*float64{&c.Recall.At5, &c.Recall.At10, &c.Any.At5, &c.Any.At10} {
			*v /= n
		}
	}
	return c
}
