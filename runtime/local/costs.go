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
	"slices"
	"time"

	"github.com/lull-npc/lull/internal/wholefile"
	"github.com/lull-npc/lull/runtime/assets"
	"github.com/lull-npc/lull/runtime/llamacpp"
	"github.com/lull-npc/lull/runtime/llm"
	"github.com/lull-npc/lull/runtime/speculative"
)

const (
	// measureBudget is 1.2 s for each number of threads: six rounds of a model
	// that decodes a token in 12 ms, of which a median is good to some percent.
	measureBudget = 1200 * time.Millisecond

	// measureLimit is 10 s for all: what a player waits once, on a busy machine.
	// Then nothing is guessed until the next start.
	measureLimit = 10 * time.Second

	profileFolder = "device-profile"

	// maxProfileBytes is above what speculative.Decode takes.
	maxProfileBytes = 1 << 20
)

// findCosts says what verifying costs here: as given, as kept, or as measured.
func (cfg *Config) findCosts(ctx context.Context, target, draft llm.Model) (speculative.Costs, error) {
	known := len(cfg.Costs.Rows) > 0 || cfg.OpenModel != nil || cfg.OpenDraft != nil
	if known || cfg.Spec.Speculation == SpeculateFixed {
		return cfg.Costs, nil
	}
	store, err := assets.Open(cfg.Assets)
	if err != nil {
		return speculative.Costs{}, err
	}
	p := profile{key: cfg.key(target, draft), threads: measuredThreads(cfg.Spec.Threads), low: cfg.Spec.LowPriority}
	p.file = p.path(store.Root())
	costs, why := p.read()
	if why == nil {
		return costs, nil
	}
	if !errors.Is(why, fs.ErrNotExist) {
		cfg.note("measuring anew what guesses cost here: %v", why)
	}
	costs, err = cfg.measure(ctx, target, draft, p.threads)
	switch {
	case ctx.Err() != nil:
		return speculative.Costs{}, context.Cause(ctx)
	case err != nil:
		cfg.note("no tokens are guessed ahead until the next start: %v", err)
		return speculative.Costs{}, nil
	}
	if err := p.write(costs); err != nil {
		cfg.note("what guesses cost here is measured again at the next start: %v", err)
	}
	return costs, nil
}

func (cfg *Config) note(format string, args ...any) {
	if cfg.Note != nil {
		cfg.Note(fmt.Sprintf(format, args...))
	}
}

// measure runs on a thread like the worker's.
func (cfg *Config) measure(ctx context.Context, target, draft llm.Model, threads []int) (speculative.Costs, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, measureLimit,
		fmt.Errorf("%w: it took longer than %v", speculative.ErrBusy, measureLimit))
	defer cancel()
	cfg.tell("speculation", 0)
	var costs speculative.Costs
	err := <-cfg.likeWorker(func() (err error) {
		costs, err = speculative.Measure(ctx, target, speculative.MeasureConfig{
			Threads: threads, Draft: draft, Budget: measureBudget,
			Progress: func(done, of int) { cfg.tell("speculation", float64(done)/float64(of)) },
		})
		return err
	})
	return costs, err
}

// measuredThreads are the numbers of threads to measure with: those between
// which the scheduler moves.
func measuredThreads(pool int) []int {
	if pool == 0 {
		pool = llamacpp.DefaultThreads()
	}
	return slices.Compact([]int{1, max(1, pool/2), pool})
}

// key names what the costs belong to.
func (cfg *Config) key(target, draft llm.Model) speculative.Key {
	info := target.Info()
	return speculative.Key{
		Model: identity(target), Draft: identity(draft), Library: info.Library,
		CPU: fmt.Sprintf("%s; %s; low priority %v", info.Device, llamacpp.Processor(), cfg.Spec.LowPriority),
	}
}

// identity is a hash of a model's file, or what else is known of it.
func identity(m llm.Model) string {
	if m == nil {
		return ""
	}
	if f, ok := m.(interface{ Fingerprint() string }); ok {
		return f.Fingerprint()
	}
	info := m.Info()
	return fmt.Sprintf("%s, %d bytes", info.Name, info.Bytes)
}

// profile is the part of the device profile that holds the costs of one pair of
// models: a file of its own, so that two programs with two models do not undo
// each other's.
type profile struct {
	file    string
	key     speculative.Key
	threads []int
	low     bool // measured at low priority: policies that differ in it run in turn
}

// path depends on the models and the priority alone: where library or processor
// change, the file is found, is seen to be stale, and is replaced.
func (p profile) path(root string) string {
	name := sha256.Sum256(fmt.Appendf(nil, "%s\n%s\n%v", p.key.Model, p.key.Draft, p.low))
	return filepath.Join(root, profileFolder, fmt.Sprintf("speculation-%x.msgpack", name[:8]))
}

// read gives the costs that are kept, or says why they are of no use;
// fs.ErrNotExist is that there are none.
func (p profile) read() (speculative.Costs, error) {
	f, err := os.Open(p.file)
	if err != nil {
		return speculative.Costs{}, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxProfileBytes))
	if err != nil {
		return speculative.Costs{}, err
	}
	costs, err := speculative.Decode(data, p.key)
	if err != nil {
		return costs, fmt.Errorf("%s: %w", p.file, err)
	}
	for _, n := range p.threads {
		if !slices.ContainsFunc(costs.Rows, func(r speculative.Row) bool { return r.Threads == n }) {
			return costs, fmt.Errorf("%s: %w: they are not of %d threads", p.file, speculative.ErrProfile, n)
		}
	}
	return costs, nil
}

// write replaces the file.
func (p profile) write(c speculative.Costs) error {
	data, err := speculative.Encode(nil, p.key, c)
	if err != nil {
		return err
	}
	return replaceFile(p.file, data)
}

// replaceFile writes a file of the device profile, and its folder if need be, so
// that another program reads what was there or what is new.
func replaceFile(name string, data []byte) error {
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}
	return wholefile.Write(name, data, 0o644)
}
