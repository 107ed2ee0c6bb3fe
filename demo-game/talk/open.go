package talk

import (
	"context"
	"errors"
	"path/filepath"
	"time"

	"github.com/lull-npc/lull/demo-game/data"
	"github.com/lull-npc/lull/harness"
	"github.com/lull-npc/lull/npc"
	"github.com/lull-npc/lull/rag"
	"github.com/lull-npc/lull/runtime/assets"
	"github.com/lull-npc/lull/runtime/llm"
	"github.com/lull-npc/lull/runtime/local"
)

// Stage is what speaks under a policy: an engine with its model, and memories.
// The zero value is silent.
type Stage struct {
	Engine  *llm.Engine
	Model   llm.Model
	Runtime *local.Runtime // nil: nobody marks frames
	Store   *rag.Store     // nil: nothing is remembered beyond the talk
	Memory  npc.Memory     // how characters use the store; nil: npc.StoreMemory

	// Pump, when set, computes on the game thread, and no goroutine does anything:
	// for tests and for headless play with a scripted model.
	Pump func()

	Close func() error // nil: nothing to close
}

// Opener opens a stage. Called on a goroutine of its own; observe is told what
// the engine does, tell how far opening is.
type Opener func(ctx context.Context, p harness.Policy, observe func(llm.Work),
	tell func(what string, done float64)) (Stage, error)

// Real opens llama.cpp with the files in the cache. dir is the folder of the
// memories; "" keeps them in memory.
func Real(g *data.Game, o assets.Options, dir string, note func(string)) Opener {
	return func(ctx context.Context, p harness.Policy, observe func(llm.Work),
		tell func(string, float64)) (Stage, error) {
		if p.Spec == nil {
			store, err := rag.Open(rag.DefaultConfig(dir))
			if err != nil {
				return Stage{}, err
			}
			return Stage{Store: store, Close: store.Close}, nil
		}
		cfg := local.Config{Spec: *p.Spec, Assets: o, Observe: observe, Progress: tell, Note: note,
			MaxSequences: len(g.People) + 1}
		if p.Spec.Steer == local.SteerController {
			cfg.Devices = local.MeasuredDevices(o)
		}
		if dir != "" { // what was computed of the sheets is kept over a restart
			heads, err := npc.NewHeadFolder(filepath.Join(filepath.Dir(dir), "heads"), 0)
			if err != nil {
				note("the first replies will take longer: " + err.Error())
			} else {
				cfg.Heads = heads
			}
		}
		rt, err := local.Open(ctx, cfg)
		if err != nil {
			return Stage{}, err
		}
		store, memory, err := openStore(ctx, rt, o, dir, note)
		if err != nil {
			return Stage{}, errors.Join(err, rt.Close())
		}
		if err := rehearse(g, rt); err != nil {
			note("the first replies will take longer: " + err.Error())
		}
		return Stage{Engine: rt.Engine, Model: rt.Model, Runtime: rt, Store: store, Memory: memory,
			Close: rt.Close}, nil
	}
}

// rehearse has the model read each sheet before anybody speaks, behind the title
// and in idle time: what a player asks for goes before it. The first reply of a
// character then computes only what is new.
func rehearse(g *data.Game, rt *local.Runtime) error {
	for i := range g.People {
		p := &g.People[i]
		plan, err := npc.MakePlan(rt.Model, npc.PlanInput{Persona: p.Persona, Lore: lore,
			Budget:  npc.DefaultPlanBudget(rt.Model.Info(), p.Persona),
			History: []npc.Entry{{Kind: npc.EntryHeard, Speaker: player, Text: "Hello."}}})
		if err != nil {
			return err
		}
		_, err = rt.Engine.Submit(llm.Request{Owner: p.ID, Prompt: plan.Prompt.Tokens, Keep: plan.Prompt.Keep,
			Cuts: plan.Prompt.Cuts, Head: plan.Prompt.Keep, MaxTokens: 1, Priority: -1})
		if err != nil {
			return err
		}
	}
	return nil
}

// openStore opens memories that are indexed in the time that the scheduler
// grants, and found by their words where no embedder is in the cache: a game does
// not fetch 40 MB behind its title unasked.
func openStore(ctx context.Context, rt *local.Runtime, o assets.Options, dir string,
	note func(string)) (*rag.Store, npc.Memory, error) {
	o.Offline = true
	o.Model = ""
	m, err := rt.OpenMemories(ctx, local.MemoryConfig{Embedder: local.EmbedderConfig{Assets: o}})
	if err != nil {
		if ctx.Err() != nil {
			return nil, nil, err
		}
		note("memories are found by their words only: " + err.Error())
		if m, err = rt.OpenMemories(ctx, local.MemoryConfig{WordsOnly: true}); err != nil {
			return nil, nil, err
		}
	}
	store, err := m.Open(rag.DefaultConfig(dir))
	if err != nil && dir != "" { // a folder that can't be written, or another game's: they speak all the same
		note("memories last until the end of this game, unless you save: " + err.Error())
		store, err = m.Open(rag.DefaultConfig(""))
	}
	return store, m.NPC(store), err
}

// crew opens and closes stages, one at a time, off the game thread. The last
// policy asked for wins.
type crew struct {
	open    Opener
	observe func(llm.Work)
	tell    func(string, float64)

	ask  chan string // capacity 1: the policy wanted
	give chan result // capacity 1
	drop chan Stage  // capacity 1: to be closed before the next opens
	quit chan struct{}
	done chan error
}

type result struct {
	policy string
	stage  Stage
	err    error
}

func startCrew(open Opener, observe func(llm.Work), tell func(string, float64)) *crew {
	c := &crew{open: open, observe: observe, tell: tell, ask: make(chan string, 1), give: make(chan result, 1),
		drop: make(chan Stage, 1), quit: make(chan struct{}), done: make(chan error, 1)}
	go c.run()
	return c
}

func (c *crew) run() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		<-c.quit
		cancel()
	}()
	for {
		select {
		case <-c.quit:
			c.done <- c.strike()
			return
		case policy := <-c.ask:
			err := c.strike()
			r := result{policy: policy, err: err}
			p, err := harness.FindPolicy(policy)
			if err == nil {
				r.stage, err = c.open(ctx, p, c.observe, c.tell)
			}
			r.err = errors.Join(r.err, err)
			select {
			case c.give <- r:
			case <-c.quit:
				c.done <- r.stage.close()
				return
			}
		}
	}
}

// strike closes the stage that was dropped, if there is one, and one that nobody
// took over.
func (c *crew) strike() error {
	var err error
	select {
	case s := <-c.drop:
		err = s.close()
	default:
	}
	select {
	case r := <-c.give:
		err = errors.Join(err, r.stage.close())
	default:
	}
	return err
}

func (s Stage) close() error {
	if s.Close == nil {
		return nil
	}
	return s.Close()
}

// closeWait bounds how long Close waits for threads of a model: beyond it the
// process ends anyway.
const closeWait = 5 * time.Second

var errSlow = errors.New("talk: the model did not end in time")

func (c *crew) end() error {
	close(c.quit)
	t := time.NewTimer(closeWait)
	defer t.Stop()
	select {
	case err := <-c.done:
		return err
	case <-t.C:
		return errSlow
	}
}
