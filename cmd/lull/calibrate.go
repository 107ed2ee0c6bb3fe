package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/lull-npc/lull/runtime/local"
)

type calibrateFlags struct {
	devices []string
	quick   bool
	fresh   bool
	budget  time.Duration
}

func newCalibrateCommand(a *app) *cobra.Command {
	var f calibrateFlags
	c := &cobra.Command{
		Use:   "calibrate",
		Short: "Measure every device with the model: the device profile",
		Long: `Measure prefill and decode on each device, by length of context, width of batch
and number of threads; moving a conversation from one device to another; by how
much the work of a game's frame gets longer beside each; what layers take; what
batches of judged tokens cost; and energy, where the machine can tell it.

It takes three minutes at most, plus loading. Ctrl-C ends it; what was measured
is kept, and the next run goes on with what is missing. Keep the machine quiet
meanwhile, or measure again with --fresh. What would take too long on a device
is left out and named.

A row like CPU+Vulkan0 is one copy of the weights, on the CPU, with the other
device computing the large products of prompts. From then on "lull chat" runs
where replies were shortest, and "lull devices" shows what is chosen when.`,
		Example: `  lull calibrate --quick
  lull calibrate --llama-lib llama-linux-x64-vulkan
  lull calibrate --device CPU --json
  lull calibrate --fresh --budget 10m     # everything anew, with time for slow devices
  lull device-profile show
  lull devices`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.calibrate(cmd.Context(), f) },
	}
	fl := c.Flags()
	fl.StringSliceVar(&f.devices, "device", nil, "`ID` of a device, may be given more than once; else all")
	fl.BoolVar(&f.quick, "quick", false, "half a minute: fewer lengths, widths and threads")
	fl.BoolVar(&f.fresh, "fresh", false, "everything anew, also what an interrupted run has measured")
	fl.DurationVar(&f.budget, "budget", 0, "`TIME` for measuring; 0 is 165s, or 30s with --quick")
	return c
}

func (a *app) calibrate(ctx context.Context, f calibrateFlags) error {
	if f.budget != 0 && (f.budget < time.Second || f.budget > time.Hour) {
		return usagef("--budget %v: want 1s … 1h, or 0", f.budget)
	}
	steps := a.ui.steps("calibrating")
	p, err := local.Calibrate(ctx, local.CalibrateConfig{Assets: a.assetOptions(), Devices: f.devices, Quick: f.quick,
		Fresh: f.fresh, Budget: f.budget,
		Progress: func(done, of int, task string) { steps.at(done, of, printable(task)) },
		Note: func(text string) {
			steps.clear()
			a.ui.notef("%s", printable(plainText(text)))
		}})
	steps.clear()
	if err != nil {
		if p != nil && ctx.Err() != nil {
			a.ui.notef("%s", fmt.Sprintf("kept %d figures; the next run goes on", len(p.Stages)))
		}
		return advise(err)
	}
	return a.showProfile(p, "", nil)
}
