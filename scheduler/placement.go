package scheduler

import (
	"fmt"
	"math"
	"slices"
	"time"
)

// DeviceKind is what a device is. ggml knows no NPUs, so lull tells them by name.
type DeviceKind uint8

// Kinds of devices.
const (
	KindCPU DeviceKind = iota
	KindGPU
	KindNPU
)

var kindNames = [...]string{"cpu", "gpu", "npu"}

func (k DeviceKind) String() string { return name(kindNames[:], int(k)) }

// Placement says where the stages of a reply are computed.
type Placement struct {
	Prefill, Decode DeviceID

	// Offload keeps one copy of the weights, on Decode: the large products of a
	// prompt's batch are computed on Prefill, to which the weights are copied for
	// them. The KV cache stays on Decode, so nothing is handed over.
	Offload bool
}

func (p Placement) String() string {
	switch {
	case p.Offload:
		return string(p.Decode) + "+" + string(p.Prefill)
	case p.Prefill == p.Decode:
		return string(p.Decode)
	}
	return string(p.Prefill) + ">" + string(p.Decode)
}

// StageFigures are what was measured of one stage on one device.
type StageFigures struct {
	Device  DeviceID
	Stage   Stage // StagePrefill or StageDecode
	Offload bool  // StagePrefill: by Placement.Offload, the weights being elsewhere
	Quant   string
	Past    int // tokens in the cache before

	Rate   float64 // tokens/s, > 0
	Joules float64 // J/token; 0: unknown

	// Interference is by what share of itself the work of a game's frame gets
	// longer while the stage runs unrestrained, 0 … 10. UnknownInterference: nobody measured.
	Interference float64
}

// UnknownInterference stands for an interference that nobody measured. It counts
// as a frame that gets half as long again, which is between a GPU that the game
// hardly uses and a core that it needs.
const UnknownInterference = -1

const assumedInterference = 0.5

// PlaceableDevice is one device that could hold the model.
type PlaceableDevice struct {
	ID          DeviceID
	Kind        DeviceKind
	MemoryBytes uint64 // that it has for this; 0: only Profile.Budget bounds it
}

// HandoverFigures are the cost of moving a conversation from one device to another.
type HandoverFigures struct {
	From, To DeviceID
	Base     time.Duration
	PerToken time.Duration
}

// PlacementProfile is the part of a device profile that a placement is chosen by. All of it
// is measured; no order of devices is built in.
type PlacementProfile struct {
	Devices   []PlaceableDevice
	Figures   []StageFigures
	Handovers []HandoverFigures // a pair that is missing can't be used

	Quant        string // of the model in use; figures of others don't count
	Weights      uint64 // bytes of one copy
	KVPerToken   uint64 // bytes of cache a token
	Tokens       int    // that the cache holds, of all conversations
	ScratchBytes uint64 // beside weights and cache, on each device
	OtherBytes   uint64 // what else comes from the budget: draft model, embedder
	Budget       uint64 // bytes for all together; 0: no bound but the devices' own

	// Reply is what is expected of a reply: tokens in the cache before it,
	// tokens of the prompt that are new, tokens it has. 0: 512, 64 and 48.
	Reply ExpectedReply
}

// ExpectedReply is the size of a reply in tokens.
type ExpectedReply struct{ Past, Prompt, Tokens int }

const (
	// maxDevices and maxFigures bound a profile. Eight devices make 64 + 56
	// placements, which are looked through in each frame.
	maxDevices, maxFigures = 8, 4096

	// Of a reply whose size nobody knows: a character's sheet and some turns in
	// the cache, a sentence or two of the player, two or three sentences back.
	usualPast, usualPrompt, usualReply = 512, 64, 48

	// absurdRate is tokens/s beyond any device, absurdJoules J/token likewise.
	absurdRate, absurdJoules, absurdInterference = 1e7, 1e4, 10
)

// Refusal says why a placement is not offered.
type Refusal struct {
	Placement Placement
	Why       string
}

// option is a placement with what is expected of it.
type option struct {
	Placement
	pre, dec int // indices of devices
	lost     bool

	whole, rest span // of a reply from its prompt on, and of the second half of one
}

// span is what a reply takes. Joules are NaN where a part is unknown.
type span struct {
	seconds, joules, interference float64
	rate                          float64 // tokens/s of the decode alone
}

// Validate reports the first field that is out of range; the error wraps
// ErrConfig.
func (p *PlacementProfile) Validate() error {
	if len(p.Devices) < 1 || len(p.Devices) > maxDevices || len(p.Figures) > maxFigures {
		return fmt.Errorf("%w: a profile of %d devices and %d figures: want 1 … %d and at most %d", ErrConfig,
			len(p.Devices), len(p.Figures), maxDevices, maxFigures)
	}
	for i, d := range p.Devices {
		if d.ID == "" || d.Kind > KindNPU || p.index(d.ID) != i {
			return fmt.Errorf("%w: Devices[%d] %q %v: want different names, and a kind", ErrConfig, i, d.ID, d.Kind)
		}
	}
	if p.Tokens < 0 || min(p.Reply.Past, p.Reply.Prompt, p.Reply.Tokens) < 0 {
		return fmt.Errorf("%w: Tokens %d, Reply %v: want 0 or more", ErrConfig, p.Tokens, p.Reply)
	}
	for i := range p.Figures {
		if err := p.Figures[i].validate(p); err != nil {
			return fmt.Errorf("%w: Figures[%d]: %w", ErrConfig, i, err)
		}
	}
	for i, h := range p.Handovers {
		if p.index(h.From) < 0 || p.index(h.To) < 0 || h.From == h.To || h.Base < 0 || h.PerToken < 0 ||
			h.Base > time.Minute || h.PerToken > time.Second {
			return fmt.Errorf("%w: Handovers[%d] %v: want two devices and times in range", ErrConfig, i, h)
		}
	}
	return nil
}

func (f *StageFigures) validate(p *PlacementProfile) error {
	within := func(v, low, high float64) bool { return !math.IsNaN(v) && v >= low && v <= high }
	switch {
	case p.index(f.Device) < 0:
		return fmt.Errorf("no device %q", f.Device)
	case f.Stage != StagePrefill && f.Stage != StageDecode || f.Offload && f.Stage != StagePrefill:
		return fmt.Errorf("stage %v: want prefill or decode; offload goes with prefill", f.Stage)
	case !within(f.Rate, 1e-6, absurdRate):
		return fmt.Errorf("rate %v tokens/s: want 0.000001 … %v", f.Rate, absurdRate)
	case !within(f.Joules, 0, absurdJoules):
		return fmt.Errorf("energy %v J/token: want 0 … %v", f.Joules, absurdJoules)
	case f.Interference != UnknownInterference && !within(f.Interference, 0, absurdInterference):
		return fmt.Errorf("interference %v: want 0 … %v, or %v", f.Interference, absurdInterference,
			UnknownInterference)
	case f.Past < 0:
		return fmt.Errorf("past %d: want 0 or more", f.Past)
	}
	return nil
}

func (p *PlacementProfile) index(id DeviceID) int {
	return slices.IndexFunc(p.Devices, func(d PlaceableDevice) bool { return d.ID == id })
}

// at interpolates the figures of a stage between the context lengths measured,
// and holds the ends. Time and energy a token, not rates, are what grows evenly.
func (p *PlacementProfile) at(dev DeviceID, stage Stage, offload bool, past int) (f StageFigures, known bool) {
	var below, above *StageFigures
	for i := range p.Figures {
		r := &p.Figures[i]
		if r.Device != dev || r.Stage != stage || r.Offload != offload || r.Quant != p.Quant {
			continue
		}
		if r.Past <= past && (below == nil || r.Past >= below.Past) {
			below = r
		}
		if r.Past >= past && (above == nil || r.Past <= above.Past) {
			above = r
		}
	}
	switch {
	case below == nil && above == nil:
		return f, false
	case below == nil:
		return *above, true
	case above == nil || above.Past == below.Past:
		return *below, true
	}
	w := float64(past-below.Past) / float64(above.Past-below.Past)
	mix := func(a, b float64) float64 { return a + float64(w*(b-a)) }
	f = *below
	f.Past, f.Rate = past, 1/mix(1/below.Rate, 1/above.Rate)
	if f.Joules = mix(below.Joules, above.Joules); below.Joules == 0 || above.Joules == 0 {
		f.Joules = 0
	}
	f.Interference = mix(below.disturbs(), above.disturbs())
	return f, true
}

func (f *StageFigures) disturbs() float64 {
	if f.Interference < 0 {
		return assumedInterference
	}
	return f.Interference
}

// handover is what moving that many tokens takes; false where it can't be done.
func (p *PlacementProfile) handover(from, to DeviceID, tokens int) (time.Duration, bool) {
	if from == to {
		return 0, true
	}
	for _, h := range p.Handovers {
		if h.From == from && h.To == to {
			return h.Base + time.Duration(tokens)*h.PerToken, true
		}
	}
	return 0, false
}

// options lists what fits, and why the rest does not.
func (p *PlacementProfile) options() (list []option, refused []Refusal) {
	for i, dec := range p.Devices {
		for j, pre := range p.Devices {
			for _, offload := range []bool{false, true} {
				x := Placement{Prefill: pre.ID, Decode: dec.ID, Offload: offload}
				if offload && i == j {
					continue
				}
				o := option{Placement: x, pre: j, dec: i}
				if why := p.estimate(&o); why != "" {
					if !offload || why != noFigures { // nobody measured it, nobody misses it
						refused = append(refused, Refusal{x, why})
					}
					continue
				}
				if why := p.fits(&o); why != "" {
					refused = append(refused, Refusal{x, why})
					continue
				}
				list = append(list, o)
			}
		}
	}
	return list, refused
}

const noFigures = "not measured"

// estimate fills in what replies take by o, or says why they can't.
func (p *PlacementProfile) estimate(o *option) string {
	r := p.Reply.orUsual()
	pre, known := p.at(o.Prefill, StagePrefill, o.Offload, r.Past)
	dec, known2 := p.at(o.Decode, StageDecode, false, r.Past+r.Prompt)
	if !known || !known2 {
		return noFigures
	}
	move := time.Duration(0)
	if !o.Offload {
		if move, known = p.handover(o.Prefill, o.Decode, r.Past+r.Prompt); !known {
			return "the conversation can't be handed over"
		}
	}
	ask, say := float64(r.Prompt)/pre.Rate, float64(r.Tokens)/dec.Rate
	o.whole = span{seconds: ask + move.Seconds() + say, rate: dec.Rate,
		joules:       float64(r.Prompt)*known0(pre.Joules) + float64(r.Tokens)*known0(dec.Joules),
		interference: (float64(ask*pre.disturbs()) + float64(say*dec.disturbs())) / (ask + say)}
	o.rest = span{seconds: say / 2, rate: dec.Rate, joules: float64(r.Tokens) * known0(dec.Joules) / 2,
		interference: dec.disturbs()}
	return ""
}

// known0 is NaN for an energy that nobody measured.
func known0(j float64) float64 {
	if j == 0 {
		return math.NaN()
	}
	return j
}

func (r ExpectedReply) orUsual() ExpectedReply {
	if r == (ExpectedReply{}) {
		return ExpectedReply{usualPast, usualPrompt, usualReply}
	}
	return ExpectedReply{r.Past, max(r.Prompt, 1), max(r.Tokens, 1)}
}

// fits says why o doesn't fit the memory, or nothing. Each device that holds
// weights holds a cache as well.
func (p *PlacementProfile) fits(o *option) string {
	each := p.Weights + p.KVPerToken*uint64(p.Tokens) + p.ScratchBytes
	need := map[int]uint64{o.dec: each}
	switch {
	case o.Offload:
		// The products of a batch need room for the largest weights at a time:
		// a layer's share is far below the scratch bytes of a context.
		need[o.pre] = p.ScratchBytes
	case o.pre != o.dec:
		need[o.pre] = each
	}
	total := p.OtherBytes
	for i, n := range need {
		total += n
		if most := p.Devices[i].MemoryBytes; most > 0 && n > most {
			return fmt.Sprintf("%s needs %d bytes and has %d", p.Devices[i].ID, n, most)
		}
	}
	if p.Budget > 0 && total > p.Budget {
		return fmt.Sprintf("weights and cache need %d bytes, the budget is %d", total, p.Budget)
	}
	return ""
}
