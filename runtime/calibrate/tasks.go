package calibrate

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/lull-npc/lull/runtime/llm"
	"github.com/lull-npc/lull/scheduler"
)

func (r *run) handoverTasks(past int) []task {
	var list []task
	for i := range r.cfg.Devices {
		for j := range r.cfg.Devices {
			from, to := &r.cfg.Devices[i], &r.cfg.Devices[j]
			if i == j || from.Row.Helper+to.Row.Helper != "" ||
				past > min(from.Model.Info().Context, to.Model.Info().Context) {
				continue
			}
			list = append(list, task{
				name: fmt.Sprintf("hand-over of %d tokens, %s to %s", past, from.Row.ID, to.Row.ID),
				done: func(p *DeviceProfile) bool {
					return slices.ContainsFunc(p.Handovers, func(x HandoverRow) bool {
						return x.From == from.Row.ID && x.To == to.Row.ID && x.Tokens == past
					})
				},
				run: func(ctx context.Context) error { return r.handover(ctx, from, to, past) }})
		}
	}
	return list
}

// handover moves a conversation some times and takes the medians.
func (r *run) handover(ctx context.Context, from, to *Device, past int) error {
	if err := r.affordable(from, Decode, 1, slices.Max(from.Threads)); err != nil {
		return err
	}
	src, err := r.primed(ctx, from, past)
	if err != nil {
		return err
	}
	defer src.Close()
	dst, err := to.Model.NewSequence()
	if err != nil {
		return err
	}
	defer dst.Close()
	var state []byte
	var gets, sets []time.Duration
	for range batchesLeast + 1 {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		a := r.cfg.Now()
		if state, err = src.Save(state[:0]); err != nil {
			return err
		}
		b := r.cfg.Now()
		if err := dst.Load(state); err != nil {
			return err
		}
		gets, sets = append(gets, time.Duration(b-a)), append(sets, time.Duration(r.cfg.Now()-b))
	}
	if !slices.Equal(src.Tokens(), dst.Tokens()) {
		return fmt.Errorf("calibrate: %s took another conversation than %s gave", to.Row.ID, from.Row.ID)
	}
	r.p.Handovers = append(r.p.Handovers, HandoverRow{From: from.Row.ID, To: to.Row.ID, Tokens: past, Bytes: len(state),
		Get: quantile(gets[1:], 0.5), Set: quantile(sets[1:], 0.5)}) // the first makes room for the state
	return nil
}

func (r *run) interferenceTask(d *Device, stage string) task {
	return task{name: fmt.Sprintf("frames beside %s on %s", stage, d.Row.ID),
		done: func(p *DeviceProfile) bool {
			return slices.ContainsFunc(p.Interference, func(x InterferenceRow) bool {
				return x.Device == d.Row.ID && x.Stage == stage
			})
		},
		run: func(ctx context.Context) error { return r.interference(ctx, d, stage) }}
}

// interference lets a frame loop run alone and beside a stage in turns, so that
// what else the machine does meets both.
func (r *run) interference(ctx context.Context, d *Device, stage string) error {
	width := r.besideWidth(d, stage)
	if err := r.affordable(d, stage, turnsEach*width, slices.Max(d.Threads)); err != nil {
		return err
	}
	s, err := r.primed(ctx, d, quickPasts[0])
	if err != nil {
		return err
	}
	defer s.Close()
	var alone, beside []time.Duration
	for range turnsEach {
		if err := r.frames(ctx, &alone); err != nil {
			return err
		}
		stop := r.load(ctx, d, s, width)
		err := r.frames(ctx, &beside)
		if err2 := stop(); err == nil {
			err = err2
		}
		if err != nil {
			return err
		}
	}
	row := InterferenceRow{Device: d.Row.ID, Stage: stage, Alone: quantile(alone, 0.5), Beside: quantile(beside, 0.5),
		Frames: len(alone)}
	if row.Alone <= 0 {
		return &skipped{"the work of a frame took no time"}
	}
	row.Share = max(0, float64(row.Beside-row.Alone)/float64(row.Alone))
	r.p.Interference = append(r.p.Interference, row)
	return nil
}

// besideWidth is how wide the batches beside frames are: as those of a prompt, and
// less on a slow device, since a batch that can't be stopped is waited for in each
// turn.
func (r *run) besideWidth(d *Device, stage string) int {
	width := 1
	if stage == Prefill {
		width = min(64, d.Model.Info().MaxBatch)
		for width > 1 && r.affordable(d, stage, turnsEach*width, slices.Max(d.Threads)) != nil {
			width /= 2
		}
	}
	if d.Row.Helper != "" && stage == Prefill {
		width = max(width, HelperLeast) // less would not go to the helper
	}
	return width
}

func (r *run) frames(ctx context.Context, into *[]time.Duration) error {
	for i := range framesWarm + framesEach {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if took := r.cfg.Frame(); i >= framesWarm {
			*into = append(*into, took)
		}
	}
	return nil
}

// load runs batches on another goroutine until the returned function is called,
// which ends the one that runs.
func (r *run) load(ctx context.Context, d *Device, s llm.Sequence, width int) func() error {
	quit, begun := make(chan struct{}), make(chan struct{})
	var result error
	var group sync.WaitGroup
	group.Go(func() {
		for first := true; ; first = false {
			if first {
				close(begun)
			}
			select {
			case <-quit:
				return
			default:
			}
			if _, err := r.once(ctx, d, s, width, slices.Max(d.Threads), false); err != nil {
				result = err
				return
			}
		}
	})
	<-begun
	return func() error {
		close(quit)
		d.Model.Stop()
		group.Wait()
		d.Model.Resume()
		if errors.Is(result, llm.ErrStopped) {
			return nil
		}
		return result
	}
}

func (r *run) layerTask(d *Device, threads int) task {
	return task{name: fmt.Sprintf("layers of %s with %d threads", d.Row.ID, threads),
		done: func(p *DeviceProfile) bool {
			return slices.ContainsFunc(p.Layers, func(x LayerRow) bool {
				return x.Device == d.Row.ID && x.Threads == threads
			})
		},
		run: func(ctx context.Context) error { return r.layers(ctx, d, threads) }}
}

// layerTokens is how many tokens are timed layer by layer; the sensor's median
// takes nine, and the first two fill the caches. On a busy machine some are lost to
// context switches: then layerTokensMost.
const layerTokens, layerTokensMost = 11, 66

// layers times a decode layer by layer, by the scheduler's own sensor.
func (r *run) layers(ctx context.Context, d *Device, threads int) error {
	if err := r.affordable(d, Decode, layerTokens, threads); err != nil {
		return err
	}
	s, err := r.primed(ctx, d, quickPasts[0])
	if err != nil {
		return err
	}
	defer s.Close()
	info := d.Model.Info()
	sensor, err := scheduler.NewSensor(scheduler.DeviceID(d.Row.ID), info.Layers, 0, scheduler.Baselines{})
	if err != nil {
		return err
	}
	defer d.Model.Gate().Publish(llm.Window{})
	for _, stride := range []int{1, 0} { // with a stop at each layer, then without: the difference is what stops take
		d.Model.Gate().Publish(llm.Window{LayersPerStop: stride})
		for n := 0; n < layerTokens || n < layerTokensMost && len(sensor.Baselines().Rows) == 0; n++ {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			past := len(s.Tokens())
			r.fill(s, 1, true)
			w, err := d.Model.Decode(&r.batch, llm.Grant{Threads: threads})
			if err != nil {
				return err
			}
			AddSamples(sensor, &w, past, false, scheduler.Instant(r.cfg.Now()), true)
		}
	}
	rows := sensor.Baselines().Rows
	if len(rows) == 0 {
		return &skipped{"the device doesn't tell layers apart, or the machine is too busy"}
	}
	for _, row := range rows {
		r.p.Layers = append(r.p.Layers, LayerRow{Device: d.Row.ID, Width: row.Width, Threads: threads,
			Layers: row.Layers, Halt: row.Halt})
	}
	return nil
}

func (r *run) verifyTask(d *Device, threads int) task {
	return task{name: fmt.Sprintf("batches to verify on %s with %d threads", d.Row.ID, threads),
		done: func(p *DeviceProfile) bool {
			return slices.ContainsFunc(p.Verify, func(x VerifyRow) bool {
				return x.Device == d.Row.ID && x.Threads == threads
			})
		},
		run: func(ctx context.Context) error { return r.verify(ctx, d, threads) }}
}

// verify measures T(B)/T(1).
func (r *run) verify(ctx context.Context, d *Device, threads int) error {
	if err := r.affordable(d, Decode, slices.Max(widths), threads); err != nil {
		return err
	}
	s, err := r.primed(ctx, d, verifyPast)
	if err != nil {
		return err
	}
	defer s.Close()
	one := time.Duration(0)
	var rows []VerifyRow
	for _, width := range append([]int{1}, widths...) {
		times, err := r.times(ctx, d, s, width, threads, true)
		if err != nil {
			return err
		}
		if width == 1 {
			one = quantile(times, 0.5)
			continue
		}
		rows = append(rows, VerifyRow{Device: d.Row.ID, Threads: threads, Width: width,
			Ratio: float64(quantile(times, 0.5)) / float64(one)})
	}
	r.p.Verify = append(r.p.Verify, rows...)
	return nil
}
