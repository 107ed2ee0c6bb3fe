package demo

import (
	"errors"
	"fmt"
	"strings"
	"unicode"

	"github.com/lull-npc/lull/npc"
	"github.com/lull-npc/lull/runtime/llm"
	"github.com/lull-npc/lull/runtime/local"
)

// visits is what the player asks by itself. Each visit begins a conversation
// anew, so that prompts stay as short in the tenth minute as in the first.
var visits = []struct {
	persona string
	lines   []string
}{
	{"innkeeper", []string{
		"Hello! Who are you?", "Any news?", "Tell me more about the guest in the attic.",
		"What is in your cellar?", "How much is a room with supper?",
	}},
	{"blacksmith", []string{
		"Good morning. Who are you?", "Where does your iron come from?", "Is the road to the mine safe?",
		"How much is a sword?", "What do you think of Odo, the innkeeper?",
	}},
}

const (
	// maxSaid is how many exchanges are kept for the screen.
	maxSaid = 50

	// maxFailures is how many replies in a row may fail before nothing more is
	// asked: an engine that broke does not get well.
	maxFailures = 3
)

// Said is one exchange.
type Said struct {
	Mode   Mode
	NPC    string
	Player string
	Reply  string // as far as it was said
	End    string // empty: under way
}

// Talk asks the characters in turn and keeps what was said. It knows neither
// time nor threads. Call from one goroutine at a time.
type Talk struct {
	chats       []*npc.Chat // one a visit
	visit, line int         // what is asked next
	own         []string    // lines of the person, asked first
	said        []Said
	asked       *question
	failures    int
	err         error // the last failure
}

// question is what is asked now.
type question struct {
	mode    Mode
	rt      *local.Runtime
	chat    *npc.Chat
	request llm.RequestID
	text    string
	own     bool
}

// NewTalk meets the shipped characters.
func NewTalk() (*Talk, error) {
	t := &Talk{}
	for _, v := range visits {
		p, err := npc.LoadPersona(v.persona)
		if err != nil {
			return nil, err
		}
		t.chats = append(t.chats, npc.NewChat(p))
	}
	return t, nil
}

// Say queues a line of the person for the character spoken to; a scripted reply
// under way is cut short.
func (t *Talk) Say(line string) {
	if strings.TrimSpace(line) == "" {
		return
	}
	t.own = append(t.own, line)
	if t.asked != nil && !t.asked.own {
		t.asked.rt.Engine.Cancel(t.asked.request)
	}
}

// Busy reports whether a reply is under way.
func (t *Talk) Busy() bool { return t.asked != nil }

// Next asks the next line in a mode, unless a reply is under way or the engine
// is broken. A mode without a runtime asks nothing.
func (t *Talk) Next(m Mode, rt *local.Runtime) {
	if t.asked != nil || rt == nil || t.failures >= maxFailures {
		return
	}
	q := question{mode: m, rt: rt, chat: t.chats[t.visit]}
	if q.own = len(t.own) > 0; q.own {
		q.text = t.own[0]
	} else {
		q.text = visits[t.visit].lines[t.line]
		if t.line == 0 {
			q.chat.Clear()
		}
	}
	if err := q.submit(); err != nil {
		t.fail(err)
		if q.own && !errors.Is(err, llm.ErrQueueFull) { // a line that can't be said is told and forgotten
			t.own = t.own[1:]
		}
		return
	}
	t.asked = &q
	t.said = append(t.said, Said{Mode: m, NPC: q.chat.Persona().Name, Player: q.text})
	if over := len(t.said) - maxSaid; over > 0 {
		t.said = append(t.said[:0], t.said[over:]...)
	}
}

func (q *question) submit() error {
	request, _, err := q.chat.Say(q.rt.Model, npc.DefaultBudget(q.rt.Model.Info(), q.chat.Persona()), q.text)
	if err != nil {
		return err
	}
	if q.request, err = q.rt.Engine.Submit(request); err != nil {
		q.chat.Undo()
		return err
	}
	q.chat.Sent(q.request)
	return nil
}

// Hear takes the events of a mode's engine. Replies that ended are told to
// reply, with what they cost.
func (t *Talk) Hear(m Mode, events []llm.Event, reply func(llm.Usage)) {
	for i := range events {
		e := &events[i]
		if e.Kind == llm.EventFailed && e.Request == 0 { // the engine as a whole
			t.fail(e.Err)
			t.failures = maxFailures
			continue
		}
		if t.asked == nil || t.asked.mode != m || !t.asked.chat.Hear(*e) {
			continue // last words of a reply that a switch undid
		}
		now := &t.said[len(t.said)-1]
		switch e.Kind {
		case llm.EventText:
			now.Reply += e.Text
		case llm.EventDone:
			t.failures, t.err = 0, nil
			t.over(string(e.Reason))
			reply(e.Usage)
		case llm.EventCancelled:
			t.over("cut short")
			if e.Usage.Generated > 0 {
				reply(e.Usage)
			}
		case llm.EventFailed:
			t.over("failed")
			t.fail(e.Err)
		}
	}
}

// over ends the reply under way and moves on to the next line.
func (t *Talk) over(how string) {
	t.said[len(t.said)-1].End = how
	own := t.asked.own
	t.asked = nil
	if own {
		t.own = t.own[1:]
		return
	}
	if t.line++; t.line == len(visits[t.visit].lines) {
		t.visit, t.line = (t.visit+1)%len(visits), 0
	}
}

func (t *Talk) fail(err error) {
	t.failures++
	t.err = err
}

// Switch takes the reply under way back: its line is asked again in the mode
// that comes. The old engine's last events are then nobody's.
func (t *Talk) Switch() {
	t.failures, t.err = 0, nil
	if t.asked == nil {
		return
	}
	t.asked.rt.Engine.Cancel(t.asked.request)
	t.asked.chat.Undo()
	t.said[len(t.said)-1].End = "switched"
	t.asked = nil
}

// Err is the last failure that no reply has followed.
func (t *Talk) Err() error {
	if t.err != nil && t.failures >= maxFailures {
		return fmt.Errorf("nothing more is asked: %w", t.err)
	}
	return t.err
}

// Said lists the last exchanges, oldest first. Valid until the next call.
func (t *Talk) Said() []Said { return t.said }

// printable drops what would move a terminal's cursor: a model can say
// anything.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t':
			return ' '
		case unicode.IsControl(r):
			return -1
		}
		return r
	}, s)
}
