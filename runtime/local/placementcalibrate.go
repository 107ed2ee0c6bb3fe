package local

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/lull-npc/lull/runtime/assets"
	"github.com/lull-npc/lull/runtime/calibrate"
	"github.com/lull-npc/lull/runtime/llamacpp"
	"github.com/lull-npc/lull/runtime/llm"
	"github.com/lull-npc/lull/runtime/probe"
)

// CalibrateConfig says what to calibrate.
type CalibrateConfig struct {
	Assets  assets.Options
	Devices []string // ggml's ids; nil: all there are
	Quick   bool
	Fresh   bool // measure everything anew, also what an interrupted run has
	Budget  time.Duration

	Progress func(done, of int, task string)
	Note     func(text string) // what went otherwise than expected; nil: nobody is told
}

// busyMachine is the share of time in which some task waited for the processor
// while the model was loaded, which takes one thread: on a quiet machine it is some percent.
const busyMachine = 0.25

// calibrateContext holds the longest context measured and a batch beside it.
const calibrateContext = 1536

// Calibrate measures every device and keeps the profile in the cache, after each
// of its tasks. It takes minutes; a run that was cancelled is gone on with by the next.
// What it returns beside an error is what was measured until then.
func Calibrate(ctx context.Context, cfg CalibrateConfig) (*calibrate.DeviceProfile, error) {
	found, err := Locate(ctx, cfg.Assets)
	if err != nil {
		return nil, err
	}
	if err := llamacpp.Load(found.Library.Path); err != nil {
		return nil, err
	}
	all, list, err := chosenDevices(cfg.Devices)
	if err != nil {
		return nil, err
	}
	store, err := assets.Open(cfg.Assets)
	if err != nil {
		return nil, err
	}
	if err := canKeep(filepath.Join(store.Root(), profileFolder)); err != nil {
		return nil, err
	}
	clock := llm.NewClock()
	host := probe.Host()
	host.Read(clock.Now(), probe.All)
	devices, err := openAll(ctx, found.Model.Path, clock, list, cfg.note)
	defer func() {
		for _, d := range devices {
			_ = d.Model.Close() // nothing is lost with it
		}
	}()
	if err != nil {
		return nil, err
	}
	if r := host.Read(clock.Now(), probe.All).Pressure.CPU; r.Outcome == probe.OK && r.Value > busyMachine {
		cfg.note("other programs use this processor (tasks waited %.0f %% of the time): figures will be too low, "+
			"measure again with --fresh on a quiet machine", 100*r.Value)
	}
	info := devices[0].Model.Info()
	keys := profileKeys(identity(devices[0].Model), info.Library, all)
	file := devicesFile(store.Root(), keys)
	p := cfg.begin(file, keys)
	p.Model, p.Library, p.Weights = info.Name, info.Library, info.Bytes
	for _, d := range devices { // rows of others may be there from before
		p.Devices = slices.DeleteFunc(p.Devices, func(x calibrate.DeviceRow) bool { return x.ID == d.Row.ID })
		p.Devices = append(p.Devices, d.Row)
	}
	frame := newFrameWork(clock)
	err = calibrate.Run(ctx, calibrate.Config{Devices: devices, Quick: cfg.Quick, Budget: cfg.Budget, Now: clock.Now,
		Energy: energyOf(host, clock), Frame: frame.run, Progress: cfg.Progress,
		Save: func(p *calibrate.DeviceProfile) error {
			p.Made = time.Now().Unix()
			data, err := calibrate.EncodeProfile(p)
			if err != nil {
				return err
			}
			return replaceFile(file, data)
		}}, p)
	return p, err
}

// canKeep says before minutes of measuring that what they give could not be kept.
func canKeep(folder string) error {
	trial := filepath.Join(folder, "trial")
	err := replaceFile(trial, make([]byte, roomWanted))
	if err != nil {
		return fmt.Errorf("local: a device profile can't be kept in %s, $%s names another folder: %w",
			filepath.Dir(folder), assets.EnvCache, err)
	}
	if err = os.Remove(trial); errors.Is(err, fs.ErrNotExist) {
		err = nil // another calibration that begins has removed it
	}
	return err
}

// roomWanted is more than the rows of two devices take.
const roomWanted = 16 << 10

func (cfg *CalibrateConfig) note(format string, args ...any) {
	if cfg.Note != nil {
		cfg.Note(fmt.Sprintf(format, args...))
	}
}

// begin is an interrupted profile that still holds, or an empty one.
func (cfg *CalibrateConfig) begin(file string, keys calibrate.Keys) *calibrate.DeviceProfile {
	fresh := &calibrate.DeviceProfile{Version: calibrate.ProfileVersion, Hashes: keys.Hashes()}
	if cfg.Fresh {
		return fresh
	}
	p, err := readDevices(file)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		cfg.note("measuring everything anew: %v", err)
	case len(p.Stale(keys)) > 0:
		cfg.note("measuring everything anew: %s changed", strings.Join(p.Stale(keys), ", "))
	case p.Complete:
		cfg.note("the figures of %s still hold, what they lack is measured; --fresh measures everything anew",
			time.Unix(p.Made, 0).Format(time.DateTime))
		return p
	default:
		cfg.note("going on with a run that was interrupted after %v", p.Took.Round(time.Second))
		return p
	}
	return fresh
}

// chosenDevices are all, and of these the ones named; the CPU first, since it
// computes the contexts that slow devices start from.
func chosenDevices(names []string) (all, list []llamacpp.Device, err error) {
	if all, err = llamacpp.Devices(); err != nil {
		return nil, nil, err
	}
	slices.SortStableFunc(all, func(a, b llamacpp.Device) int { return rank(a) - rank(b) })
	if len(names) == 0 {
		return all, all, nil
	}
	for _, n := range names {
		i := slices.IndexFunc(all, func(d llamacpp.Device) bool { return strings.EqualFold(d.ID, n) })
		if i < 0 {
			return nil, nil, fmt.Errorf("local: device %q: %w", n, llamacpp.ErrDevice)
		}
		if !slices.ContainsFunc(list, func(d llamacpp.Device) bool { return d.ID == all[i].ID }) {
			list = append(list, all[i])
		}
	}
	slices.SortStableFunc(list, func(a, b llamacpp.Device) int { return rank(a) - rank(b) })
	return all, list, nil
}

func rank(d llamacpp.Device) int {
	if d.Kind == llamacpp.CPU {
		return 0
	}
	return 1
}

// openAll opens the model on each device; one that fails is left out, unless all do.
func openAll(ctx context.Context, file string, clock llm.Clock, list []llamacpp.Device,
	note func(string, ...any)) ([]calibrate.Device, error) {
	var devices []calibrate.Device
	var failed error
	for _, d := range list {
		m, err := llamacpp.Open(ctx, file, llamacpp.Options{Device: d.ID, Clock: clock, Admit: Admit,
			Context: calibrateContext, MaxSequences: 2})
		if err != nil && ctx.Err() != nil {
			return devices, context.Cause(ctx)
		}
		if err != nil {
			note("%s is left out: %v", d.ID, err)
			failed = errors.Join(failed, err)
			continue
		}
		threads := []int{llamacpp.DefaultThreads()}
		if d.Kind == llamacpp.CPU {
			threads = measuredThreads(0)
		}
		devices = append(devices, calibrate.Device{Model: m, Threads: threads, Row: calibrate.DeviceRow{ID: d.ID,
			Name: d.Name, Registry: d.Registry, Kind: string(d.Kind), MemoryBytes: d.MemoryBytes}})
	}
	if len(devices) == 0 {
		return nil, failed
	}
	return append(devices, openHelped(ctx, file, clock, devices, note)...), nil
}

// openHelped opens one more copy on the CPU for each other device, which computes
// the products of large batches for it.
func openHelped(ctx context.Context, file string, clock llm.Clock, list []calibrate.Device,
	note func(string, ...any)) (helped []calibrate.Device) {
	own := list[0]
	if own.Row.Kind != string(llamacpp.CPU) {
		return nil
	}
	for _, d := range list[1:] {
		free := probe.Host().Read(0, probe.Due{Pressure: true}).Memory.Available
		if need := float64(own.Model.Info().Bytes) + scratchBytes; free.Outcome == probe.OK &&
			need > free.Value*memoryShare {
			note("%s as a helper of %s is not measured: a further copy of the weights needs %.0f MB, of %.0f MB free",
				d.Row.ID, own.Row.ID, need/1e6, free.Value/1e6)
			continue
		}
		m, err := llamacpp.Open(ctx, file, llamacpp.Options{Device: own.Row.ID, Offload: d.Row.ID, Clock: clock,
			Admit: Admit, Context: calibrateContext, MaxSequences: 2})
		if err != nil {
			note("%s as a helper of %s is left out: %v", d.Row.ID, own.Row.ID, err)
			continue
		}
		row := own.Row
		row.ID, row.Helper = row.ID+"+"+d.Row.ID, d.Row.ID
		helped = append(helped, calibrate.Device{Model: m, Threads: []int{llamacpp.DefaultThreads()}, Row: row})
	}
	return helped
}

// profileKeys name what a profile depends on here.
func profileKeys(model, library string, list []llamacpp.Device) calibrate.Keys {
	driver := ""
	for _, d := range list {
		driver += fmt.Sprintf("%s|%s|%s|%s\n", d.ID, d.Name, d.Registry, d.Kind)
	}
	return calibrate.Keys{
		Host: fmt.Sprintf("%s/%s, %d cores, %s", runtime.GOOS, runtime.GOARCH, runtime.NumCPU(),
			processorName(list)),
		Driver:  driver,
		Library: library + "; " + llamacpp.Processor(),
		Model:   model,
	}
}

func processorName(list []llamacpp.Device) string {
	for _, d := range list {
		if d.Kind == llamacpp.CPU {
			return d.Name
		}
	}
	return ""
}

// devicesFile is named by the model alone: where something else changes, the file
// is found, and seen to be stale.
func devicesFile(root string, k calibrate.Keys) string {
	name := sha256.Sum256([]byte(k.Model))
	return filepath.Join(root, profileFolder, fmt.Sprintf("devices-%x.lulldev", name[:8]))
}

func readDevices(file string) (*calibrate.DeviceProfile, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, calibrate.MaxProfile+1))
	if err != nil {
		return nil, err
	}
	p, err := calibrate.DecodeProfile(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return p, nil
}

// StoredProfile is the profile that Calibrate kept for the model in use, its
// file, and what has changed since. Without one the error wraps fs.ErrNotExist.
func StoredProfile(o assets.Options) (p *calibrate.DeviceProfile, file string, stale []string, err error) {
	o.Offline = true
	found, err := assets.Locate(o)
	if err != nil {
		return nil, "", nil, err
	}
	if err := llamacpp.Load(found.Library.Path); err != nil {
		return nil, "", nil, err
	}
	all, _, err := chosenDevices(nil)
	if err != nil {
		return nil, "", nil, err
	}
	print, err := llamacpp.FileFingerprint(found.Model.Path)
	if err != nil {
		return nil, "", nil, err
	}
	store, err := assets.Open(o)
	if err != nil {
		return nil, "", nil, err
	}
	keys := profileKeys(print, "llama.cpp "+llamacpp.Version, all)
	file = devicesFile(store.Root(), keys)
	if p, err = readDevices(file); err != nil {
		return nil, file, nil, err
	}
	return p, file, p.Stale(keys), nil
}

// PlacementFor is what Config.Placement wants, of a profile that is not stale:
// every other device than first, a cache of tokens on each, and half of the
// memory that is free now as the budget for all.
func PlacementFor(p *calibrate.DeviceProfile, first string, tokens int) *PlacementConfig {
	s := p.Placement()
	s.Tokens, s.ScratchBytes = tokens, scratchBytes
	m := probe.Host().Read(0, probe.All).Memory
	if m.Available.Outcome == probe.OK {
		s.Budget = uint64(m.Available.Value * memoryShare)
	}
	c := &PlacementConfig{Profile: &s}
	for _, d := range p.Devices {
		if d.Helper == "" && !strings.EqualFold(d.ID, first) && !(first == "" && d.Kind == string(llamacpp.CPU)) {
			c.Devices = append(c.Devices, d.ID)
		}
	}
	return c
}

const (
	// memoryShare leaves the other half to the game that is about to load.
	memoryShare = 0.5

	// scratchBytes is a context's compute buffers at 256 tokens a batch: some tens
	// of MB for small models, more with large vocabularies.
	scratchBytes = 128 << 20
)

// energyOf reads the energy counters of the processor packages.
func energyOf(source probe.Source, clock llm.Clock) func() (float64, string) {
	return func() (float64, string) {
		r := source.Read(clock.Now(), probe.Due{Heat: true}).Energy
		if r.Outcome != probe.OK {
			return 0, strings.TrimSuffix(r.Outcome.String()+": "+r.Detail, ": ")
		}
		return r.Value, ""
	}
}

// frameWork is the work of a synthetic frame: arithmetic, and a walk over more
// memory than caches hold, since that is what devices get in each other's way by.
type frameWork struct {
	clock  llm.Clock
	memory []uint64
	at     int
	sum    uint64
}

const (
	// frameMemory is larger than the last cache of most machines, frameStretch
	// what one frame walks: 8 MB, a millisecond or two. frameSums is about as long.
	frameMemory, frameStretch = 8 << 20, 1 << 20
	frameSums                 = 1 << 20
)

func newFrameWork(clock llm.Clock) *frameWork {
	f := &frameWork{clock: clock, memory: make([]uint64, frameMemory)}
	for i := range f.memory {
		f.memory[i] = uint64(i)
	}
	return f
}

// run does one frame on the calling goroutine.
func (f *frameWork) run() time.Duration {
	from := f.clock.Now()
	for range frameStretch {
		f.sum += f.memory[f.at]
		if f.at++; f.at == len(f.memory) {
			f.at = 0
		}
	}
	x := f.sum | 1
	for range frameSums {
		x = x*6364136223846793005 + 1442695040888963407
	}
	f.sum = x
	return time.Duration(f.clock.Now() - from)
}
