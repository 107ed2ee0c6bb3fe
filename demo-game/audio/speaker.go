//go:build windows || cgo

package audio

import (
	"bytes"
	"os"
	"path/filepath"
	"runtime"

	"github.com/ebitengine/oto/v3"

	"github.com/lull-npc/lull/demo-game/play"
)

// Speaker plays sounds. Call from one goroutine at a time.
type Speaker struct {
	context *oto.Context // nil: silent
	ready   chan struct{}
	waves   map[play.Sound][]byte
	playing []*oto.Player
}

// maxPlaying bounds the sounds at one time; further ones are left out.
const maxPlaying = 12

// Open opens the system's output. Where there is none, the speaker is silent.
func Open() *Speaker {
	s := &Speaker{waves: map[play.Sound][]byte{}}
	if !available() {
		return s
	}
	context, ready, err := oto.NewContext(&oto.NewContextOptions{SampleRate: Rate, ChannelCount: 2,
		Format: oto.FormatSignedInt16LE})
	if err != nil {
		return s
	}
	s.context, s.ready = context, ready
	for sound := range sounds {
		s.waves[sound] = Wave(sound)
	}
	return s
}

// Play begins a sound and returns at once.
func (s *Speaker) Play(sound play.Sound) {
	if s.context == nil || s.context.Err() != nil {
		return
	}
	select {
	case <-s.ready:
	default:
		return
	}
	kept := s.playing[:0]
	for _, p := range s.playing {
		if p.IsPlaying() {
			kept = append(kept, p)
		}
	}
	s.playing = kept
	if len(s.playing) >= maxPlaying {
		return
	}
	p := s.context.NewPlayer(bytes.NewReader(s.waves[sound]))
	p.Play()
	s.playing = append(s.playing, p)
}

// available reports whether there is anything to play on: on Linux, asking in
// vain writes a page of complaints to the terminal.
func available() bool {
	if runtime.GOOS != "linux" {
		return true
	}
	if os.Getenv("PULSE_SERVER") != "" {
		return true
	}
	places := []string{"/dev/snd/controlC*"}
	if dir := os.Getenv("XDG_RUNTIME_DIR"); dir != "" {
		places = append(places, filepath.Join(dir, "pulse", "native"), filepath.Join(dir, "pipewire-0"))
	}
	for _, p := range places {
		if found, err := filepath.Glob(p); err == nil && len(found) > 0 {
			return true
		}
	}
	return false
}
