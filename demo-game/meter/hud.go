package meter

import (
	"strconv"

	"github.com/lull-npc/lull/demo-game/data"
	"github.com/lull-npc/lull/demo-game/talk"
	"github.com/lull-npc/lull/demo-game/ui"
	"github.com/lull-npc/lull/harness"
)

// State is what the HUD shows besides what a Meter counted.
type State struct {
	On, Wanted string // policies; On is "" while the wanted one is being opened
	Stats      talk.Stats
	TTFTMs     []float64 // of all replies
	Now        int64
}

// HUD says what F1 shows.
func (m *Meter) HUD(t data.Texts, s State) *ui.HUD {
	m.mu.Lock()
	defer m.mu.Unlock()
	on := m.past[s.On] // what the policy that is on did: late frames of another say nothing of it
	if on == nil {
		on = &past{}
	}
	policy := s.On
	if policy == "" {
		policy = t.Say("hud.opening", "name", s.Wanted)
	}
	h := &ui.HUD{TargetMs: m.target.Seconds() * 1e3}
	h.Head = t.Say("hud.head", "policy", policy, "target", decimal(h.TargetMs, 1), "late", percent(on.late()))
	for i := max(0, m.next-barCount); i < m.next; i++ {
		h.Bars = append(h.Bars, m.bars[i%barCount])
	}
	for cause, n := range on.causes {
		h.Late[cause] = t.Say("hud.late."+ui.Cause(cause).String(), "n", strconv.Itoa(n))
	}
	h.Lines = append(deciding(t, &s), m.speed(t, &s), memories(t, &s.Stats))
	for _, name := range talk.Policies {
		p := m.past[name]
		if p == nil {
			continue
		}
		text := t.Say("hud.past", "policy", name, "late", percent(p.late()))
		if p.tokens > 0 && p.spoke > 0 {
			text += t.Say("hud.past.rate", "rate", decimal(float64(p.tokens)/p.spoke.Seconds(), 0))
		}
		h.Past = append(h.Past, ui.Past{Text: text, On: name == s.On})
	}
	return h
}

// deciding says what the scheduler decides, and why.
func deciding(t data.Texts, s *State) []string {
	d := &s.Stats.Decision
	switch {
	case s.On == harness.PolicyNative:
		return []string{t.Say("hud.native")}
	case !s.Stats.Steered:
		return []string{t.Say("hud.unsteered")}
	}
	return []string{
		t.Say("hud.bound", "bound", t.Say("hud.bound."+d.Bottleneck.String()),
			"sure", percent(int(100*d.Confidence), 100), "reason", d.Reason.String()),
		t.Say("hud.gate", "gate", t.Say("hud.gate."+d.Gate.String()), "margin", decimal(d.Margin.Seconds()*1e3, 1),
			"device", device(s.Stats.Device), "threads", strconv.Itoa(d.Threads)),
		t.Say("hud.width", "chunk", strconv.Itoa(d.PrefillChunk), "verify", strconv.Itoa(d.VerifyWidth),
			"draft", d.Draft.String(), "contention", decimal(d.Contention, 2)),
	}
}

// speed says how fast words come. The meter is locked.
func (m *Meter) speed(t data.Texts, s *State) string {
	first := "-"
	if n := len(s.TTFTMs); n > 0 {
		first = decimal(s.TTFTMs[n-1], 0)
	}
	return t.Say("hud.speed", "rate", decimal(m.rate(s.Now), 1), "first", first)
}

func memories(t data.Texts, s *talk.Stats) string {
	key := "hud.memory.waits"
	switch {
	case !s.Embeds:
		key = "hud.memory.words"
	case s.Decision.IndexTime > 0:
		key = "hud.memory.index"
	}
	return t.Say(key, "n", strconv.Itoa(s.Memories), "p", strconv.Itoa(s.Pending),
		"ms", decimal(s.Decision.IndexTime.Seconds()*1e3, 1))
}

func device(name string) string {
	if name == "" {
		return "-"
	}
	return name
}

func decimal(x float64, digits int) string { return strconv.FormatFloat(x, 'f', digits, 64) }

func percent(n, of int) string { return decimal(100*float64(n)/float64(max(of, 1)), 1) + "%" }
