package npc

import (
	"errors"
	"fmt"
	"slices"
	"unicode/utf8"
)

// ErrFact is wrapped where a fact or a quest is not as it must be.
var ErrFact = errors.New("npc: bad fact")

// The limits of what a game tells one character, and of all characters.
const (
	MaxFacts  = 64
	MaxQuests = 32
)

// Fact is something true for a while, that a character knows: "The gate is
// open". A fact with the key of another replaces it; without a text it takes
// it away.
type Fact struct {
	Key   string
	Text  string // one line
	From  int64  // ns of the game's time from which it is true
	Until int64  // ns from which it is not any more; 0 is never
}

// QuestState is where a quest stands.
type QuestState uint8

const (
	QuestAvailable QuestState = iota // its giver may offer it
	QuestOffered                     // it did, and waits for the answer
	QuestActive                      // the player is at it
	QuestDone                        // the player did it
	QuestFailed                      // the player can't do it any more
)

func (s QuestState) String() string {
	return named("QuestState", uint8(s), "available", "offered", "active", "done", "failed")
}

// Quest is a task that a character gives.
type Quest struct {
	ID    string // as an action's name: "find_wenna"
	Text  string // one line: "find my daughter Wenna in the city"
	State QuestState
	From  int64 // as in Fact: the time in which it can be offered and answered
	Until int64
}

// ActionOfferQuest is the name of the action by which a character offers one of
// its quests. It is among the choices whenever a quest is available.
const ActionOfferQuest = "offer_quest"

// Valid reports whether the fact is true at an instant. Safe for concurrent use.
func (f Fact) Valid(now int64) bool {
	return f.Text != "" && now >= f.From && (f.Until == 0 || now < f.Until)
}

func (f Fact) check() error {
	if f.Key == "" || len(f.Key) > MaxValue {
		return fmt.Errorf("%w: key %q: want 1 … %d bytes", ErrFact, f.Key, MaxValue)
	}
	if clean, _ := CleanLine(f.Text); clean != f.Text || utf8.RuneCountInString(f.Text) > MaxSheetLine {
		return fmt.Errorf("%w: %s: text %.40q: want one line of at most %d characters",
			ErrFact, f.Key, f.Text, MaxSheetLine)
	}
	if f.Until != 0 && f.Until <= f.From {
		return fmt.Errorf("%w: %s: it ends at %d, not after it begins at %d", ErrFact, f.Key, f.Until, f.From)
	}
	return nil
}

// setFact puts a fact into a list.
func setFact(facts []Fact, f Fact) ([]Fact, error) {
	if err := f.check(); err != nil {
		return facts, err
	}
	facts = slices.DeleteFunc(slices.Clone(facts), func(o Fact) bool { return o.Key == f.Key })
	if f.Text == "" {
		return facts, nil
	}
	if len(facts) >= MaxFacts {
		return facts, fmt.Errorf("%w: %s: %d facts are known already: take one away first", ErrFact, f.Key, MaxFacts)
	}
	return append(facts, f), nil
}

func (q Quest) check() error {
	if !isName(q.ID) {
		return fmt.Errorf("%w: quest %q: want an id of small letters, digits and single _", ErrFact, q.ID)
	}
	if q.State > QuestFailed {
		return fmt.Errorf("%w: quest %s: unknown state %d", ErrFact, q.ID, q.State)
	}
	if q.Text == "" {
		return fmt.Errorf("%w: quest %s has no text", ErrFact, q.ID)
	}
	return Fact{Key: q.ID, Text: q.Text, From: q.From, Until: q.Until}.check()
}

func setQuest(quests []Quest, q Quest) ([]Quest, error) {
	if err := q.check(); err != nil {
		return quests, err
	}
	quests = slices.Clone(quests)
	if i := slices.IndexFunc(quests, func(o Quest) bool { return o.ID == q.ID }); i >= 0 {
		quests[i] = q
		return quests, nil
	}
	if len(quests) >= MaxQuests {
		return quests, fmt.Errorf("%w: quest %s: a character has at most %d", ErrFact, q.ID, MaxQuests)
	}
	return append(quests, q), nil
}

// fact is what the giver knows of its quest at an instant; a quest that can't
// be offered or answered any more gives none.
func (q Quest) fact(now int64) Fact {
	f := Fact{Key: "quest " + q.ID, From: q.From, Until: q.Until}
	switch q.State {
	case QuestAvailable:
		f.Text = "You can ask the player to " + q.Text
	case QuestOffered:
		f.Text = "You asked the player to " + q.Text + ". You wait for the answer"
	case QuestActive:
		f.Text, f.Until = "The player promised to "+q.Text, 0
	case QuestDone:
		f.Text, f.Until = "The player did what you asked: "+q.Text, 0
	case QuestFailed:
		f.Text, f.Until = "The player failed to "+q.Text, 0
	}
	if !f.Valid(now) {
		f.Text = ""
	}
	return f
}

// withQuests is an offer together with what quests can be offered now.
func (o Offer) withQuests(quests []Quest, now int64) Offer {
	o.quest = nil
	spec := ActionSpec{Name: ActionOfferQuest, Description: "asks the player for help",
		Params: []Param{{Name: "quest", Kind: ParamEnum}}}
	for _, q := range quests {
		if q.State == QuestAvailable && q.fact(now).Text != "" {
			spec.Params[0].Values = append(spec.Params[0].Values, q.ID)
		}
	}
	if len(spec.Params[0].Values) == 0 {
		return o
	}
	o.quest = &spec
	return o
}
