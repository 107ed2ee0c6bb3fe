package bench

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/lull-npc/lull/harness/metrics"
	"github.com/lull-npc/lull/npc"
	"github.com/lull-npc/lull/runtime/llm"
	"github.com/lull-npc/lull/scheduler"
)

const (
	crowdSize     = 100
	crowdSpeaking = 8

	// crowdReply is how long a reply is, in tokens: two short sentences.
	crowdReply = 24

	// crowdUnderWay is how many of the others are heard when the player speaks.
	crowdUnderWay = 2
)

var crowdLore = []string{"Alderford is a village on the old road, with a mill, an inn and a forge",
	"The bridge to the south is under water since the spring", "The king is old and nobody knows his heir"}

var crowdLines = []string{"What is your secret word?", "What do you guard here?", "Who came through the gate today?",
	"Tell me your secret word.", "Is the road to the south safe?"}

// secretWord is a word that no text has, of equal length for all and another for
// each of 196.
func secretWord(i int) string {
	const vowels, letters = "aeiou", "bdfgklmnprstvz"
	return "qz" + string(letters[i%len(letters)]) + string(vowels[i%len(vowels)]) +
		string(letters[i/len(letters)%len(letters)]) + string(vowels[i/3%len(vowels)]) + "n"
}

func crowdPersona(i int) npc.Persona {
	name := fmt.Sprintf("Guard %c%c", 'A'+rune(i/10), 'a'+rune(i%10))
	p := npc.Persona{Name: name, Description: "a guard of the village Alderford", Style: "short and plain",
		Knowledge: []string{"The gate shuts at nine in the evening", fmt.Sprintf("Your post is number %d", i),
			"Your secret word is " + secretWord(i)},
		Examples: []npc.Exchange{{Player: "Tell me your word.", NPC: "My secret word is " + secretWord(i) + "."}},
		Limits:   []string{"You never leave your post"},
		Sampling: llm.Sampling{Temperature: 0.7, TopK: 40, MinP: 0.1, Seed: uint32(i)}, MaxTokens: crowdReply,
		Barks: map[string][]string{}}
	for k := range 12 {
		p.Barks[npc.BarkThinking] = append(p.Barks[npc.BarkThinking], fmt.Sprintf("%s hums tune %d.", name, k))
	}
	return p
}

func crowdID(i int) npc.AgentID { return npc.AgentID(fmt.Sprintf("g%d", i)) }

// crowd is the lone stage and the full one.
type crowd struct {
	cfg        *NPCConfig
	lone, full *npcStage
	report     *NPCCrowd
	alone, in  []float64 // ms of each round
	counting   bool
}

func benchCrowd(ctx context.Context, cfg *NPCConfig, random *rand.Rand, r *NPCReport) (err error) {
	c := &crowd{cfg: cfg, report: &NPCCrowd{NPCs: crowdSize, Speaking: crowdSpeaking, Turns: map[string]int{}}}
	cfg.Progress("crowd", 0, cfg.Rounds)
	if c.lone, err = openCrowd(ctx, cfg, 1); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.lone.close()) }()
	if c.full, err = openCrowd(ctx, cfg, crowdSize); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.full.close()) }()
	r.Model, r.Crowd = c.full.model.Info().Name, c.report
	c.lone.heard = func(e npc.Event) { c.hear(e, false) }
	c.full.heard = func(e npc.Event) { c.hear(e, true) }
	for round := -1; round < cfg.Rounds; round++ { // round -1 computes the sheets, it does not count
		c.counting = round >= 0
		if err = c.round(ctx, random, max(0, round)); err != nil {
			break
		}
		cfg.Progress("crowd", round+1, cfg.Rounds)
	}
	c.summarise()
	if err != nil {
		return err
	}
	r.Barks, err = benchBarks(ctx, cfg, random, c.full)
	return err
}

func openCrowd(ctx context.Context, cfg *NPCConfig, size int) (*npcStage, error) {
	s, err := openStage(ctx, cfg, crowdSpeaking+2, nil)
	if err != nil {
		return nil, err
	}
	s.world, err = npc.NewWorld(npc.WorldConfig{Engine: s.engine, Model: s.model, Lore: crowdLore,
		BarkQuiet: time.Millisecond, Seed: uint32(cfg.Seed)})
	for i := 0; i < size && err == nil; i++ {
		err = s.world.Add(npc.AgentSpec{ID: crowdID(i), Persona: crowdPersona(i), Distance: float64(i)})
	}
	if err != nil {
		return nil, errors.Join(err, s.close())
	}
	return s, nil
}

// hear counts turns and secret words.
func (c *crowd) hear(e npc.Event, full bool) {
	if e.Kind != npc.EventDone && e.Kind != npc.EventInterrupted {
		return
	}
	if full && c.counting && e.Kind == npc.EventDone {
		c.report.Turns[string(e.Agent)]++
	}
	said := strings.ToLower(e.Text)
	for i := range crowdSize {
		switch {
		case !strings.Contains(said, secretWord(i)):
		case crowdID(i) == e.Agent:
			c.report.Own++
		default:
			c.report.Mixed++
		}
	}
}

// round lets the player wait once alone and once in the crowd.
func (c *crowd) round(ctx context.Context, random *rand.Rand, round int) error {
	line := crowdLines[round%len(crowdLines)]
	var alone, in float64
	parts := []func() error{
		func() (err error) { alone, err = c.waitAlone(ctx, line); return err },
		func() (err error) { in, err = c.waitInCrowd(ctx, line, round); return err },
	}
	random.Shuffle(len(parts), func(i, j int) { parts[i], parts[j] = parts[j], parts[i] })
	for _, part := range parts {
		if err := part(); err != nil {
			return err
		}
	}
	if c.counting {
		c.alone, c.in = append(c.alone, alone), append(c.in, in)
	}
	return nil
}

func (c *crowd) waitAlone(ctx context.Context, line string) (float64, error) {
	if err := c.lone.world.Load(noPast); err != nil {
		return 0, err
	}
	ms, err := c.lone.ttft(ctx, crowdID(0), line)
	if err != nil {
		return 0, err
	}
	return ms, c.lone.rest(ctx)
}

// waitInCrowd has all others of the speakers begin, then the player speaks to
// the first one; it returns when everybody had the turn.
func (c *crowd) waitInCrowd(ctx context.Context, line string, round int) (float64, error) {
	w := c.full.world
	if err := w.Load(noPast); err != nil {
		return 0, err
	}
	for i := 1; i < crowdSpeaking; i++ {
		cue := fmt.Sprintf("Guard post %d asks you: %s", i+round, crowdLines[(i+round)%len(crowdLines)])
		if _, err := w.Cue(crowdID(i), cue, c.full.clock.Now()); err != nil {
			return 0, err
		}
	}
	speaking := map[npc.AgentID]bool{}
	if err := c.full.until(ctx, func(e npc.Event) bool {
		if e.Kind == npc.EventText {
			speaking[e.Agent] = true
		}
		return len(speaking) >= crowdUnderWay
	}); err != nil {
		return 0, err
	}
	ms, err := c.full.ttft(ctx, crowdID(0), line)
	if err != nil {
		return 0, err
	}
	return ms, c.full.rest(ctx)
}

func (c *crowd) summarise() {
	r := c.report
	r.Rounds = len(c.in)
	if r.Rounds == 0 {
		return
	}
	r.Lone, r.Crowd = metrics.Quartiles(c.alone), metrics.Quartiles(c.in)
	r.P50Ratio = r.Crowd.Median / r.Lone.Median
	r.Paired = ratioOf(divide(c.in, c.alone))
	r.Fewest = r.Turns[string(crowdID(0))]
	for i := range crowdSpeaking {
		r.Fewest = min(r.Fewest, r.Turns[string(crowdID(i))])
	}
}

func divide(a, b []float64) []float64 {
	out := make([]float64, min(len(a), len(b)))
	for i := range out {
		out[i] = a[i] / b[i]
	}
	return out
}

// benchBarks runs frames at 60 a second in every phase of a game, and has the
// player speak at any moment of one.
func benchBarks(ctx context.Context, cfg *NPCConfig, random *rand.Rand, s *npcStage) (*NPCBarks, error) {
	const frame = time.Second / 60
	phases := []scheduler.Phase{scheduler.PhaseLoading, scheduler.PhaseExplore, scheduler.PhaseDialogue,
		scheduler.PhaseCombat, scheduler.PhaseCutscene, scheduler.PhaseMenu, scheduler.PhaseBackground}
	r := &NPCBarks{}
	began := map[npc.TurnID]bool{}
	s.heard = func(e npc.Event) {
		switch e.Kind {
		case npc.EventText:
			began[e.Turn] = true
		case npc.EventBark:
			if began[e.Turn] {
				r.Disorder++
			}
		}
	}
	var ms []float64
	var err error
	for i := 0; i < cfg.Barks && err == nil; i++ {
		s.world.SetPhase(phases[i%len(phases)])
		var waited float64
		if waited, err = oneBark(ctx, s, crowdID(i%crowdSpeaking), frame, random); waited > 0 {
			ms = append(ms, waited)
		} else if err == nil {
			r.Silent++
		}
		cfg.Progress("barks", i+1, cfg.Barks)
	}
	r.N = len(ms)
	slices.Sort(ms)
	if r.N > 0 {
		r.P50, r.P99, r.Max = metrics.Quantile(ms, 0.5), metrics.Quantile(ms, 0.99), ms[r.N-1]
	}
	return r, err
}

// oneBark runs eight frames, and has the player speak in the first of them. It
// returns how long it took until the bark was polled, in ms; 0 is for ever.
func oneBark(ctx context.Context, s *npcStage, to npc.AgentID, frame time.Duration,
	random *rand.Rand) (float64, error) {
	begin := time.Now()
	time.Sleep(time.Duration(random.Float64() * float64(frame)))
	asked := time.Now()
	turn, err := s.world.Say(npc.Line{To: to, Text: "Who goes there?"}, s.clock.Now())
	if err != nil {
		return 0, err
	}
	waited := 0.0
	for n := 1; n <= 8; n++ {
		time.Sleep(time.Until(begin.Add(time.Duration(n) * frame)))
		if err := s.poll(); err != nil {
			return 0, err
		}
		for _, e := range s.events {
			if e.Kind == npc.EventBark && e.Turn == turn {
				waited = float64(time.Since(asked)) / 1e6
			}
		}
		if err := ctx.Err(); err != nil {
			return waited, err
		}
	}
	return waited, nil
}
