package local

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lull-npc/lull/runtime/llm"
	"github.com/lull-npc/lull/runtime/scripted"
	"github.com/lull-npc/lull/runtime/speculative"
	"github.com/lull-npc/lull/scheduler"
)

// cheap are costs at which almost every guess pays.
var cheap = speculative.Costs{Rows: []speculative.Row{{
	Threads: 1, Token: time.Millisecond, Draft: 0.01, Verify: []speculative.Point{{Width: 8, Ratio: 1.05}},
}}}

// opener gives a scripted model that notes its closing.
func opener(name string, log *[]string, cfg scripted.Config) func(context.Context, llm.Clock,
	llm.AdmitFunc) (llm.Model, error) {
	return func(_ context.Context, clock llm.Clock, admit llm.AdmitFunc) (llm.Model, error) {
		cfg.Script, cfg.Clock, cfg.Admit = scripted.Echo, clock, admit
		m, err := scripted.New(cfg)
		return &watched{Model: m, name: name, log: log}, err
	}
}

type watched struct {
	llm.Model
	name string
	log  *[]string
	end  func(llm.Token) bool
}

func (w *watched) IsEnd(t llm.Token) bool {
	if w.end != nil {
		return w.end(t)
	}
	return w.Model.IsEnd(t)
}

func (w *watched) Close() error {
	*w.log = append(*w.log, w.name)
	return w.Model.Close()
}

// A list read back is guessed, the reply is what it is without guessing, and
// the models are closed in the order in which they use each other.
func TestReplyIsGuessedAhead(t *testing.T) {
	const list = "2 swords, 1 rope, 2 swords, 1 rope, 2 swords, 1 rope, 2 swords, 1 rope"
	for _, c := range []struct {
		mode   speculative.Mode
		draft  bool
		closed []string
		want   scheduler.DraftMode
	}{
		{speculative.ModeAuto, true, []string{"draft", "target"}, scheduler.DraftModelNGram},
		{speculative.ModeModel, true, []string{"draft", "target"}, scheduler.DraftModelNGram},
		{speculative.ModeNGram, true, []string{"target"}, scheduler.DraftNGram},
		{speculative.ModeAuto, false, []string{"target"}, scheduler.DraftNGram},
		{speculative.ModeOff, true, []string{"target"}, scheduler.DraftOff},
	} {
		var log []string
		cfg := Config{Spec: DefaultSpec(), Speculate: c.mode, Costs: cheap,
			OpenModel: opener("target", &log, scripted.Config{})}
		if c.draft {
			cfg.OpenDraft = opener("draft", &log, scripted.Config{})
		}
		r, err := Open(context.Background(), cfg)
		if err != nil {
			t.Fatalf("%s: %v", c.mode, err)
		}
		id, err := r.Engine.Submit(request(t, r, list))
		if err != nil {
			t.Fatal(err)
		}
		r.SetPhase(scheduler.PhaseMenu)
		text, end := reply(r, id)
		if !strings.HasPrefix(list, text) || len(text) < len(list)/2 || end.Kind != llm.EventDone {
			t.Errorf("%s: said %q, %v %v", c.mode, text, end.Kind, end.Err)
		}
		if got := r.guess.sources(); got != c.want {
			t.Errorf("%s: sources %s, want %s", c.mode, got, c.want)
		}
		s := r.Speculation()
		if on := c.want != scheduler.DraftOff; on != (s.Off == "") || on != (s.Rounds > 0) {
			t.Errorf("%s: %d rounds, off %q", c.mode, s.Rounds, s.Off)
		}
		if err := r.Close(); err != nil {
			t.Error(err)
		}
		if d := cmp.Diff(c.closed, log); d != "" {
			t.Errorf("%s: closed (-want +got):\n%s", c.mode, d)
		}
	}
}

// What the controller decides about drafts is what the next batch may use.
func TestDecisionBecomesGrant(t *testing.T) {
	var log []string
	r, err := Open(context.Background(), Config{Spec: DefaultSpec(), Costs: cheap,
		OpenModel: opener("target", &log, scripted.Config{}), OpenDraft: opener("draft", &log, scripted.Config{})})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if d := r.Decision(); d.Draft != scheduler.DraftModelNGram || d.VerifyWidth != verifyWidth {
		t.Errorf("the controller begins with %s, width %d", d.Draft, d.VerifyWidth)
	}
	for _, c := range []struct {
		d                   scheduler.Decision
		width               int
		noModel, noPatterns bool
	}{
		{scheduler.Decision{Draft: scheduler.DraftOff, VerifyWidth: 1}, 1, true, true},
		{scheduler.Decision{Draft: scheduler.DraftOff, VerifyWidth: 8}, 1, true, true},
		{scheduler.Decision{Draft: scheduler.DraftNGram, VerifyWidth: 4}, 4, true, false},
		{scheduler.Decision{Draft: scheduler.DraftModel, VerifyWidth: 2}, 2, false, true},
		{scheduler.Decision{Draft: scheduler.DraftModelNGram, VerifyWidth: 6}, 6, false, false},
		{scheduler.Decision{Draft: scheduler.DraftOff, VerifyWidth: 1, Reason: scheduler.ReasonPhaseFree},
			1, true, true},
	} {
		r.decision = c.d
		r.apply()
		g := r.grant()
		if g.VerifyWidth != c.width || g.NoDraftModel != c.noModel || g.NoPatterns != c.noPatterns {
			t.Errorf("%s %d %s: grant %+v", c.d.Draft, c.d.VerifyWidth, c.d.Reason, g)
		}
	}
}

// Where guessing can't be right, it is off and says why; a draft model that
// does not fit is refused.
func TestGuessingRefused(t *testing.T) {
	var log []string
	r, err := Open(context.Background(), Config{Spec: DefaultSpec(), Speculate: speculative.ModeModel, Costs: cheap,
		OpenModel: opener("target", &log, scripted.Config{NoTruncate: true}),
		OpenDraft: opener("draft", &log, scripted.Config{})})
	if err != nil {
		t.Fatal(err)
	}
	if s := r.Speculation(); !strings.Contains(s.Off, "recurrent or hybrid") || r.Decision().VerifyWidth != 1 {
		t.Errorf("a model that takes nothing back: off %q, width %d", s.Off, r.Decision().VerifyWidth)
	}
	r.Close()

	log = nil
	other := opener("draft", &log, scripted.Config{})
	_, err = Open(context.Background(), Config{Spec: DefaultSpec(), Costs: cheap,
		OpenModel: opener("target", &log, scripted.Config{}),
		OpenDraft: func(ctx context.Context, clock llm.Clock, admit llm.AdmitFunc) (llm.Model, error) {
			m, err := other(ctx, clock, admit)
			m.(*watched).end = func(llm.Token) bool { return false }
			return m, err
		}})
	if !errors.Is(err, speculative.ErrDraft) || !strings.Contains(err.Error(), "ends a reply") {
		t.Errorf("a draft model that never ends: %v", err)
	}
	if !slices.Equal(log, []string{"draft", "target"}) {
		t.Errorf("closed %v after the refusal", log)
	}

	log = nil
	_, err = Open(context.Background(), Config{Spec: DefaultSpec(), Speculate: speculative.ModeModel,
		OpenModel: opener("target", &log, scripted.Config{})})
	if err == nil || !strings.Contains(err.Error(), "Config.Draft") || len(log) != 0 {
		t.Errorf("mode model without one: %v, closed %v", err, log)
	}
	spec := DefaultSpec()
	spec.Speculation = 9
	if _, err := Open(context.Background(), Config{Spec: spec}); err == nil {
		t.Error("an unknown speculation was accepted")
	}
}
