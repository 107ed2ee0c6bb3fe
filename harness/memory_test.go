package harness

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lull-npc/lull/rag"
	"github.com/lull-npc/lull/runtime/llm"
	"github.com/lull-npc/lull/runtime/scripted"
	"github.com/lull-npc/lull/scheduler"
)

// wordVectors gives texts that share words like vectors, in no time.
type wordVectors struct{}

func (wordVectors) Identity() rag.Identity {
	return rag.Identity{Model: "words", Pooling: "sum", Dimension: 32}
}

func (wordVectors) Embed(_ context.Context, text string) ([]float32, error) {
	x := make([]float32, 32)
	for word := range strings.FieldsSeq(text) {
		h := fnv.New64a()
		h.Write([]byte(word))
		r := rand.New(rand.NewPCG(h.Sum64(), 1))
		for i := range x {
			x[i] += float32(r.NormFloat64())
		}
	}
	return x, nil
}

// siege is a fight, of which a guard is asked while it goes on and after it.
const siege = `
name: siege
description: a test
target_hz: 100
phases:
  - {phase: combat, seconds: 0.3, load: {workers: 1, cpu_ms: 1}}
  - {phase: menu, seconds: 0.6}
npcs:
  - {name: guard, persona: You guard a gate., ask: [What of the wolf?], at_s: [0.1, 0.2, 0.8], max_tokens: 4}
memories:
  - {owner: guard, texts: ["wolf {n} howls", "wolf {n} falls"], every_s: 0.02, phases: [combat], importance: 7}
  - {owner: smith, scope: witnessed, audience: [guard], speaker: Tarn, texts: [The wolf is dead.], at_s: [0.05, 0.06]}
`

// Memories wait for the menu, are durable, found in the fight and in prompts; and
// each part of that is gone in the policy that lacks it.
func TestMemories(t *testing.T) {
	o := options(t, "lull,lull-eager,lull-no-lexical,lull-no-memory", 1)
	var err error
	if o.Scenario, err = ParseScenario("siege.yaml", []byte(siege)); err != nil {
		t.Fatal(err)
	}
	var reminded atomic.Int64
	o.Model.OpenModel = func(_ context.Context, clock llm.Clock, admit llm.AdmitFunc) (llm.Model, error) {
		return scripted.New(scripted.Config{Clock: clock, Admit: admit, Script: func(c scripted.Conversation) string {
			if text := c.Last(llm.User); strings.HasPrefix(text, "You remember: ") && strings.Contains(text, "olf") {
				reminded.Add(1)
			}
			return "Hm."
		}})
	}
	o.Embedder = func(context.Context) (rag.Embedder, error) { return wordVectors{}, nil }
	r, err := Play(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if !o.Remembers() || reminded.Load() == 0 {
		t.Errorf("%d prompts held what was remembered", reminded.Load())
	}
	for i := range r.Runs {
		run := &r.Runs[i]
		m := run.Memory
		if run.Policy == PolicyNoMemory {
			if m != nil || len(run.Embeddings) > 0 {
				t.Errorf("%s remembers: %+v", run.Policy, m)
			}
			continue
		}
		// 14 of the guard where no frame is long, and one of the smith that is told twice.
		if m == nil || m.Remembered < 2 || m.Remembered > 16 || m.Acknowledged != m.Remembered || m.Failed > 0 ||
			m.Error != "" || m.Remember.P99 == nil {
			t.Fatalf("%s: %+v", run.Policy, m)
		}
		if m.Pending["menu"] != 0 || m.Indexed != m.Remembered || m.Recalls < 1 || m.RecallMs.P50 == nil {
			t.Errorf("%s: %+v", run.Policy, m)
		}
		if eager := run.Policy == PolicyEager; eager != (run.Embeddings["combat"] > 0) {
			t.Errorf("%s: embeddings %v", run.Policy, run.Embeddings)
		}
		if n := run.Embeddings["combat"] + run.Embeddings["menu"]; n != m.Indexed+m.Questions {
			t.Errorf("%s: embeddings %v of %+v", run.Policy, run.Embeddings, m)
		}
		if blind := run.Policy == "lull-no-lexical"; blind != (m.FoundShare < 1) {
			t.Errorf("%s found something in %v of recalls", run.Policy, m.FoundShare)
		}
		if run.Policy == PolicyLull && m.Pending["combat"] != m.Remembered {
			t.Errorf("%d of %d waited at the end of the fight", m.Pending["combat"], m.Remembered)
		}
	}
	checkMemoryReport(t, r)
}

func checkMemoryReport(t *testing.T, r *Report) {
	t.Helper()
	for _, o := range []Objective{
		{Metric: "embeddings.combat", Op: AtMost},
		{Metric: "memory.pending.menu", Op: AtMost},
		{Metric: "memory.pending.menu", Policy: PolicyNoMemory, Op: AtMost},
	} {
		v := judge(o, r.Runs, 1)
		if skipped := o.Policy == PolicyNoMemory; skipped != (v.Status == Skipped) || v.Failed() {
			t.Errorf("%s", v.Result())
		}
	}
	var text bytes.Buffer
	if err := r.WriteText(&text); err != nil || !strings.Contains(text.String(), "left to embed") {
		t.Errorf("%v: %s", err, text.String())
	}
	data, err := json.Marshal(r.Runs[0])
	if err != nil || !bytes.Contains(data, []byte(`"embeddings":{"combat":0,"menu":`)) {
		t.Errorf("%v: %s", err, data)
	}
}

// An embedder that fails costs no reply; the report says so.
func TestMemoriesWithoutLuck(t *testing.T) {
	o := options(t, "lull", 1)
	var err error
	if o.Scenario, err = ParseScenario("siege.yaml", []byte(siege)); err != nil {
		t.Fatal(err)
	}
	o.Embedder = func(context.Context) (rag.Embedder, error) { return nil, errors.New("no luck") }
	if _, err := Play(t.Context(), o); err == nil || !strings.Contains(err.Error(), "no luck") {
		t.Errorf("an embedder that can't be opened: %v", err)
	}
	o.Embedder = func(context.Context) (rag.Embedder, error) { return unlucky{}, nil }
	r, err := Play(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	m := r.Runs[0].Memory
	if m.Error == "" || m.Indexed != 0 || m.Acknowledged != m.Remembered || m.Remembered == 0 || m.FoundShare == 0 {
		t.Errorf("%+v", m)
	}
	if notes := strings.Join(r.Notes, "\n"); !strings.Contains(notes, "lull 1: memories: ") {
		t.Errorf("notes: %s", notes)
	}
}

type unlucky struct{ wordVectors }

func (unlucky) Embed(context.Context, string) ([]float32, error) { return nil, errors.New("no luck") }

func TestExperiencesInTime(t *testing.T) {
	s, err := ParseScenario("siege.yaml", []byte(siege))
	if err != nil {
		t.Fatal(err)
	}
	line, _, err := newTimeline(s, 1)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for i := range s.Memories {
		h := newHappening(&s.Memories[i], line)
		for ms := time.Duration(0); ms < 1200; ms += 50 {
			p, _ := line.at(ms * time.Millisecond)
			for m, ok := h.next(p, ms*time.Millisecond); ok; m, ok = h.next(p, ms*time.Millisecond) {
				if len(got) < 3 || i > 0 {
					got = append(got, m.At.String()+" "+m.Owner+": "+m.Text)
				}
			}
		}
	}
	want := []string{"50ms guard: wolf 1 howls", "50ms guard: wolf 2 falls", "100ms guard: wolf 3 howls",
		"50ms smith: The wolf is dead.", "100ms smith: The wolf is dead."}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s", diff)
	}
	long, err := s.WithSeconds(9)
	if err != nil || math.Abs(long.Memories[1].AtS[0]-0.5) > 1e-9 ||
		long.Memories[0].EveryS != 0.02 || s.Memories[1].AtS[0] != 0.05 {
		t.Errorf("%+v, %v", long, err)
	}
	if _, err := s.WithSeconds(24 * 3600); !errors.Is(err, ErrScenario) {
		t.Errorf("a day of it: %v", err)
	}
}

func TestExperienceErrors(t *testing.T) {
	for text, want := range map[string]string{
		"{texts: [a], every_s: 1}":                                      "owner",
		"{owner: a, every_s: 1}":                                        "texts",
		"{owner: a, texts: [b]}":                                        "0 ways",
		"{owner: a, texts: [b], every_s: 1, at_s: [1]}":                 "2 ways",
		"{owner: a, texts: [b], every_s: 0.0001}":                       "every_s",
		"{owner: a, texts: [b], at_s: [9]}":                             "at_s",
		"{owner: a, texts: [b], every_s: 1, importance: 11}":            "importance",
		"{owner: a, texts: [b], every_s: 1, scope: secret}":             "want own, witnessed",
		"{owner: a, texts: [b], every_s: 1, scope: witnessed}":          "with 0 names",
		"{owner: a, texts: [b], every_s: 1, audience: [c]}":             "with an audience",
		"{owner: a, texts: [b], every_s: 1, phases: [war]}":             "is no phase",
		"{owner: a, texts: [b], every_s: 1, colour: red}":               "unknown field",
		"{owner: a, texts: [b], every_s: 1, texts: [c], every_s: .NaN}": "already defined",
	} {
		_, err := ParseScenario("x.yaml", []byte(minimal+"memories:\n  - "+text+"\n"))
		var file *FileError
		if !errors.As(err, &file) || file.Line == 0 || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

func TestMemoryFeatures(t *testing.T) {
	f, m, err := ParseFeatures("probe, deferral,lexical")
	if err != nil || f != scheduler.FeatureProbe || m != Deferral|Lexical || m.String() != "deferral,lexical" {
		t.Errorf("%v, %v, %v", f, m, err)
	}
	if _, _, err := ParseFeatures("luck"); !errors.Is(err, scheduler.ErrConfig) ||
		!strings.Contains(err.Error(), "deferral") {
		t.Errorf("%v", err)
	}
	for _, list := range []string{"", ",", " "} {
		if f, m, err := ParseFeatures(list); f != 0 || m != 0 || err != nil {
			t.Errorf("%q: %v, %v, %v", list, f, m, err)
		}
	}
	p, err := FindPolicy(PolicyLull)
	if err != nil {
		t.Fatal(err)
	}
	if tuning := (Tuning{Memory: Memory}); p.tuned(tuning).remembers() || !p.remembers() ||
		tuning.without() != "memory" {
		t.Error("--without memory")
	}
	if native, err := FindPolicy(PolicyNative); err != nil || native.remembers() {
		t.Error("native remembers")
	}
}
