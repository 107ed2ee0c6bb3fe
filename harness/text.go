package harness

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"

	"github.com/lull-npc/lull/harness/metrics"
	"github.com/lull-npc/lull/harness/page"
)

// WriteText writes the report for people.
func (r *Report) WriteText(w io.Writer) error {
	p := page.NewPrinter(w)
	p.Line("%s: %s", r.Scenario, r.Description)
	p.Line("%s", r.setting())
	p.Line("")
	p.Table(r.policyTable())
	if list := r.phaseTable(); list != nil {
		p.Line("")
		p.Table(list)
	}
	if list := r.modelTable(); list != nil {
		p.Line("")
		p.Table(list)
	}
	if list := r.memoryTable(); list != nil {
		p.Line("")
		p.Table(list)
	}
	p.Line("")
	p.Line("%s", r.limit())
	for _, l := range r.scatter() {
		p.Line("%s", l)
	}
	for _, l := range append(r.idleLines(), r.callLines()...) {
		p.Line("%s", l)
	}
	r.memory(p)
	if len(r.Objectives) > 0 {
		p.Line("")
	}
	for _, v := range r.Objectives {
		p.Line("%s", v.text())
	}
	for _, n := range r.Notes {
		p.Line("note: %s", n)
	}
	if r.Interrupted {
		p.Line("note: interrupted: only complete runs are in the table")
	}
	return p.Err()
}

func (r *Report) setting() string {
	s := r.Setting
	text := fmt.Sprintf("frames of %.2f ms on a grid of %.2f ms, %s s each after a warm-up of %s s, "+
		"%d time(s), seed %d", s.PeriodMs, s.LineMs, number(s.Seconds), number(s.WarmUpS), s.Repeat, r.Seed)
	if s.Without != "" {
		text += ", without " + s.Without
	}
	if s.Preset != "" && s.Preset != "balanced" {
		text += ", preset " + s.Preset
	}
	host := fmt.Sprintf("%s, %d cores, %s", cmp.Or(r.Host.CPU, "unknown processor"), r.Host.Cores, r.Host.OS)
	if r.Host.Model != "" {
		host += "; " + r.Host.Model + ", " + r.Host.Llama
	}
	return text + "\n" + host
}

// order lists the policies of the runs in the order in which they ran.
func (r *Report) order() []string {
	var names []string
	for i := range r.Runs {
		if _, ok := r.Summary[r.Runs[i].Policy]; ok && !slices.Contains(names, r.Runs[i].Policy) {
			names = append(names, r.Runs[i].Policy)
		}
	}
	return names
}

func (r *Report) policyTable() table.Writer {
	t := page.NewTable("policy", "late frames", "- native", "hitch ms/s", "frame p50/p99 ms", "overrun p99 ms",
		"tokens/s", "replying", "of limit", "TTFT ms", "our µs p99")
	used := map[string]bool{}
	for _, name := range r.order() {
		s := r.Summary[name]
		paired := nothing
		if s.JankPaired != nil {
			paired = fmt.Sprintf("%+.2f pp", 100*s.JankPaired.Difference.Median)
		} else if native, ok := r.Summary[PolicyNative]; ok && name != PolicyNative {
			paired = fmt.Sprintf("%+.2f pp", 100*(s.JankRate.Median-native.JankRate.Median))
		}
		tokens, limit := nothing, nothing
		if name != PolicyNative {
			tokens = spread(s.TokensPerSecond, 1, "%.1f", "")
		}
		if s.LimitShare != nil {
			limit = fmt.Sprintf("%.0f %%", 100*s.LimitShare.Median)
		}
		replying := nothing
		if r.pauses() && name != PolicyNative {
			replying = optional(s.Replying, "%.1f")
		}
		ttft, ours := optional(s.TTFTMsP50, "%.0f"), optional(s.GameThread, "%.1f")
		t.AppendRow(table.Row{
			name, spread(s.JankRate, 100, "%.2f", " %"), paired, spread(s.HitchMsPerS, 1, "%.1f", ""),
			fmt.Sprintf("%.1f / %.1f", s.FrameP50.Median, s.FrameP99.Median), fmt.Sprintf("%.2f", s.OverrunP99.Median),
			tokens, replying, limit, ttft, ours,
		})
		for column, cell := range map[string]string{
			"- native": paired, "tokens/s": tokens, "replying": replying, "of limit": limit, "TTFT ms": ttft,
			"our µs p99": ours,
		} {
			used[column] = used[column] || cell != nothing
		}
	}
	var columns []table.ColumnConfig
	for _, name := range []string{"- native", "tokens/s", "replying", "of limit", "TTFT ms", "our µs p99"} {
		columns = append(columns, table.ColumnConfig{Name: name, Hidden: !used[name]})
	}
	t.SetColumnConfigs(columns)
	return t
}

// pauses reports whether nobody spoke for a good part of the time, so that tokens a
// second of all of it say little.
func (r *Report) pauses() bool {
	for i := range r.Runs {
		if x := &r.Runs[i]; x.Replying.Seconds > 0 && x.Replying.Seconds < 0.9*x.Seconds {
			return true
		}
	}
	return false
}

// nothing stands where a policy has no such number. A column of nothing else is
// left out.
const nothing = "–"

// spread writes a median, and the quartiles where they differ from it.
func spread(s metrics.Spread, scale float64, format, unit string) string {
	m := fmt.Sprintf(format, scale*s.Median)
	lo, hi := fmt.Sprintf(format, scale*s.Q1), fmt.Sprintf(format, scale*s.Q3)
	if lo == m && hi == m {
		return m + unit
	}
	return fmt.Sprintf("%s%s [%s–%s]", m, unit, lo, hi)
}

func optional(s *metrics.Spread, format string) string {
	if s == nil {
		return nothing
	}
	return spread(*s, 1, format, "")
}

// phaseTable shows the phases where there is more than one.
func (r *Report) phaseTable() table.Writer {
	var phases []string
	for i := range r.Runs {
		for name := range r.Runs[i].Phases {
			if !slices.Contains(phases, name) {
				phases = append(phases, name)
			}
		}
	}
	if len(phases) < 2 {
		return nil
	}
	order := phaseNames()
	slices.SortFunc(phases, func(a, b string) int {
		return cmp.Compare(slices.Index(order, a), slices.Index(order, b))
	})
	t := page.NewTable("policy", "phase", "frames", "late frames", "hitch ms/s", "tokens/s", "embedded",
		"left to embed")
	nobody := true
	for _, name := range r.order() {
		for _, phase := range phases {
			var n, late, hitch, rate []float64
			for i := range r.Runs {
				if p, ok := r.Runs[i].Phases[phase]; ok && r.Runs[i].Policy == name && !r.Runs[i].Interrupted {
					n, late = append(n, float64(p.Frames)), append(late, p.JankRate)
					hitch, rate = append(hitch, p.HitchMsPerS), append(rate, p.TokensPerSecond)
				}
			}
			if len(n) == 0 {
				continue
			}
			label := phase
			if phase == metrics.Loading {
				label += " (not in the totals)"
			}
			embedded, waiting := r.inPhase(name, phase)
			nobody = nobody && embedded == nothing
			t.AppendRow(table.Row{
				name, label, fmt.Sprintf("%.0f", metrics.Quartiles(n).Median),
				spread(metrics.Quartiles(late), 100, "%.2f", " %"),
				spread(metrics.Quartiles(hitch), 1, "%.1f", ""), spread(metrics.Quartiles(rate), 1, "%.1f", ""),
				embedded, waiting,
			})
		}
	}
	t.SetColumnConfigs([]table.ColumnConfig{
		{Name: "embedded", Hidden: nobody}, {Name: "left to embed", Hidden: nobody},
	})
	return t
}

func (r *Report) limit() string {
	switch {
	case r.IdleRate == nil && r.Host.Model != "":
		return "the model was not timed without a game, so there is no limit to compare with"
	case r.IdleRate == nil:
		return "no model ran, so there is no limit to compare with"
	case r.Limit == nil:
		return fmt.Sprintf("without a game: %.1f tokens/s; native was not played, so the limit is not known",
			*r.IdleRate)
	}
	if r.LimitOf == limitOfReplying {
		return fmt.Sprintf("limit of replying: %.1f tokens/s by the same people without a game × %.0f %% of the cores "+
			"idle = %.1f tokens/s", *r.IdleRate, 100**r.IdleShare, *r.Limit)
	}
	return fmt.Sprintf("limit: %.1f tokens/s without a game × %.0f %% of the cores idle = %.1f tokens/s",
		*r.IdleRate, 100**r.IdleShare, *r.Limit)
}

// Size of the plot, in characters: half a terminal.
const (
	plotWidth  = 56
	plotHeight = 12
)

// scatter draws each complete run as a letter: tokens/s to the right, late
// frames upwards on a scale of square roots, which shows both 0.5 % and 100 %.
func (r *Report) scatter() []string {
	names := r.order()
	if len(names) < 2 {
		return nil
	}
	most, late := 1.0, 0.01
	for i := range r.Runs {
		if run := &r.Runs[i]; slices.Contains(names, run.Policy) {
			most, late = max(most, r.compared(run)), max(late, run.JankRate)
		}
	}
	if r.Limit != nil {
		most = max(most, *r.Limit)
	}
	rows := make([][]rune, plotHeight)
	for i := range rows {
		rows[i] = []rune(strings.Repeat(" ", plotWidth))
	}
	put := func(x, y float64, c rune) {
		col := min(int(x/most*(plotWidth-1)+0.5), plotWidth-1)
		row := plotHeight - 1 - min(int(math.Sqrt(y/late)*(plotHeight-1)+0.5), plotHeight-1)
		rows[row][col] = c
	}
	if r.Limit != nil {
		for i := range rows {
			rows[i][min(int(*r.Limit/most*(plotWidth-1)+0.5), plotWidth-1)] = '┊'
		}
	}
	for i := range r.Runs {
		run := &r.Runs[i]
		if at := slices.Index(names, run.Policy); at >= 0 && !run.Interrupted {
			put(r.compared(run), run.JankRate, letter(at))
		}
	}
	var out []string
	for i, row := range rows {
		label := "         "
		switch i {
		case 0:
			label = fmt.Sprintf("%6.1f %% ", 100*late)
		case plotHeight - 1:
			label = "   0.0 % "
		}
		out = append(out, strings.TrimRight(label+"│"+string(row), " "))
	}
	out = append(out, "   late   └"+strings.Repeat("─", plotWidth-1),
		fmt.Sprintf("         0 tokens/s%*.1f", plotWidth-9, most))
	if r.LimitOf == limitOfReplying {
		out[len(out)-1] += " while somebody is answered"
	}
	legend := ""
	for i, name := range names {
		legend += fmt.Sprintf("  %c %s", letter(i), name)
	}
	if r.Limit != nil {
		legend += "  ┊ limit"
	}
	return append([]string{""}, append(out, legend)...)
}

func letter(i int) rune { return rune("ABCDEFGHIJKLMNOPQRSTUVWXYZ"[i%26]) }

// memory shows what a memory load really streamed.
func (r *Report) memory(p *page.Printer) {
	for i := range r.Runs {
		run := &r.Runs[i]
		if len(run.MemorySteps) == 0 || run.Interrupted {
			continue
		}
		text := ""
		for _, s := range run.MemorySteps {
			text += fmt.Sprintf("  %.2f of %.2f GB/s: %.2f %% late", s.Streamed, s.Asked, 100*s.JankRate)
		}
		p.Line("memory, %s %d:%s", run.Policy, run.Repeat, text)
	}
}

func (v Verdict) text() string {
	marks := map[string]string{Met: "✓", Missed: "✗", Undecided: "?", Unknown: "✗", Skipped: "-"}
	return marks[v.Status] + " " + v.Result()
}

// Result says in one line what became of the objective, and why.
func (v Verdict) Result() string {
	text := v.Objective.String() + ": "
	switch v.Status {
	case Met:
		text += number(*v.Value)
	case Missed:
		text += number(*v.Value) + ", missed by " + number(*v.By)
	case Undecided:
		return text + "undecided at " + number(*v.Value) + ": " + v.Why
	case Unknown:
		return text + "not shown: " + v.Why
	default:
		return text + v.Status + ": " + v.Why
	}
	if v.Why != "" {
		text += " (" + v.Why + ")"
	}
	return text
}

// number writes four digits of a number, and never an exponent.
func number(x float64) string {
	const digits, most = 4, 15
	places := digits - 1
	if x != 0 {
		places -= int(math.Floor(math.Log10(math.Abs(x))))
	}
	text := strconv.FormatFloat(x, 'f', min(max(places, 0), most), 64)
	if strings.Contains(text, ".") {
		text = strings.TrimRight(strings.TrimRight(text, "0"), ".")
	}
	return text
}

// WriteDefinitions says what each number means.
func WriteDefinitions(w io.Writer) error {
	p := page.NewPrinter(w)
	for _, d := range Definitions() {
		p.Line("%s [%s] (%s)", d.Name, d.Unit, d.Source)
		p.Line("    %s", d.Text)
	}
	return p.Err()
}
