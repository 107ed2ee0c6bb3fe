package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/lull-npc/lull/runtime/local"
)

// addDevices gives a command that opens a model the flag for where it runs.
func addDevices(c *cobra.Command, to *string) {
	c.Flags().StringVar(to, "devices", "",
		"where the model runs: auto, a device, prefill=`ID`,decode=ID, or offload=ID;\n"+
			"without it auto where this machine was calibrated, else the CPU")
}

// whichDevices is what Config.Devices gets: what the flag says, or without it what
// was measured.
func (a *app) whichDevices(flag string) (string, error) {
	if err := local.CheckDevices(flag); err != nil {
		return "", &usageError{err, "`lull devices` lists them"}
	}
	if flag == "" {
		return local.MeasuredDevices(a.assetOptions()), nil
	}
	return flag, nil
}

type choiceJSON struct {
	Why     string        `json:"cpu_alone_because,omitempty"`
	Profile string        `json:"profile,omitempty"`
	Stale   []string      `json:"stale"`
	Holds   []string      `json:"holds"`
	Rows    []choiceRow   `json:"situations"`
	Refused []refusedJSON `json:"refused"`
}

type choiceRow struct {
	When    string `json:"when"`
	Prefill string `json:"prefill"`
	Decode  string `json:"decode"`
	Offload bool   `json:"offload"`
	Reason  string `json:"reason"`
}

type refusedJSON struct {
	Prefill string `json:"prefill"`
	Decode  string `json:"decode"`
	Why     string `json:"why"`
}

// deviceChoice never fails: what hinders a choice is why it is the CPU alone.
func (a *app) deviceChoice() choiceJSON {
	out := choiceJSON{Stale: []string{}, Holds: []string{}, Rows: []choiceRow{}, Refused: []refusedJSON{}}
	c, err := local.ChooseDevices(a.assetOptions(), 0, 0)
	if err != nil {
		out.Why = err.Error()
		return out
	}
	out.Why, out.Stale = c.Why, append(out.Stale, c.Stale...)
	if !c.Missing {
		out.Profile = c.File
	}
	for _, id := range c.Holds {
		out.Holds = append(out.Holds, string(id))
	}
	for _, r := range c.Rows {
		out.Rows = append(out.Rows, choiceRow{r.When, string(r.Placement.Prefill), string(r.Placement.Decode),
			r.Placement.Offload, r.Reason.String()})
	}
	for _, r := range c.Refused {
		out.Refused = append(out.Refused, refusedJSON{string(r.Placement.Prefill), string(r.Placement.Decode), r.Why})
	}
	return out
}

func (a *app) showChoice(c choiceJSON) {
	if c.Why != "" {
		a.ui.printf("\nauto is the CPU alone: %s\n", printable(plainText(c.Why)))
		return
	}
	a.ui.printf("\nauto, by what was measured:\n")
	t := a.ui.table("when", "prefill", "decode", "rule")
	for _, r := range c.Rows {
		if r.Offload {
			r.Prefill += ", no copy"
		}
		t.AppendRow([]any{r.When, r.Prefill, r.Decode, r.Reason})
	}
	a.ui.render(t)
	for _, r := range c.Refused {
		a.ui.printf("not offered: %s\n", printable(plainText(fmt.Sprintf("prefill on %s, decode on %s: %s", r.Prefill,
			r.Decode, r.Why))))
	}
}
