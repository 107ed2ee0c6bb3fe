package report

import (
	"encoding/json"
	"io"
	"math"

	"github.com/lull-npc/lull/harness/metrics"
)

// object is the JSON of the command. Keys are added, never renamed.
type object struct {
	File           string                      `json:"file"`
	Format         string                      `json:"format"`
	Process        string                      `json:"process"`
	ProcessChoice  string                      `json:"process_choice"`
	SwapChain      string                      `json:"swap_chain"`
	Segments       int                         `json:"segments"`
	Rows           int64                       `json:"rows"`
	Frames         int64                       `json:"frames"`
	NotDisplayed   int64                       `json:"frames_not_displayed"`
	Unusable       map[string]int64            `json:"unusable"`
	UnusableRows   map[string]int64            `json:"unusable_rows"`
	UnusableValues map[string]map[string]int64 `json:"unusable_values"`
	Missing        []string                    `json:"missing_columns"`
	TargetMs       float64                     `json:"target_ms"`
	TargetHz       float64                     `json:"target_hz"`
	TargetFrom     string                      `json:"target_from"`
	Metrics        *metrics.Result             `json:"metrics"`
	AnimationErr   *metrics.FrameMs            `json:"animation_error_ms"`
	Bottleneck     map[string]float64          `json:"bottleneck_share"`
	Derivation     string                      `json:"derivation"`
	Notes          []string                    `json:"notes"`
	Definitions    []metrics.Definition        `json:"definitions,omitempty"`
}

// WriteJSON writes one object; with definitions, what each metric is.
func (a *Analysis) WriteJSON(w io.Writer, definitions bool) error {
	c := a.Capture
	o := object{
		File: a.File, Format: c.Format.String(), Process: c.Stream.Process, ProcessChoice: c.Choice,
		SwapChain: c.Stream.SwapChain, Segments: c.Segments, Rows: c.Rows, Frames: a.Metrics.Frames,
		NotDisplayed: c.Stream.Dropped, Unusable: a.Unusable(), UnusableRows: c.Rejected.Map(),
		UnusableValues: a.UnusableValues(), Missing: list(c.Missing), TargetMs: ms(a.Target),
		TargetHz: math.Round(hertz(a.Target)*1e4) / 1e4, TargetFrom: a.TargetFrom, Metrics: a.Metrics,
		Bottleneck: a.Shares(), Derivation: c.Derivation, Notes: list(a.Notes),
	}
	if a.AnimErrN > 0 {
		o.AnimationErr = &a.AnimErr
	}
	if definitions {
		o.Definitions = metrics.Definitions()
	}
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	return e.Encode(o)
}

// list makes an empty list of nil, which JSON would call null.
func list(s []string) []string {
	if s == nil {
		return []string{}
	}
	return s
}
