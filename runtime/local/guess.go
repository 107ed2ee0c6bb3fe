package local

import (
	"context"
	"errors"
	"fmt"

	"github.com/lull-npc/lull/runtime/assets"
	"github.com/lull-npc/lull/runtime/llamacpp"
	"github.com/lull-npc/lull/runtime/llm"
	"github.com/lull-npc/lull/runtime/speculative"
	"github.com/lull-npc/lull/scheduler"
)

// Speculation says how a Spec guesses tokens ahead. What may guess, and with
// which draft model, stands in Config.
type Speculation uint8

const (
	SpeculateOff     Speculation = iota // never
	SpeculateElastic                    // where it pays, in drafts that give way at the end of a layer
	SpeculateFixed                      // always, in batches of one width that wait: to compare with
)

// verifyWidth is how many tokens one verify batch holds at most. The default of
// package speculative: wider ones pay on no CPU that was measured.
const verifyWidth = 8

// guessing is what guesses tokens ahead for a runtime. A nil one guesses none.
type guessing struct {
	spec  *speculative.Speculator
	draft llm.Model // nil: none
	costs speculative.Costs
}

// model is the draft model, nil without.
func (g *guessing) model() llm.Model {
	if g == nil {
		return nil
	}
	return g.draft
}

// width is the widest verify batch, 1 where nothing is guessed.
func (g *guessing) width() int {
	if g.sources() == scheduler.DraftOff {
		return 1
	}
	return verifyWidth
}

// sources are what candidates can come from.
func (g *guessing) sources() scheduler.DraftMode {
	switch {
	case g == nil || g.spec.Stats().Off != "":
		return scheduler.DraftOff
	case g.draft == nil:
		return scheduler.DraftNGram
	}
	return scheduler.DraftModelNGram
}

// speculator is the engine's, nil without.
func (g *guessing) speculator() llm.Speculator {
	if g == nil {
		return nil
	}
	return g.spec
}

// close comes after the engine's and before the target's.
func (g *guessing) close() error {
	if g == nil {
		return nil
	}
	if g.spec != nil {
		g.spec.Close()
	}
	if g.draft != nil {
		return g.draft.Close()
	}
	return nil
}

// Speculation says what came of guessing so far; Off says why nothing is
// guessed. Safe for concurrent use.
func (r *Runtime) Speculation() speculative.Stats {
	if r.guess == nil {
		return speculative.Stats{Off: "it is switched off"}
	}
	return r.guess.spec.Stats()
}

// Costs says what verifying costs here, as measured; without rows where that is
// not known. Safe for concurrent use.
func (r *Runtime) Costs() speculative.Costs {
	if r.guess == nil {
		return speculative.Costs{}
	}
	return r.guess.costs
}

// stopModels ends a running batch, whichever model computes it. Safe for
// concurrent use.
func (r *Runtime) stopModels() {
	r.Model.Stop()
	if r.guess != nil {
		r.guess.spec.Stop()
	}
}

// speculates reports whether anything may guess.
func (cfg *Config) speculates() bool {
	return cfg.Spec.Speculation != SpeculateOff && cfg.Speculate != speculative.ModeOff
}

func (cfg *Config) hasDraft() bool { return cfg.Draft != "" || cfg.OpenDraft != nil }

// validateGuess refuses before anything is loaded what could never work.
func (cfg *Config) validateGuess() error {
	if cfg.Spec.Speculation > SpeculateFixed {
		return fmt.Errorf("local: speculation %d is unknown", cfg.Spec.Speculation)
	}
	if cfg.speculates() && cfg.Speculate == speculative.ModeModel && !cfg.hasDraft() {
		return errors.New("local: speculation by a draft model, but no draft model is named: set Config.Draft")
	}
	return nil
}

// newGuessing loads the draft model, finds out what verifying costs, and makes
// the speculator. It returns nil where nothing is to be guessed.
func (cfg *Config) newGuessing(ctx context.Context, target llm.Model) (*guessing, error) {
	if !cfg.speculates() {
		return nil, nil
	}
	g := new(guessing)
	mode, able := cfg.Speculate, target.Info().CanTruncate
	if !able {
		mode = speculative.ModeNGram // New says why it is off
	}
	err := func() (err error) {
		if able && cfg.hasDraft() && mode != speculative.ModeNGram {
			if g.draft, err = cfg.openDraft(ctx, target); err != nil {
				return err
			}
		}
		if able {
			if g.costs, err = cfg.findCosts(ctx, target, g.draft); err != nil {
				return err
			}
		}
		g.spec, err = speculative.New(target, speculative.Options{
			Mode: mode, Draft: g.draft, Costs: g.costs, MaxWidth: verifyWidth,
			Fixed: cfg.Spec.Speculation == SpeculateFixed,
		})
		return err
	}()
	if err != nil {
		return nil, errors.Join(err, g.close())
	}
	return g, nil
}

// openDraft loads the draft model behind the target's gate. One that does not
// fit is refused here, before its costs are measured.
func (cfg *Config) openDraft(ctx context.Context, target llm.Model) (llm.Model, error) {
	open := cfg.OpenDraft
	if open == nil {
		open = func(ctx context.Context, clock llm.Clock, admit llm.AdmitFunc) (llm.Model, error) {
			return cfg.openLlamaDraft(ctx, target, clock, admit)
		}
	}
	draft, err := open(ctx, cfg.Clock, Admit)
	if err != nil {
		return nil, fmt.Errorf("local: draft model: %w", err)
	}
	if err := speculative.Compatible(target, draft); err != nil {
		return nil, errors.Join(err, draft.Close())
	}
	return draft, nil
}

// locateDraft finds the draft model's file, or fetches or makes it.
func (cfg *Config) locateDraft(ctx context.Context) error {
	if !cfg.speculates() || cfg.Draft == "" || cfg.OpenDraft != nil {
		return nil
	}
	o := cfg.Assets
	o.Model = cfg.Draft
	o.Derive = Derivation(o)
	found, err := assets.EnsureModel(ctx, o, assets.SettingDraft)
	cfg.draftFile = found.Path
	return err
}

// openLlamaDraft loads the draft model behind the target's gate.
func (cfg *Config) openLlamaDraft(ctx context.Context, target llm.Model, clock llm.Clock,
	admit llm.AdmitFunc) (llm.Model, error) {
	if cfg.draftFile == "" { // the target is not llama.cpp's
		if err := cfg.locateDraft(ctx); err != nil {
			return nil, err
		}
	}
	opt := cfg.llamaOptions(clock, admit, "draft")
	opt.MaxSequences, opt.Gate, opt.Setting = 1, target.Gate(), cfg.Assets.Word(assets.SettingDraft)
	return llamacpp.Open(ctx, cfg.draftFile, opt)
}
