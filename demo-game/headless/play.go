package headless

import (
	"context"
	"errors"
	"io"
	"runtime"
	"time"

	"github.com/lull-npc/lull/demo-game/data"
	"github.com/lull-npc/lull/demo-game/input"
	"github.com/lull-npc/lull/demo-game/meter"
	"github.com/lull-npc/lull/demo-game/play"
	"github.com/lull-npc/lull/demo-game/rules"
	"github.com/lull-npc/lull/demo-game/talk"
	"github.com/lull-npc/lull/demo-game/ui"
	"github.com/lull-npc/lull/harness"
	"github.com/lull-npc/lull/harness/load"
	"github.com/lull-npc/lull/harness/metrics"
	"github.com/lull-npc/lull/harness/page"
	"github.com/lull-npc/lull/runtime/llm"
)

// Period is the time of one frame.
const Period = time.Second / rules.TicksPerSecond

// wakeMost is how long a run waits for its voices before it plays on without.
const wakeMost = 120 * time.Second

// Options say what to play.
type Options struct {
	Script   *input.Script
	Name     string   // of the script
	Policies []string // names of package harness
	Repeat   int      // of each; 0: 1
	Frames   int64    // of the script that are played; 0: all
	Open     func(g *data.Game) talk.Opener
	Virtual  bool // time is virtual: Open's stages compute on the game thread
	Files    play.Files
	Lang     string
	Version  string
	Said     func(policy string, s play.Spoken) // is told each line when it is said; nil: nobody
}

// Report is a run object of package harness with what was said.
type Report struct {
	*harness.Report
	Script     string        `json:"script"`
	Start      *Start        `json:"start,omitempty"` // of the first run; nil: not measured
	Transcript []play.Spoken `json:"transcript"`      // of the last run of the last policy
}

// Play plays all policies in turn. When ctx ends it returns what there is, with
// the cause.
func Play(ctx context.Context, o Options) (*Report, error) {
	if o.Script == nil || len(o.Policies) == 0 || o.Open == nil {
		return nil, errors.New("headless: want a Script, Policies and Open")
	}
	g, err := data.Load()
	if err != nil {
		return nil, err
	}
	if o.Script, err = o.Script.Measured(); err != nil {
		return nil, err
	}
	r := NewReport("demo-game", o.Name, o.Version, o.Virtual)
	if o.Virtual {
		r.Host.Model = "scripted"
	}
	for repeat := 1; repeat <= max(o.Repeat, 1); repeat++ {
		for _, policy := range o.Policies {
			p, err := harness.FindPolicy(policy)
			if err != nil {
				return nil, err
			}
			r.Policies[p.Name] = p.Description
			x := &run{o: &o, g: g, policy: policy, repeat: repeat}
			err = x.play(ctx)
			if x.game != nil && x.meter != nil {
				done, failed, ttft := x.game.Replies()
				r.Runs = append(r.Runs, x.meter.Run(policy, repeat, done, failed, ttft))
				r.Transcript = x.game.Transcript()
				if x.model.Name != "" && !o.Virtual {
					r.Host.Model, r.Host.Llama = x.model.Name, x.model.Library
				}
			}
			if err != nil {
				r.Interrupted = ctx.Err() != nil
				return r, err
			}
		}
	}
	r.Setting.Repeat = max(o.Repeat, 1)
	r.Setting.Seconds = float64(o.Script.Length()) / rules.TicksPerSecond
	r.Conclude(nil, nil)
	return r, nil
}

// NewReport is a report without runs yet.
func NewReport(scenario, script, version string, virtual bool) *Report {
	ms := float64(Period) / 1e6
	return &Report{Script: script, Transcript: []play.Spoken{}, Report: &harness.Report{
		Scenario: scenario, Description: "The village game, played by the script " + script + ".", Simulated: virtual,
		Host:    harness.Host{Cores: runtime.NumCPU(), OS: runtime.GOOS + "/" + runtime.GOARCH, Lull: version},
		Setting: harness.Setting{TargetHz: rules.TicksPerSecond, PeriodMs: ms, LineMs: ms, Preset: "balanced"},
		Runs:    []harness.Run{}, Summary: map[string]harness.Summary{}, Policies: map[string]string{},
		IdleRates: []harness.IdleRate{}, Objectives: []harness.Verdict{}, Notes: []string{}}}
}

// run is one policy playing the script once.
type run struct {
	o      *Options
	g      *data.Game
	policy string
	repeat int

	game   *play.Game
	voices *talk.Voices
	meter  *meter.Meter
	model  llm.Info // what spoke
	clock  llm.Clock
	timer  *load.Timer
	grid   *metrics.Grid
	id     uint64
	told   int // lines of the transcript
	canvas ui.Canvas
}

func (x *run) play(ctx context.Context) (err error) {
	if x.meter, err = meter.New(Period); err != nil {
		return err
	}
	x.voices, err = talk.New(talk.Config{Game: x.g, Open: x.o.Open(x.g), Direct: x.o.Virtual, Observe: x.meter.Observe})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, x.voices.Close()) }()
	if err := x.clocks(); err != nil {
		return err
	}
	defer func() {
		if x.timer != nil {
			x.timer.Close()
		}
	}()
	x.game = play.New(play.Config{Game: x.g, Voices: x.voices, Files: x.o.Files, Lang: x.o.Lang, Policy: x.policy})
	if err := x.wake(ctx); err != nil {
		return err
	}
	x.model = x.voices.Model()
	most := x.o.Frames
	for tick := int64(0); !x.game.Ended() && !x.game.Quit() && (most == 0 || tick < most); tick++ {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		in := x.o.Script.At(tick)
		x.frame(&in, "")
		for said := x.game.Transcript(); x.told < len(said); x.told++ {
			if x.o.Said != nil {
				x.o.Said(x.policy, said[x.told])
			}
		}
	}
	return x.voices.Err()
}

func (x *run) clocks() error {
	if x.o.Virtual {
		x.clock = &virtual{}
	} else {
		runtime.LockOSThread()
		x.clock = llm.NewClock()
		timer, err := load.NewTimer(x.clock)
		if err != nil {
			return err
		}
		x.timer = timer
	}
	grid, err := metrics.NewGrid(time.Duration(x.clock.Now()), Period, Period)
	x.grid = grid
	return err
}

// wake shows the title until the voices are there.
func (x *run) wake(ctx context.Context) error {
	for range int(wakeMost / Period) {
		if _, opening := x.voices.Opening(); !opening {
			break
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		x.frame(&input.Frame{}, metrics.Loading)
	}
	return x.voices.Err()
}

// frame plays one tick on the grid. phase is the screen's, unless named.
func (x *run) frame(in *input.Frame, phase string) {
	x.sleepUntil(int64(x.grid.Start()))
	x.id++
	before := x.voices.Stats(false)
	begin := x.clock.Now()
	x.voices.FrameBegin(x.id, x.grid.Target(), begin)
	began := x.clock.Now()
	x.game.Tick(in)
	x.canvas.Reset()
	ui.Show(&x.canvas, x.game.View())
	worked := x.clock.Now()
	x.voices.FrameEnd(x.id, int64(x.grid.Deadline()), worked)
	after := x.voices.Stats(false)
	if phase == "" {
		phase = x.game.Phase().String()
	}
	end := x.clock.Now()
	f := meter.Frame{Frame: x.grid.Finish(time.Duration(end), phase),
		Ours:     time.Duration(began - begin + end - worked),
		Ran:      before.Ran || after.Ran || before.Groups != after.Groups,
		Replying: after.Replying}
	x.meter.Add(f, after.Decision, after.Steered)
}

func (x *run) sleepUntil(at int64) {
	if x.timer != nil {
		x.timer.SleepUntil(at)
		return
	}
	x.clock.WaitUntil(at, nil)
}

// virtual is time that passes when somebody waits for it.
type virtual struct{ now int64 }

// Now implements llm.Clock.
func (v *virtual) Now() int64 { return v.now }

// WaitUntil implements llm.Clock.
func (v *virtual) WaitUntil(t int64, _ <-chan struct{}) { v.now = max(v.now, t) }

// WriteText says what a report found, as `lull harness run` does, and what was
// said.
func (r *Report) WriteText(w io.Writer) error {
	if err := r.Report.WriteText(w); err != nil {
		return err
	}
	p := page.NewPrinter(w)
	if s := r.Start; s != nil {
		p.Line("%s", s)
	}
	if len(r.Transcript) > 0 {
		p.Line("\nwhat was said:")
	}
	for _, s := range r.Transcript {
		p.Line("%6.1f s  %-8s %-6s %s", s.Seconds, s.NPC, s.Kind, s.Text)
	}
	return p.Err()
}
