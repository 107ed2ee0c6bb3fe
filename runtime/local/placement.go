package local

import (
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/lull-npc/lull/runtime/llm"
	"github.com/lull-npc/lull/scheduler"
)

// Placed is one model on several devices, each with weights and a cache of its
// own. Batches of a prompt run on one and decoding on another, or all on one;
// where that changes, between two batches, the conversations of the next batch
// are handed over with it. A device that fails is left for another, which
// computes again what could not be handed over, and the reply goes on.
//
// It is an llm.Model, and its methods may be called from where a Model's may.
// Place and Lost are safe for concurrent use.
type Placed struct {
	llm.Tokenizer
	devices []*placedDevice
	info    llm.Info
	profile *scheduler.PlacementProfile // nil: Place says where
	fixed   *scheduler.Placement        // nil: the controller says where
	helper  scheduler.DeviceID          // of PlacementConfig.Offload
	gate    manyGates
	note    func(DeviceEvent)

	plan atomic.Uint32 // indices: prefill, and decode in the upper half
	lost atomic.Uint32 // a bit for each device that failed
	told uint32        // of these, those that the controller knows; game thread

	// Of the goroutine that decodes.
	at    int // whose logits the last batch made
	batch llm.Batch
	state []byte
	moves HandoverCount
}

// placedDevice is the model on one device.
type placedDevice struct {
	id    scheduler.DeviceID
	model llm.Model
}

// DeviceEvent tells that a device failed and is used no more.
type DeviceEvent struct {
	Device scheduler.DeviceID
	Err    error
	To     scheduler.DeviceID // where it goes on; "": nowhere
}

// HandoverCount says how conversations got from one device to another.
type HandoverCount struct {
	Moved    int // by their state
	Computed int // by computing their tokens again
	Tokens   int // of all that moved
}

// maxPlaced is eight devices, as many as a placement profile may have.
const maxPlaced = 8

// NewPlaced joins models of one file, the first of which is where it begins. They
// are Placed's to close. note is told of each device that fails, on the goroutine
// that decodes; nil: nobody is.
func NewPlaced(models []llm.Model, note func(DeviceEvent)) (*Placed, error) {
	if len(models) < 1 || len(models) > maxPlaced {
		return nil, fmt.Errorf("local: %d devices for one model: want 1…%d", len(models), maxPlaced)
	}
	p := &Placed{Tokenizer: models[0], info: models[0].Info(), note: note}
	for i, m := range models {
		info := m.Info()
		id := scheduler.DeviceID(info.Device)
		if p.index(id) >= 0 {
			return nil, fmt.Errorf("local: device %s holds the model twice: name it once", id)
		}
		if info.Vocab != p.info.Vocab || info.Layers != p.info.Layers || info.Context != p.info.Context ||
			identity(m) != identity(models[0]) {
			return nil, fmt.Errorf("local: the model on %s is not the one on %s: open one file with one context size",
				id, p.info.Device)
		}
		p.info.MaxBatch = min(p.info.MaxBatch, info.MaxBatch)
		p.info.MaxSequences = min(p.info.MaxSequences, info.MaxSequences)
		if i > 0 {
			p.info.Bytes += info.Bytes
			p.info.CanTruncate = p.info.CanTruncate && info.CanTruncate
		}
		p.devices = append(p.devices, &placedDevice{id: id, model: m})
		if !slices.Contains(p.gate, m.Gate()) {
			p.gate = append(p.gate, m.Gate())
		}
	}
	return p, nil
}

func (p *Placed) index(id scheduler.DeviceID) int {
	return slices.IndexFunc(p.devices, func(d *placedDevice) bool { return d.id == id })
}

// Place says where batches run from the next one on. Devices that are not here
// or failed are passed over. It neither locks nor waits.
func (p *Placed) Place(to scheduler.Placement) {
	if p == nil {
		return
	}
	pre, dec := p.index(to.Prefill), p.index(to.Decode)
	if to.Offload {
		pre = dec
	}
	if pre >= 0 && dec >= 0 {
		p.plan.Store(uint32(pre) | uint32(dec)<<16)
	}
}

// Devices lists where the model is.
func (p *Placed) Devices() []scheduler.DeviceID {
	var ids []scheduler.DeviceID
	for _, d := range p.devices {
		ids = append(ids, d.id)
	}
	return ids
}

// Lost reports whether a device failed.
func (p *Placed) Lost(id scheduler.DeviceID) bool {
	i := p.index(id)
	return i >= 0 && p.lost.Load()&(1<<i) != 0
}

// tell lets the controller know what failed since the last frame. Call from the
// game thread.
func (p *Placed) tell(c *scheduler.Controller, now scheduler.Instant) {
	if p == nil {
		return
	}
	for lost, i := p.lost.Load(), 0; lost != p.told && i < len(p.devices); i++ {
		if bit := uint32(1) << i; lost&bit != 0 && p.told&bit == 0 {
			c.LoseDevice(p.devices[i].id, now)
			p.told |= bit
		}
	}
}

// Handovers counts them. Call from the goroutine that decodes.
func (p *Placed) Handovers() HandoverCount { return p.moves }

// Info implements llm.Model: what all devices can do.
func (p *Placed) Info() llm.Info { return p.info }

// Fingerprint tells the model's file from others.
func (p *Placed) Fingerprint() string { return identity(p.devices[0].model) }

// Gate implements llm.Model.
func (p *Placed) Gate() llm.Gate {
	if len(p.gate) == 1 {
		return p.gate[0]
	}
	return p.gate
}

// Stop implements llm.Model.
func (p *Placed) Stop() {
	for _, d := range p.devices {
		d.model.Stop()
	}
}

// Resume implements llm.Model.
func (p *Placed) Resume() {
	for _, d := range p.devices {
		d.model.Resume()
	}
}

// Close implements llm.Model.
func (p *Placed) Close() error {
	var errs []error
	for _, d := range p.devices {
		errs = append(errs, d.model.Close())
	}
	return errors.Join(errs...)
}

// Decode implements llm.Model.
func (p *Placed) Decode(b *llm.Batch, g llm.Grant) (llm.Work, error) {
	for {
		to, ok := p.target(b)
		if !ok {
			return llm.Work{}, fmt.Errorf("local: every device of the model has failed: %w", errNoDevice)
		}
		w, err := p.decodeOn(to, b, g)
		if err == nil || expected(err) {
			return w, err
		}
		if !p.lose(to, err) {
			return w, err
		}
	}
}

var errNoDevice = errors.New("no device is left")

// expected reports whether an error speaks of the batch, not of the device.
func expected(err error) bool {
	for _, e := range []error{llm.ErrStopped, llm.ErrContextFull, llm.ErrBatch, llm.ErrClosed, llm.ErrNoSequence} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// target is where a batch runs. A part of a prompt asks for fewer logits than it
// has tokens; the last of its tokens alone is as good as a decode.
func (p *Placed) target(b *llm.Batch) (int, bool) {
	logits := 0
	for i := range b.Entries {
		if b.Entries[i].Logits {
			logits++
		}
	}
	plan, lost := p.plan.Load(), p.lost.Load()
	to := int(plan >> 16)
	if logits < len(b.Entries) {
		to = int(plan & 0xffff)
	}
	for i := 0; lost&(1<<to) != 0; i++ {
		if i == len(p.devices) {
			return 0, false
		}
		to = i
	}
	return to, true
}

// lose takes a device out, and reports whether another is left.
func (p *Placed) lose(i int, err error) bool {
	p.lost.Or(1 << i)
	e := DeviceEvent{Device: p.devices[i].id, Err: err}
	to, ok := p.target(&p.batch) // an empty batch is a decode
	if ok {
		e.To = p.devices[to].id
	}
	if p.note != nil {
		p.note(e)
	}
	return ok
}

// decodeOn brings every sequence of the batch to one device and runs it there.
func (p *Placed) decodeOn(to int, b *llm.Batch, g llm.Grant) (llm.Work, error) {
	p.batch.Reset()
	p.batch.Tentative = b.Tentative
	for i, e := range b.Entries {
		s, ok := e.Sequence.(*placedSequence)
		if !ok || s == nil || s.model != p || s.closed {
			return llm.Work{}, fmt.Errorf("local: entry %d: sequence is closed or of another model: %w", i,
				llm.ErrBatch)
		}
		if s.at != to {
			if w, err := s.moveTo(to, g); err != nil {
				return w, err
			}
		}
		p.batch.Add(s.inner[to], e.Token, e.Logits)
	}
	w, err := p.devices[to].model.Decode(&p.batch, g)
	if err != nil {
		return w, err
	}
	for _, e := range b.Entries {
		s := e.Sequence.(*placedSequence)
		s.tokens = append(s.tokens, e.Token)
	}
	if p.at = to; to > 0 {
		// Layers of another device say nothing about the one whose baselines are known.
		w.Samples = nil
	}
	return w, nil
}

// manyGates publishes to the gates of all devices.
type manyGates []llm.Gate

func (g manyGates) Publish(w llm.Window) {
	for _, x := range g {
		x.Publish(w)
	}
}

// Woken implements llm.Waker.
func (g manyGates) Woken() (calls uint64, took time.Duration) {
	for _, x := range g {
		if w, ok := x.(llm.Waker); ok {
			n, t := w.Woken()
			calls, took = calls+n, took+t
		}
	}
	return calls, took
}

func (g manyGates) Activity() (running bool, groups uint64) {
	for _, x := range g {
		r, n := x.Activity()
		running, groups = running || r, groups+n
	}
	return running, groups
}
