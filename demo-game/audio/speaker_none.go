//go:build !windows && !cgo

package audio

import "github.com/lull-npc/lull/demo-game/play"

// Speaker is silent here.
type Speaker struct{}

// Open returns a silent speaker.
func Open() *Speaker { return &Speaker{} }

// Play does nothing.
func (*Speaker) Play(play.Sound) {}
