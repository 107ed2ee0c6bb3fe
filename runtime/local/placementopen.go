package local

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/lull-npc/lull/runtime/llamacpp"
	"github.com/lull-npc/lull/runtime/llm"
	"github.com/lull-npc/lull/scheduler"
)

// PlacementConfig says on which devices the model is held beside the first one.
type PlacementConfig struct {
	// Devices are ggml's ids. Each takes a copy of the weights and a cache.
	Devices []string

	// Profile is what the controller chooses by, as `lull calibrate` measures it.
	// Without one everything runs on the first device, and the others stand in
	// where it fails.
	Profile *scheduler.PlacementProfile

	// Offload is a device that computes the products of a prompt's batches for the
	// first one, of 32 tokens and more, and holds no copy of the weights; "": none.
	// Only the CPU has one, and Devices is empty then.
	Offload string

	// Fixed says where, whatever the controller would choose; nil: it chooses.
	Fixed *scheduler.Placement

	// Lost is told of a device that failed, on the worker's thread; nil: only
	// Config.Note is.
	Lost func(DeviceEvent)
}

// warmTokens is the prompt that each device computes once at load: kernels for
// batches and for single tokens are prepared then, which takes hundreds of ms on
// some, and no first reply pays for it.
const warmTokens = 8

// warmLimit is more than any device that is of use needs.
const warmLimit = 10 * time.Second

// openPlaced opens the model on every device. One that can't be opened is left
// out with a note, unless it is the first.
func (cfg *Config) openPlaced(ctx context.Context, file string, opt llamacpp.Options) (_ llm.Model, err error) {
	gate, err := llamacpp.NewGate(opt.Clock, opt.Admit)
	if err != nil {
		return nil, err
	}
	opt.Gate = gate
	var models []llm.Model
	defer func() {
		for _, m := range models {
			if err != nil {
				err = errors.Join(err, m.Close())
			}
		}
	}()
	for i, id := range append([]string{cfg.Device}, cfg.Placement.Devices...) {
		opt.Device, opt.Offload = id, ""
		if i == 0 {
			opt.Offload = cfg.Placement.Offload
		}
		m, err := llamacpp.Open(ctx, file, opt)
		if err != nil && opt.Offload != "" && ctx.Err() == nil {
			cfg.note("%s does not help %s: %v", opt.Offload, id, err)
			opt.Offload, cfg.Placement = "", &PlacementConfig{Lost: cfg.Placement.Lost}
			m, err = llamacpp.Open(ctx, file, opt)
		}
		if err == nil {
			if err = cfg.warm(ctx, m); err != nil {
				err = errors.Join(err, m.Close())
			}
		}
		switch {
		case err == nil:
			models = append(models, m)
		case ctx.Err() != nil || i == 0:
			return nil, err
		default:
			cfg.note("the model is not held on %s: %v", id, err)
		}
	}
	p, err := NewPlaced(models, func(e DeviceEvent) {
		if cfg.Placement.Lost != nil {
			cfg.Placement.Lost(e)
		}
		cfg.note("%s", e)
	})
	if err != nil {
		return nil, err
	}
	if p.fixed = cfg.Placement.Fixed; p.fixed != nil {
		p.Place(*p.fixed)
		return p, nil
	}
	if p.helper = scheduler.DeviceID(cfg.Placement.Offload); p.helper != "" {
		p.profile = cfg.Placement.Profile
		return p, nil
	}
	p.profile = p.held(cfg.Placement.Profile)
	return p, nil
}

func (e DeviceEvent) String() string {
	to := "no other device is left"
	if e.To != "" {
		to = fmt.Sprintf("replies go on on %s", e.To)
	}
	return fmt.Sprintf("device %s failed, %s: %v", e.Device, to, e.Err)
}

// warm computes a prompt and a token on a thread like the worker's. On a machine
// that leaves such threads nothing it gives up in time.
func (cfg *Config) warm(ctx context.Context, m llm.Model) error {
	ctx, cancel := context.WithTimeout(ctx, warmLimit)
	defer cancel()
	done := cfg.likeWorker(func() error { return warm(m) })
	var err error
	select {
	case err = <-done:
	case <-ctx.Done():
		m.Stop()
		err = <-done
		m.Resume()
	}
	if errors.Is(err, llm.ErrStopped) && errors.Is(ctx.Err(), context.DeadlineExceeded) {
		cfg.note("%s was not warmed up in %v: its first reply will be slow", m.Info().Device, warmLimit)
		return nil
	}
	return err
}

// warm computes a prompt and a token, and forgets them.
func warm(m llm.Model) error {
	s, err := m.NewSequence()
	if err != nil {
		return err
	}
	defer s.Close()
	var b llm.Batch
	for _, n := range []int{warmTokens, 1} {
		b.Reset()
		for i := range n {
			b.Add(s, 0, i == n-1)
		}
		if _, err := m.Decode(&b, llm.Grant{}); err != nil {
			return fmt.Errorf("local: warm-up on %s: %w", m.Info().Device, err)
		}
	}
	return nil
}

// held is the profile without the devices that don't hold the model, nil if
// there is nothing to choose between.
func (p *Placed) held(from *scheduler.PlacementProfile) *scheduler.PlacementProfile {
	if from == nil {
		return nil
	}
	out := *from
	out.Devices, out.Figures, out.Handovers = nil, nil, nil
	known := func(id scheduler.DeviceID) (scheduler.DeviceID, bool) {
		for _, d := range p.devices {
			if strings.EqualFold(string(d.id), string(id)) {
				return d.id, true
			}
		}
		return id, false
	}
	var ok bool
	for _, d := range from.Devices {
		if d.ID, ok = known(d.ID); ok {
			out.Devices = append(out.Devices, d)
		}
	}
	for _, f := range from.Figures {
		// Products elsewhere with one copy of the weights need a context made for it.
		if f.Device, ok = known(f.Device); ok && !f.Offload {
			out.Figures = append(out.Figures, f)
		}
	}
	for _, h := range from.Handovers {
		var ok2 bool
		h.From, ok = known(h.From)
		if h.To, ok2 = known(h.To); ok && ok2 {
			out.Handovers = append(out.Handovers, h)
		}
	}
	if len(out.Devices) < 2 {
		return nil
	}
	return &out
}

// choices are what the controller chooses between; nil: nothing.
func (p *Placed) choices() *scheduler.PlacementProfile {
	if p == nil {
		return nil
	}
	return p.profile
}
