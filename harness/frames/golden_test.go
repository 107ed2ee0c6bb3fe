package frames

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write the golden files anew")

// tell writes what reading a capture found, for people.
func tell(r *bytes.Reader, o Options) string {
	var b strings.Builder
	sum, err := Read(r, o, func(r *Record) error {
		fmt.Fprintf(&b, "row %d: stream %d, segment %d, frame %d", r.Row, r.Stream, r.Segment, r.Frame)
		for f, d := range times(r) {
			if r.Known.Has(Field(f)) {
				fmt.Fprintf(&b, ", %s %v", Field(f), d)
			}
		}
		if !r.Displayed {
			b.WriteString(", not displayed")
		}
		b.WriteString("\n")
		return nil
	})
	fmt.Fprintf(&b, "\n%s, %d rows, %d segments; rejected %v\n", sum.Format, sum.Rows, sum.Segments, sum.Rejected.Map())
	for i, s := range sum.Streams {
		fmt.Fprintf(&b, "stream %d: %q %s %s: %d rows, %d frames, %d dropped; rejected %v\n", i, s.Process, s.ProcessID,
			s.SwapChain, s.Rows, s.Frames, s.Dropped, s.Rejected.Map())
		for f := range s.Values {
			if c := &s.Values[f]; c.Sum() > 0 {
				fmt.Fprintf(&b, "  %s: %v\n", Field(f), c.Map())
			}
		}
	}
	fmt.Fprintf(&b, "missing columns: %v\n", sum.Missing)
	for _, n := range sum.Notes {
		fmt.Fprintf(&b, "note: %s\n", n)
	}
	if err != nil {
		fmt.Fprintf(&b, "error: %v\n", err)
	}
	return b.String()
}

func times(r *Record) [NumFields]time.Duration {
	return [NumFields]time.Duration{
		FieldFrameTime: r.FrameTime, FieldStart: r.Start, FieldCPUBusy: r.CPUBusy, FieldCPUWait: r.CPUWait,
		FieldGPUTime: r.GPUTime, FieldGPUBusy: r.GPUBusy, FieldDisplayedTime: r.DisplayedTime,
		FieldAnimationError: r.AnimationError,
	}
}

// captures are the files of testdata, which were written by hand for it.
func captures(t testing.TB) map[string][]byte {
	t.Helper()
	m := map[string][]byte{}
	for _, pattern := range []string{"*.csv", "*.json"} {
		names, err := filepath.Glob(filepath.Join("testdata", pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, n := range names {
			b, err := os.ReadFile(n)
			if err != nil {
				t.Fatal(err)
			}
			m[filepath.Base(n)] = b
		}
	}
	if len(m) < 10 {
		t.Fatalf("only %d captures in testdata", len(m))
	}
	return m
}

func TestGolden(t *testing.T) {
	for file, content := range captures(t) {
		t.Run(file, func(t *testing.T) {
			got := tell(bytes.NewReader(content), Options{})
			golden := filepath.Join("testdata", file+".golden")
			if *update {
				if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(string(want), got); d != "" {
				t.Errorf("-want +got (write anew with -update):\n%s", d)
			}
		})
	}
}
