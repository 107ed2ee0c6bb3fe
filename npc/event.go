package npc

import "fmt"

// EventKind says what an Event of a World is.
type EventKind uint8

const (
	EventThinking    EventKind = iota // a character was spoken to: let it turn its head
	EventBark                         // Text, written beforehand, is said at once
	EventText                         // Text is a delta of what is said
	EventSentence                     // Text is a whole sentence of it, for a voice
	EventThought                      // Text is a delta of what is thought
	EventEmotion                      // Text is a declared emotion
	EventDone                         // the turn is over; Text is all that was said, Reason why it ended
	EventInterrupted                  // the turn was interrupted; Text is what was said until then
	EventFailed                       // the turn failed; Err says why
	EventAction                       // Action is what the character wants to do: Accept or Refuse it
	EventLapsed                       // nobody accepted or refused Action in time, or it is not possible any more
	EventQuest                        // Text is the id of a quest that was offered
	EventOverflow                     // Tokens of the history are about to be dropped from the prompt
	EventSummarised                   // Text is the summary that takes the place of old history
	EventBlocked                      // something was not said or done: Reason says why, Text what was said instead
)

func (k EventKind) String() string {
	return named("EventKind", uint8(k), "thinking", "bark", "text", "sentence", "thought", "emotion", "done",
		"interrupted", "failed", "action", "lapsed", "quest", "overflow", "summarised", "blocked")
}

// named is the name of a value, or its number where it has none: what prints a
// value must not be what panics on it.
func named(kind string, value uint8, names ...string) string {
	if int(value) < len(names) {
		return names[value]
	}
	return fmt.Sprintf("%s(%d)", kind, value)
}

// Event is something that a character of a World does. The fields that its kind
// does not name are empty.
type Event struct {
	Kind   EventKind
	Agent  AgentID
	Turn   TurnID // 0: of no turn
	Text   string
	Action Action
	Tokens int
	Reason string // EventDone: "end", "sentence", "length", "repeats", "voice" …; EventBlocked: "list", "dropped" …
	Err    error
}

// Ends reports whether it is the last event of its turn: it is said, or it was
// interrupted or failed. EventFailed of no turn (a memory that could not be kept)
// ends nothing.
func (e Event) Ends() bool {
	return e.Turn != 0 && (e.Kind == EventDone || e.Kind == EventInterrupted || e.Kind == EventFailed)
}
