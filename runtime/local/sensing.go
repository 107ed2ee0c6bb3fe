package local

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/lull-npc/lull/runtime/assets"
	"github.com/lull-npc/lull/runtime/calibrate"
	"github.com/lull-npc/lull/runtime/llm"
	"github.com/lull-npc/lull/scheduler"
)

const (
	// quietGame is the time without frames after which no game runs beside the
	// model, so that what layers take is what they take undisturbed.
	quietGame = time.Second

	// sensingPast is the length of the second conversation that is timed: far
	// enough from none to show what the cache costs, and 0.3 … 0.8 s of prefill.
	sensingPast = 256

	// sensingTokens is how many tokens are timed layer by layer at start: what
	// the sensor's median takes, and two for the caches.
	sensingTokens = 11

	// sensingFar is how many are timed after sensingPast: the sensor asks for 65
	// layers, which models of 8 layers and more have in 9 tokens.
	sensingFar = 9

	// sensingLimit is the time for all of it. On a machine that is so busy,
	// calm moments of the game have to do.
	sensingLimit = 5 * time.Second
)

// sensing scores the contention of memory. The sensor belongs to the worker's
// thread, under Runtime.reporting.
type sensing struct {
	sensor *scheduler.Sensor
	keep   func(scheduler.Baselines) error // nil: nowhere
	note   func(format string, args ...any)

	calm  atomic.Bool  // the game's phase says so; set by the game thread
	frame atomic.Int64 // when the last frame ended; 0: none did
}

// newSensing makes the sensor, with baselines that are kept from before or
// measured now. It is nil where nobody would use a score. The models have no
// worker yet.
func (cfg *Config) newSensing(ctx context.Context, target, draft llm.Model) (*sensing, error) {
	features := cfg.Spec.Scheduler.Features
	if cfg.Spec.Steer != SteerController || !features.Has(scheduler.FeatureContention) {
		return nil, nil
	}
	x := &sensing{note: cfg.note}
	info, draftLayers := target.Info(), 0
	if draft != nil {
		draftLayers = draft.Info().Layers
	}
	device := scheduler.DeviceID(info.Device)
	if cfg.OpenModel != nil || cfg.OpenDraft != nil {
		var err error
		x.sensor, err = scheduler.NewSensor(device, info.Layers, draftLayers, scheduler.Baselines{})
		return x, err
	}
	store, err := assets.Open(cfg.Assets)
	if err != nil {
		return nil, err
	}
	f := baselineFile{key: cfg.baselineKey(target, draft)}
	f.path = f.in(store.Root())
	x.keep = f.write
	stored, why := f.read()
	if why == nil {
		x.sensor, why = scheduler.NewSensor(device, info.Layers, draftLayers, stored)
	}
	parts := recheck
	if why != nil {
		if !errors.Is(why, fs.ErrNotExist) {
			cfg.note("measuring anew what layers take here: %v", why)
		}
		parts = everything
		if x.sensor, err = scheduler.NewSensor(device, info.Layers, draftLayers, scheduler.Baselines{}); err != nil {
			return nil, err
		}
	}
	if err := cfg.sense(ctx, x.sensor, target, draft, parts); err != nil {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		cfg.note("the contention of memory is not known well until a menu of the game: %v", err)
	}
	x.store()
	return x, nil
}

// sensed is a stretch of tokens that are timed: after how many, and how many
// layers run between two stops.
type sensed struct{ past, stride, tokens int }

// everything is what a device is measured by; recheck is what says whether that
// still holds, a third of a second at each start: it may have been measured while
// other programs ran, or on a colder device.
var (
	recheck    = []sensed{{0, 1, sensingTokens}}
	everything = []sensed{{0, 1, sensingTokens}, {0, 0, sensingTokens}, {sensingPast, 1, sensingFar}}
)

// store keeps what was learned.
func (x *sensing) store() {
	if x == nil || x.keep == nil {
		return
	}
	b := x.sensor.Baselines()
	if len(b.Rows) == 0 {
		return
	}
	if err := x.keep(b); err != nil {
		x.note("what layers take is measured again at the next start: %v", err)
	}
}

// Baselines says what layers take undisturbed, as far as it is known; without
// rows where nobody asked for contention. Safe for concurrent use.
func (r *Runtime) Baselines() scheduler.Baselines {
	r.reporting.Lock()
	defer r.reporting.Unlock()
	if r.sense == nil {
		return scheduler.Baselines{}
	}
	return r.sense.sensor.Baselines()
}

// played tells that a frame ended. Call from the game thread.
func (x *sensing) played(s *scheduler.FrameSample) {
	if x != nil {
		x.calm.Store(s.Phase.Calm())
		x.frame.Store(int64(s.End))
	}
}

// score takes the layer times of one step. Called on a worker's thread.
func (x *sensing) score(w *llm.Work) scheduler.Score {
	if x == nil {
		return scheduler.Score{}
	}
	switch w.Stage {
	case llm.Decode, llm.Verify, llm.Draft:
		frame := x.frame.Load()
		calm := x.calm.Load() || frame == 0 || w.Start-frame > int64(quietGame)
		calibrate.AddSamples(x.sensor, w, w.Past, w.Stage == llm.Draft, scheduler.Instant(w.End), calm)
	default:
		return scheduler.Score{}
	}
	return x.sensor.Score(scheduler.Instant(w.End))
}

// sense times layers one by one, on a thread like the worker's.
func (cfg *Config) sense(ctx context.Context, s *scheduler.Sensor, target, draft llm.Model, parts []sensed) error {
	ctx, cancel := context.WithTimeoutCause(ctx, sensingLimit, fmt.Errorf("it took longer than %v", sensingLimit))
	defer cancel()
	return <-cfg.likeWorker(func() error {
		threads := measuredThreads(cfg.Spec.Threads)
		err := senseModel(ctx, s, target, false, threads, parts)
		if draft != nil && err == nil {
			err = senseModel(ctx, s, draft, true, threads, parts)
		}
		return err
	})
}

// senseModel decodes some tokens that stop at every layer, as many that don't,
// which says what a stop takes, and some after a longer conversation, which says
// what its cache takes.
func senseModel(ctx context.Context, s *scheduler.Sensor, m llm.Model, draft bool, threads []int,
	parts []sensed) error {
	seq, err := m.NewSequence()
	if err != nil {
		return err
	}
	defer seq.Close()
	defer m.Gate().Publish(llm.Window{})
	token, ok := m.BOS()
	if !ok {
		token = 0
	}
	var b llm.Batch
	batch := func(tokens, threads int, add bool) error {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		past := len(seq.Tokens())
		b.Reset()
		for range tokens {
			b.Add(seq, token, len(b.Entries) == tokens-1)
		}
		w, err := m.Decode(&b, llm.Grant{Threads: threads})
		if err == nil && add {
			calibrate.AddSamples(s, &w, past, draft, scheduler.Instant(w.End), true)
		}
		return err
	}
	info := m.Info()
	for _, part := range parts {
		m.Gate().Publish(llm.Window{LayersPerStop: part.stride})
		for _, n := range threads {
			past := min(part.past, info.Context/2)
			for err == nil && len(seq.Tokens()) < past {
				err = batch(min(past-len(seq.Tokens()), info.MaxBatch), 0, false)
			}
			for i := 0; i < part.tokens && err == nil; i++ {
				err = batch(1, n, true)
			}
		}
	}
	return err
}

// baselineKey names what layer times depend on.
func (cfg *Config) baselineKey(target, draft llm.Model) string {
	k := cfg.key(target, draft)
	return k.Model + "\n" + k.Draft + "\n" + k.Library + "\n" + k.CPU
}

// baselineFile is the part of the device profile that holds layer times.
type baselineFile struct{ path, key string }

func (f baselineFile) in(root string) string {
	name := sha256.Sum256([]byte(f.key))
	return filepath.Join(root, profileFolder, fmt.Sprintf("layers-%x.msgpack", name[:8]))
}

// read gives what is kept; fs.ErrNotExist is that nothing is.
func (f baselineFile) read() (scheduler.Baselines, error) {
	file, err := os.Open(f.path)
	if err != nil {
		return scheduler.Baselines{}, err
	}
	defer file.Close()
	data, err := io.ReadAll(io.LimitReader(file, calibrate.MaxStored+1))
	if err != nil {
		return scheduler.Baselines{}, err
	}
	b, err := calibrate.DecodeBaselines(data, f.key)
	if err != nil {
		return b, fmt.Errorf("%s: %w", f.path, err)
	}
	return b, nil
}

func (f baselineFile) write(b scheduler.Baselines) error {
	data, err := calibrate.EncodeBaselines(nil, f.key, b)
	if err != nil {
		return err
	}
	if was, err := os.ReadFile(f.path); err == nil && bytes.Equal(was, data) {
		return nil
	}
	return replaceFile(f.path, data)
}
