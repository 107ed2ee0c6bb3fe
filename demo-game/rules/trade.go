package rules

// Refusal is why something is not done: the key of a text and what fills it in.
// The zero value refuses nothing.
type Refusal struct {
	Key  string
	Item string // an item's id, for its name in the language of the screen
	N    map[string]int
}

// OK reports whether nothing is refused.
func (r Refusal) OK() bool { return r.Key == "" }

// MayBuy says why the shopkeeper would refuse.
func (w *World) MayBuy(id string) Refusal {
	g := w.game.Good(id)
	switch {
	case g == nil:
		return Refusal{Key: "refuse.order"}
	case w.Name < g.Needs:
		return Refusal{Key: "refuse.name", Item: id, N: map[string]int{"have": w.Name, "need": g.Needs}}
	case w.Gold < g.Price:
		return Refusal{Key: "refuse.gold", Item: id, N: map[string]int{"price": g.Price, "gold": w.Gold}}
	}
	return Refusal{}
}

// Buy pays for something and takes it, or nothing happens.
func (w *World) Buy(id string) Refusal {
	r := w.MayBuy(id)
	if r.OK() {
		w.Gold -= w.game.Good(id).Price
		w.Pack[id]++
	}
	return r
}

// Use eats or drinks something of the pack; it reports whether that did
// anything.
func (w *World) Use(id string) bool {
	g := w.game.Good(id)
	if g == nil || g.Heals == 0 || w.Pack[id] == 0 || w.HP == MaxHP {
		return false
	}
	w.take(id)
	w.HP = min(MaxHP, w.HP+g.Heals)
	return true
}

// take removes one thing from the pack.
func (w *World) take(id string) {
	if w.Pack[id]--; w.Pack[id] <= 0 {
		delete(w.Pack, id)
	}
}

// Do does what a topic says: accept, forge, deliver. Trade and "" are the
// screen's matter.
func (w *World) Do(what string) Refusal {
	q := w.game.Quest
	switch what {
	case "accept":
		if w.Quest == QuestNone {
			w.Quest = QuestActive
		}
	case "forge":
		switch {
		case w.Quest == QuestNone:
			return Refusal{Key: "refuse.quest"}
		case w.Quest != QuestActive:
			return Refusal{Key: "refuse.order"}
		case w.Pack[q.Ore] == 0:
			return Refusal{Key: "refuse.ore"}
		case w.Gold < q.Forging:
			return Refusal{Key: "refuse.forge_gold", N: map[string]int{"price": q.Forging, "gold": w.Gold}}
		}
		w.take(q.Ore)
		w.Gold -= q.Forging
		w.Pack[q.Tool] = 1
		w.Quest = QuestTool
	case "deliver":
		if w.Quest != QuestPrize || w.Pack[q.Prize] == 0 {
			return Refusal{Key: "refuse.quest"}
		}
		w.take(q.Prize)
		w.Gold += q.Reward
		w.Name = min(w.Name+2, 5)
		w.Quest = QuestDone
		w.rumour("The player brought the clapper back to Odila. The chapel bell rings again. Wren saw it.")
	}
	return Refusal{}
}
