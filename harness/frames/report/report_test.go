package report

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lull-npc/lull/harness/frames"
	"github.com/lull-npc/lull/harness/metrics"
)

var update = flag.Bool("update", false, "write the golden files anew")

// synthetic is a minute and a half of a game that is in turn bound by the CPU,
// the GPU and the screen, with a hitch every 10 s and everything unusable once.
func synthetic() string {
	var b strings.Builder
	b.WriteString("Application,ProcessID,SwapChainAddress,CPUStartTime,FrameTime,CPUBusy,CPUWait,GPUTime,GPUBusy," +
		"DisplayedTime\n")
	start := 0.0
	row := func(frame, cpu, gpu float64) {
		fmt.Fprintf(&b, "mine.exe,42,0x1,%.3f,%.3f,%.3f,%.3f,%.3f,%.3f,16.667\n",
			start, frame, cpu, frame-cpu, gpu, gpu)
		start += frame
	}
	for i := range 5000 {
		wobble := float64(i*7%10) / 10
		switch {
		case i%600 == 599:
			row(150, 140, 9)
		case i < 1800:
			row(15.5+wobble, 14.5+wobble, 8)
		case i < 3600:
			row(17+wobble, 8, 16.5+wobble)
		default:
			row(16.6, 7, 8)
		}
	}
	b.WriteString("overlay.exe,77,0x2,0,33,1,1,1,1,1\nmine.exe,42,0x1,0,NA,1,1,1,1,1\nbroken\n")
	start += 5000 // the machine slept
	row(16.6, 7, 8)
	start = 10
	row(16.6, 7, 8)
	b.WriteString("mine.exe,42")
	return b.String()
}

func analyse(t testing.TB, text string, o Options) *Analysis {
	t.Helper()
	a, err := Analyse(strings.NewReader(text), "mine.csv", o)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(want), got); d != "" {
		t.Errorf("%s (-want +got; write anew with -update):\n%s", name, d)
	}
}

func TestText(t *testing.T) {
	var b bytes.Buffer
	if err := analyse(t, synthetic(), Options{TargetHz: 60}).WriteText(&b); err != nil {
		t.Fatal(err)
	}
	golden(t, "synthetic.txt", b.String())
	b.Reset()
	if err := WriteDefinitions(&b); err != nil {
		t.Fatal(err)
	}
	for _, d := range metrics.Definitions() {
		if !strings.Contains(b.String(), d.Name+" ["+d.Unit+"]") {
			t.Errorf("%s is not defined", d.Name)
		}
	}
}

func TestJSON(t *testing.T) {
	var b bytes.Buffer
	if err := analyse(t, synthetic(), Options{TargetHz: 60}).WriteJSON(&b, false); err != nil {
		t.Fatal(err)
	}
	golden(t, "synthetic.json", b.String())
	var o struct {
		Rows, Frames int64
		Unusable     map[string]int64
		Metrics      struct {
			JankRate    *float64            `json:"jank_rate"`
			HitchMsPerS *float64            `json:"hitch_ms_per_s"`
			Low1FPS     *float64            `json:"low1_fps"`
			BigJank     *int64              `json:"big_jank"`
			FrameMs     map[string]*float64 `json:"frame_ms"`
			OverrunMs   map[string]*float64 `json:"overrun_ms"`
		}
		Bottleneck map[string]float64 `json:"bottleneck_share"`
		Derivation string
		TargetFrom string `json:"target_from"`
	}
	if err := json.Unmarshal(b.Bytes(), &o); err != nil {
		t.Fatal(err)
	}
	m := o.Metrics
	if m.JankRate == nil || m.HitchMsPerS == nil || m.Low1FPS == nil || m.BigJank == nil || m.FrameMs["p99"] == nil ||
		m.OverrunMs["p95"] == nil || o.Derivation == "" || o.TargetFrom == "" {
		t.Errorf("a key of the contract is missing:\n%s", b.String())
	}
	total := 0.0
	for _, s := range o.Bottleneck {
		total += s
	}
	if math.Abs(total-1) > 1e-9 {
		t.Errorf("shares sum to %v", total)
	}
	for reason, want := range map[string]int64{
		"other-process": 1, "na": 1, "bad-row": 1, "cut-last-line": 1, "clock-gap": 1, "clock-backwards": 1,
	} {
		if o.Unusable[reason] != want {
			t.Errorf("%s: %d, want %d", reason, o.Unusable[reason], want)
		}
	}
	if o.Rows != 5006 || o.Frames != 5000 || *m.BigJank != 8 {
		t.Errorf("%d rows, %d frames, %d big janks", o.Rows, o.Frames, *m.BigJank)
	}
}

var network = regexp.MustCompile(`(?i)https?:|//[a-z]|<script|<link|<img|<iframe|@import|url\(|src=|href=`)

func TestHTMLNeedsNothingElse(t *testing.T) {
	evil := strings.ReplaceAll(synthetic(), "mine.exe", "<script>alert(1)</script>")
	for name, text := range map[string]string{
		"synthetic": synthetic(), "evil": evil, "one frame": "fps,frametime\n60,16.6\n",
		"two frames": "fps,frametime\n60,16.6\n60,16.6\n",
		"1 ns":       "Application,FrameTime,CPUBusy\na,0.000001,1\na,0.000001,1\na,0.000001,1\n",
		"an hour":    "Application,FrameTime,CPUBusy\na,3600000,9\na,0.1,9\n",
	} {
		for _, hz := range []float64{0, 60} {
			var b bytes.Buffer
			if err := analyse(t, text, Options{TargetHz: hz}).WriteHTML(&b); err != nil {
				t.Errorf("%s: %v", name, err)
				continue
			}
			page := b.String()
			if found := network.FindString(page); found != "" {
				t.Errorf("%s: the page holds %q", name, found)
			}
			if n := strings.Count(page, "<svg"); n != 4 || strings.Contains(page, "NaN") {
				t.Errorf("%s: %d pictures of 4, or NaN in one", name, n)
			}
		}
	}
}

func TestTargetIsTheMedianUnlessGiven(t *testing.T) {
	text := "fps,frametime\n60,10\n60,12\n60,14\n"
	if a := analyse(t, text, Options{}); ms(a.Target) != 12 || !strings.Contains(a.TargetFrom, "median") {
		t.Errorf("%v: %s", a.Target, a.TargetFrom)
	}
	if a := analyse(t, text, Options{TargetHz: 100}); ms(a.Target) != 10 || a.Metrics.JankRate != 2.0/3 {
		t.Errorf("%v: %s, %v", a.Target, a.TargetFrom, a.Metrics.JankRate)
	}
	for _, hz := range []float64{-1, 0.5, 1001, math.NaN(), math.Inf(1)} {
		if _, err := Analyse(strings.NewReader(text), "", Options{TargetHz: hz}); !errors.Is(err, ErrOptions) {
			t.Errorf("%v Hz: %v", hz, err)
		}
	}
}

// A screen's lock puts half of the frames a hair above its period.
func TestJitterIsNoted(t *testing.T) {
	text := "fps,frametime\n" + strings.Repeat("60,16.67\n60,16.66\n", 50)
	a := analyse(t, text, Options{TargetHz: 60})
	if a.Metrics.JankRate != 0.5 || a.Metrics.ClearJankRate != 0 || len(a.Notes) != 1 {
		t.Errorf("%v, %v, %q", a.Metrics.JankRate, a.Metrics.ClearJankRate, a.Notes)
	}
}

func TestErrorsNameTheFile(t *testing.T) {
	_, err := Analyse(strings.NewReader("no capture"), "mine.csv", Options{})
	if !errors.Is(err, frames.ErrNoCapture) || !strings.HasPrefix(err.Error(), "mine.csv: ") {
		t.Errorf("%v", err)
	}
}

// Columns cover each frame once, in order.
func TestColumnsCoverAllFrames(t *testing.T) {
	a := analyse(t, synthetic(), Options{})
	for _, n := range []int{1, 2, 66, 700, 10_000} {
		columns := a.columns(n)
		next := 0
		for _, c := range columns {
			if c.first != next || c.end <= c.first || c.min > c.mean+1e-9 || c.mean > c.max+1e-9 {
				t.Fatalf("of %d: %+v after frame %d", n, c, next)
			}
			next = c.end
		}
		if next != a.Capture.Len() || len(columns) > n {
			t.Errorf("%d columns of %d reach frame %d of %d", len(columns), n, next, a.Capture.Len())
		}
	}
	next := 0
	for _, s := range a.Spans {
		if s.First != next || s.End <= s.First {
			t.Fatalf("span %+v after frame %d", s, next)
		}
		next = s.End
	}
	if next != a.Capture.Len() {
		t.Errorf("spans end at %d", next)
	}
}

// The numbers were computed by a separate script over the same files.
func TestRealCaptures(t *testing.T) {
	for _, c := range []struct {
		file       string
		hz         float64
		bottleneck string
		want       map[string]float64
	}{
		{"apex-presentmon-v2.csv", 144, "gpu", map[string]float64{
			"jank_rate": 0.04825, "jank_rate_2pct": 0.0405, "hitch_ms_per_s": 8.961290554, "avg_fps": 213.635782353,
			"low1_fps": 106.630436592, "low1_p1_fps": 123.507107834, "low1_integral_fps": 116.803326559,
			"perfdog_jank": 0, "ue_missed_vsync_share": 0, "seconds": 18.7234552,
		}},
		{"csgo-presentmon-v1.csv", 120, "cpu", map[string]float64{
			"jank_rate": 0.570457210, "jank_rate_2pct": 0.414067995, "hitch_ms_per_s": 56.021228910,
			"avg_fps": 117.920570142, "low1_fps": 88.995959997, "low1_p1_fps": 94.562647754,
			"low1_integral_fps": 93.940817285, "perfdog_jank": 0, "ue_missed_vsync_share": 0.017328582,
			"seconds": 36.168414,
		}},
	} {
		t.Run(c.file, func(t *testing.T) {
			f, err := os.Open(filepath.Join("..", "..", "..", "..", "shared", "data", "frames", c.file))
			if err != nil {
				t.Skipf("a real capture is missing; put it beside the repository: %v", err)
			}
			defer f.Close()
			a, err := Analyse(f, c.file, Options{TargetHz: c.hz})
			if err != nil {
				t.Fatal(err)
			}
			b, err := json.Marshal(a.Metrics)
			if err != nil {
				t.Fatal(err)
			}
			var got map[string]any
			if err := json.Unmarshal(b, &got); err != nil {
				t.Fatal(err)
			}
			for name, want := range c.want {
				if v, ok := got[name].(float64); !ok || math.Abs(v-want) > 1e-4*max(1, want) {
					t.Errorf("%s is %v, want %v", name, got[name], want)
				}
			}
			if s := a.Shares(); s[c.bottleneck] < 0.99 {
				t.Errorf("bottlenecks %v, want %s", s, c.bottleneck)
			}
		})
	}
}

func FuzzAnalyse(f *testing.F) {
	f.Add([]byte("fps,frametime,gpu_load,elapsed\n60,16.6,50,0\n60,16.6,50,16600000\n"), 60.0)
	f.Add([]byte(`{"Runs":[{"CaptureData":{"MsBetweenPresents":[10,500]}}]}`), 0.0)
	f.Fuzz(func(t *testing.T, content []byte, hz float64) {
		a, err := Analyse(bytes.NewReader(content), "f", Options{TargetHz: hz})
		if err != nil {
			return
		}
		var b bytes.Buffer
		if err := errors.Join(a.WriteText(&b), a.WriteJSON(&b, true), a.WriteHTML(&b)); err != nil {
			t.Fatal(err)
		}
		if a.Metrics.Frames > a.Capture.Rows {
			t.Fatalf("%d frames of %d rows", a.Metrics.Frames, a.Capture.Rows)
		}
	})
}
