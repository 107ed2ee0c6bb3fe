package headless

import (
	"strconv"
	"time"

	"github.com/lull-npc/lull/demo-game/play"
)

// Start is how long a player waits at first; nil: it did not come to it. The
// process begins at 0.
type Start struct {
	FirstFrame *float64 `json:"first_frame_s"` // shown, and takes keys
	ModelReady *float64 `json:"model_ready_s"` // the voices are there
	Asked      *float64 `json:"first_line_s"`  // the player says something
	FirstBark  *float64 `json:"first_bark_ms"` // after that, on the screen
	FirstWord  *float64 `json:"first_word_ms"` // of a reply, likewise
}

// Watch notes what came meanwhile, age after the process began: the first frame,
// and all else where the voices are those to be timed; silent says that none are
// there yet. Call once a frame.
func (s *Start) Watch(g *play.Game, silent bool, age time.Duration, voices bool) {
	note := func(p **float64, is bool, value float64) {
		if *p == nil && is {
			*p = &value
		}
	}
	seconds := age.Seconds()
	note(&s.FirstFrame, true, seconds)
	if !voices {
		return
	}
	note(&s.ModelReady, !silent, seconds)
	asked, barked, spoke := g.FirstSaid()
	note(&s.Asked, asked, seconds)
	if s.Asked != nil {
		note(&s.FirstBark, barked, 1e3*(seconds-*s.Asked))
		note(&s.FirstWord, spoke, 1e3*(seconds-*s.Asked))
	}
}

func (s *Start) String() string {
	say := func(x *float64, unit string) string {
		if x == nil {
			return "not seen"
		}
		digits := 0
		if unit == "s" {
			digits = 2
		}
		return strconv.FormatFloat(*x, 'f', digits, 64) + " " + unit
	}
	return "start: first frame after " + say(s.FirstFrame, "s") + "; the model ready: " + say(s.ModelReady, "s") +
		"; after the first line said, a bark: " + say(s.FirstBark, "ms") + ", a word of the reply: " +
		say(s.FirstWord, "ms")
}
