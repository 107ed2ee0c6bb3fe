package bench

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"

	"github.com/lull-npc/lull/harness/metrics"
	"github.com/lull-npc/lull/npc"
	"github.com/lull-npc/lull/runtime/llm"
)

// personaTokens is how long the sheet is that is measured.
const personaTokens = 500

// longPersona is a persona whose sheet takes at least personaTokens of a model.
func longPersona(tok llm.Tokenizer) (npc.Persona, int, error) {
	p := npc.Persona{Name: "Mara", Description: "the keeper of the inn at the old bridge", Style: "warm and slow",
		Limits: []string{"You never leave your role"}, MaxTokens: crowdReply,
		Sampling: llm.Sampling{Temperature: 0.7, TopK: 40, MinP: 0.1, Seed: 1}}
	for i := 0; ; i++ {
		tokens, err := tok.Tokenize(nil, p.SystemText(), false)
		if err != nil || len(tokens) >= personaTokens || len(p.Knowledge) == npc.MaxKnowledge {
			return p, len(tokens), err
		}
		p.Knowledge = append(p.Knowledge, fmt.Sprintf("Room %d was let to a traveller who paid %d silver for "+
			"the night", i+1, 3+i%5))
	}
}

// persona keeps what the rounds of benchPersona gave.
type persona struct {
	cfg   *NPCConfig
	heads llm.HeadStore

	cold, second, restart   []float64 // ms
	coldN, secondN, renewed []float64 // tokens prefilled
	fresh                   []float64 // tokens of the second prompt that were not in the first or its reply
}

func benchPersona(ctx context.Context, cfg *NPCConfig, random *rand.Rand, r *NPCReport) (err error) {
	dir, err := os.MkdirTemp("", "lull-bench-*")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	heads, err := npc.NewHeadFolder(dir, 0)
	if err != nil {
		return err
	}
	p := &persona{cfg: cfg, heads: heads}
	r.Persona = &NPCPersona{}
	cfg.Progress("persona", 0, cfg.Rounds)
	for round := -1; round < cfg.Rounds; round++ { // round -1 fills the folder, it does not count
		parts := []func(context.Context, bool, *NPCPersona) error{p.known, p.restarted}
		random.Shuffle(len(parts), func(i, j int) { parts[i], parts[j] = parts[j], parts[i] })
		for _, part := range parts {
			if err = part(ctx, round >= 0, r.Persona); err != nil {
				p.summarise(r.Persona)
				return err
			}
		}
		cfg.Progress("persona", round+1, cfg.Rounds)
	}
	p.summarise(r.Persona)
	return heads.Err()
}

// open loads everything anew, as a start of the game does.
func (p *persona) open(ctx context.Context, heads llm.HeadStore, r *NPCPersona) (*npcStage, error) {
	s, err := openStage(ctx, p.cfg, 2, heads)
	if err != nil {
		return nil, err
	}
	sheet, n, err := longPersona(s.model)
	if err == nil {
		r.Tokens = n
		s.world, err = npc.NewWorld(npc.WorldConfig{Engine: s.engine, Model: s.model})
	}
	if err == nil {
		err = s.world.Add(npc.AgentSpec{ID: "mara", Persona: sheet})
	}
	if err != nil {
		return nil, errors.Join(err, s.close())
	}
	return s, nil
}

// hearOut says a line and returns the time to the first text and what it cost.
func (s *npcStage) hearOut(ctx context.Context, line string) (float64, *npc.Explanation, error) {
	ms, err := s.ttft(ctx, "mara", line)
	if err != nil {
		return 0, nil, err
	}
	if err := s.rest(ctx); err != nil {
		return 0, nil, err
	}
	all := s.world.Explain("mara")
	if len(all) == 0 {
		return 0, nil, errors.New("bench: the reply left no explanation")
	}
	return ms, all[len(all)-1], nil
}

// known is a first reply without anything computed, and a second one.
func (p *persona) known(ctx context.Context, count bool, r *NPCPersona) (err error) {
	s, err := p.open(ctx, nil, r)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	cold, first, err := s.hearOut(ctx, "Good evening. Do you have a room?")
	if err != nil {
		return err
	}
	again, second, err := s.hearOut(ctx, "And what is for supper?")
	if err != nil || !count {
		return err
	}
	p.cold, p.coldN = append(p.cold, cold), append(p.coldN, float64(first.Usage.Prefilled))
	p.second, p.secondN = append(p.second, again), append(p.secondN, float64(second.Usage.Prefilled))
	p.fresh = append(p.fresh, float64(newTokens(s.model, first, second)))
	return nil
}

// newTokens is how many tokens of the second prompt the cache can't hold: all
// that come after the first prompt and its reply, and the last one of that reply,
// which was chosen but not computed.
func newTokens(tok llm.Tokenizer, first, second *npc.Explanation) int {
	a, b := first.Plan.Prompt.Tokens, second.Plan.Prompt.Tokens
	n := 0
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	said := 0 // bytes of the reply that the second prompt spells in its tokens
	for n < len(b) && said < len(first.Text) {
		said += len(tok.AppendPiece(nil, b[n]))
		n++
	}
	return len(b) - n + 1
}

// restarted is a first reply with the head of the prompt on disk.
func (p *persona) restarted(ctx context.Context, count bool, r *NPCPersona) (err error) {
	s, err := p.open(ctx, p.heads, r)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	ms, x, err := s.hearOut(ctx, "Good evening. Do you have a room?")
	if err == nil && count {
		p.restart, p.renewed = append(p.restart, ms), append(p.renewed, float64(x.Usage.Prefilled))
	}
	return err
}

func (p *persona) summarise(r *NPCPersona) {
	r.Rounds = min(len(p.cold), len(p.restart))
	if r.Rounds == 0 {
		return
	}
	r.Cold, r.Second, r.Restart = metrics.Quartiles(p.cold), metrics.Quartiles(p.second), metrics.Quartiles(p.restart)
	r.SecondRatio, r.RestartRatio = ratioOf(divide(p.second, p.cold)), ratioOf(divide(p.restart, p.cold))
	r.ColdPrefilled = metrics.Quartiles(p.coldN).Median
	r.SecondPrefilled = metrics.Quartiles(p.secondN).Median
	r.RestartPrefilled = metrics.Quartiles(p.renewed).Median
	r.SecondNew = metrics.Quartiles(p.fresh).Median
}

// callOffers have every type of parameter; all actions at once, and each alone,
// so that whatever a model prefers, each type is chosen.
func callOffers() []npc.Offer {
	actions := []npc.ActionSpec{
		{Name: "give_item", Description: "hands something over", Params: []npc.Param{
			{Name: "item", Kind: npc.ParamEnum, Values: []string{"sword", "buckle", "kettle", `the "good" shield`}},
			{Name: "count", Kind: npc.ParamInt, Min: 1, Max: 12},
			{Name: "to", Kind: npc.ParamTarget, Target: "person"}}},
		{Name: "set_price", Description: "names a price", Params: []npc.Param{
			{Name: "factor", Description: "of the usual", Kind: npc.ParamReal, Min: -0.5, Max: 12.25, Decimals: 2},
			{Name: "final", Kind: npc.ParamBool},
			{Name: "note", Description: "what you say to it", Kind: npc.ParamText, MaxRunes: 40}}},
		{Name: "walk", Description: "goes somewhere", Params: []npc.Param{
			{Name: "where", Kind: npc.ParamTarget, Target: "place"},
			{Name: "steps", Kind: npc.ParamInt, Min: -5, Max: 500},
			{Name: "fast", Kind: npc.ParamBool}}},
	}
	targets := map[string][]string{"person": {"player", "Odo", "Zoë"}, "place": {"forge", "old well", "日本橋"}}
	out := []npc.Offer{{Actions: actions, Targets: targets}}
	for i := range actions {
		out = append(out, npc.Offer{Actions: actions[i : i+1], Targets: targets})
	}
	return out
}

var callLines = []string{"Give me two swords, please.", "That is too dear. What is your last price?",
	"Come with me to the old well!", "Hand Odo the good shield."}

// calls keeps what the pairs of benchCalls gave.
type calls struct {
	stage             *npcStage
	report            *NPCCalls
	persona           npc.Persona
	offers            []npc.Offer
	last              int // tokens of the last call
	now               block
	constrained, free []float64 // useful tokens a second, of each block
}

// block is a run of pairs that has every offer in it: a call of five tokens
// beside one of fifty says little of what a token costs.
type block struct {
	pairs                int
	called, said         int     // useful tokens
	calledTime, saidTime float64 // s
}

// blockPairs is how many pairs are taken together: each offer twice.
const blockPairs = 8

func (c *calls) endBlock() {
	b := c.now
	c.now = block{}
	if b.calledTime > 0 && b.saidTime > 0 {
		c.constrained = append(c.constrained, float64(b.called)/b.calledTime)
		c.free = append(c.free, float64(b.said)/b.saidTime)
	}
}

// benchCalls samples calls and free replies to the same prompts, in pairs.
func benchCalls(ctx context.Context, cfg *NPCConfig, random *rand.Rand, r *NPCReport) (err error) {
	cfg.Progress("calls", 0, cfg.Replies)
	s, err := openStage(ctx, cfg, 3, nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	smith, err := npc.LoadPersona("blacksmith")
	if err != nil {
		return err
	}
	r.Calls = &NPCCalls{Kinds: map[string]int{}, Actions: map[string]int{}, Examples: []string{}}
	c := &calls{stage: s, report: r.Calls, persona: smith, offers: callOffers(), last: crowdReply}
	for i := 0; i < cfg.Replies && err == nil; i++ {
		if err = c.pair(ctx, i, random); err == nil {
			c.now.pairs++
		}
		if c.now.pairs == blockPairs {
			c.endBlock()
		}
		cfg.Progress("calls", i+1, cfg.Replies)
	}
	if len(c.constrained) == 0 { // one that is not whole is better than none
		c.endBlock()
	}
	r.Calls.Blocks = len(c.constrained)
	r.Calls.Constrained, r.Calls.Free = metrics.Quartiles(c.constrained), metrics.Quartiles(c.free)
	r.Calls.Ratio = ratioOf(divide(c.constrained, c.free))
	return err
}

// pair answers one prompt within a grammar and freely, in any order.
func (c *calls) pair(ctx context.Context, i int, random *rand.Rand) error {
	offer := c.offers[i/2%len(c.offers)] // two pairs share what must be read
	grammar, err := offer.Grammar()
	if err != nil {
		return err
	}
	plan, err := npc.MakePlan(c.stage.model, npc.PlanInput{Persona: c.persona, History: []npc.Entry{
		{Kind: npc.EntryHeard, Speaker: "Player", Text: callLines[i/blockPairs%len(callLines)]},
		{Kind: npc.EntryNote, Text: "What does Brenna do now? Choose one of these, as the words say:\n" +
			strings.TrimSpace(offer.Describe())}}, Budget: npc.DefaultPlanBudget(c.stage.model.Info(), c.persona)})
	if err != nil {
		return err
	}
	heat := []float32{0.2, 0.7, 1, 1.5}[(i+i/blockPairs)%4]
	r := llm.Request{Owner: "caller", Prompt: plan.Prompt.Tokens, MaxTokens: 1,
		Sampling: llm.Sampling{Temperature: heat, TopK: 40, MinP: 0.02, Seed: random.Uint32()}}
	if _, _, err := c.stage.answer(ctx, r); err != nil { // reads the prompt
		return err
	}
	parts := []func() error{
		func() error { return c.call(ctx, r, offer, grammar) },
		func() error { return c.talk(ctx, r) },
	}
	random.Shuffle(len(parts), func(i, j int) { parts[i], parts[j] = parts[j], parts[i] })
	for _, part := range parts {
		if err := part(); err != nil {
			return err
		}
	}
	return nil
}

// call chooses within the grammar. Useful are the tokens of the call as it is
// tokenised.
func (c *calls) call(ctx context.Context, r llm.Request, offer npc.Offer, grammar string) error {
	r.MaxTokens, r.Sampling.Grammar = 256, grammar
	text, end, err := c.stage.answer(ctx, r)
	if err != nil {
		return err
	}
	c.report.Replies++
	c.report.Chosen += end.Usage.Generated
	c.report.Forced += end.Usage.Forced
	action, err := offer.Parse(text)
	declared := action.Name == npc.NoAction ||
		slices.ContainsFunc(offer.Actions, func(a npc.ActionSpec) bool { return a.Name == action.Name })
	if err != nil || !declared {
		c.report.Invalid++
		if len(c.report.Examples) < 5 {
			c.report.Examples = append(c.report.Examples, text)
		}
	}
	c.report.Actions[action.Name]++
	for _, a := range action.Args {
		c.report.Kinds[a.Kind.String()]++
	}
	useful, err := c.stage.model.Tokenize(nil, text, false)
	c.last = max(fewTokens, len(useful))
	c.now.called += len(useful)
	c.now.calledTime += end.Usage.Total.Seconds()
	return err
}

// talk answers freely, as long as a call is.
func (c *calls) talk(ctx context.Context, r llm.Request) error {
	r.MaxTokens = c.last
	_, end, err := c.stage.answer(ctx, r)
	c.now.said += end.Usage.Generated
	c.now.saidTime += end.Usage.Total.Seconds()
	return err
}
