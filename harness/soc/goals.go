package soc

import (
	"fmt"
	"slices"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"

	"github.com/lull-npc/lull/harness/page"
)

const (
	// mostBeyond is how many late frames lull may make beyond the game's own, a
	// share: players of paired runs accept 1 %.
	mostBeyond = 0.01
	// leastGain is how many times SERENO's tokens/s lull is to make at no more late
	// frames.
	leastGain = 1.2
)

// Goal is something that lull is to reach, with what came of it.
type Goal struct {
	Name string   `json:"name"`
	Met  bool     `json:"met"`
	Says string   `json:"says"`
	Why  []string `json:"why,omitempty"` // it was missed
}

// goals compares lull with the game alone, with all others and with sereno.
func (r *Report) goals() []Goal {
	list := []Goal{}
	lull, ok := r.Summary[PolicyLull]
	native, alone := r.Summary[PolicyNative]
	if !ok || !alone {
		return list
	}
	beyond := lull.Jank.Median - native.Jank.Median
	list = append(list, Goal{Name: "late frames", Met: beyond <= mostBeyond,
		Says: fmt.Sprintf("lull makes %+.2f percentage points beyond native's, wanted are at most %+.0f", 100*beyond,
			100*mostBeyond)})
	better := r.better(lull)
	front := Goal{Name: "Pareto front", Met: len(better) == 0,
		Says: "no other policy has more tokens/s than lull with no more late frames"}
	if !front.Met {
		front.Says = "no more late frames and more tokens/s than lull: " + strings.Join(better, ", ")
	}
	list = append(list, front)
	if sereno, ok := r.Summary["sereno"]; ok && sereno.Tokens.Median > 0 {
		list = append(list, against(&lull, &native, &sereno))
	}
	for i := range list {
		if !list[i].Met {
			list[i].Why = r.why(list[i].Name, better)
		}
	}
	return list
}

// better lists the policies of others that lull does not hold its ground against.
func (r *Report) better(lull Summary) []string {
	var names []string
	for _, name := range r.order() {
		x := r.Summary[name]
		if name != PolicyNative && !strings.HasPrefix(name, PolicyLull) && x.Jank.Median <= lull.Jank.Median &&
			x.Tokens.Median >= lull.Tokens.Median {
			names = append(names, name)
		}
	}
	return names
}

// against compares lull's tokens/s with sereno's at no more late frames. Where
// sereno makes more of them, it is let run for a share of the play only, and the
// game is alone for the rest: the share that makes as many as lull.
func against(lull, native, sereno *Summary) Goal {
	g := Goal{Name: "sereno"}
	times := ratio(lull.Tokens.Median, sereno.Tokens.Median)
	more := lull.Jank.Median - sereno.Jank.Median
	g.Says = fmt.Sprintf("lull makes %.2f times sereno's tokens/s, with %+.2f percentage points of late frames", times,
		100*more)
	if more >= 0 {
		g.Met = more == 0 && times >= leastGain
		return g
	}
	share := max(0, lull.Jank.Median-native.Jank.Median) / (sereno.Jank.Median - native.Jank.Median)
	rationed := mul(share, sereno.Tokens.Median)
	g.Met = lull.Tokens.Median >= mul(leastGain, rationed)
	g.Says += fmt.Sprintf("; sereno let run for %.0f %% of the play, which makes as many as lull, says %.2f "+
		"tokens/s, lull %.2f (wanted: %.1f times as many)", 100*share, rationed, lull.Tokens.Median, leastGain)
	return g
}

// why says where a goal was lost: in which phase, to what, and which feature.
func (r *Report) why(goal string, better []string) []string {
	lull, native := r.first(PolicyLull), r.first(PolicyNative)
	if lull == nil || native == nil {
		return nil
	}
	var list []string
	switch {
	case goal == "late frames":
		list = r.lateWhere(lull, native)
	case goal == "Pareto front" && len(better) > 0:
		list = r.tokensWhere(lull, r.first(better[0]))
	default:
		list = r.tokensWhere(lull, r.first("sereno"))
	}
	return append(list, r.costly(goal == "late frames")...)
}

// first is a policy's first run; nil: none.
func (r *Report) first(policy string) *Run {
	i := slices.IndexFunc(r.Runs, func(x Run) bool { return x.Policy == policy && x.Repeat == 1 })
	if i < 0 {
		return nil
	}
	return &r.Runs[i]
}

// phaseNames lists the phases of a run.
func (r *Run) phaseNames() []string {
	var names []string
	for name := range r.Phases {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// lateWhere names the phase that most late frames beyond native's are of.
func (r *Report) lateWhere(lull, native *Run) []string {
	worst, most := "", 0.0
	for _, name := range lull.phaseNames() {
		if x := beyond(lull, native, name); x > most {
			worst, most = name, x
		}
	}
	if worst == "" {
		return nil
	}
	p := lull.Phases[worst]
	return []string{fmt.Sprintf("%+.2f percentage points are of %s, whose frames are the game's own work for %.0f %% "+
		"of the time; the model computes for %.0f %%", 100*most, worst, 100*native.Phases[worst].Game, 100*p.Computing)}
}

// beyond is the share of all frames that are late in a phase beyond native's.
func beyond(x, native *Run, phase string) float64 {
	if x.Frames == 0 {
		return 0
	}
	p := x.Phases[phase]
	return mul(p.JankRate-native.Phases[phase].JankRate, float64(p.Frames)/float64(x.Frames))
}

// tokensWhere names the phase in which another policy says most tokens more, and
// what kept lull from saying them.
func (r *Report) tokensWhere(lull, other *Run) []string {
	if other == nil || lull.Seconds <= 0 {
		return nil
	}
	worst, most := "", 0.0
	for _, name := range lull.phaseNames() {
		x := float64(other.Phases[name].Tokens-lull.Phases[name].Tokens) / lull.Seconds
		if x > most {
			worst, most = name, x
		}
	}
	if worst == "" {
		return nil
	}
	a, b := lull.Phases[worst], other.Phases[worst]
	return []string{fmt.Sprintf("%.2f of %s's tokens/s more are of %s: it computes for %.0f %% of the time that it is "+
		"asked and makes %.1f tokens a pass; lull computes for %.0f %%, waits for windows for %.0f %% and "+
		"makes %.1f: the gate stops %.0f %% of its draft model's batches", most, other.Policy, worst,
		share(b.Computing, b.Busy), b.PerPass, share(a.Computing, a.Busy), share(a.Windows, a.Busy), a.PerPass,
		100*a.Stopped)}
}

func share(part, of float64) float64 { return 100 * ratio(part, of) }

// costly names the feature without which the goal would be nearest.
func (r *Report) costly(late bool) []string {
	lull := r.Summary[PolicyLull]
	gain := func(x Summary) float64 {
		if late {
			return lull.Jank.Median - x.Jank.Median
		}
		return x.Tokens.Median - lull.Tokens.Median
	}
	worst, most := "", 0.0
	for _, name := range r.order() {
		if _, ok := ablated(name); ok && gain(r.Summary[name]) > most {
			worst, most = name, gain(r.Summary[name])
		}
	}
	if worst == "" {
		return nil
	}
	feature, _ := ablated(worst)
	x := r.Summary[worst]
	return []string{fmt.Sprintf("the feature that costs most here is %s: without it %+.2f percentage points of late "+
		"frames, %+.2f tokens/s", feature, 100*(x.Jank.Median-lull.Jank.Median), x.Tokens.Median-lull.Tokens.Median)}
}

// writeGoals writes the goals, and by phase where lull's time went.
func (r *Report) writeGoals(p *page.Printer) {
	if len(r.Goals) == 0 {
		return
	}
	p.Line("")
	for _, g := range r.Goals {
		mark := "met"
		if !g.Met {
			mark = "MISSED"
		}
		p.Line("%s, %s: %s", g.Name, mark, g.Says)
		for _, why := range g.Why {
			p.Line("  %s", why)
		}
	}
	lull, native := r.first(PolicyLull), r.first(PolicyNative)
	if lull == nil || native == nil {
		return
	}
	p.Line("")
	t := page.NewTable("lull, % of the time", "game's own work", "asked", "computing", "waits for windows", "rests",
		"shut", "drafts stopped", "tokens a pass", "late frames beyond native's")
	for _, name := range lull.phaseNames() {
		x := lull.Phases[name]
		t.AppendRow(table.Row{name, percent(native.Phases[name].Game), percent(x.Busy), percent(x.Computing),
			percent(x.Windows), percent(x.Resting), percent(x.Shut), percent(x.Stopped), fmt.Sprintf("%.1f", x.PerPass),
			fmt.Sprintf("%+.2f pp", 100*beyond(lull, native, name))})
	}
	p.Table(t)
}

func percent(x float64) string { return fmt.Sprintf("%.0f", 100*x) }
