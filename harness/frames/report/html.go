package report

import (
	_ "embed"
	"errors"
	"fmt"
	"html/template"
	"io"
	"strings"

	"github.com/lull-npc/lull/harness/metrics"
)

//go:embed report.html
var page string

var pageTemplate = template.Must(template.New("report").Parse(page))

// WriteHTML writes one file that needs nothing else: pictures are inside, there
// is no script and no reference to a network.
func (a *Analysis) WriteHTML(w io.Writer) error {
	columns := a.columns(drawColumns)
	times, err1 := a.timeline(columns)
	busy, err2 := a.busyPlot(columns)
	limit, err3 := a.strip(columns)
	spread, err4 := a.distribution()
	if err := errors.Join(err1, err2, err3, err4); err != nil {
		return err
	}
	var head strings.Builder
	a.head(&head)
	type share struct{ Name, Percent string }
	var shares []share
	all := a.Shares()
	for _, name := range byShare(all) {
		shares = append(shares, share{name, fmt.Sprintf("%.1f %%", 100*all[name])})
	}
	err := pageTemplate.Execute(w, map[string]any{
		"File": a.File, "Head": head.String(), "Times": times, "Busy": busy, "Limit": limit,
		"Spread": spread, "Rows": a.rows(), "Shares": shares,
		"Unusable": a.unusableRows(), "Derivation": a.Capture.Derivation, "Notes": a.Notes,
		"Missing": a.Capture.Missing, "Definitions": metrics.Definitions(),
	})
	if err != nil {
		return fmt.Errorf("frames: write HTML: %w", err)
	}
	return nil
}
