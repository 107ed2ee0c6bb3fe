package harness

import (
	"fmt"
	"slices"
	"strings"

	"github.com/lull-npc/lull/scheduler"
)

// MemoryFeatures are the parts of memory work that can be switched off, to see
// what each is worth. Those of the scheduler are scheduler.Features.
type MemoryFeatures uint8

// Memory features, each a bit.
const (
	Memory   MemoryFeatures = 1 << iota // without: nobody remembers
	Deferral                            // without: memories are embedded at once, in any phase
	Lexical                             // without: memories are found by their vectors only
)

var memoryFeatureNames = [...]string{"memory", "deferral", "lexical"}

// Has reports whether all of g are in f.
func (f MemoryFeatures) Has(g MemoryFeatures) bool { return f&g == g }

func (f MemoryFeatures) String() string {
	var names []string
	for i, name := range memoryFeatureNames {
		if f.Has(1 << i) {
			names = append(names, name)
		}
	}
	return strings.Join(names, ",")
}

// FeatureNames lists what --without may name: the scheduler's features, then
// those of memory work.
func FeatureNames() []string { return append(scheduler.FeatureNames(), memoryFeatureNames[:]...) }

// ParseFeatures reads a list of names split by commas. Its errors wrap
// scheduler.ErrConfig.
func ParseFeatures(list string) (scheduler.Features, MemoryFeatures, error) {
	var rest []string
	var memory MemoryFeatures
	for field := range strings.SplitSeq(list, ",") {
		name := strings.TrimSpace(field)
		if i := slices.Index(memoryFeatureNames[:], name); i >= 0 {
			memory |= 1 << i
			continue
		}
		if name != "" && !slices.Contains(scheduler.FeatureNames(), name) {
			return 0, 0, fmt.Errorf("%w: no feature %q: want some of %s", scheduler.ErrConfig, name,
				strings.Join(FeatureNames(), ", "))
		}
		rest = append(rest, field)
	}
	f, err := scheduler.ParseFeatures(strings.Join(rest, ","))
	return f, memory, err
}

// without names what the tuning switches off.
func (t Tuning) without() string {
	names := t.Without.String()
	if t.Memory != 0 {
		names = strings.Trim(names+","+t.Memory.String(), ",")
	}
	return names
}
