package frames

import (
	"os"
	"path/filepath"
	"testing"
)

// realCapture opens a capture that lies beside the repository, or skips.
func realCapture(t testing.TB, name string) *os.File {
	t.Helper()
	path := filepath.Join("..", "..", "..", "shared", "data", "frames", name)
	f, err := os.Open(path)
	if err != nil {
		t.Skipf("no real capture to read: %v", err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

// The numbers were computed by a separate script over the same files.
func TestRealCaptures(t *testing.T) {
	for _, c := range []struct {
		file           string
		format         Format
		frames         int64
		dropped        int64
		sumMs, busyMs  float64
		gpuMs          float64
		underflow, nas int64
	}{
		{"apex-presentmon-v2.csv", PresentMon2, 4000, 1323, 18723.1163, 13016.8611, 18497.7551, 1, 1322},
	} {
		t.Run(c.file, func(t *testing.T) {
			var sum, busy, gpu float64
			s, err := Read(realCapture(t, c.file), Options{}, func(r *Record) error {
				sum += r.FrameTime.Seconds() * 1e3
				busy += r.CPUBusy.Seconds() * 1e3
				gpu += r.GPUBusy.Seconds() * 1e3
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("%+v", s)
			t.Log(sum, busy, gpu)
		})
	}
}
