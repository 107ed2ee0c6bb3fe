package frames

import (
	"math"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// realCapture opens a capture that lies beside the repository, or skips.
func realCapture(t testing.TB, name string) *os.File {
	t.Helper()
	f, err := os.Open(filepath.Join("..", "..", "..", "shared", "data", "frames", name))
	if err != nil {
		t.Skipf("a real capture is missing; put it beside the repository: %v", err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

// The numbers were computed by a separate script over the same files.
func TestRealCaptures(t *testing.T) {
	for _, c := range []struct {
		file              string
		format            Format
		frames, dropped   int64
		frame, cpu, gpu   float64 // sums, ms
		first, last       time.Duration
		values            map[Field]map[string]int64
		notes, maxMissing int
	}{
		{"apex-presentmon-v2.csv", PresentMon2, 4000, 1323, 18723.4552, 12774.0136, 18441.488,
			0, 18720 * time.Millisecond,
			map[Field]map[string]int64{
				FieldDisplayedTime:  {"not-displayed": 1323, "zero": 1323},
				FieldAnimationError: {"na": 1323, "underflow": 1323},
			}, 0, 0},
		{"csgo-presentmon-v1.csv", PresentMon1, 4265, 2095, 36168.414, 34326.53, 0,
			14329886*time.Microsecond - 10564*time.Microsecond, 50487740*time.Microsecond - 6282*time.Microsecond,
			map[Field]map[string]int64{
				FieldCPUBusy:        {"no-previous-frame": 1},
				FieldDisplayedTime:  {"not-displayed": 2095},
				FieldGPUTime:        {"missing-column": 4265},
				FieldGPUBusy:        {"missing-column": 4265},
				FieldAnimationError: {"missing-column": 4265},
			}, 0, 3},
	} {
		t.Run(c.file, func(t *testing.T) {
			got, err := Load(realCapture(t, c.file), Options{})
			if err != nil {
				t.Fatal(err)
			}
			var frame, cpu, gpu time.Duration
			for _, f := range got.All {
				frame, cpu, gpu = frame+f.FrameTime, cpu+f.CPUBusy, gpu+f.GPUBusy
			}
			for name, d := range map[string]float64{
				"frame": frame.Seconds()*1e3 - c.frame, "cpu": cpu.Seconds()*1e3 - c.cpu,
				"gpu": gpu.Seconds()*1e3 - c.gpu,
			} {
				if math.Abs(d) > 1e-3 {
					t.Errorf("the sum of %s is off by %v ms", name, d)
				}
			}
			if got.Format != c.format || got.Rows != c.frames || int64(got.Len()) != c.frames ||
				got.Stream.Dropped != c.dropped || len(got.Notes) != c.notes || len(got.Missing) != c.maxMissing {
				t.Errorf("%d frames, %+v", got.Len(), got.Summary)
			}
			first, last := got.At(0).Start, got.At(got.Len()-1).Start
			if (first-c.first).Abs() > time.Microsecond || (last-c.last).Abs() > time.Microsecond {
				t.Errorf("from %v to %v, want %v to %v", first, last, c.first, c.last)
			}
			values := map[Field]map[string]int64{}
			for f := range got.Stream.Values {
				if m := got.Stream.Values[f].Map(); len(m) > 0 {
					values[Field(f)] = m
				}
			}
			if d := cmp.Diff(c.values, values); d != "" {
				t.Errorf("unusable values (-want +got):\n%s", d)
			}
		})
	}
}
