package npc

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/lull-npc/lull/runtime/llm"
	"github.com/lull-npc/lull/scheduler"
)

// Expected conditions of a World. Causes are wrapped with %w.
var (
	ErrWorld = errors.New("npc: bad world")
	ErrAgent = errors.New("npc: bad agent")
	ErrFull  = errors.New("npc: too much at one time")

	errWorldClosed = fmt.Errorf("%w: it is closed", ErrWorld)
)

// The named limits of a world.
const (
	MaxAgents  = 16_384 // idle ones cost memory only, about 1 KB each
	MaxWaiting = 256    // turns asked for and not begun; then Say returns ErrFull, and Cue playerPlaces before
	MaxPending = 64     // actions waiting for the game's word; then the choice is dropped
	MaxVoices  = 8      // characters in one conversation
	maxEvents  = 1024   // events not polled; then Say, Cue and Bark return ErrFull
	maxEntries = 500    // of one character's history; the oldest are forgotten
	maxActive  = 64     // turns being prepared or computed at one time

	// playerPlaces of MaxWaiting are for who is spoken to: a game that cues too
	// many does not silence those the player stands before.
	playerPlaces = 64
)

// AgentID names a character of a world, for the game and for the engine, which
// keeps a cache for each: "smith-3".
type AgentID string

// TurnID names one turn: one time that a character speaks or acts; 0 is none.
type TurnID uint64

// Memory is what a world needs of long-term memories; StoreMemory makes one of
// package rag's. Both methods may run at the same time.
type Memory interface {
	// Recall finds what a character would think of now, the most fitting first.
	// Called from the goroutine that prepares prompts: it may take its time.
	Recall(q Query) ([]Recalled, error)

	// Remember keeps what a character lived through. It must return at once;
	// its error becomes an EventFailed of no turn. Called from the game thread.
	Remember(e Experience) error
}

// Query asks for memories.
type Query struct {
	Agent AgentID
	Text  string // what was heard last
	Limit int
	Now   int64
	Quick bool // every frame counts now: look at words only, compute no embedding
}

// Recalled is one memory.
type Recalled struct {
	ID    string
	Text  string
	Score float64
}

// Experience is something that a character heard, said or did.
type Experience struct {
	Agent   AgentID
	Speaker string // a name; the character's own where it spoke
	Text    string
	Now     int64
}

// WorldConfig sets a World up. Engine and Model are wanted; what is zero else
// means its default.
type WorldConfig struct {
	Engine *llm.Engine
	Model  llm.Model // for its tokenizer and Info

	Player string   // how the player is called in conversations; default "Player"
	Lore   []string // what every character knows, the most important first
	Rules  []string // what holds for every character

	// Active is how many turns are prepared or computed at one time; default
	// one less than the model has sequences, so that one is free for who is
	// spoken to.
	Active int

	BarkQuiet     time.Duration // no line is said again by anybody within; default 1 min
	ActionTimeout time.Duration // the game's time to accept or refuse; default 5 s
	Seed          uint32        // varies every reply
	Memory        Memory        // nil: none

	// Blocked is what no character says: words and phrases, compared whatever
	// their case and Unicode form; an entry that ends in * lets its last word go
	// on ("curs*"). Text is held back as long as it may become one.
	Blocked []string

	// Content judges each sentence before it is heard: deltas then come a
	// sentence at a time. It is called from a goroutine of the world's own, one
	// sentence after the other, so it may take its time; what takes longer than
	// ContentTimeout (default 2 s), or panics, is not said. Nil: none.
	Content        func(Utterance) Ruling
	ContentTimeout time.Duration

	// Manual starts no goroutine: the game calls Prepare and Judge. For tests
	// and simulation.
	Manual bool
}

// World is all the characters of a game that talk through one engine. The game
// adds and removes them, speaks to them, and polls what they say; the engine's
// events are the world's to poll.
//
// Call from the game thread, except Prepare and Judge. No method waits, but Close
// for the prompt that is being made, and SetModel likewise.
type World struct {
	thinks    bool // the model was seen to think
	cfg       WorldConfig
	info      llm.Info
	anyActive bool       // cfg.Active is the default
	modelMu   sync.Mutex // held while a prompt is made, and while cfg.Model changes

	agents  map[AgentID]*agent
	saved   map[AgentID]saveAgent // loaded, of characters that are not in the world yet
	facts   []Fact
	barks   barker
	phase   scheduler.Phase
	waiting []*turn // asked for
	active  []*turn // being prepared or computed
	raised  *turn   // the most overdue turn that nobody waits for
	pending []pendingAction
	crowded []*agent // whose history could be summarised
	out     []Event
	buf     []llm.Event
	tokens  []llm.Token
	last    TurnID
	now     int64      // of the last Poll
	blocked *blockList // of cfg.Blocked; nil: nothing

	asks    chan *judging // to the content hook
	rulings chan *judging // from it

	jobs   chan *job // to Prepare
	done   chan *job // from Prepare
	quit   chan struct{}
	scribe sync.WaitGroup
	closed bool
}

// agent is one character.
type agent struct {
	id       AgentID
	persona  Persona
	distance float64
	scene    *scene
	entries  []Entry
	summary  string
	offer    Offer
	quests   []Quest
	facts    []Fact
	said     uint32 // turns so far: varies the seed
	broken   *broken
	blocked  *blockList     // the world's and its persona's; nil: nothing
	records  []*Explanation // of the last turns
	removed  bool
	dropped  int // entries so far
}

// broken is a reply that was interrupted.
type broken struct {
	raw    string
	tokens []llm.Token
	at     int // its entry
}

// scene is a conversation: who is in it hears each other.
type scene struct{ members []*agent }

// NewWorld returns an empty world. The error wraps ErrWorld and names the field.
func NewWorld(cfg WorldConfig) (*World, error) {
	if cfg.Engine == nil || cfg.Model == nil {
		return nil, fmt.Errorf("%w: want an Engine and a Model", ErrWorld)
	}
	info := cfg.Model.Info()
	if cfg.Player == "" {
		cfg.Player = "Player"
	}
	anyActive := cfg.Active == 0
	if anyActive {
		cfg.Active = activeFor(info)
	}
	if cfg.BarkQuiet == 0 {
		cfg.BarkQuiet = defaultBarkQuiet
	}
	if cfg.ContentTimeout == 0 {
		cfg.ContentTimeout = defaultContentTimeout
	}
	if cfg.ActionTimeout == 0 {
		cfg.ActionTimeout = 5 * time.Second
	}
	var ps problems
	ps.text("Player", cfg.Player, 1, MaxName)
	ps.list("Lore", cfg.Lore, 256, MaxSheetLine)
	ps.list("Rules", cfg.Rules, 64, MaxSheetLine)
	if cfg.Active < 1 || cfg.Active > maxActive {
		ps.add("Active", fmt.Sprintf("%d: want 1 … %d", cfg.Active, maxActive))
	}
	ps.blocked("Blocked", cfg.Blocked)
	if cfg.BarkQuiet < 0 || cfg.ActionTimeout < 0 || cfg.ContentTimeout < 0 {
		ps.add("BarkQuiet, ActionTimeout, ContentTimeout", "negative: want 0 or more")
	}
	if len(ps) > 0 {
		return nil, fmt.Errorf("%w: WorldConfig.%s %s", ErrWorld, ps[0].field, ps[0].what)
	}
	w := &World{cfg: cfg, info: info, agents: map[AgentID]*agent{},
		barks: barker{quiet: cfg.BarkQuiet, said: map[string]int64{}},
		jobs:  make(chan *job, 2*maxActive), done: make(chan *job, 2*maxActive), quit: make(chan struct{}),
		asks: make(chan *judging, 2*maxActive), rulings: make(chan *judging, 2*maxActive),
		blocked: newBlockList(cfg.Blocked), anyActive: anyActive}
	if !cfg.Engine.Claim() {
		return nil, fmt.Errorf("%w: another world polls this engine: close it first, or open a second engine", ErrWorld)
	}
	if !cfg.Manual {
		w.scribe.Add(1)
		go w.write()
		if cfg.Content != nil {
			go w.guardContent()
		}
	}
	return w, nil
}

// Close ends the world: every turn is cancelled in the engine, which is left
// open. Close it before its engine and model. A prompt that is being made, and
// with it Memory.Recall, is waited for; a content hook that is at work is not. A
// second Close does nothing.
func (w *World) Close() {
	if w.closed {
		return
	}
	w.closed = true
	for _, t := range w.active {
		if t.request != 0 {
			w.cfg.Engine.Cancel(t.request)
		}
	}
	close(w.quit)
	w.scribe.Wait()
	w.cfg.Engine.Release()
}

// AgentSpec is a character to be added.
type AgentSpec struct {
	ID       AgentID
	Persona  Persona
	Distance float64 // from the player, in metres or what the game counts in; below 0 counts as 0
	Offer    Offer   // what it may do; none by default
}

// Add adds a character. Errors wrap ErrAgent, ErrPersona or ErrAction.
func (w *World) Add(s AgentSpec) error {
	switch {
	case s.ID == "" || len(s.ID) > MaxValue || !utf8.ValidString(string(s.ID)):
		return fmt.Errorf("%w: id %q: want 1 … %d bytes of UTF-8", ErrAgent, s.ID, MaxValue)
	case math.IsNaN(s.Distance):
		return fmt.Errorf("%w: %s: distance %v: want a number", ErrAgent, s.ID, s.Distance)
	case w.agents[s.ID] != nil:
		return fmt.Errorf("%w: %s is in the world already", ErrAgent, s.ID)
	case len(w.agents) >= MaxAgents:
		return fmt.Errorf("%w: the world has %d characters: remove some", ErrFull, MaxAgents)
	case s.Persona.Name == w.cfg.Player:
		return fmt.Errorf("%w: %s is called as the player is: %q", ErrAgent, s.ID, w.cfg.Player)
	}
	if err := s.Persona.Validate(); err != nil {
		return fmt.Errorf("%w: %s: %w", ErrAgent, s.ID, err)
	}
	if err := s.Offer.Validate(); err != nil {
		return fmt.Errorf("%w: %s: %w", ErrAgent, s.ID, err)
	}
	a := &agent{id: s.ID, persona: s.Persona, distance: max(0, s.Distance), offer: s.Offer, blocked: w.blocked}
	if len(s.Persona.Blocked) > 0 {
		a.blocked = newBlockList(w.cfg.Blocked, s.Persona.Blocked)
	}
	a.scene = &scene{members: []*agent{a}}
	if old, ok := w.saved[s.ID]; ok {
		a.restore(old)
		delete(w.saved, s.ID)
	}
	w.agents[s.ID] = a
	return nil
}

// Remove takes a character out of the world, in the middle of a word if need
// be: EventInterrupted follows then, and nothing of it after that.
func (w *World) Remove(id AgentID) error {
	a, err := w.agent(id)
	if err != nil {
		return err
	}
	a.removed = true
	for _, t := range w.turnsOf(a) {
		w.abandon(t, "removed")
	}
	a.scene.leave(a)
	w.pending = slices.DeleteFunc(w.pending, func(p pendingAction) bool { return p.agent == a })
	w.crowded = slices.DeleteFunc(w.crowded, func(o *agent) bool { return o == a })
	delete(w.agents, id)
	w.cfg.Engine.Forget(string(id))
	return nil
}

func (w *World) agent(id AgentID) (*agent, error) {
	if a := w.agents[id]; a != nil {
		return a, nil
	}
	return nil, fmt.Errorf("%w: there is no %q in the world", ErrAgent, id)
}

// Place tells how far a character is from the player.
func (w *World) Place(id AgentID, distance float64) error {
	a, err := w.agent(id)
	switch {
	case err != nil:
		return err
	case math.IsNaN(distance):
		return fmt.Errorf("%w: %s: distance %v: want a number", ErrAgent, id, distance)
	}
	a.distance = max(0, distance)
	return nil
}

// Gather brings characters into one conversation: from now on each hears what
// the others say and what is said to them. They leave the ones they were in. Where
// several of them are just speaking, the one who began last goes on.
func (w *World) Gather(ids ...AgentID) error {
	if len(ids) < 1 || len(ids) > MaxVoices {
		return fmt.Errorf("%w: %d characters in one conversation: want 1 … %d", ErrAgent, len(ids), MaxVoices)
	}
	s := &scene{}
	for _, id := range ids {
		a, err := w.agent(id)
		if err != nil {
			return err
		}
		if slices.Contains(s.members, a) {
			return fmt.Errorf("%w: %s is named twice", ErrAgent, id)
		}
		if slices.ContainsFunc(s.members, func(o *agent) bool { return o.persona.Name == a.persona.Name }) {
			return fmt.Errorf("%w: two of a conversation are called %q: nobody could tell them apart",
				ErrAgent, a.persona.Name)
		}
		s.members = append(s.members, a)
	}
	for _, a := range s.members {
		a.scene.leave(a)
		a.scene = s
	}
	w.oneVoice(s)
	return nil
}

// oneVoice ends all that is being said in a conversation but what began last.
func (w *World) oneVoice(s *scene) {
	var voices []*turn
	for _, t := range w.active {
		if t.agent.scene == s && t.speaks() && t.mayAbandon() {
			voices = append(voices, t)
		}
	}
	slices.SortFunc(voices, func(a, b *turn) int { return cmp.Compare(b.id, a.id) })
	for _, t := range voices[min(1, len(voices)):] {
		w.abandon(t, "another speaks")
	}
}

// Part has a character leave its conversation: from now on it is alone with the
// player. It keeps what it heard.
func (w *World) Part(id AgentID) error {
	a, err := w.agent(id)
	if err != nil {
		return err
	}
	a.scene.leave(a)
	a.scene = &scene{members: []*agent{a}}
	return nil
}

func (s *scene) leave(a *agent) {
	s.members = slices.DeleteFunc(slices.Clone(s.members), func(o *agent) bool { return o == a })
}

// hears adds an entry to the history of everybody in the conversation, except
// who said it.
func (s *scene) hears(e Entry, speaker *agent) {
	for _, a := range s.members {
		if a != speaker {
			a.add(e)
		}
	}
}

func (a *agent) add(e Entry) {
	a.entries = append(a.entries, e)
	a.drop(max(0, len(a.entries)-maxEntries))
}

// drop forgets the oldest entries. The place of a reply under way moves with
// them.
func (a *agent) drop(n int) {
	a.entries = slices.Delete(a.entries, 0, n)
	a.dropped += n
	if a.broken != nil {
		if a.broken.at -= n; a.broken.at < 0 {
			a.broken = nil
		}
	}
}

// SetOffer replaces what a character may do.
func (w *World) SetOffer(id AgentID, o Offer) error {
	a, err := w.agent(id)
	if err != nil {
		return err
	}
	if err := o.Validate(); err != nil {
		return err
	}
	a.offer = o
	return nil
}

// SetFact tells a character something, or everybody where id is empty.
func (w *World) SetFact(id AgentID, f Fact) error {
	if id == "" {
		facts, err := setFact(w.facts, f)
		w.facts = facts
		return err
	}
	a, err := w.agent(id)
	if err != nil {
		return err
	}
	a.facts, err = setFact(a.facts, f)
	return err
}

// SetQuest gives a character a quest to offer, or tells it where one stands.
func (w *World) SetQuest(giver AgentID, q Quest) error {
	a, err := w.agent(giver)
	if err != nil {
		return err
	}
	a.quests, err = setQuest(a.quests, q)
	return err
}

// Quests are the quests of a character and where they stand: a copy.
func (w *World) Quests(giver AgentID) []Quest {
	if a := w.agents[giver]; a != nil {
		return slices.Clone(a.quests)
	}
	return nil
}

// History is what a character heard, said and was told: a copy of the list.
func (w *World) History(id AgentID) []Entry {
	if a := w.agents[id]; a != nil {
		return slices.Clone(a.entries)
	}
	return nil
}

// SetPhase tells what the game does now; Runtime.SetPhase of package local, which
// steers the model, is told apart from it. In a menu, on a loading screen and in
// the background, long histories are summarised.
func (w *World) SetPhase(p scheduler.Phase) {
	if w.phase = p; w.calm() {
		return
	}
	for _, t := range slices.Clone(w.active) {
		if t.kind == turnSummary {
			w.abandon(t, "the game goes on")
		}
	}
}

func (w *World) calm() bool {
	return w.phase == scheduler.PhaseMenu || w.phase == scheduler.PhaseLoading || w.phase == scheduler.PhaseBackground
}
