package bench

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/lull-npc/lull/runtime/llm"
	"github.com/lull-npc/lull/runtime/scripted"
)

// gossip says the secret word that it reads in the sheet.
func gossip(c scripted.Conversation) string {
	for _, word := range strings.Fields(c.Turns[0].Text) {
		if strings.HasPrefix(word, "qz") {
			return word + " it is."
		}
	}
	return "I have no secrets at all."
}

func scriptedNPCs(cfg NPCConfig) NPCConfig {
	cfg.Open = func(_ context.Context, _, sequences int) (llm.Model, error) {
		// Its tokens are letters: it wants more of them.
		return scripted.New(scripted.Config{Script: gossip, MaxSequences: sequences, Context: 16_384})
	}
	return cfg
}

// A short run over a scripted model fills every part of the report, and says of
// each what is so whatever the clock says.
func TestNPCReport(t *testing.T) {
	steps := map[string]int{}
	r, err := NPCs(t.Context(), scriptedNPCs(NPCConfig{Rounds: 1, Replies: 24, Barks: 8, Threads: 1, Seed: 1,
		Progress: func(what string, _, _ int) { steps[what]++ }}))
	if err != nil {
		t.Fatal(err)
	}
	c := r.Crowd
	if c.Rounds != 1 || c.NPCs != 100 || len(c.Turns) != crowdSpeaking || c.Fewest != 1 || c.P50Ratio <= 0 {
		t.Errorf("crowd %+v", c)
	}
	if c.Own == 0 || c.Mixed != 0 {
		t.Errorf("%d own words, %d mixed: want a model that says its own to say nobody else's", c.Own, c.Mixed)
	}
	if r.Barks.N != 8 || r.Barks.Silent != 0 || r.Barks.Disorder != 0 || r.Barks.P50 <= 0 {
		t.Errorf("barks %+v", r.Barks)
	}
	p := r.Persona
	if p.Rounds != 1 || p.Tokens < personaTokens || p.ColdPrefilled < personaTokens || p.Second.Median <= 0 {
		t.Errorf("persona %+v", p)
	}
	if p.SecondPrefilled > p.SecondNew || p.RestartPrefilled > p.ColdPrefilled/2 {
		t.Errorf("%v tokens prefilled at first, then %v of %v new ones, %v after a restart", p.ColdPrefilled,
			p.SecondPrefilled, p.SecondNew, p.RestartPrefilled)
	}
	if x := r.Calls; x.Replies != 24 || x.Invalid != 0 || x.Forced == 0 || len(x.Kinds) < 3 {
		t.Errorf("calls %+v", x)
	}
	if len(r.Checks) != 11 {
		t.Errorf("%d checks: %+v", len(r.Checks), r.Checks)
	}
	for _, what := range []string{"crowd", "barks", "persona", "calls"} {
		if steps[what] == 0 {
			t.Errorf("no progress of %s", what)
		}
	}
}

// Ctrl-C in any part leaves what was finished.
func TestNPCInterrupted(t *testing.T) {
	for _, at := range []string{"crowd", "barks", "persona", "calls"} {
		ctx, cancel := context.WithCancel(t.Context())
		r, err := NPCs(ctx, scriptedNPCs(NPCConfig{Rounds: 2, Replies: 8, Barks: 2, Threads: 1,
			Progress: func(what string, done, _ int) {
				if what == at && done == 1 {
					cancel()
				}
			}}))
		cancel()
		if !errors.Is(err, context.Canceled) || !r.Interrupted {
			t.Errorf("%s: error %v, interrupted %v", at, err, r.Interrupted)
		}
		if r.Crowd == nil || r.Crowd.Rounds == 0 || at == "calls" && r.Persona == nil {
			t.Errorf("%s: %+v", at, r)
		}
	}
	for _, bad := range []NPCConfig{{Rounds: -1}, {Replies: -1}, {Barks: -1}, {Threads: 1000}} {
		if _, err := NPCs(t.Context(), bad); err == nil {
			t.Errorf("%+v: no error", bad)
		}
	}
}
