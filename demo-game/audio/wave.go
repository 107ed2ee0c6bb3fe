package audio

import (
	"encoding/binary"
	"math"

	"github.com/lull-npc/lull/demo-game/play"
)

// Rate is how many samples a second has.
const Rate = 44100

// tone is one voice of a sound.
type tone struct {
	from, to float64 // Hz
	seconds  float64
	loud     float64 // 0 … 1
	noise    float64 // share of noise, 0 … 1
	square   bool
}

var sounds = map[play.Sound][]tone{
	play.Blip:  {{440, 440, 0.05, 0.2, 0, true}},
	play.Pick:  {{520, 780, 0.09, 0.25, 0, true}},
	play.Voice: {{240, 220, 0.03, 0.1, 0, true}},
	play.Hit:   {{300, 80, 0.12, 0.4, 0.6, true}},
	play.Ouch:  {{180, 90, 0.2, 0.4, 0.3, true}},
	play.Chime: {{660, 660, 0.35, 0.3, 0, false}, {990, 990, 0.35, 0.2, 0, false}},
	play.Step:  {{90, 60, 0.04, 0.12, 0.8, false}},
}

// Wave is a sound as signed 16-bit samples, little-endian, two channels. Equal
// sounds give equal waves.
func Wave(s play.Sound) []byte {
	longest := 0.0
	for _, t := range sounds[s] {
		longest = max(longest, t.seconds)
	}
	n := int(longest * Rate)
	out := make([]byte, 0, 4*n)
	phase := make([]float64, len(sounds[s]))
	seed := uint32(1)
	for i := range n {
		v := 0.0
		for k, t := range sounds[s] {
			at := float64(i) / (t.seconds * Rate)
			if at >= 1 {
				continue
			}
			phase[k] += (t.from + (t.to-t.from)*at) / Rate
			x := math.Sin(2 * math.Pi * phase[k])
			if t.square {
				x = math.Copysign(0.6, x)
			}
			seed = seed*1664525 + 1013904223
			hiss := float64(seed>>8)/(1<<23) - 1
			v += t.loud * (1 - at) * (x*(1-t.noise) + hiss*t.noise)
		}
		sample := uint16(int16(max(-1, min(1, v)) * 32000))
		out = binary.LittleEndian.AppendUint16(out, sample)
		out = binary.LittleEndian.AppendUint16(out, sample)
	}
	return out
}
