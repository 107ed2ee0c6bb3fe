package harness

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/lull-npc/lull/harness/frames"
	"github.com/lull-npc/lull/harness/load"
)

// newSource makes the load of a phase. A capture says how its times were
// derived.
func newSource(s *Scenario, p *Phase, seed uint64) (source load.Source, derivation string, err error) {
	l := &p.Load
	switch {
	case l.Trace != "":
		t, err := openTrace(s, l)
		if err != nil {
			return nil, "", err
		}
		return t, t.Derivation(), nil
	case l.CPUMs == 0 && len(l.Memory) == 0:
		return drawn(l, load.Idle{}), "", nil
	}
	synthetic := &load.Synthetic{
		Workers: l.Workers, CPU: seconds(l.CPUMs / 1000), Jitter: l.Jitter, Seed: seed,
		Rates: l.Memory, Period: s.target(), Length: seconds(p.Seconds),
	}
	if err := synthetic.Validate(); err != nil {
		return nil, "", err
	}
	return drawn(l, synthetic), "", nil
}

// drawn adds the window, where there is to be one.
func drawn(l *Load, s load.Source) load.Source {
	if l.Window {
		return load.Drawn{Source: s}
	}
	return s
}

func openTrace(s *Scenario, l *Load) (*load.Trace, error) {
	file := l.Trace
	if !filepath.IsAbs(file) {
		file = filepath.Join(s.folder, file)
	}
	r, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	capture, err := frames.Load(r, frames.Options{})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return load.NewTrace(capture, load.TraceConfig{
		Scale: l.Scale, Fill: l.Fill, Period: s.target(), Workers: l.Workers,
	})
}
