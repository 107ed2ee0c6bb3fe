package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/lull-npc/lull/harness/frames"
	"github.com/lull-npc/lull/harness/frames/report"
	"github.com/lull-npc/lull/harness/metrics"
)

type framesFlags struct {
	targetHz    float64
	process     string
	plot        string
	definitions bool
}

func newFramesCommand(a *app) *cobra.Command {
	var f framesFlags
	c := &cobra.Command{
		Use:   "frames FILE",
		Short: "Analyse a frame capture: smoothness, bottleneck over time, what was unusable",
		Long: `Read a capture of PresentMon 1 or 2 (CSV), MangoHud (CSV) or CapFrameX (JSON), and
say how smooth the game was, what limited it over time, and what of the capture
could not be used and why. FILE - is standard input.

Without --target-hz the target is the median frame time: about half of all
frames are above it, so jank_rate then says little. Give the rate that the game
was meant to have.`,
		Example: `  lull frames game.csv --target-hz 60
  lull frames game.csv --process game.exe --plot game.html
  lull frames game.csv --json | jq .metrics.jank_rate
  lull frames --definitions                # what each metric means`,
		Args: func(_ *cobra.Command, args []string) error {
			switch {
			case len(args) == 1, len(args) == 0 && f.definitions:
				return nil
			case len(args) == 0:
				return errors.New("which capture? give a FILE")
			}
			return fmt.Errorf("one FILE at a time, not %d", len(args))
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				if err := needs(cmd, "a FILE", "target-hz", "process", "plot"); err != nil {
					return err
				}
				return a.frameDefinitions()
			}
			if cmd.Flags().Changed("target-hz") && f.targetHz == 0 {
				return usagef("--target-hz 0: want 1…1000")
			}
			return a.frames(cmd.Context(), args[0], f)
		},
	}
	c.Flags().Float64Var(&f.targetHz, "target-hz", 0, "frame rate that was wanted, `HZ`; else the median frame time")
	c.Flags().StringVar(&f.process, "process", "", "`NAME` or id of the process; else the one with the most frames")
	c.Flags().StringVar(&f.plot, "plot", "", "also write pictures into one HTML `FILE`")
	c.Flags().BoolVar(&f.definitions, "definitions", false, "say what each metric means")
	return c
}

func (a *app) frameDefinitions() error {
	if a.json {
		return a.ui.object(map[string]any{"definitions": metrics.Definitions()})
	}
	return report.WriteDefinitions(a.ui.out)
}

func (a *app) frames(ctx context.Context, file string, f framesFlags) error {
	o := report.Options{TargetHz: f.targetHz, Process: f.process}
	if err := o.Validate(); err != nil {
		return usagef("--target-hz %v: want 1…1000", f.targetHz)
	}
	if err := checkFolder("--plot", f.plot); err != nil {
		return err
	}
	analysis, err := a.analyse(ctx, file, o)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err != nil {
		return adviseFrames(err)
	}
	if f.plot != "" {
		var page bytes.Buffer
		if err := analysis.WriteHTML(&page); err != nil {
			return err
		}
		if err := writeFile(f.plot, page.Bytes()); err != nil {
			return hinted{err, "give --plot a file in a folder that exists"}
		}
		a.ui.notef("pictures in %s", f.plot)
	}
	if a.json {
		return analysis.WriteJSON(a.ui.out, f.definitions)
	}
	if err := analysis.WriteText(a.ui.out); err != nil || !f.definitions {
		return err
	}
	a.ui.printf("\n")
	return report.WriteDefinitions(a.ui.out)
}

func (a *app) analyse(ctx context.Context, file string, o report.Options) (*report.Analysis, error) {
	if file == "-" {
		return report.Analyse(untilDone{ctx, a.ui.in}, "standard input", o)
	}
	r, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	return report.Analyse(untilDone{ctx, r}, file, o)
}

// untilDone ends reading when ctx does.
type untilDone struct {
	ctx context.Context
	r   io.Reader
}

func (u untilDone) Read(p []byte) (int, error) {
	if err := u.ctx.Err(); err != nil {
		return 0, err
	}
	return u.r.Read(p)
}

// adviseFrames says what to do about a capture that can't be analysed.
func adviseFrames(err error) error {
	switch {
	case errors.Is(err, frames.ErrNoCapture):
		return hinted{err, "export per-frame data; a summary or a sensor log has no frame times"}
	case errors.Is(err, frames.ErrNoProcess):
		return hinted{err, "give --process one of those names"}
	case errors.Is(err, frames.ErrNoFrames):
		return hinted{err, "the reasons say what the rows lack"}
	}
	return err
}
