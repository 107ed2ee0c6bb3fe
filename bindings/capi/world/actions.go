package world

import (
	"maps"
	"slices"

	"github.com/lull-npc/lull/npc"
)

// offer replaces what the NPC may do by what change makes of it. On error
// nothing has changed.
func (n *NPC) offer(change func(*npc.Offer) error) error {
	o := npc.Offer{Actions: slices.Clone(n.spec.Offer.Actions), Targets: maps.Clone(n.spec.Offer.Targets)}
	if err := change(&o); err != nil {
		return err
	}
	if err := o.Validate(); err != nil {
		return talkError(err)
	}
	if t := n.world.talk; t != nil {
		if err := t.SetOffer(n.spec.ID, o); err != nil {
			return talkError(err)
		}
	}
	n.spec.Offer = o
	return nil
}

// ClearActions takes every action and target from the NPC.
func (n *NPC) ClearActions() error {
	return n.offer(func(o *npc.Offer) error {
		*o = npc.Offer{}
		return nil
	})
}

// AddAction gives the NPC an action.
func (n *NPC) AddAction(name, description string) error {
	return n.offer(func(o *npc.Offer) error {
		o.Actions = append(o.Actions, npc.ActionSpec{Name: name, Description: description})
		return nil
	})
}

// AddParameter gives an action of the NPC one more parameter.
func (n *NPC) AddParameter(action string, p npc.Param) error {
	return n.offer(func(o *npc.Offer) error {
		for i := range o.Actions {
			if o.Actions[i].Name == action {
				o.Actions[i].Params = append(slices.Clip(o.Actions[i].Params), p)
				return nil
			}
		}
		return Errorf(Nothing, "%s has no action %q: add that first", n.Name(), action)
	})
}

// SetTargets tells which targets of a kind exist now.
func (n *NPC) SetTargets(kind string, names []string) error {
	return n.offer(func(o *npc.Offer) error {
		if o.Targets == nil {
			o.Targets = map[string][]string{}
		}
		o.Targets[kind] = names
		if len(names) == 0 {
			delete(o.Targets, kind)
		}
		return nil
	})
}

// Action is what an NPC wants to do and the game did not answer yet.
func (w *World) Action(turn uint64) (npc.Action, error) {
	a, ok := w.actions[npc.TurnID(turn)]
	if !ok {
		return npc.Action{}, Errorf(Nothing, "no action of reply %d waits for an answer, or no longer", turn)
	}
	return a, nil
}

// Accept tells that an action is done.
func (w *World) Accept(turn uint64) error {
	return w.settle(turn, func(t *npc.World) error { return t.Accept(npc.TurnID(turn), Clock.Now()) })
}

// Refuse tells that an action can't be, and why.
func (w *World) Refuse(turn uint64, reason string) error {
	if clean, _ := npc.CleanLine(reason); clean == "" {
		return Errorf(InvalidArgument, "refused without a reason: the NPC would try again")
	}
	return w.settle(turn, func(t *npc.World) error { return t.Refuse(npc.TurnID(turn), reason) })
}

func (w *World) settle(turn uint64, tell func(*npc.World) error) error {
	if _, err := w.Action(turn); err != nil {
		return err
	}
	t, err := w.ready()
	if err != nil {
		return err
	}
	if err := tell(t); err != nil { // it lapsed, or its NPC went, in this very frame
		delete(w.actions, npc.TurnID(turn))
		return Errorf(Nothing, "%v", err)
	}
	delete(w.actions, npc.TurnID(turn))
	return nil
}
