package world

import (
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/lull-npc/lull/npc"
	"github.com/lull-npc/lull/runtime/llm"
)

// NPC is a character that a player talks to. Every method is called between
// EnterNPC and Leave.
type NPC struct {
	world      *World
	generation uint32
	index1     uint16
	chat       *npc.Chat
	priority   int
	current    *reply // until its last event was polled
}

// NPCDef says who an NPC is.
type NPCDef struct {
	Persona  string // YAML text, or empty
	File     string // path or name of a shipped persona, where Persona is empty
	Priority int
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
	if w.living == MaxNPCs {
		return NPCID{}, Errorf(Full, "there are %d NPCs: destroy one first", MaxNPCs)
	}
	n := &NPC{world: w, generation: generation(), priority: def.Priority, chat: npc.NewChat(p)}
	n.chat.Owner = fmt.Sprintf("%s %d", p.Name, n.generation)
	if last := len(w.free) - 1; last >= 0 {
		n.index1 = uint16(w.free[last] + 1)
		w.free = w.free[:last]
		w.npcs[n.index1-1] = n
	} else {
		w.npcs = append(w.npcs, n)
		n.index1 = uint16(len(w.npcs))
	}
	w.living++
	return NPCID{n.index1, w.index1, n.generation}, nil
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
	case d.File != "":
		p, err = npc.LoadPersona(d.File)
	default:
		return p, Errorf(InvalidArgument, "persona or persona_file must be given")
	}
	switch {
	case errors.Is(err, npc.ErrPersona):
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

// Destroy forgets the NPC.
func (n *NPC) Destroy() {
	w := n.world
	n.abandon()
	if r := w.Runtime(); r != nil {
		r.Engine.Forget(n.chat.Owner)
	}
	w.dropEvents(n)
	w.npcs[n.index1-1] = nil
	w.free = append(w.free, int(n.index1-1))
	w.living--
}

// Name is the persona's.
func (n *NPC) Name() string { return n.chat.Persona().Name }

// Greeting is what the persona says first.
func (n *NPC) Greeting() string { return n.chat.Persona().Greeting }

// SetPriority holds from the next line on.
func (n *NPC) SetPriority(p int) { n.priority = p }

// Busy reports whether a reply or a warm-up is under way.
func (n *NPC) Busy() bool { return n.current != nil }

// reply is one answer, or one warm-up, on its way.
type reply struct {
	id       uint64
	npc      *NPC
	line     string // what the player said
	warm     bool   // only the persona is to be read
	chat     npc.Chat
	priority int
	asked    int64
	off      atomic.Bool // nobody wants it any more

	// The host's side.
	request  llm.RequestID // 0 until the mail told
	prepared time.Duration // from Say to Submit
	over     bool          // its last event stands in the queue
}

// replies numbers the replies of the process.
var replies atomic.Uint64

// Say has the player say a line; the number names the reply in its events.
func (n *NPC) Say(line string) (uint64, error) {
	if clean, _ := npc.CleanLine(line); clean == "" {
		return 0, Errorf(InvalidArgument, "of the line's %d bytes nothing can be read", len(line))
	}
	return n.begin(&reply{line: line})
}

// WarmUp has the model read the persona.
func (n *NPC) WarmUp() (uint64, error) { return n.begin(&reply{warm: true}) }

func (n *NPC) begin(r *reply) (uint64, error) {
	w := n.world
	switch {
	case w.Status().State == Failed:
		return 0, Errorf(NotReady, "the world has no model: %s", w.failure())
	case n.current != nil:
		return 0, Errorf(Busy, "%s answers already: cancel that, or poll its last event", n.Name())
	case w.open >= w.def.Requests:
		return 0, Errorf(Full, "%d replies wait, run, or have events that were not polled", w.open)
	}
	r.id, r.npc, r.chat, r.priority, r.asked = replies.Add(1), n, *n.chat, n.priority, Clock.Now()
	select {
	case w.asks <- r:
	default:
		return 0, Errorf(Full, "%d lines wait for the model", cap(w.asks))
	}
	w.open++
	n.current = r
	return r.id, nil
}

// Cancel ends the reply under way.
func (n *NPC) Cancel() error {
	r := n.current
	if r == nil || r.over {
		return Errorf(Nothing, "%s says nothing", n.Name())
	}
	w := n.world
	if r.request == 0 { // not submitted, or its mail was not read
		r.off.Store(true)
		n.detach()
		w.emit(Event{Kind: ReplyCancelled, NPC: n, Reply: r.id, last: r})
		return nil
	}
	if !w.Runtime().Engine.Cancel(r.request) {
		return Errorf(Nothing, "the reply of %s has ended: poll its events", n.Name())
	}
	return nil
}

// abandon ends the reply under way for good: what comes of it is not this
// chat's any more. It reports whether there was one.
func (n *NPC) abandon() bool {
	r := n.current
	if r == nil || r.over {
		return false
	}
	r.off.Store(true)
	w := n.world
	if r.request == 0 {
		n.detach()
	} else {
		w.Runtime().Engine.Cancel(r.request)
		delete(w.running, r.request)
	}
	w.emit(Event{Kind: ReplyCancelled, NPC: n, Reply: r.id, last: r})
	return true
}

// detach gives the chat a history of its own, since the asker may be reading
// the one that its copy shares.
func (n *NPC) detach() {
	data, err := n.chat.Save()
	fresh := npc.NewChat(n.chat.Persona())
	fresh.Owner = n.chat.Owner
	if err == nil {
		err = fresh.Load(data)
	}
	if err != nil { // what Save writes Load reads; if not, the conversation is lost, not the game
		n.world.log.add(LogError, fmt.Sprintf("%s: %v", n.Name(), err))
	}
	n.chat = fresh
}

// Undo takes back the reply under way, or else the last exchange.
func (n *NPC) Undo() error {
	if n.abandon() {
		if n.chat.Busy() {
			n.chat.Undo()
		}
		return nil
	}
	if !n.chat.Undo() {
		return Errorf(Nothing, "%s and the player said nothing yet", n.Name())
	}
	return nil
}

// Clear forgets the conversation.
func (n *NPC) Clear() {
	n.abandon()
	n.chat.Clear()
}

// Lines are the finished turns, oldest first.
func (n *NPC) Lines() []llm.Turn { return n.chat.History() }

// Save gives the conversation as bytes.
func (n *NPC) Save() ([]byte, error) {
	data, err := n.chat.Save()
	if err != nil {
		return nil, Errorf(Save, "%v", err)
	}
	return data, nil
}

// Load replaces the conversation.
func (n *NPC) Load(data []byte) error {
	fresh := npc.NewChat(n.chat.Persona())
	fresh.Owner = n.chat.Owner
	if err := fresh.Load(data); err != nil {
		return Errorf(Save, "%v", err)
	}
	n.abandon()
	n.chat = fresh
	return nil
}
