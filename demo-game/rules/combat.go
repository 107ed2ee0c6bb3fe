package rules

import "github.com/lull-npc/lull/demo-game/data"

const (
	// maxFoes bounds a wave, and a save.
	maxFoes = 16

	foeHP     = 4
	stroke    = 40 // pixels that the player reaches in a fight
	bite      = 2
	healing   = 5  // of the companion, each time
	healRest  = 90 // ticks
	arrowRest = 45
)

// Fighting reports whether foes stand.
func (w *World) Fighting() bool {
	for i := range w.Foes {
		if !w.Foes[i].Down {
			return true
		}
	}
	return false
}

// stepWaves begins a wave where the player comes near, and the next when one is
// beaten.
func (w *World) stepWaves(dst []Event) []Event {
	a := w.game.Area(w.Area)
	if a.Waves == nil || w.Beaten || w.Fighting() {
		return dst
	}
	near := distance2(center(a.Waves.AtX, a.Waves.AtY), w.Player) <= 100*100
	if w.Wave == 0 && !near {
		return dst
	}
	if w.Wave == len(a.Waves.Foes) {
		w.Wave, w.Beaten = 0, true
		w.Name = min(w.Name+2, 5)
		w.rumour("The player and Wren beat all the wolves in the old wood. Wren saw it.")
		return append(dst, Event{Kind: Won})
	}
	n := min(a.Waves.Foes[w.Wave], maxFoes)
	w.Wave++
	w.Foes = w.loot()
	for i := range n {
		w.NextFoe++
		y := a.Waves.AtY + (i+1)/2*2*(1-i%2*2)
		at := center(min(a.Waves.AtX+10+i%2, data.Columns-5), min(max(y, 2), data.Rows-5))
		w.Foes = append(w.Foes, Foe{ID: w.NextFoe, HP: foeHP, At: at, Rest: biteEvery})
	}
	return append(dst, Event{Kind: Waved, N: w.Wave})
}

// loot is what lies around of earlier waves.
func (w *World) loot() (left []Foe) {
	for _, f := range w.Foes {
		if f.Loot && len(left) < maxFoes/2 {
			left = append(left, f)
		}
	}
	return left
}

// Damage is what a stroke of the player does: the best thing in the pack.
func (w *World) Damage() int {
	best := 1
	for _, g := range w.game.Goods {
		if w.Pack[g.ID] > 0 {
			best = max(best, 1+g.Damage)
		}
	}
	return best + 1
}

func (w *World) strike(dst []Event) []Event {
	if w.Rest > 0 {
		return dst
	}
	w.Rest, w.Swing = strikeRest, 8
	if f := w.nearest(w.Player, stroke); f != nil {
		w.wound(f, w.Damage())
		return append(dst, Event{Kind: Struck, N: f.ID})
	}
	return dst
}

// nearest is the foe that stands nearest to a point, within pixels; or nil.
func (w *World) nearest(p Point, within int) *Foe {
	best := within*within + 1
	var found *Foe
	for i := range w.Foes {
		f := &w.Foes[i]
		if d := distance2(f.At, p); !f.Down && d < best {
			best, found = d, f
		}
	}
	return found
}

func (w *World) wound(f *Foe, damage int) {
	f.HP, f.Hurt = max(0, f.HP-damage), 6
	f.Down = f.HP == 0
	f.Loot = f.Down
}

func (w *World) stepFoes(dst []Event) []Event {
	for i := range w.Foes {
		f := &w.Foes[i]
		f.Hurt, f.Rest = max(0, f.Hurt-1), max(0, f.Rest-1)
		if f.Down {
			continue
		}
		prey, ally := w.Player, false
		if w.Ally.Order == Guard && w.Ally.HP > 0 { // it stands between
			prey, ally = w.Ally.At, true
		}
		if distance2(f.At, prey) > 20*20 {
			if (w.Tick+int64(f.ID))%2 == 0 { // each comes from a side of its own
				side := (f.ID%3 - 1) * 12
				f.At = w.slide(f.At, sign(prey.X-f.At.X), sign(prey.Y+side-f.At.Y))
			}
			continue
		}
		if f.Rest > 0 {
			continue
		}
		f.Rest = biteEvery
		if ally {
			w.Ally.HP = max(0, w.Ally.HP-1) // who guards is ready for it
			continue
		}
		w.HP, w.Hurt = w.HP-bite, 10
		dst = append(dst, Event{Kind: Bitten})
		if w.HP <= 0 {
			return w.fall(dst)
		}
	}
	return dst
}

// fall wakes the player up where the game began, poorer.
func (w *World) fall(dst []Event) []Event {
	s := w.game.Start
	w.HP, w.Gold = MaxHP, w.Gold-w.Gold/4
	w.enter(s.Area, center(s.X, s.Y))
	w.Ally.HP, w.Ally.Order = MaxHP, Follow
	return append(dst, Event{Kind: Fell}, Event{Kind: Entered, Who: s.Area})
}

// Command gives the companion an order, or answers with the key of a refusal.
func (w *World) Command(o Order) (refusal string) {
	switch o {
	case Guard, Flee:
		if !w.Fighting() {
			return "refuse.order"
		}
	case Fetch:
		if len(w.loot()) == 0 {
			return "refuse.order"
		}
	case Heal:
		if w.HP == MaxHP {
			return "refuse.order"
		}
	case Follow:
	default:
		return "refuse.order"
	}
	w.Ally.Order = o
	return ""
}

func (w *World) stepAlly(dst []Event) []Event {
	a := &w.Ally
	a.Rest = max(0, a.Rest-1)
	if !w.Fighting() && w.Tick%(TicksPerSecond*2) == 0 {
		a.HP = min(MaxHP, a.HP+1)
	}
	goal, near := w.Player, 26
	switch a.Order {
	case Guard:
		if f := w.nearest(w.Player, 400); f != nil {
			goal, near = Point{w.Player.X + 18*sign(f.At.X-w.Player.X), w.Player.Y + 12*sign((f.At.Y-w.Player.Y)/12)}, 3
		} else {
			a.Order = Follow
		}
	case Heal:
		near = reach
	case Fetch:
		if f := w.nearestLoot(); f != nil {
			goal, near = f.At, 3
		} else {
			a.Order = Follow
		}
	case Flee:
		goal, near = w.away(), 8
	}
	if distance2(a.At, goal) > near*near {
		a.At = w.slide(a.At, walk*sign((goal.X-a.At.X)/walk), walk*sign((goal.Y-a.At.Y)/walk))
	}
	return w.allyWork(dst)
}

// nearestLoot is silver on the ground that lies nearest to the companion.
func (w *World) nearestLoot() *Foe {
	var found *Foe
	for i := range w.Foes {
		f := &w.Foes[i]
		if f.Loot && (found == nil || distance2(f.At, w.Ally.At) < distance2(found.At, w.Ally.At)) {
			found = f
		}
	}
	return found
}

// allyWork is what the companion does where it stands.
func (w *World) allyWork(dst []Event) []Event {
	a := &w.Ally
	switch a.Order {
	case Heal:
		if a.Rest > 0 || distance2(a.At, w.Player) > (reach+4)*(reach+4) {
			return dst
		}
		n := min(healing, MaxHP-w.HP)
		w.HP, a.Rest = w.HP+n, healRest
		if w.HP == MaxHP {
			a.Order = Follow
		}
		return append(dst, Event{Kind: Healed, N: n})
	case Fetch:
		f := w.nearestLoot()
		if f == nil || distance2(f.At, a.At) > 6*6 {
			return dst
		}
		f.Loot = false
		w.Gold += lootGold
		return append(dst, Event{Kind: Looted, N: lootGold})
	case Follow, Guard:
		if f := w.nearest(a.At, 110); f != nil && a.Rest == 0 && a.HP > 0 {
			a.Rest = arrowRest
			w.wound(f, 1)
			return append(dst, Event{Kind: Struck, N: f.ID})
		}
	}
	return dst
}

// away is the way out of an area: its first exit, or where the player stands.
func (w *World) away() Point {
	exits := w.game.Area(w.Area).Exits
	if len(exits) == 0 {
		return w.Player
	}
	return center(min(max(exits[0].X, 1), data.Columns-2), exits[0].Y)
}
