package world

import (
	"errors"
	"io/fs"
	"math"
	"os"
	"slices"

	"github.com/lull-npc/lull/npc"
	"github.com/lull-npc/lull/runtime/llm"
)

// NPC is a character that a player talks to. Every method is called between
// EnterNPC and Leave.
type NPC struct {
	world      *World
	generation uint32
	index1     uint16
	spec       npc.AgentSpec       // what the host said of it so far
	busy       map[npc.TurnID]bool // replies that have not ended
}

// NPCDef says who an NPC is.
type NPCDef struct {
	Persona  string // YAML text, or empty
	File     string // path or name of a shipped persona, where Persona is empty
	Name     string // what saves call it; empty: the persona's name
	Distance float32
	Seed     uint32
	Greedy   bool
	Tokens   int // of a reply; 0: the persona's
}

// CreateNPC makes an NPC.
func (w *World) CreateNPC(def NPCDef) (NPCID, error) {
	p, err := def.persona()
	if err != nil {
		return NPCID{}, err
	}
	spec := npc.AgentSpec{ID: npc.AgentID(def.Name), Persona: p}
	if spec.ID == "" {
		spec.ID = npc.AgentID(p.Name)
	}
	if spec.Distance, err = checkDistance(def.Distance); err != nil {
		return NPCID{}, err
	}
	switch {
	case w.byName[spec.ID] != nil:
		return NPCID{}, Errorf(InvalidArgument, "there is an NPC %q already: give this one another name", spec.ID)
	case len(spec.ID) > npc.MaxValue:
		return NPCID{}, Errorf(InvalidArgument, "the name of the NPC has %d bytes: want %d at most",
			len(spec.ID), npc.MaxValue)
	case len(w.byName) == MaxNPCs:
		return NPCID{}, Errorf(Full, "there are %d NPCs: destroy one first", MaxNPCs)
	}
	if w.talk != nil {
		if err := w.talk.Add(spec); err != nil {
			return NPCID{}, talkError(err)
		}
	}
	n := &NPC{world: w, generation: generation(), spec: spec, busy: map[npc.TurnID]bool{}}
	if last := len(w.free) - 1; last >= 0 {
		n.index1 = uint16(w.free[last] + 1)
		w.free = w.free[:last]
		w.npcs[n.index1-1] = n
	} else {
		w.npcs = append(w.npcs, n)
		n.index1 = uint16(len(w.npcs))
	}
	w.byName[spec.ID] = n
	return NPCID{n.index1, w.index1, n.generation}, nil
}

func checkDistance(d float32) (float64, error) {
	if !(d >= 0 && d <= math.MaxFloat32) {
		return 0, Errorf(InvalidArgument, "the distance is %v: want 0 or more", d)
	}
	return float64(d), nil
}

func (d NPCDef) persona() (npc.Persona, error) {
	if d.Tokens < 0 || d.Tokens > npc.MaxReplyTokens {
		return npc.Persona{}, Errorf(InvalidArgument, "reply_tokens_max is %d: want 1 ... %d, or 0 for the persona's",
			d.Tokens, npc.MaxReplyTokens)
	}
	var p npc.Persona
	var err error
	switch {
	case d.Persona != "" && d.File != "":
		return p, Errorf(InvalidArgument, "persona and persona_file are both given: want one")
	case d.Persona != "":
		p, err = npc.ParsePersona("persona", []byte(d.Persona))
	case d.File != "" && !readable(d.File):
		return p, Errorf(File, "persona_file %s is no regular file", d.File)
	case d.File != "":
		p, err = npc.LoadPersona(d.File)
	default:
		return p, Errorf(InvalidArgument, "persona or persona_file must be given")
	}
	switch {
	case errors.Is(err, npc.ErrPersona) && !errors.Is(err, fs.ErrNotExist):
		return p, Errorf(Persona, "%v", err)
	case err != nil:
		return p, Errorf(File, "%v", err)
	}
	if d.Seed != 0 {
		p.Sampling.Seed = d.Seed
	}
	if d.Greedy {
		p.Sampling = llm.Sampling{}
	}
	if d.Tokens != 0 {
		p.MaxTokens = d.Tokens
	}
	return p, nil
}

// readable is false for what is there and may be endless, or make who opens it
// wait. A persona that lull ships needs no file.
func readable(file string) bool {
	info, err := os.Stat(file)
	return err != nil || info.Mode().IsRegular() || slices.Contains(npc.Shipped(), file)
}

// talkError gives an error of package npc the result that the host gets.
func talkError(err error) error {
	code := InvalidArgument
	for _, c := range []struct {
		is   error
		code Code
	}{
		{npc.ErrFull, Full}, {npc.ErrPersona, Persona}, {npc.ErrSave, Save}, {llm.ErrClosed, Model},
	} {
		if errors.Is(err, c.is) {
			code = c.code
			break
		}
	}
	return Errorf(code, "%v", err)
}

// ready is the world of characters, or why there is none.
func (w *World) ready() (*npc.World, error) {
	if w.talk != nil {
		return w.talk, nil
	}
	if w.state == Failed && w.loadErr != nil {
		return nil, Errorf(NotReady, "the world has no model: %v", w.loadErr)
	}
	return nil, Errorf(NotReady, "the model is not loaded yet: wait for LULL_EVENT_WORLD_READY")
}

// Destroy forgets the NPC.
func (n *NPC) Destroy() error {
	w := n.world
	if w.talk != nil {
		w.gatherTalk() // events of others must not get lost with its own
		if err := w.talk.Remove(n.spec.ID); err != nil {
			return talkError(err)
		}
	}
	w.dropEvents(n)
	delete(w.byName, n.spec.ID)
	w.npcs[n.index1-1] = nil
	w.free = append(w.free, int(n.index1-1))
	return nil
}

// Name is the persona's.
func (n *NPC) Name() string { return n.spec.Persona.Name }

// Greeting is what the persona says first.
func (n *NPC) Greeting() string { return n.spec.Persona.Greeting }

// SetDistance tells how far the NPC is from the player.
func (n *NPC) SetDistance(d float32) error {
	distance, err := checkDistance(d)
	if err != nil {
		return err
	}
	n.spec.Distance = distance
	if t := n.world.talk; t != nil {
		return wrapTalk(t.Place(n.spec.ID, distance))
	}
	return nil
}

func wrapTalk(err error) error {
	if err == nil {
		return nil
	}
	return talkError(err)
}

// Busy reports whether a reply is awaited or under way.
func (n *NPC) Busy() bool { return len(n.busy) > 0 }

// turn notes that a reply is awaited.
func (n *NPC) turn(id npc.TurnID, err error) (uint64, error) {
	if err != nil {
		return 0, talkError(err)
	}
	n.busy[id] = true
	return uint64(id), nil
}

// Say has the player say a line; the number names the reply in its events.
func (n *NPC) Say(line string) (uint64, error) {
	t, err := n.world.ready()
	if err != nil {
		return 0, err
	}
	return n.turn(t.Say(npc.Line{To: n.spec.ID, Text: line}, Clock.Now()))
}

// Cue has the NPC speak of its own accord.
func (n *NPC) Cue(why string) (uint64, error) {
	t, err := n.world.ready()
	if err != nil {
		return 0, err
	}
	return n.turn(t.Cue(n.spec.ID, why, Clock.Now()))
}

// Resume has the NPC go on with what it said when it was interrupted.
func (n *NPC) Resume() (uint64, error) {
	t, err := n.world.ready()
	if err != nil {
		return 0, err
	}
	id, err := t.Resume(n.spec.ID, Clock.Now())
	if errors.Is(err, npc.ErrAgent) {
		return 0, Errorf(Nothing, "%v", err)
	}
	return n.turn(id, err)
}

// Tell lets the NPC hear somebody without answering.
func (n *NPC) Tell(speaker, text string) error {
	t, err := n.world.ready()
	if err != nil {
		return err
	}
	return wrapTalk(t.Tell(n.spec.ID, speaker, text, Clock.Now()))
}

// Interrupt stops what the NPC says.
func (n *NPC) Interrupt() error {
	t, err := n.world.ready()
	if err != nil {
		return err
	}
	if !t.Interrupt(n.spec.ID) {
		return Errorf(Nothing, "%s says nothing", n.Name())
	}
	return nil
}

// Bark has the NPC say a line of its persona for a situation.
func (n *NPC) Bark(situation string) error {
	t, err := n.world.ready()
	if err != nil {
		return err
	}
	if !t.Bark(n.spec.ID, situation, Clock.Now()) {
		return Errorf(Nothing, "%s has nothing to say for %q now", n.Name(), situation)
	}
	return nil
}

// Gather brings NPCs into one conversation.
func (w *World) Gather(members []*NPC) error {
	t, err := w.ready()
	if err != nil {
		return err
	}
	ids := make([]npc.AgentID, len(members))
	for i, n := range members {
		ids[i] = n.spec.ID
	}
	return wrapTalk(t.Gather(ids...))
}

// Part has the NPC leave its conversation.
func (n *NPC) Part() error {
	t, err := n.world.ready()
	if err != nil {
		return err
	}
	return wrapTalk(t.Part(n.spec.ID))
}

// Lines are what the NPC has in mind, oldest first.
func (n *NPC) Lines() []npc.Entry {
	if t := n.world.talk; t != nil {
		return t.History(n.spec.ID)
	}
	return nil
}

// Line is one of Lines.
func (n *NPC) Line(i int) (npc.Entry, error) {
	lines := n.Lines()
	if i < 0 || i >= len(lines) {
		return npc.Entry{}, Errorf(InvalidArgument, "index is %d: there are %d lines", i, len(lines))
	}
	return lines[i], nil
}

// Explain says for people why the NPC said what it said last.
func (n *NPC) Explain() (string, error) {
	t, err := n.world.ready()
	if err != nil {
		return "", err
	}
	turns := t.Explain(n.spec.ID)
	if len(turns) == 0 {
		return "", Errorf(Nothing, "%s said nothing yet", n.Name())
	}
	return llm.ValidText(turns[len(turns)-1].String()), nil
}

// SetFact tells the NPC something.
func (n *NPC) SetFact(f npc.Fact) error { return n.world.setFact(n.spec.ID, f) }

// SetFact tells every NPC something.
func (w *World) SetFact(f npc.Fact) error { return w.setFact("", f) }

func (w *World) setFact(id npc.AgentID, f npc.Fact) error {
	t, err := w.ready()
	if err != nil {
		return err
	}
	return wrapTalk(t.SetFact(id, f))
}

// SetQuest gives the NPC a quest, or tells it where one stands.
func (n *NPC) SetQuest(q npc.Quest) error {
	t, err := n.world.ready()
	if err != nil {
		return err
	}
	return wrapTalk(t.SetQuest(n.spec.ID, q))
}

// Quest is where a quest of the NPC stands.
func (n *NPC) Quest(id string) (npc.QuestState, error) {
	t, err := n.world.ready()
	if err != nil {
		return 0, err
	}
	for _, q := range t.Quests(n.spec.ID) {
		if q.ID == id {
			return q.State, nil
		}
	}
	return 0, Errorf(Nothing, "%s gives no quest %q", n.Name(), id)
}

// Save gives what the NPCs lived through as bytes.
func (w *World) Save() ([]byte, error) {
	t, err := w.ready()
	if err != nil {
		return nil, err
	}
	data, err := t.Save()
	if err != nil {
		return nil, Errorf(Save, "%v", err)
	}
	return data, nil
}

// Load replaces what the NPCs lived through.
func (w *World) Load(data []byte) error {
	t, err := w.ready()
	if err != nil {
		return err
	}
	if err := t.Load(data); err != nil {
		return Errorf(Save, "%v", err)
	}
	clear(w.actions)
	for _, n := range w.byName {
		clear(n.busy)
	}
	return nil
}
