package rag

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

const (
	// MaxText is the longest text of one memory in bytes: a book page is 3 kB, a
	// letter of 100 kB still fits. Longer ones are refused, not cut: what a
	// character forgets is the game's choice.
	MaxText = 128 << 10
	// MaxName bounds names of characters, factions, regions and scenes, in bytes.
	MaxName = 256
	// MaxAudience bounds how many names one memory's audience holds. A larger
	// crowd is a region or a faction.
	MaxAudience = 64
	// MaxSources bounds how many memories one derived memory cites.
	MaxSources = 64
)

// ErrMemory is wrapped by what is wrong with a memory that was to be kept.
var ErrMemory = errors.New("rag: not a memory")

// ID names a memory in one store and in all branches of it. Ids grow in the
// order in which memories were made and are never given twice; 0 is none.
type ID uint64

// Scope says who may know a memory besides its owner.
type Scope uint8

// The scopes, from the narrowest to the widest.
const (
	Own       Scope = iota // nobody else
	Witnessed              // the characters that Audience names
	Faction                // members of a faction that Audience names
	Region                 // who lives in a region that Audience names
	World                  // everybody
	scopes
)

var scopeNames = [scopes]string{"own", "witnessed", "faction", "region", "world"}

func (s Scope) String() string {
	if s < scopes {
		return scopeNames[s]
	}
	return fmt.Sprintf("scope %d", uint8(s))
}

// ParseScope reads what String writes.
func ParseScope(name string) (Scope, error) {
	if i := slices.Index(scopeNames[:], name); i >= 0 {
		return Scope(i), nil
	}
	return 0, fmt.Errorf("%w: scope %q: want one of %s", ErrMemory, name, strings.Join(scopeNames[:], ", "))
}

// GameTime is a moment of the game's own calendar: the time since the story
// began. It may be negative, for what happened before, and has nothing to do
// with the player's clock.
type GameTime = time.Duration

// Memory is one thing that somebody knows. The first group is given by the
// game, the second is kept by the store. Valid for as long as you like: it
// shares nothing with the store.
type Memory struct {
	Owner      string   // the character whose memory it is
	Scope      Scope    // who else may know it
	Audience   []string // names for Scope, sorted by the store
	Text       string   // what was said or seen, as it was; never rewritten
	Speaker    string   // who said it; "" if nobody did
	Scene      string   // lines of one scene follow each other; "" stands alone
	At         GameTime // when it happened
	Importance int      // 1 (mundane) … 10 (life-changing); 0 is taken as 5
	Sources    []ID     // what a derived memory was made from

	ID           ID
	Reinforced   int      // how often it was told again in the same words
	LastUse      GameTime // when it was last told or recalled
	Superseded   bool     // a later fact took its place …
	Until        GameTime // … at this time
	SupersededBy ID       // … and it is this one
}

// defaultImportance is the middle of 1…10: for whoever has no opinion.
const defaultImportance = 5

// normal checks a memory from outside and brings it into the form in which it is
// kept. Text that is not UTF-8 is repaired, since it may come from any engine.
func (m Memory) normal() (Memory, error) {
	bad := func(format string, args ...any) (Memory, error) {
		return Memory{}, fmt.Errorf("%w: %s", ErrMemory, fmt.Sprintf(format, args...))
	}
	if len(m.Text) > MaxText {
		return bad("a text of %d bytes: want %d at most; split it or keep a summary", len(m.Text), MaxText)
	}
	if !utf8.ValidString(m.Text) {
		if m.Text = strings.ToValidUTF8(m.Text, "\uFFFD"); len(m.Text) > MaxText {
			return bad("a text of %d bytes after repair of its UTF-8: want %d at most", len(m.Text), MaxText)
		}
	}
	if strings.TrimSpace(m.Text) == "" {
		return bad("no text")
	}
	if m.Importance == 0 {
		m.Importance = defaultImportance
	}
	if m.Importance < 1 || m.Importance > 10 {
		return bad("importance %d: want 1…10", m.Importance)
	}
	for i, name := range [...]string{m.Owner, m.Speaker, m.Scene} {
		if len(name) > MaxName || !utf8.ValidString(name) {
			what := [...]string{"owner", "speaker", "scene"}[i]
			return bad("%s %.40q: want UTF-8 of %d bytes at most", what, name, MaxName)
		}
	}
	if m.Owner == "" && m.Scope != World {
		return bad("no owner: want a character's name, or the scope world")
	}
	if len(m.Sources) > MaxSources {
		return bad("%d sources: want %d at most", len(m.Sources), MaxSources)
	}
	var err error
	if m.Audience, err = m.audience(); err != nil {
		return Memory{}, err
	}
	m.LastUse = m.At
	return m, nil
}

// Validate says what is wrong with a memory from outside, as Remember would.
func (m Memory) Validate() error {
	_, err := m.normal()
	return err
}

// audience is the sorted form of Audience, without doubles.
func (m Memory) audience() ([]string, error) {
	switch {
	case m.Scope >= scopes:
		return nil, fmt.Errorf("%w: %v: want one from own to world", ErrMemory, m.Scope)
	case (m.Scope == Own || m.Scope == World) && len(m.Audience) > 0:
		return nil, fmt.Errorf("%w: scope %v with an audience: want none, or witnessed, faction, region",
			ErrMemory, m.Scope)
	case m.Scope == Own || m.Scope == World:
		return nil, nil
	case len(m.Audience) == 0 || len(m.Audience) > MaxAudience:
		return nil, fmt.Errorf("%w: scope %v with %d names: want 1…%d", ErrMemory, m.Scope, len(m.Audience),
			MaxAudience)
	}
	for _, name := range m.Audience {
		if name == "" || len(name) > MaxName || !utf8.ValidString(name) {
			return nil, fmt.Errorf("%w: name %.40q in the audience: want UTF-8 of 1…%d bytes", ErrMemory, name, MaxName)
		}
	}
	if len(m.Audience) == 1 {
		return m.Audience[:1:1], nil // no copy on the game thread in the usual case
	}
	out := slices.Clone(m.Audience)
	slices.Sort(out)
	return slices.Compact(out), nil
}

// Knower is who asks: a character and what it belongs to.
type Knower struct {
	NPC      string
	Factions []string
	Regions  []string
}

// MayKnow reports whether k may know m: its own, what it witnessed, what its
// factions and regions know, and what the world knows.
func (k Knower) MayKnow(m *Memory) bool {
	return k.may(m.Owner, m.Scope, m.Audience)
}

func (k Knower) may(owner string, scope Scope, audience []string) bool {
	if scope == World || owner == k.NPC && k.NPC != "" {
		return true
	}
	switch scope {
	case Witnessed:
		return k.NPC != "" && slices.Contains(audience, k.NPC)
	case Faction:
		return overlap(audience, k.Factions)
	case Region:
		return overlap(audience, k.Regions)
	}
	return false
}

func overlap(a, b []string) bool {
	return slices.ContainsFunc(a, func(s string) bool { return slices.Contains(b, s) })
}

// noWider reports whether whoever may know derived may know source as well, so
// that a conclusion does not tell what its source keeps.
func noWider(derived, source *Memory) bool {
	if source.Scope == World {
		return true
	}
	// The owner of the derived memory always knows it.
	ownerKnows := derived.Owner == source.Owner || source.Scope == Faction || source.Scope == Region ||
		source.Scope == Witnessed && slices.Contains(source.Audience, derived.Owner)
	if !ownerKnows {
		return false
	}
	inside := func() bool {
		return !slices.ContainsFunc(derived.Audience, func(name string) bool {
			return !slices.Contains(source.Audience, name)
		})
	}
	switch derived.Scope {
	case Own:
		return true
	case Witnessed:
		if source.Scope == Faction || source.Scope == Region {
			return false // whether the witnesses belong to it is not known here
		}
		return !slices.ContainsFunc(derived.Audience, func(name string) bool {
			return name != source.Owner && !slices.Contains(source.Audience, name)
		})
	}
	return derived.Scope == source.Scope && inside()
}

// weight is the importance in [0, 1].
func (m *Memory) weight() float64 { return float64(m.Importance-1) / 9 }
