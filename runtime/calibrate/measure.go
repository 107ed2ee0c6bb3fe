package calibrate

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/lull-npc/lull/runtime/llm"
)

// Device is a model open on one device.
type Device struct {
	Row     DeviceRow
	Model   llm.Model
	Threads []int // to be measured; one entry where threads mean nothing
}

// Config says what to measure. Devices, Now and Frame are required.
type Config struct {
	Devices []Device
	Quick   bool
	Budget  time.Duration // for all; 0 is DefaultBudget, or QuickBudget
	Now     func() int64  // monotonic ns

	// Energy gives the J that the processor has used since some moment, or says
	// why it can't. nil: unknown.
	Energy func() (joules float64, why string)

	// Frame does the work of one frame of a game, and says how long that took.
	Frame func() time.Duration

	// Progress is told how many tasks are done, and the name of the next.
	Progress func(done, of int, task string)

	// Save keeps the profile after each task, so that an interrupted run goes
	// on; nil: nowhere.
	Save func(*DeviceProfile) error
}

const (
	// DefaultBudget is three minutes less what loading takes. QuickBudget holds a
	// figure of everything, of fewer batches.
	DefaultBudget = 165 * time.Second
	QuickBudget   = 30 * time.Second

	// batchesMost is enough for quartiles, batchesLeast for a median.
	batchesMost, batchesLeast = 9, 3

	// energyTime is how long a stage runs for its energy: counters step by the
	// millisecond, and clocks settle in half a second.
	energyTime = time.Second

	// framesEach is how many frames of each turn of an A/B comparison: a third
	// of a second at 60 Hz. framesWarm come before and are not counted.
	framesEach, framesWarm = 20, 3

	// turnsEach is how often alone and beside take turns.
	turnsEach = 3

	// tooLong is how long one batch may be expected to take, as a share of the
	// budget. Beyond it a task is left out and named.
	tooLong = 0.1
)

var (
	pasts       = []int{32, 256, 1024}
	quickPasts  = []int{32, 256}
	chunks      = []int{16, 64, 256}
	quickChunks = []int{64}
	widths      = []int{2, 4, 8}
)

// verifyPast is the context in which T(B) is measured.
const verifyPast = 64

// task is one thing to measure. Its name is what a resumed run knows it by.
type task struct {
	name string
	done func(*DeviceProfile) bool
	run  func(context.Context) error
}

// run is a calibration that goes on.
type run struct {
	cfg    Config
	p      *DeviceProfile
	began  int64
	budget time.Duration
	spans  map[string]time.Duration // per token, of device and stage, the last measured
	batch  llm.Batch
	states map[int][]byte // saved sequences by length
}

// Run measures what p lacks and fills it in. On an error, a cancelled ctx
// included, p holds what was measured until then.
func Run(ctx context.Context, cfg Config, p *DeviceProfile) error {
	if len(cfg.Devices) == 0 || cfg.Now == nil || cfg.Frame == nil {
		return errors.New("calibrate: Config wants Devices, Now and Frame")
	}
	if cfg.Budget <= 0 {
		if cfg.Budget = DefaultBudget; cfg.Quick {
			cfg.Budget = QuickBudget
		}
	}
	r := &run{cfg: cfg, p: p, began: cfg.Now(), budget: cfg.Budget, spans: map[string]time.Duration{},
		states: map[int][]byte{}}
	for _, x := range p.Stages { // of an earlier run
		if p.helped(x.Device) && x.Width >= HelperLeast {
			continue
		}
		r.spans[x.Device+spanOf(x.Stage, x.Threads)] = time.Duration(float64(time.Second) / x.PerSecond)
	}
	// A batch may take seconds: Ctrl-C ends the one that runs.
	stopped := make(chan struct{})
	unused := context.AfterFunc(ctx, func() {
		defer close(stopped)
		for _, d := range cfg.Devices {
			d.Model.Stop()
		}
	})
	defer func() {
		if !unused() {
			<-stopped
		}
		for _, d := range cfg.Devices {
			d.Model.Resume()
		}
	}()
	return r.all(ctx)
}

// all runs the tasks that are not done.
func (r *run) all(ctx context.Context) error {
	cfg, p := &r.cfg, r.p
	before := p.Took
	p.Skipped, p.Quick = nil, cfg.Quick && (p.Quick || len(p.Stages) == 0)
	tasks := r.tasks()
	for i, t := range tasks {
		if cfg.Progress != nil {
			cfg.Progress(i, len(tasks), t.name)
		}
		if t.done(p) {
			continue
		}
		if err := context.Cause(ctx); err != nil {
			return err
		}
		err := t.run(ctx)
		var skip *skipped
		switch {
		case errors.As(err, &skip):
			p.Skipped = append(p.Skipped, SkippedRow{t.name, skip.why})
		case err != nil && ctx.Err() != nil:
			return context.Cause(ctx)
		case err != nil:
			// One device or task that fails costs the others nothing.
			p.Skipped = append(p.Skipped, SkippedRow{t.name, err.Error()})
		}
		p.Took = before + time.Duration(cfg.Now()-r.began)
		if cfg.Save != nil {
			if err := cfg.Save(p); err != nil {
				return err
			}
		}
	}
	p.Complete = true
	if cfg.Progress != nil {
		cfg.Progress(len(tasks), len(tasks), "")
	}
	if cfg.Save != nil {
		return cfg.Save(p)
	}
	return nil
}

// skipped is why a task was left out.
type skipped struct{ why string }

func (s *skipped) Error() string { return s.why }

// left is what remains of the budget.
func (r *run) left() time.Duration { return r.budget - time.Duration(r.cfg.Now()-r.began) }

// tasks lists everything, what decides most first: stages, hand-over and
// interference, then what refines.
func (r *run) tasks() []task {
	var list []task
	lengths, sizes := pasts, chunks
	if r.cfg.Quick {
		lengths, sizes = quickPasts, quickChunks
	}
	for _, past := range lengths {
		for i := range r.cfg.Devices {
			d := &r.cfg.Devices[i]
			if past+slices.Max(sizes) > d.Model.Info().Context {
				continue
			}
			for _, threads := range d.Threads {
				list = append(list, r.stageTask(d, Decode, past, 1, threads))
			}
			for _, width := range sizes {
				if width > d.Model.Info().MaxBatch {
					continue
				}
				for _, threads := range d.Threads {
					if r.cfg.Quick && threads != slices.Max(d.Threads) {
						continue
					}
					list = append(list, r.stageTask(d, Prefill, past, width, threads))
				}
			}
		}
		list = append(list, r.handoverTasks(past)...)
		for i := range r.cfg.Devices {
			for _, stage := range []string{Decode, Prefill} {
				if past == lengths[0] {
					list = append(list, r.interferenceTask(&r.cfg.Devices[i], stage))
				}
			}
		}
	}
	for i := range r.cfg.Devices {
		d := &r.cfg.Devices[i]
		if d.Row.Helper != "" { // layers and small batches are those of the device itself
			continue
		}
		for _, threads := range d.Threads {
			list = append(list, r.layerTask(d, threads))
			if !r.cfg.Quick {
				list = append(list, r.verifyTask(d, threads))
			}
		}
	}
	return list
}

func (r *run) stageTask(d *Device, stage string, past, width, threads int) task {
	name := fmt.Sprintf("%s %s after %d tokens, %d wide, %d threads", d.Row.ID, stage, past, width, threads)
	return task{name: name,
		done: func(p *DeviceProfile) bool {
			return slices.ContainsFunc(p.Stages, func(x StageRow) bool {
				return x.Device == d.Row.ID && x.Stage == stage && x.Past == past && x.Width == width &&
					x.Threads == threads
			})
		},
		run: func(ctx context.Context) error { return r.stage(ctx, d, stage, past, width, threads) }}
}

// stage times batches of one width after a context, and their energy.
func (r *run) stage(ctx context.Context, d *Device, stage string, past, width, threads int) error {
	if err := r.affordable(d, stage, width, threads); err != nil {
		return err
	}
	s, err := r.primed(ctx, d, past)
	if err != nil {
		return err
	}
	defer s.Close()
	if err := r.taste(ctx, d, s, stage, width, threads); err != nil {
		return err
	}
	times, err := r.times(ctx, d, s, width, threads, false)
	if err != nil {
		return err
	}
	mid := quantile(times, 0.5)
	row := StageRow{Device: d.Row.ID, Stage: stage, Past: past, Width: width, Threads: threads, Batches: len(times),
		PerSecond: float64(width) / mid.Seconds(),
		Spread:    float64(quantile(times, 0.75)-quantile(times, 0.25)) / float64(mid)}
	r.spans[spanKey(d, stage, width, threads)] = mid / time.Duration(width)
	if row.Joules, r.p.Energy, err = r.energy(ctx, d, s, width, threads); err != nil {
		return err
	}
	r.p.Stages = append(r.p.Stages, row)
	return nil
}

// tasted is how many tokens the first batch of a stage has, by which it is seen
// how long the others will take: a device may need a second for each.
const tasted = 4

// taste runs a small batch of a stage that has not run in that setting before.
func (r *run) taste(ctx context.Context, d *Device, s llm.Sequence, stage string, width, threads int) error {
	key := spanKey(d, stage, width, threads)
	if _, known := r.spans[key]; known || width <= tasted || helps(d, stage, width) {
		return nil // a small batch would not go to a helper: its own figures have to do
	}
	took, err := r.once(ctx, d, s, tasted, threads, false)
	if err == nil {
		took, err = r.once(ctx, d, s, tasted, threads, false) // the first one made kernels
	}
	if err != nil {
		return err
	}
	r.spans[key] = took / tasted
	return r.affordable(d, stage, width, threads)
}

// helps reports whether a batch goes to the device's helper.
func helps(d *Device, stage string, width int) bool {
	return d.Row.Helper != "" && stage == Prefill && width >= HelperLeast
}

// spanKey is what a batch is expected to take by: where it goes to a helper, what
// the helper itself took.
func spanKey(d *Device, stage string, width, threads int) string {
	if helps(d, stage, width) {
		return d.Row.Helper + spanOf(stage, threads)
	}
	return d.Row.ID + spanOf(stage, threads)
}

func spanOf(stage string, threads int) string { return fmt.Sprintf(" %s %d", stage, threads) }

// BudgetOver begins the reason of what a further run will measure.
const BudgetOver = "the budget is over"

// most is the longest that one batch may be expected to take.
func (r *run) most() time.Duration {
	return max(0, min(time.Duration(tooLong*float64(r.budget)), r.left()))
}

// affordable refuses a batch that would take a tenth of the budget, or what is left
// of it, by what the last one took.
func (r *run) affordable(d *Device, stage string, width, threads int) error {
	if r.left() <= 0 {
		return &skipped{fmt.Sprintf("%s, of %v", BudgetOver, r.budget)}
	}
	would := r.spans[spanKey(d, stage, width, threads)] * time.Duration(width)
	if most := r.most(); would > most {
		return &skipped{fmt.Sprintf("it would take %v, more than %v", would.Round(time.Second),
			most.Round(time.Second))}
	}
	return nil
}

// times runs batches of a width and takes them back. The first is not counted:
// kernels are made and caches filled.
func (r *run) times(ctx context.Context, d *Device, s llm.Sequence, width, threads int, all bool) ([]time.Duration,
	error) {
	var out []time.Duration
	share := r.left() / 8
	began := r.cfg.Now()
	for i := 0; i <= batchesMost; i++ {
		took, err := r.once(ctx, d, s, width, threads, all)
		if err != nil {
			return nil, err
		}
		if i > 0 || took > share {
			out = append(out, took)
		}
		if gone := time.Duration(r.cfg.Now() - began); len(out) >= batchesLeast && gone > share/4 || gone > share {
			break
		}
	}
	return out, nil
}

// once runs one batch and truncates to what was before.
func (r *run) once(ctx context.Context, d *Device, s llm.Sequence, width, threads int, all bool) (time.Duration,
	error) {
	if ctx.Err() != nil {
		return 0, context.Cause(ctx)
	}
	past := len(s.Tokens())
	r.fill(s, width, all)
	from := r.cfg.Now()
	if _, err := d.Model.Decode(&r.batch, llm.Grant{Threads: threads}); err != nil {
		return 0, err
	}
	took := time.Duration(r.cfg.Now() - from)
	if err := s.Truncate(past); err != nil || len(s.Tokens()) != past {
		return 0, &skipped{"the model can't take tokens back"}
	}
	return max(took, 1), nil
}

func (r *run) fill(s llm.Sequence, width int, all bool) {
	r.batch.Reset()
	past := len(s.Tokens())
	for i := range width {
		r.batch.Add(s, filler(past+i), all || i == width-1)
	}
}

// filler is some token, the same at the same place: what is computed does not
// change how long it takes.
func filler(at int) llm.Token { return llm.Token(40 + at%80) }

// primed opens a sequence of that length: from the state that another device
// has computed, if it has, since on a slow one it would take minutes.
func (r *run) primed(ctx context.Context, d *Device, past int) (llm.Sequence, error) {
	s, err := d.Model.NewSequence()
	if err != nil {
		return nil, err
	}
	if state := r.states[past]; state != nil && s.Load(state) == nil && len(s.Tokens()) == past {
		return s, nil
	}
	chunk := min(d.Model.Info().MaxBatch, 64)
	for len(s.Tokens()) < past && err == nil {
		n := min(chunk, past-len(s.Tokens()))
		per := r.spans[spanKey(d, Prefill, n, slices.Max(d.Threads))]
		if per*time.Duration(past) > r.budget/4 {
			err = &skipped{"the context before it would take too long to compute"}
			break
		}
		r.fill(s, n, false)
		if ctx.Err() != nil {
			err = context.Cause(ctx)
			break
		}
		_, err = d.Model.Decode(&r.batch, llm.Grant{})
	}
	if err == nil && r.states[past] == nil {
		if r.states[past], err = s.Save(nil); err == nil {
			r.p.KVBytes = uint64(len(r.states[past]) / past)
		}
	}
	if err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// energy is the J a token, 0 with the reason where it is unknown.
func (r *run) energy(ctx context.Context, d *Device, s llm.Sequence, width, threads int) (float64, string, error) {
	if r.cfg.Energy == nil {
		return 0, "nothing measures it", nil
	}
	before, why := r.cfg.Energy()
	if why != "" {
		return 0, why, nil
	}
	tokens := 0
	for from := r.cfg.Now(); time.Duration(r.cfg.Now()-from) < energyTime; tokens += width {
		if _, err := r.once(ctx, d, s, width, threads, false); err != nil {
			return 0, "", err
		}
	}
	after, why := r.cfg.Energy()
	if why == "" && after <= before {
		why = "the counter stood still"
	}
	if why != "" {
		return 0, why, nil
	}
	return (after - before) / float64(tokens), "ok", nil
}

func quantile(times []time.Duration, q float64) time.Duration {
	if len(times) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(times))
	return sorted[int(q*float64(len(sorted)-1)+0.5)]
}
