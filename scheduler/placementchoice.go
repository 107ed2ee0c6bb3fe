package scheduler

import (
	"fmt"
	"math"
	"time"
)

// PlaceReason is the rule that chose a placement. The list is closed.
type PlaceReason uint8

const (
	PlaceOnly    PlaceReason = iota // there is no other
	PlaceFastest                    // the shortest reply, with what it costs the frames
	PlaceFree                       // nobody looks at frames: the shortest reply
	PlaceOffCPU                     // frames wait for the CPU: off it
	PlaceOffGPU                     // frames wait for the GPU: off it
	PlaceMemory                     // frames wait for memory, which every device shares: the contention loop acts
	PlaceHeat                       // hot: the least energy that keeps the floor
	PlaceSaver                      // energy is to be saved: likewise
	PlaceStays                      // another would be a little better, which pays no move
	PlaceDwell                      // another is wanted, and the last move was too short ago
	PlaceFloor                      // none that the rule wants keeps the floor: the shortest reply
	PlaceNoPower                    // the least energy is wanted and not known: stays
	PlaceLost                       // its device failed
)

var placeNames = [...]string{"only", "fastest", "phase-free", "off-cpu", "off-gpu", "memory", "heat", "saver", "stays",
	"dwell", "floor", "energy-unknown", "lost"}

func (r PlaceReason) String() string { return name(placeNames[:], int(r)) }

const (
	// placeHot is the thermal headroom from which the least energy decides: 4.5
	// degrees before throttling, which is what a device at full load gains in
	// some ten seconds. placeCool is where it no longer does: heat of the last
	// minute is still in the case.
	placeHot, placeCool = 0.85, 0.7

	// placeGain is by what share another placement must be better: a move costs
	// a stutter in the reply, and figures are good to some percent.
	placeGain = 0.15

	// placeSettle is how long another one must be wanted without a break. The
	// classifier of bottlenecks answers in half a second; a scene change is over
	// in one.
	placeSettle = time.Second

	// placeDwell is the least time between two moves, placeReturn that before
	// going back to what was left: heat returns within seconds, and to try is
	// expensive. In ten seconds a reply has been said.
	placeDwell, placeReturn = 2 * time.Second, 10 * time.Second
)

// frameWeight is what an interference of 1 counts for, in reply times, by phase:
// in combat a device that doubles the frame's work counts as a reply that takes
// five times as long.
var frameWeight = [...]float64{PhaseExplore: 2, PhaseDialogue: 1, PhaseCombat: 4, PhaseCutscene: 4, PhaseMenu: 0,
	PhaseLoading: 0, PhaseBackground: 0}

// PlaceInput is what a placement is chosen by.
type PlaceInput struct {
	Stage      Stage // what the engine does now; StageIdle between replies
	Bottleneck Bottleneck
	Phase      Phase
	Host       HostSignals
	Floor      float64 // tokens/s that a reply must keep
}

// Placer chooses where to compute. It knows time only from its arguments. Call
// from one goroutine at a time.
//
// The rules, the first that applies:
//
//  1. hot, or energy is to be saved: the least energy per reply
//  2. nobody looks at frames: the shortest reply
//  3. frames wait for the CPU (GPU): off it, the shortest of the rest
//  4. frames wait for memory: where it is; the contention loop acts
//  5. the shortest reply, where seconds count more by the interference with frames
//
// always among those that keep the floor. A move needs a gain of 15 %, unless a rule
// wants the present place left; a second without doubt; and two seconds since
// the last move, ten to go back.
type Placer struct {
	profile PlacementProfile
	options []option
	refused []Refusal
	moves   [maxDevices][maxDevices]float64 // s to move the expected conversation; +Inf: can't

	current int
	left    int // index of the option left last; -1: none
	changed Instant
	moved   bool
	wanted  int
	since   Instant
	hot     bool
}

// NewPlacer starts at the placement start, whose error wraps ErrConfig if the
// profile is bad or start isn't offered.
func NewPlacer(p PlacementProfile, start Placement, now Instant) (*Placer, error) {
	if err := p.Validate(); err != nil {
		return nil, err
	}
	x := &Placer{profile: p, left: -1, changed: now, current: -1}
	x.options, x.refused = p.options()
	why := "it is none of the profile's"
	for i := range x.options {
		if x.options[i].Placement == start {
			x.current = i
		}
	}
	for _, r := range x.refused {
		if r.Placement == start {
			why = r.Why
		}
	}
	if x.current < 0 {
		return nil, fmt.Errorf("%w: placement %v: %s", ErrConfig, start, why)
	}
	x.wanted = x.current
	r := p.Reply.orUsual()
	for i := range p.Devices {
		for j := range p.Devices {
			x.moves[i][j] = math.Inf(1)
			if d, can := p.handover(p.Devices[i].ID, p.Devices[j].ID, r.Past+r.Prompt); can {
				x.moves[i][j] = d.Seconds()
			}
		}
	}
	return x, nil
}

// Offered lists the placements that fit.
func (p *Placer) Offered() []Placement {
	list := make([]Placement, len(p.options))
	for i := range p.options {
		list[i] = p.options[i].Placement
	}
	return list
}

// Refused lists those that don't, and why.
func (p *Placer) Refused() []Refusal { return p.refused }

// Current is the placement chosen last.
func (p *Placer) Current() Placement { return p.options[p.current].Placement }

// Lose takes a device that failed out of the choice, and leaves it at once. It
// reports false where nothing is left without it. Where the device comes back,
// a new Placer knows.
func (p *Placer) Lose(id DeviceID, now Instant) bool {
	best := -1
	for i := range p.options {
		o := &p.options[i]
		o.lost = o.lost || o.Prefill == id || o.Decode == id
		if !o.lost && (best < 0 || o.whole.seconds < p.options[best].whole.seconds) {
			best = i
		}
	}
	if p.options[p.current].lost && best >= 0 {
		p.move(best, now)
	}
	return best >= 0
}

// Choose takes the facts of one frame and says where to compute. It neither
// allocates nor waits.
func (p *Placer) Choose(now Instant, in *PlaceInput) (Placement, PlaceReason) {
	p.heat(now, &in.Host, in.Bottleneck)
	want, why := p.best(in)
	cur := &p.options[p.current]
	if want == p.current {
		p.wanted = want
		if len(p.options) == 1 {
			why = PlaceOnly
		}
		return cur.Placement, why
	}
	if want != p.wanted {
		p.wanted, p.since = want, now
	}
	settle, dwell := placeSettle, placeDwell
	if why == PlaceHeat {
		settle = 0 // heat has its own hysteresis
	} else if want == p.left {
		dwell = placeReturn
	}
	if p.options[p.current].lost {
		settle, dwell, why = 0, 0, PlaceLost
	}
	if now.Sub(p.since) < settle || p.moved && now.Sub(p.changed) < dwell {
		return cur.Placement, PlaceDwell
	}
	p.move(want, now)
	return p.options[want].Placement, why
}

func (p *Placer) move(to int, now Instant) {
	p.left, p.current, p.wanted = p.current, to, to
	p.changed, p.since, p.moved = now, now, true
}

// rebase goes on in the time of a clock that went back.
func (p *Placer) rebase(now Instant) {
	p.changed, p.since = min(p.changed, now), min(p.since, now)
}

// heat follows whether the device is hot, with a gap between hot and cool, and
// the dwell before it counts as cool.
func (p *Placer) heat(now Instant, h *HostSignals, b Bottleneck) {
	known := h.ThermalHeadroom > 0 && h.ThermalHeadroom < 10
	severe := h.Thermal >= ThermalSevere || b == BoundThermal
	switch {
	case severe || known && h.ThermalHeadroom >= placeHot:
		p.hot = true
	case known && h.ThermalHeadroom >= placeCool || !known && h.Thermal == ThermalModerate:
		// between: as it was
	case p.hot && p.moved && now.Sub(p.changed) < placeReturn:
		// cool, and the move because of heat was too short ago
	default:
		p.hot = false
	}
}

// span is what the reply still takes by o.
func (p *Placer) span(o *option, in *PlaceInput) span {
	switch in.Stage {
	case StageDecode, StageVerify, StageDraft:
		s := o.rest
		s.seconds += p.moves[p.options[p.current].dec][o.dec]
		return s
	}
	return o.whole
}

// uses reports whether o computes on a device of a kind.
func (p *Placer) uses(o *option, k DeviceKind) bool {
	return p.profile.Devices[o.dec].Kind == k || p.profile.Devices[o.pre].Kind == k
}

// best is the option that the rules want, before dwell and settling.
func (p *Placer) best(in *PlaceInput) (int, PlaceReason) {
	switch {
	case p.hot:
		return p.thrifty(in, PlaceHeat)
	case in.Host.Power == PowerSaver:
		return p.thrifty(in, PlaceSaver)
	case in.Phase.free():
		return p.least(in, PlaceFree, filter{}, 0)
	case in.Bottleneck == BoundCPU:
		return p.least(in, PlaceOffCPU, filter{true, KindCPU}, p.weight(in))
	case in.Bottleneck == BoundGPU:
		return p.least(in, PlaceOffGPU, filter{true, KindGPU}, p.weight(in))
	case in.Bottleneck == BoundMemory && p.keeps(&p.options[p.current], in):
		return p.current, PlaceMemory
	}
	return p.least(in, PlaceFastest, filter{}, p.weight(in))
}

func (p *Placer) weight(in *PlaceInput) float64 {
	if int(in.Phase) < len(frameWeight) {
		return frameWeight[in.Phase]
	}
	return frameWeight[PhaseExplore]
}

// keeps reports whether a reply by o keeps the floor.
func (p *Placer) keeps(o *option, in *PlaceInput) bool { return !o.lost && o.whole.rate >= in.Floor }

// filter says which options a rule allows: without a device of the kind, if not
// is set.
type filter struct {
	not  bool
	kind DeviceKind
}

// least finds the option with the shortest reply, where seconds weigh more by the
// interference with frames. The present one stays unless another is better by
// placeGain.
func (p *Placer) least(in *PlaceInput, why PlaceReason, allow filter, weight float64) (int, PlaceReason) {
	best, bestCost, own := -1, math.Inf(1), math.Inf(1)
	fastest, fastestCost := p.current, math.Inf(1)
	for i := range p.options {
		o := &p.options[i]
		s := p.span(o, in)
		cost := s.seconds * (1 + weight*s.interference)
		if !o.lost && cost < fastestCost {
			fastest, fastestCost = i, cost
		}
		if !p.keeps(o, in) || allow.not && p.uses(o, allow.kind) {
			continue
		}
		if i == p.current {
			own = cost
		}
		if cost < bestCost || cost == bestCost && o.whole.seconds < p.options[best].whole.seconds {
			best, bestCost = i, cost
		}
	}
	switch {
	case best < 0 && allow.not:
		// Nothing off that kind keeps the floor: frames are the loop's business then.
		return p.least(in, PlaceFloor, filter{}, weight)
	case best < 0:
		s := p.span(&p.options[p.current], in)
		return p.stays(fastest, fastestCost, s.seconds*(1+weight*s.interference)), PlaceFloor
	}
	if at := p.stays(best, bestCost, own); at != best {
		return at, PlaceStays
	}
	return best, why
}

// stays is the present option if it is as good as best but for placeGain.
func (p *Placer) stays(best int, cost, own float64) int {
	if !p.options[p.current].lost && own*(1-placeGain) <= cost {
		return p.current
	}
	return best
}

// thrifty finds the option with the least energy a reply. Without figures the
// present one stays, as long as it keeps the floor.
func (p *Placer) thrifty(in *PlaceInput, why PlaceReason) (int, PlaceReason) {
	best, bestCost, own := -1, math.Inf(1), math.Inf(1)
	for i := range p.options {
		o := &p.options[i]
		s := p.span(o, in)
		if !p.keeps(o, in) || math.IsNaN(s.joules) || math.IsInf(s.seconds, 1) {
			continue
		}
		if i == p.current {
			own = s.joules
		}
		if s.joules < bestCost || s.joules == bestCost && o.whole.joules < p.options[best].whole.joules {
			best, bestCost = i, s.joules
		}
	}
	switch {
	case best >= 0:
		if at := p.stays(best, bestCost, own); at != best {
			return at, PlaceStays
		}
		return best, why
	case p.keeps(&p.options[p.current], in):
		return p.current, PlaceNoPower
	}
	return p.least(in, PlaceFloor, filter{}, p.weight(in))
}
