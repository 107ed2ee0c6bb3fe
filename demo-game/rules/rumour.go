package rules

import "sort"

// maxRumours bounds what is told at one time, and a save: the game has two.
const maxRumours = 16

// rumour is begun by what the companion saw.
func (w *World) rumour(text string) {
	if len(w.Rumours) >= maxRumours {
		w.Rumours = w.Rumours[1:]
	}
	next := 1
	for _, r := range w.Rumours {
		next = max(next, r.ID+1)
	}
	w.Rumours = append(w.Rumours, Rumour{ID: next, Text: text, Heard: map[string]int64{w.game.Companion: w.Tick}})
}

// stepRumours lets news go from one to the next.
func (w *World) stepRumours(dst []Event) []Event {
	for i := range w.Rumours {
		r := &w.Rumours[i]
		for _, way := range w.game.Rumours {
			heard, knows := r.Heard[way.From]
			if _, already := r.Heard[way.To]; already || !knows || w.Tick < heard+int64(way.After*TicksPerSecond) {
				continue
			}
			r.Heard[way.To] = w.Tick
			dst = append(dst, Event{Kind: Told, Who: way.To, From: way.From, Text: r.Text})
		}
	}
	return dst
}

// Knows lists what somebody heard, the newest last.
func (w *World) Knows(who string) []string {
	type heard struct {
		at   int64
		text string
	}
	var all []heard
	for _, r := range w.Rumours {
		if at, ok := r.Heard[who]; ok {
			all = append(all, heard{at, r.Text})
		}
	}
	sort.SliceStable(all, func(i, j int) bool { return all[i].at < all[j].at })
	out := make([]string, len(all))
	for i, h := range all {
		out[i] = h.text
	}
	return out
}
