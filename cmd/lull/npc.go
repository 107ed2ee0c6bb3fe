package main

import (
	"context"
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/lull-npc/lull/npc"
	"github.com/lull-npc/lull/runtime/llm"
	"github.com/lull-npc/lull/runtime/local"
	"github.com/lull-npc/lull/runtime/scripted"
)

func newNPCCommand(a *app) *cobra.Command {
	return newGroup("npc", "Look into what characters say, and why", `
A PERSONA is a shipped one by name, or a YAML file of your own.`, `
  lull npc explain blacksmith --say "Can you mend my sword?"
  lull npc explain my-wizard.yaml --say Hello --fact "The tower burns" --scripted`,
		newNPCExplainCommand(a))
}

type explainFlags struct {
	say      []string
	facts    []string
	blocked  []string
	lore     []string
	seed     uint32
	greedy   bool
	scripted bool
	context  int
}

func newNPCExplainCommand(a *app) *cobra.Command {
	var f explainFlags
	c := &cobra.Command{
		Use:   "explain PERSONA",
		Short: "Show why a character said what it said",
		Long: `Say lines to a character, one after the other, and show for each reply what the
model read (the parts of the prompt, what each takes, what was left out), what
was on the character's mind, how words were chosen, and what was decided.

With --scripted no model is needed: a stand-in answers nonsense, and everything
else is as it would be, but for the number of tokens.`,
		Example: `  lull npc explain blacksmith --say "Can you mend my sword?"
  lull npc explain innkeeper --say "Any news?" --fact "The bridge is mended" --greedy --json
  lull npc explain my-wizard.yaml --say Hello --say "And then?" --scripted`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return a.npcExplain(cmd.Context(), args[0], f) },
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return npc.Shipped(), cobra.ShellCompDirectiveDefault
		},
	}
	c.Flags().StringArrayVar(&f.say, "say", nil, "`LINE` of the player; may be given several times")
	c.Flags().StringArrayVar(&f.facts, "fact", nil, "`FACT` that the character knows now; may be given several times")
	c.Flags().StringArrayVar(&f.lore, "lore", nil, "`LINE` that everybody in the world knows; several times")
	c.Flags().StringArrayVar(&f.blocked, "block", nil,
		"`PHRASE` that is not to be said; \"curs*\" is also cursed; several times")
	c.Flags().Uint32Var(&f.seed, "seed", 0, "varies the replies")
	c.Flags().BoolVar(&f.greedy, "greedy", false, "always the most probable word: the same replies each time")
	c.Flags().BoolVar(&f.scripted, "scripted", false, "a stand-in answers, no model is loaded")
	c.Flags().IntVar(&f.context, "context", 2048, "tokens that the conversation may hold")
	return c
}

// check finds what is wrong with the flags before a model is loaded.
func (f *explainFlags) check() error {
	if len(f.say) == 0 {
		return &usageError{fmt.Errorf("nothing is said: want --say LINE"), `for example --say "Who are you?"`}
	}
	if f.context < 1 {
		return usagef("--context %d: want a number of tokens from 1, as 2048", f.context)
	}
	for _, t := range []struct {
		flag   string
		values []string
		most   int // of them
		runes  int // of one; 0: as much as the player types
	}{
		{"say", f.say, 0, 0}, {"fact", f.facts, npc.MaxFacts, npc.MaxSheetLine}, {"lore", f.lore, 0, npc.MaxSheetLine},
		{"block", f.blocked, npc.MaxBlocked, npc.MaxBlockedText},
	} {
		if t.most > 0 && len(t.values) > t.most {
			return usagef("--%s is given %d times: want at most %d", t.flag, len(t.values), t.most)
		}
		for _, v := range t.values {
			clean, _ := npc.CleanLine(v)
			switch {
			case t.runes > 0 && (clean != v || v == "" || utf8.RuneCountInString(v) > t.runes):
				return usagef("--%s %q: want one line of 1 … %d characters", t.flag, v, t.runes)
			case clean == "":
				return usagef("--%s %q: nothing can be read: want a line", t.flag, v)
			case t.flag == "block" && !strings.ContainsFunc(v, func(r rune) bool {
				return unicode.In(r, unicode.L, unicode.M, unicode.N)
			}):
				return usagef("--%s %q: there is no letter or digit in it: want a word or a phrase", t.flag, v)
			}
		}
	}
	return nil
}

func (a *app) npcExplain(ctx context.Context, persona string, f explainFlags) error {
	if err := f.check(); err != nil {
		return err
	}
	p, err := loadPersona(persona) // before the model is loaded: a typo should not cost seconds
	if err != nil {
		return err
	}
	if f.greedy {
		p.Sampling = llm.Sampling{}
	}
	cfg := local.Config{Spec: local.Spec{Steer: local.SteerNone}, Context: f.context}
	if f.scripted {
		cfg.OpenModel = func(_ context.Context, clock llm.Clock, admit llm.AdmitFunc) (llm.Model, error) {
			const shorter = 4 // as many of its tokens as of a real model's
			return scripted.New(scripted.Config{Context: shorter * f.context, Clock: clock, Admit: admit})
		}
	}
	run, err := a.open(ctx, cfg)
	if err != nil {
		return err
	}
	defer run.Close()
	w, err := npc.NewWorld(npc.WorldConfig{Engine: run.Engine, Model: run.Model, Lore: f.lore, Seed: f.seed,
		Blocked: f.blocked})
	if err != nil {
		return err
	}
	defer w.Close()
	who := npc.AgentID(p.Name)
	if err := w.Add(npc.AgentSpec{ID: who, Persona: p}); err != nil {
		return err
	}
	for i, fact := range f.facts {
		if err := w.SetFact(who, npc.Fact{Key: fmt.Sprint(i), Text: fact}); err != nil {
			return err
		}
	}
	turns := []explainedTurn{}
	for _, line := range f.say {
		if err := hearOut(ctx, run, w, npc.Line{To: who, Text: line}); err != nil {
			return err
		}
		all := w.Explain(who)
		x := all[len(all)-1]
		a.ui.printf("%s\n", printable(x.String()))
		turns = append(turns, explained(x))
	}
	if a.json {
		return a.ui.object(map[string]any{"model": run.Model.Info().Name, "npc": p.Name, "turns": turns})
	}
	return nil
}

// hearOut says a line and waits for the end of the reply.
func hearOut(ctx context.Context, run *local.Runtime, w *npc.World, l npc.Line) error {
	if _, err := w.Say(l, run.Clock.Now()); err != nil {
		return err
	}
	tick := time.NewTicker(5 * time.Millisecond) // a reply takes hundreds
	defer tick.Stop()
	var events []npc.Event
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-tick.C:
		}
		events = w.Poll(events[:0], run.Clock.Now())
		for _, e := range events {
			switch e.Kind {
			case npc.EventFailed:
				return e.Err
			case npc.EventDone:
				return nil
			}
		}
	}
}

type explainedTurn struct {
	Line      string          `json:"line"`
	Text      string          `json:"text"`
	Thoughts  string          `json:"thoughts,omitempty"`
	End       string          `json:"end"`
	Parts     []explainedPart `json:"parts"`
	Notes     []explainedNote `json:"notes"`
	Prompt    string          `json:"prompt"`
	Decisions []string        `json:"decisions"`
	Sampling  map[string]any  `json:"sampling"`
	Usage     usageJSON       `json:"usage"`
}

type explainedPart struct {
	Name    string   `json:"name"`
	Tokens  int      `json:"tokens"`
	Budget  int      `json:"budget_tokens,omitempty"`
	Items   int      `json:"items"`
	LeftOut []string `json:"left_out,omitempty"`
}

type explainedNote struct {
	From  string  `json:"from"`
	Text  string  `json:"text"`
	Score float64 `json:"score"`
}

func explained(x *npc.Explanation) explainedTurn {
	s, u := x.Sampling, x.Usage
	out := explainedTurn{
		Line: x.Line, Text: x.Text, Thoughts: x.Thoughts, End: x.Reason, Decisions: x.Decisions,
		Parts: []explainedPart{}, Notes: []explainedNote{},
		Sampling: map[string]any{"temperature": s.Temperature, "top_k": s.TopK, "top_p": s.TopP, "min_p": s.MinP,
			"repeat_penalty": s.RepeatPenalty, "seed": s.Seed},
		Usage: usageJSON{u.Prompt, u.Reused, u.Prefilled, u.Generated,
			float64(u.TTFT.Microseconds()) / 1e3, float64(u.Total.Microseconds()) / 1e3},
	}
	for _, p := range x.Plan.Parts {
		out.Parts = append(out.Parts, explainedPart{p.Name, p.Tokens, p.Budget, p.Items, p.Left})
	}
	for _, n := range x.Notes {
		out.Notes = append(out.Notes, explainedNote{n.From, n.Text, n.Score})
	}
	var prompt strings.Builder
	for _, s := range x.Plan.Prompt.Segments {
		prompt.WriteString(s.Text)
	}
	out.Prompt = prompt.String()
	return out
}
