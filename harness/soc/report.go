package soc

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"

	"github.com/lull-npc/lull/harness/metrics"
	"github.com/lull-npc/lull/harness/page"
	"github.com/lull-npc/lull/scheduler"
)

// Host says what the numbers are of.
type Host struct {
	CPU   string `json:"cpu"`
	Cores int    `json:"cores"`
	OS    string `json:"os"`
	Model string `json:"model"`
	Llama string `json:"llama"`
	Lull  string `json:"lull"`
}

// Summary holds medians and quartiles over the runs of a policy.
type Summary struct {
	Jank   metrics.Spread  `json:"jank_rate"`
	Tokens metrics.Spread  `json:"tokens_per_s"`
	Hitch  metrics.Spread  `json:"hitch_ms_per_s"`
	TTFT   *metrics.Spread `json:"ttft_ms_p50"`
	Joule  metrics.Spread  `json:"tokens_per_joule"`
}

// Report holds simulated runs: the keys of a measured report, and those that only
// a simulation knows.
type Report struct {
	Scenario  string             `json:"scenario"`
	Seed      uint64             `json:"seed"`
	Simulated bool               `json:"simulated"` // always true
	Host      Host               `json:"host"`
	Idle      *float64           `json:"idle_tokens_per_s"`  // vanilla without a game
	IdleShare *float64           `json:"idle_share"`         // of the time in which native's CPU does not work
	Limit     *float64           `json:"limit_tokens_per_s"` // their product
	Runs      []Run              `json:"runs"`
	Summary   map[string]Summary `json:"summary"`
	Pareto    []string           `json:"pareto"` // no other has less jank and more tokens/s
	Goals     []Goal             `json:"goals"`  // of lull; none where lull or native did not play
	Notes     []string           `json:"notes"`

	period, length float64
	preset         string
	without        string
}

// Plan says what to simulate and how often.
type Plan struct {
	Options
	Policies []Policy
	Repeat   int
	Lull     string // version

	Progress func(done, of int) // nil: nobody watches
}

// maxRepeat bounds the runs of one policy.
const maxRepeat = 1000

// Play simulates each policy in turn, with seeds that follow one another.
func Play(ctx context.Context, p Plan) (*Report, error) {
	if err := p.validate(); err != nil {
		return nil, err
	}
	if len(p.Policies) == 0 || p.Repeat < 1 || p.Repeat > maxRepeat {
		return nil, fmt.Errorf("%w: %d policies, %d repeats: want one or more, and 1 … %d", ErrPolicy, len(p.Policies),
			p.Repeat, maxRepeat)
	}
	r := &Report{
		Scenario: p.App.Name, Seed: p.Seed, Simulated: true, Summary: map[string]Summary{}, Runs: []Run{},
		Host: Host{CPU: p.Chip.Name + ", simulated", Cores: int(p.Chip.CPU.Cores.Value), OS: "simulated",
			Model: p.Target.Name + " with draft " + p.Draft.Name, Llama: "simulated", Lull: p.Lull},
		Notes:  []string{"simulated: no phone was measured; parameters say where they come from"},
		period: 1e3 / p.App.Hz.Value, length: p.Seconds, preset: p.Preset.String(), without: p.Without.String(),
	}
	for repeat := range p.Repeat {
		if err := r.round(ctx, &p, repeat); err != nil {
			return nil, err
		}
	}
	r.summarise()
	r.Goals = r.goals()
	return r, r.idle(&p)
}

// round plays each policy once, and the game alone to compare with.
func (r *Report) round(ctx context.Context, p *Plan, repeat int) error {
	o := p.Options
	o.Seed = p.Seed + uint64(repeat)
	o.Policy = Policy{Name: PolicyNative}
	native, err := Simulate(o)
	if err != nil {
		return err
	}
	for i, policy := range p.Policies {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		run := *native
		if policy.model {
			o.Policy = policy
			o.Without, o.Preset = 0, p.Preset
			if policy.tuned {
				o.Without = p.Without
			}
			if policy.preset != nil {
				o.Preset = *policy.preset
			}
			got, err := Simulate(o)
			if err != nil {
				return fmt.Errorf("policy %s: %w", policy.Name, err)
			}
			run = *got
		}
		run.Repeat = repeat + 1
		run.against(native)
		r.Runs = append(r.Runs, run)
		if p.Progress != nil {
			p.Progress(repeat*len(p.Policies)+i+1, p.Repeat*len(p.Policies))
		}
	}
	return nil
}

// idleSeconds is what is played without a game.
const idleSeconds = 20

// idle simulates the plain engine beside a game that does nothing.
func (r *Report) idle(p *Plan) error {
	o := p.Options
	plain, err := findPolicy("vanilla")
	o.App, o.Policy, o.Seconds, o.Without = Idle(p.App), plain, idleSeconds, 0
	if err != nil {
		return err
	}
	got, err := Simulate(o)
	if err != nil {
		return err
	}
	share := 0.0
	for _, part := range p.App.Parts {
		share = max(share, part.Load.CPU.Value/r.period)
	}
	share = six(1 - min(1, share))
	limit := six(mul(got.TokensPerSecond, share))
	r.Idle, r.IdleShare, r.Limit = &got.TokensPerSecond, &share, &limit
	return nil
}

func (r *Report) summarise() {
	by := map[string][]Run{}
	for _, run := range r.Runs {
		by[run.Policy] = append(by[run.Policy], run)
	}
	for name, runs := range by {
		spread := func(f func(*Run) *float64) *metrics.Spread {
			var xs []float64
			for i := range runs {
				if x := f(&runs[i]); x != nil {
					xs = append(xs, *x)
				}
			}
			if len(xs) == 0 {
				return nil
			}
			s := metrics.Quartiles(xs)
			return &metrics.Spread{Median: six(s.Median), Q1: six(s.Q1), Q3: six(s.Q3)}
		}
		r.Summary[name] = Summary{
			Jank:   *spread(func(r *Run) *float64 { return &r.JankRate }),
			Tokens: *spread(func(r *Run) *float64 { return &r.TokensPerSecond }),
			Hitch:  *spread(func(r *Run) *float64 { return &r.HitchMsPerS }),
			Joule:  *spread(func(r *Run) *float64 { return &r.PerJoule }),
			TTFT:   spread(func(r *Run) *float64 { return r.TTFT.P50 }),
		}
	}
	r.Pareto = []string{}
	for _, name := range r.order() {
		if _, ablation := ablated(name); !ablation && name != PolicyNative && !r.dominated(name) {
			r.Pareto = append(r.Pareto, name)
		}
	}
}

// order lists the policies as they were first played.
func (r *Report) order() []string {
	var names []string
	for _, run := range r.Runs {
		if !slices.Contains(names, run.Policy) {
			names = append(names, run.Policy)
		}
	}
	return names
}

// dominated reports whether another policy has no more jank and no fewer tokens/s,
// and one of both better.
func (r *Report) dominated(name string) bool {
	x := r.Summary[name]
	for other, y := range r.Summary {
		if _, ablation := ablated(other); ablation || other == name || other == PolicyNative {
			continue
		}
		jank, tokens := y.Jank.Median-x.Jank.Median, y.Tokens.Median-x.Tokens.Median
		if jank <= 0 && tokens >= 0 && (jank < 0 || tokens > 0) {
			return true
		}
	}
	return false
}

// WriteText writes the report for people.
func (r *Report) WriteText(w io.Writer) error {
	p := page.NewPrinter(w)
	p.Line("%s, simulated: no phone was measured", r.Scenario)
	p.Line("%s; %s", r.Host.CPU, r.Host.Model)
	tail := ""
	if r.without != "" {
		tail = ", without " + r.without
	}
	p.Line("%.4g s of frames of %.2f ms, seed %d, preset %s%s", r.length, r.period, r.Seed, r.preset, tail)
	p.Line("")
	t := page.NewTable("policy", "late %", "hitch ms/s", "tokens/s", "TTFT ms", "reply s", "CPU score", "GPU score",
		"stall", "tokens/J", "°C", "memories")
	for _, run := range r.Runs {
		if _, ablation := ablated(run.Policy); ablation {
			continue
		}
		n := 0
		for _, k := range run.Embeddings {
			n += k
		}
		t.AppendRow(table.Row{run.Policy, fmt.Sprintf("%.2f", 100*run.JankRate), fmt.Sprintf("%.2f", run.HitchMsPerS),
			fmt.Sprintf("%.2f", run.TokensPerSecond), opt(run.TTFT.P50, "%.0f"), fmt.Sprintf("%.2f", run.Latency),
			fmt.Sprintf("%.2f", run.CPUScore), fmt.Sprintf("%.2f", run.GPUScore), fmt.Sprintf("%.2f", run.Stall),
			fmt.Sprintf("%.2f", run.PerJoule), fmt.Sprintf("%.1f", run.Hottest), n})
	}
	p.Table(t)
	if len(r.Runs) > 0 && len(r.Runs[0].Phases) > 1 {
		p.Line("")
		p.Table(r.phases())
	}
	if len(r.Pareto) > 1 {
		p.Line("")
		p.Line("no other has fewer late frames and more tokens/s than: %s", strings.Join(r.Pareto, ", "))
	}
	r.features(p)
	r.writeGoals(p)
	for _, n := range r.Notes {
		p.Line("note: %s", n)
	}
	return p.Err()
}

// ablated is the feature that a policy is lull without.
func ablated(policy string) (feature string, ok bool) {
	return strings.CutPrefix(policy, PolicyLull+"-no-")
}

// features says what each feature of lull that was switched off had earned.
func (r *Report) features(p *page.Printer) {
	lull, ok := r.Summary[PolicyLull]
	t := page.NewTable("lull without", "late frames", "tokens/s", "tokens/J", "TTFT ms")
	n := 0
	for _, name := range r.order() {
		feature, is := ablated(name)
		if !is || !ok {
			continue
		}
		n++
		x := r.Summary[name]
		ttft := "–"
		if x.TTFT != nil && lull.TTFT != nil {
			ttft = fmt.Sprintf("%+.0f", x.TTFT.Median-lull.TTFT.Median)
		}
		t.AppendRow(table.Row{feature, fmt.Sprintf("%+.2f pp", 100*(x.Jank.Median-lull.Jank.Median)),
			change(lull.Tokens.Median, x.Tokens.Median), change(lull.Joule.Median, x.Joule.Median), ttft})
	}
	if n > 0 {
		p.Line("")
		p.Table(t)
	}
}

// change is by how much a number changed; a dash where that means nothing.
func change(from, to float64) string {
	if from <= 0 {
		return "–"
	}
	return fmt.Sprintf("%+.1f %%", 100*(to/from-1))
}

func opt(x *float64, format string) string {
	if x == nil {
		return "–"
	}
	return fmt.Sprintf(format, *x)
}

// phases is late frames and tokens/s by phase, of first runs.
func (r *Report) phases() table.Writer {
	var names []string
	for name := range r.Runs[0].Phases {
		names = append(names, name)
	}
	slices.Sort(names)
	header := []any{"late %, tokens/s"}
	for _, n := range names {
		header = append(header, n)
	}
	t := page.NewTable(header...)
	for _, run := range r.Runs {
		if _, ablation := ablated(run.Policy); ablation || run.Repeat > 1 {
			continue
		}
		row := table.Row{run.Policy}
		for _, n := range names {
			ph := run.Phases[n]
			row = append(row, fmt.Sprintf("%.2f, %.1f", 100*ph.JankRate, ph.TokensPerSecond))
		}
		t.AppendRow(row)
	}
	return t
}

// Idle is an app that does nothing, with the talk of another, always asking.
func Idle(app *App) *App {
	x := *app
	x.Name, x.Parts = "no game", []Part{{Phase: scheduler.PhaseMenu.String(), Seconds: 1}}
	for _, f := range x.Parts[0].Load.fields("") {
		f.To.Value, f.To.Source = f.Low, "no game"
	}
	x.Pause.Value, x.Memory.Value = 0, 0
	return &x
}
