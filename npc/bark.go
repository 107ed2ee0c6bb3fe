package npc

import (
	"hash/fnv"
	"time"
)

const (
	// BarkThinking is the situation of a character that was spoken to and whose
	// answer is not there yet.
	BarkThinking = "thinking"

	// maxRecentBarks is how many lines are remembered as said lately. Beyond it
	// no bark is said: silence is better than a line said twice.
	maxRecentBarks = 512

	// defaultBarkQuiet is how long no line is said again by anybody: two guards
	// of one sheet who say the same within a minute sound like one machine.
	defaultBarkQuiet = time.Minute
)

// barker chooses among lines written beforehand.
type barker struct {
	quiet time.Duration
	said  map[string]int64 // line → when it was said
	count uint32
}

// pick chooses a line that was not said within the quiet time, the same one for
// equal arguments and past. It reports false where there is none.
func (b *barker) pick(who AgentID, lines []string, now int64) (string, bool) {
	if len(lines) == 0 {
		return "", false
	}
	if len(b.said) >= maxRecentBarks {
		b.forget(now)
	}
	h := fnv.New32a()
	h.Write([]byte(who))
	begin := h.Sum32() + b.count
	for i := range uint32(len(lines)) {
		line := lines[(begin+i)%uint32(len(lines))]
		if at, ok := b.said[line]; ok && b.lately(at, now) {
			continue
		}
		if len(b.said) >= maxRecentBarks {
			return "", false
		}
		b.said[line] = now
		b.count++
		return line, true
	}
	return "", false
}

// lately reports whether an instant lies within the quiet time. One that is still
// to come belongs to a past that was loaded over.
func (b *barker) lately(at, now int64) bool { return at <= now && now-at < int64(b.quiet) }

// forget drops the lines that may be said again.
func (b *barker) forget(now int64) {
	for line, at := range b.said {
		if !b.lately(at, now) {
			delete(b.said, line)
		}
	}
}
