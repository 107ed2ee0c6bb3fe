package main

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/lull-npc/lull/runtime/calibrate"
	"github.com/lull-npc/lull/runtime/local"
)

func newDeviceProfileCommand(a *app) *cobra.Command {
	return newGroup("device-profile", "What was measured of this machine's devices", `
lull calibrate measures the profile and keeps it in the cache. It is of one
model, library, host and set of drivers; where one of them changes it is stale.`, `
  lull device-profile show
  lull device-profile show --json | jq '.stages[] | select(.stage == "decode")'`,
		newDeviceProfileShow(a))
}

func newDeviceProfileShow(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "show",
		Short: "Print the device profile of the model in use",
		Long: `Print what lull calibrate measured with the model in use, and say whether it still
holds. A stale profile is printed, with a note on standard error of what changed.`,
		Example: `  lull device-profile show
  lull device-profile show --model my-npc.gguf --json`,
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			p, file, stale, err := local.StoredProfile(a.assetOptions())
			switch {
			case errors.Is(err, fs.ErrNotExist):
				return hinted{errors.New("there is no device profile of this model yet"), "run `lull calibrate`"}
			case errors.Is(err, calibrate.ErrProfile):
				return hinted{err, "run `lull calibrate`"}
			case err != nil:
				return advise(err)
			}
			return a.showProfile(p, file, stale)
		},
	}
}

// profileObject is the profile as JSON.
type profileObject struct {
	*calibrate.DeviceProfile
	File  string   `json:"file,omitempty"`
	Stale []string `json:"stale"` // which of host, driver, library and model changed
}

func (a *app) showProfile(p *calibrate.DeviceProfile, file string, stale []string) error {
	if len(stale) > 0 {
		a.ui.notef("stale: %s changed since it was measured; run `lull calibrate`", strings.Join(stale, ", "))
	}
	if !p.Complete {
		a.ui.notef("interrupted: run `lull calibrate` to go on")
	}
	if a.json {
		return a.ui.object(profileObject{p, file, append([]string{}, stale...)})
	}
	a.ui.printf("%s, %s; measured %s in %v\n\n", p.Model, p.Library, time.Unix(p.Made, 0).Format(time.DateTime),
		p.Took.Round(time.Second))
	a.showStages(p)
	if len(p.Handovers) > 0 {
		t := a.ui.table("from", "to", "tokens", "bytes", "get", "set")
		for _, h := range p.Handovers {
			t.AppendRow([]any{h.From, h.To, h.Tokens, megabytes(int64(h.Bytes)), millis(h.Get), millis(h.Set)})
		}
		a.ui.render(t)
		a.ui.printf("\n")
	}
	if len(p.Interference) > 0 {
		t := a.ui.table("device", "stage", "frame alone", "beside", "interference")
		for _, r := range p.Interference {
			t.AppendRow([]any{r.Device, r.Stage, millis(r.Alone), millis(r.Beside), fmt.Sprintf("%.2f", r.Share)})
		}
		a.ui.render(t)
		a.ui.printf("\n")
	}
	if len(p.Verify) > 0 {
		t := a.ui.table("device", "threads", "width", "T(B)/T(1)")
		for _, r := range p.Verify {
			t.AppendRow([]any{r.Device, r.Threads, r.Width, fmt.Sprintf("%.2f", r.Ratio)})
		}
		a.ui.render(t)
		a.ui.printf("\n")
	}
	late := 0
	for _, s := range p.Skipped {
		if strings.HasPrefix(s.Why, calibrate.BudgetOver) {
			late++
			continue
		}
		a.ui.printf("left out: %s: %s\n", printable(s.Task), printable(plainText(s.Why)))
	}
	if late > 0 {
		a.ui.printf("left out: %d figures, for which there was no time; `lull calibrate` again measures them\n", late)
	}
	a.ui.printf("energy: %s\n", printable(p.Energy))
	return nil
}

func (a *app) showStages(p *calibrate.DeviceProfile) {
	t := a.ui.table("device", "stage", "past", "width", "threads", "tokens/s", "spread", "J/token")
	for _, r := range p.Stages {
		joules := "-"
		if r.Joules > 0 {
			joules = fmt.Sprintf("%.3f", r.Joules)
		}
		t.AppendRow([]any{r.Device, r.Stage, r.Past, r.Width, r.Threads, fmt.Sprintf("%.1f", r.PerSecond),
			fmt.Sprintf("%.0f %%", 100*r.Spread), joules})
	}
	a.ui.render(t)
	a.ui.printf("\n")
}

func millis(d time.Duration) string { return fmt.Sprintf("%.2f ms", float64(d)/1e6) }
