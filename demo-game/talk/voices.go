package talk

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/lull-npc/lull/demo-game/data"
	"github.com/lull-npc/lull/demo-game/rules"
	"github.com/lull-npc/lull/harness"
	"github.com/lull-npc/lull/npc"
	"github.com/lull-npc/lull/rag"
	"github.com/lull-npc/lull/runtime/llm"
	"github.com/lull-npc/lull/scheduler"
)

// Policies are those that F2 goes through.
var Policies = []string{harness.PolicyNative, harness.PolicyVanilla, "sereno", harness.PolicyLull}

// Kind says what was heard.
type Kind uint8

// The kinds.
const (
	Bark     Kind = iota // written beforehand, said at once
	Said                 // more of a reply
	Done                 // it is over
	Wants                // to do Action: Answer it
	Asks                 // offers the quest Text
	Failed               // Err says why
	Switched             // the policy Text is on
)

// Heard is something that somebody said or wants.
type Heard struct {
	Kind   Kind
	Who    string
	Text   string
	Turn   npc.TurnID
	Action npc.Action
	TTFT   time.Duration // Done: from the question to the first token; 0: not known
	Err    error
}

// Config says what speaks.
type Config struct {
	Game *data.Game
	Open Opener
	// Direct opens stages on the game thread, for tests and headless play.
	Direct bool
	// Observe is told what the engine does, on the worker's thread; nil: nobody.
	Observe func(llm.Work)
}

// Voices are all that speak. Call from the game thread; no method waits, unless
// Config.Direct.
type Voices struct {
	game  *data.Game
	cfg   Config
	crew  *crew // nil: direct
	world *npc.World
	stage Stage

	policy  string // that is on; "" before the first
	wanted  string
	opening bool
	closed  bool
	err     error // of the last opening

	past   []byte  // the world's save, while there is none
	blank  []byte  // what a world's save is where nobody lived through anything
	recall *string // the file of memories to go back to when a store is open, "" to none; nil: nothing is wished
	facts  map[string]npc.Fact
	offers map[string]npc.Offer
	quest  npc.QuestState
	phase  scheduler.Phase
	queue  []Heard // for the next Poll
	untold []untold
	barks  map[string]int
	events []npc.Event

	tokens   atomic.Int64
	progress atomic.Pointer[Progress]
	counts   atomic.Pointer[rag.Stats]
	counting atomic.Bool
}

// player is how the player is called; lore is what everybody knows.
const player = "Player"

var lore = []string{"Harrowmere is a small village by a pond, with the old wood in the east"}

// active is how many people the model speaks for at one time: who is spoken to,
// and one who comments.
const active = 2

// Progress is how far opening is.
type Progress struct {
	What string
	Done float64
}

// untold is a memory that no store was open for.
type untold struct{ m rag.Memory }

// maxUntold bounds them: a minute without a store.
const maxUntold = 64

// New makes voices that are silent until the first Switch.
func New(cfg Config) (*Voices, error) {
	if cfg.Game == nil || cfg.Open == nil {
		return nil, errors.New("talk: want a Game and an Opener")
	}
	v := &Voices{game: cfg.Game, cfg: cfg, facts: map[string]npc.Fact{}, offers: map[string]npc.Offer{},
		barks: map[string]int{}}
	if !cfg.Direct {
		v.crew = startCrew(cfg.Open, v.observe, v.tell)
	}
	return v, nil
}

// observe counts tokens. Called on the worker's thread.
func (v *Voices) observe(w llm.Work) {
	v.tokens.Add(int64(w.Generated))
	if v.cfg.Observe != nil {
		v.cfg.Observe(w)
	}
}

func (v *Voices) tell(what string, done float64) { v.progress.Store(&Progress{what, done}) }

// Switch asks for another policy: what is open is closed, and the other is on
// when Poll says Switched.
func (v *Voices) Switch(policy string) {
	if v.wanted == policy {
		return
	}
	v.wanted, v.opening, v.err = policy, true, nil
	v.retire()
	if v.crew == nil {
		old := v.stage
		v.stage = Stage{}
		r := result{policy: policy, err: old.close()}
		p, err := harness.FindPolicy(policy)
		if err == nil {
			r.stage, err = v.cfg.Open(context.Background(), p, v.observe, v.tell)
		}
		r.err = errors.Join(r.err, err)
		v.takeOver(r)
		return
	}
	if v.stage.Close != nil {
		v.crew.drop <- v.stage // one at a time: the crew took the one before ere this was given
	}
	v.stage = Stage{}
	select { // the last wish counts
	case <-v.crew.ask:
	default:
	}
	v.crew.ask <- policy
}

// retire keeps what the characters lived through and ends their world.
func (v *Voices) retire() {
	v.policy = ""
	if v.world == nil {
		return
	}
	if past, err := v.world.Save(); err == nil {
		v.past = past
	}
	v.world.Close()
	v.world = nil
}

// takeOver puts people on a stage that was opened.
func (v *Voices) takeOver(r result) {
	if r.policy != v.wanted { // asked for and not wanted any more
		if v.crew != nil {
			v.crew.drop <- r.stage
		}
		return
	}
	v.stage, v.policy, v.opening, v.err = r.stage, r.policy, false, r.err
	if r.err == nil && r.stage.Engine != nil {
		v.err = v.raise()
	}
	if v.err != nil {
		v.queue = append(v.queue, Heard{Kind: Failed, Text: r.policy, Err: v.err})
		return
	}
	if file := v.recall; file != nil && v.stage.Store != nil {
		v.recall = nil
		if err := recall(v.stage.Store, *file); err != nil {
			v.queue = append(v.queue, Heard{Kind: Failed, Err: err})
		}
	}
	v.remember()
	v.queue = append(v.queue, Heard{Kind: Switched, Text: r.policy})
}

// raise makes the world of a stage and gives it its past.
func (v *Voices) raise() error {
	cfg := npc.WorldConfig{Engine: v.stage.Engine, Model: v.stage.Model, Player: player, Lore: lore,
		Active: active,
		Content: func(u npc.Utterance) npc.Ruling {
			if text, wrong := v.game.Correct(string(u.Agent), u.Text); wrong {
				return npc.Ruling{Kind: npc.RulingReplace, Text: text}
			}
			return npc.Ruling{}
		},
		Manual: v.stage.Pump != nil}
	cfg.Memory = v.stage.Memory
	if cfg.Memory == nil && v.stage.Store != nil {
		cfg.Memory = npc.StoreMemory(v.stage.Store)
	}
	w, err := npc.NewWorld(cfg)
	if err != nil {
		return fmt.Errorf("talk: %w", err)
	}
	for i := range v.game.People {
		p := &v.game.People[i]
		persona := p.Persona
		if v.stage.Pump != nil { // the script's own words
			persona.Sampling = llm.Sampling{}
		}
		err = errors.Join(err, w.Add(npc.AgentSpec{ID: npc.AgentID(p.ID), Persona: persona, Offer: v.offers[p.ID]}))
	}
	if err == nil {
		v.blank, err = w.Save()
	}
	if v.past != nil && err == nil {
		err = w.Load(v.past)
	}
	if err != nil {
		w.Close()
		return fmt.Errorf("talk: %w", err)
	}
	v.world = w
	w.SetPhase(v.phase)
	for key, f := range v.facts {
		who, _, _ := strings.Cut(key, "/")
		err = errors.Join(err, w.SetFact(npc.AgentID(who), f))
	}
	return errors.Join(err, v.setQuest())
}

func (v *Voices) setQuest() error {
	q := v.game.Quest
	return v.world.SetQuest(npc.AgentID(q.Giver), npc.Quest{ID: q.ID, Text: q.Text, State: v.quest})
}

// Policy is the policy that is on, or "", and the one that is wanted.
func (v *Voices) Policy() (on, wanted string) { return v.policy, v.wanted }

// Err is why the last opening failed, or nil.
func (v *Voices) Err() error { return v.err }

// Opening is how far opening is; false: nothing is being opened.
func (v *Voices) Opening() (Progress, bool) {
	if p := v.progress.Load(); p != nil {
		return *p, v.opening
	}
	return Progress{}, v.opening
}

// Speaks reports whether a model answers now.
func (v *Voices) Speaks() bool { return v.world != nil }

// Say has the player say something to somebody. A bark is in the next Poll.
func (v *Voices) Say(who, line string, now int64) {
	if v.world == nil {
		v.bark(who, npc.BarkThinking)
		v.keep(rag.Memory{Owner: who, Speaker: player, Text: line, At: rag.GameTime(now)})
		return
	}
	if who == v.game.Shopkeeper {
		v.offerGoods(line)
	}
	if _, err := v.world.Say(npc.Line{To: npc.AgentID(who), Text: line}, now); err != nil {
		v.queue = append(v.queue, Heard{Kind: Failed, Who: who, Err: err})
	}
}

// Cue has somebody speak of its own accord, about something it notices.
func (v *Voices) Cue(who, notice string, now int64) {
	if v.world == nil {
		return
	}
	if _, err := v.world.Cue(npc.AgentID(who), notice, now); err != nil {
		v.queue = append(v.queue, Heard{Kind: Failed, Who: who, Err: err})
	}
}

// Bark has somebody say a line that was written for a situation.
func (v *Voices) Bark(who, situation string, now int64) {
	if v.world == nil || !v.world.Bark(npc.AgentID(who), situation, now) {
		v.bark(who, situation)
	}
}

// bark says the next line of a situation without a world.
func (v *Voices) bark(who, situation string) {
	p := v.game.Person(who)
	if p == nil || len(p.Persona.Barks[situation]) == 0 {
		return
	}
	lines := p.Persona.Barks[situation]
	n := v.barks[who+situation]
	v.barks[who+situation] = n + 1
	v.queue = append(v.queue, Heard{Kind: Bark, Who: who, Text: lines[n%len(lines)]})
}

// Tell lets somebody hear news of another's witness: a memory that names who
// saw it, and a fact to speak of.
func (v *Voices) Tell(who, from, text string, now int64) {
	name := v.game.Person(from).Persona.Name
	v.keep(rag.Memory{Owner: from, Scope: rag.Witnessed, Audience: []string{from, who}, Speaker: name, Text: text,
		At: rag.GameTime(now), Importance: 8})
	v.setFact(who, npc.Fact{Key: "news", Text: "You heard from " + name + ": " + text})
}

// keep remembers something, now or when a store is open.
func (v *Voices) keep(m rag.Memory) {
	if len(v.untold) < maxUntold {
		v.untold = append(v.untold, untold{m})
	}
	v.remember()
}

func (v *Voices) remember() {
	if v.stage.Store == nil {
		return
	}
	for len(v.untold) > 0 {
		if _, err := v.stage.Store.Remember(v.untold[0].m); err != nil {
			v.queue = append(v.queue, Heard{Kind: Failed, Err: err})
			return
		}
		v.untold = v.untold[1:]
	}
}

// setFact tells somebody something, now and in each world to come.
func (v *Voices) setFact(who string, f npc.Fact) {
	key := who + "/" + f.Key
	if v.facts[key] == f {
		return
	}
	v.facts[key] = f
	if v.world != nil {
		if err := v.world.SetFact(npc.AgentID(who), f); err != nil {
			v.queue = append(v.queue, Heard{Kind: Failed, Who: who, Err: err})
		}
	}
}

// Learn tells people what the rules know: prices, refusals, the quest, what can
// be ordered. Call it when something changed.
func (v *Voices) Learn(w *rules.World) {
	g := v.game
	var prices, refused []string
	for _, x := range g.Goods {
		prices = append(prices, x.ID+" for "+strconv.Itoa(x.Price))
		if r := w.MayBuy(x.ID); r.Key == "refuse.name" {
			refused = append(refused, x.ID)
		}
	}
	v.setFact(g.Shopkeeper, npc.Fact{Key: "prices", Text: "You sell " + strings.Join(prices, ", ") + " silver"})
	refusal := npc.Fact{Key: "refusal"}
	if len(refused) > 0 {
		refusal.Text = "You refuse to sell the player the " + strings.Join(refused, " and the ") + ": no good name yet"
	}
	v.setFact(g.Shopkeeper, refusal)
	v.setFact(g.Quest.Giver, npc.Fact{Key: "reward", Text: fmt.Sprintf("The reward is %d silver", g.Quest.Reward)})
	v.setFact(g.Quest.Helper, npc.Fact{Key: "quest", Text: questOf(g, w)})
	state := map[rules.QuestState]npc.QuestState{rules.QuestNone: npc.QuestAvailable, rules.QuestDone: npc.QuestDone}
	quest, ok := state[w.Quest]
	if !ok {
		quest = npc.QuestActive
	}
	if v.quest != quest || v.world != nil {
		v.quest = quest
		if v.world != nil {
			if err := v.setQuest(); err != nil {
				v.queue = append(v.queue, Heard{Kind: Failed, Err: err})
			}
		}
	}
	v.offer(w)
}

// questOf is what the helper knows of the quest.
func questOf(g *data.Game, w *rules.World) string {
	switch w.Quest {
	case rules.QuestNone:
		return "The player has promised Odila nothing yet"
	case rules.QuestActive:
		if w.Pack[g.Quest.Ore] > 0 {
			return fmt.Sprintf("The player has ore. You forge the hook now for %d silver", g.Quest.Forging)
		}
		return "The player needs the iron hook and has no ore yet"
	case rules.QuestTool:
		return "You forged the iron hook for the player"
	}
	return "The player has the clapper of the bell"
}

// offer says what people may do now.
func (v *Voices) offer(w *rules.World) {
	o := npc.Offer{}
	if w.Fighting() {
		for _, order := range rules.Orders {
			o.Actions = append(o.Actions, npc.ActionSpec{Name: string(order), Description: orderMeaning[order]})
		}
	}
	v.setOffer(v.game.Companion, o)
}

// offerGoods lets the shopkeeper show what is for sale where the player speaks of
// buying. Otherwise she is not asked: each choice costs the model a turn.
func (v *Voices) offerGoods(line string) {
	o := npc.Offer{}
	if Buys(line) {
		o.Actions = []npc.ActionSpec{{Name: ShowGoods, Description: "shows what is for sale to who wants to buy"}}
	}
	v.setOffer(v.game.Shopkeeper, o)
}

// ShowGoods is the action by which the shopkeeper opens the shop.
const ShowGoods = "show_goods"

// Buys reports whether a line speaks of buying.
func Buys(line string) bool {
	line = strings.ToLower(line)
	return strings.Contains(line, "buy") || strings.Contains(line, "sell me")
}

var orderMeaning = map[rules.Order]string{
	rules.Follow: "goes with the player", rules.Guard: "stands between the player and the wolves",
	rules.Heal: "heals the player's wounds", rules.Fetch: "gathers what lies around",
	rules.Flee: "runs away to the path",
}

func (v *Voices) setOffer(who string, o npc.Offer) {
	old, known := v.offers[who]
	if known && len(old.Actions) == len(o.Actions) {
		return
	}
	v.offers[who] = o
	if v.world != nil {
		if err := v.world.SetOffer(npc.AgentID(who), o); err != nil {
			v.queue = append(v.queue, Heard{Kind: Failed, Who: who, Err: err})
		}
	}
}

// Answer tells somebody whether what it wanted to do was done.
func (v *Voices) Answer(turn npc.TurnID, refusal string, now int64) {
	if v.world == nil {
		return
	}
	var err error
	if refusal == "" {
		err = v.world.Accept(turn, now)
	} else {
		err = v.world.Refuse(turn, refusal)
	}
	if err != nil && !errors.Is(err, npc.ErrAction) { // it lapsed meanwhile: Poll tells
		v.queue = append(v.queue, Heard{Kind: Failed, Err: err})
	}
}

// Hush ends what somebody says.
func (v *Voices) Hush(who string) {
	if v.world != nil {
		v.world.Interrupt(npc.AgentID(who))
	}
}

// Place tells how far somebody is from the player, in tiles.
func (v *Voices) Place(who string, tiles float64) {
	if v.world != nil {
		_ = v.world.Place(npc.AgentID(who), tiles) // all people of the game are in the world
	}
}

// SetPhase tells what the game does now.
func (v *Voices) SetPhase(p scheduler.Phase) {
	if v.phase == p {
		return
	}
	v.phase = p
	if v.world != nil {
		v.world.SetPhase(p)
	}
	if rt := v.stage.Runtime; rt != nil {
		rt.SetPhase(p)
	}
}

// saved is what Save writes.
type saved struct {
	World json.RawMessage     `json:"world,omitempty"`
	Facts map[string]npc.Fact `json:"facts"`
}

// Save is what the characters lived through. Memories have a file of their own.
func (v *Voices) Save() ([]byte, error) {
	past := v.past
	if v.world != nil {
		var err error
		if past, err = v.world.Save(); err != nil {
			return nil, err
		}
	}
	return json.Marshal(saved{past, v.facts})
}

// Load replaces what they lived through. On error nothing has changed.
func (v *Voices) Load(raw []byte) error {
	var s saved
	if err := json.Unmarshal(raw, &s); err != nil {
		return fmt.Errorf("talk: the save of the voices: %w", err)
	}
	if v.world != nil && s.World != nil {
		if err := v.world.Load(s.World); err != nil {
			return err
		}
	}
	v.past, v.facts = s.World, s.Facts
	if v.facts == nil {
		v.facts = map[string]npc.Fact{}
	}
	return nil
}

// Begin has people begin anew: nobody knows what was lived through. Memories are
// another matter: see Recall.
func (v *Voices) Begin() error {
	v.past, v.facts, v.untold = nil, map[string]npc.Fact{}, nil
	if v.world == nil {
		return nil
	}
	return v.world.Load(v.blank)
}

// Recall gives what goes back to the memories in a file, "" to none, for another
// goroutine. Where no store is open yet it is nil, and is done when one is.
func (v *Voices) Recall(file string) func() error {
	store := v.stage.Store
	if store == nil {
		v.recall = &file
		return nil
	}
	v.recall = nil
	return func() error { return recall(store, file) }
}

// recall goes back to the memories in a file, or forgets all. A game that was
// saved where no memories were open has none.
func recall(store *rag.Store, file string) error {
	if file == "" {
		return store.Clear()
	}
	if _, err := os.Stat(file); !errors.Is(err, fs.ErrNotExist) {
		return store.Load(file)
	}
	return nil
}

// Close ends everything, at most after some seconds. Closed again it does nothing.
func (v *Voices) Close() error {
	if v.closed {
		return nil
	}
	v.closed = true
	v.retire()
	if v.crew == nil {
		return v.stage.close()
	}
	if v.stage.Close != nil {
		v.crew.drop <- v.stage
	}
	return v.crew.end()
}
