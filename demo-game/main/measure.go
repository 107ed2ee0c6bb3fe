//go:build windows || cgo

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"github.com/hajimehoshi/ebiten/v2"

	"github.com/lull-npc/lull/demo-game/data"
	"github.com/lull-npc/lull/demo-game/headless"
	"github.com/lull-npc/lull/demo-game/rules"
	"github.com/lull-npc/lull/demo-game/talk"
	"github.com/lull-npc/lull/harness"
)

// measurement is the report of policies that play the script in turn.
type measurement struct {
	report *headless.Report
	runs   int // measured so far
	usage  harness.Usage
	shares []float64 // of the cores that native left
	atRest *float64  // tokens a second of replying without a game; nil: not measured
}

// rest measures once how fast the same people reply where no game wants the
// machine: the script is played without being drawn.
func (w *window) rest() error {
	if w.o.scripted || w.measured.atRest != nil {
		return nil
	}
	seconds := w.o.secondsOf(w.script)
	w.tell(fmt.Sprintf("measuring %s, %d time(s), %.0f s each; first the same without a game, %.0f s",
		w.o.measure, w.o.repeat, seconds, seconds))
	o := headless.Options{Script: w.script, Name: w.o.script, Policies: []string{harness.PolicyVanilla},
		Frames: int64(seconds * rules.TicksPerSecond), Lang: w.o.lang, Version: version,
		Open: func(g *data.Game) talk.Opener { return w.o.opener(g, "", w.tell) }}
	type played struct {
		report *headless.Report
		err    error
	}
	done := make(chan played)
	go func() { // on a thread of its own, which ends with it: its timers are changed
		r, err := headless.Play(context.Background(), o)
		done <- played{r, err}
	}()
	p := <-done
	if p.err != nil {
		return fmt.Errorf("without a game: %w", p.err)
	}
	r, to := p.report, w.measured.report
	w.measured.atRest = r.Runs[0].Replying.TokensPerSecond
	to.Host.CPU, to.Host.Model, to.Host.Llama = harness.CPUName(), r.Host.Model, r.Host.Llama
	return nil
}

// next takes the run that ended into the report and begins the next.
func (w *window) next() error {
	m := &w.measured
	done, failed, ttft := w.game.Replies()
	policy := w.policy()
	r := w.meter.Run(policy, m.runs/len(w.o.measure)+1, done, failed, ttft)
	if !w.o.scripted {
		r.CPUShare, r.OtherCPU = m.usage.Shares()
		if policy == harness.PolicyNative {
			idle := 1 - r.CPUShare
			if r.OtherCPU != nil { // where the display is a program, it renders too
				idle -= *r.OtherCPU
			}
			m.shares = append(m.shares, max(idle, 0))
		}
	}
	m.report.Runs = append(m.report.Runs, r)
	m.report.Transcript = w.game.Transcript()
	if p, err := harness.FindPolicy(policy); err == nil {
		m.report.Policies[policy] = p.Description
	}
	m.runs++
	of := len(w.o.measure) * w.o.repeat
	w.tell(fmt.Sprintf("run %d of %d, %s: %.2f %% of %d frames late, p99 %.1f ms, %.1f tokens/s, %d replies", m.runs,
		of, policy, 100*r.JankRate, r.Frames, r.FrameMs.P99, r.TokensPerSecond, r.Replies))
	if err := errors.Join(w.voices.Err(), w.voices.Close()); err != nil {
		w.err = err
		return ebiten.Termination
	}
	if m.runs >= of {
		return ebiten.Termination
	}
	return w.begins()
}

// write concludes the report and writes it: as a table, and as an object where a
// file is named.
func (w *window) write(out io.Writer) error {
	m := &w.measured
	m.report.Setting.Seconds, m.report.Setting.Repeat = w.o.secondsOf(w.script), w.o.repeat
	m.report.Start = &w.start
	m.report.Interrupted = m.runs < len(w.o.measure)*w.o.repeat
	m.report.Conclude(m.shares, m.atRest)
	if w.o.json == "" {
		return m.report.WriteText(out)
	}
	raw, err := json.MarshalIndent(m.report, "", "  ")
	if err != nil {
		return err
	}
	if w.o.json == "-" {
		_, err = fmt.Fprintf(out, "%s\n", raw)
		return err
	}
	return errors.Join(os.WriteFile(w.o.json, append(raw, '\n'), 0o644), m.report.WriteText(out))
}

// watch notes how long a player waits at first: for the window once, and for the
// voices under lull, or else the first policy.
func (w *window) watch() {
	timed := w.policy()
	if len(w.o.measure) > 0 {
		timed = w.o.measure[0]
		if slices.Contains(w.o.measure, harness.PolicyLull) {
			timed = harness.PolicyLull
		}
	}
	_, opening := w.voices.Opening()
	w.start.Watch(w.game, opening || w.voices.Err() != nil, w.age+time.Duration(w.clock.Now()-w.begun),
		w.policy() == timed && w.measured.runs <= len(w.o.measure))
}
