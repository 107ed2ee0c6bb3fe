package local

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lull-npc/lull/internal/testassets"
	"github.com/lull-npc/lull/runtime/assets"
	"github.com/lull-npc/lull/runtime/llm"
	"github.com/lull-npc/lull/runtime/speculative"
)

// realConfig runs the real model on one thread, with a device profile of the
// test's own.
func realConfig(t *testing.T) (cfg Config, notes *[]string) {
	t.Helper()
	library, model := testassets.Locate(t)
	notes = new([]string)
	return Config{
		Spec:    Spec{Threads: 1, Steer: SteerNone, Speculation: SpeculateElastic},
		Context: 512, MaxSequences: 1, MaxBatch: 64,
		Assets: assets.Options{Model: model, LlamaLib: library, CacheDir: t.TempDir(), Offline: true},
		Note:   func(text string) { *notes = append(*notes, text) },
	}, notes
}

func openReal(t *testing.T, cfg Config) *Runtime {
	t.Helper()
	r, err := Open(context.Background(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	if off := r.Speculation().Off; strings.Contains(off, "is not known") {
		t.Skip("the machine is too busy to measure anything")
	}
	return r
}

// What guesses cost is measured at the first start, read at the second, and
// measured anew, with a word about it, where the file is damaged.
func TestCostsAreMeasuredOnce(t *testing.T) {
	cfg, notes := realConfig(t)
	measured := 0
	cfg.Progress = func(stage string, done float64) {
		if stage == "speculation" && done == 0 {
			measured++
		}
	}
	first := openReal(t, cfg).Costs()
	if len(first.Rows) != 1 || first.Rows[0].Token <= 0 || measured != 1 || len(*notes) != 0 {
		t.Fatalf("%d times measured, notes %q: %s", measured, *notes, first)
	}
	if second := openReal(t, cfg).Costs(); measured != 1 || second.Rows[0].Token != first.Rows[0].Token {
		t.Errorf("%d times measured: %s", measured, second)
	}
	files, err := filepath.Glob(filepath.Join(cfg.Assets.CacheDir, profileFolder, "speculation-*"))
	if err != nil || len(files) != 1 {
		t.Fatalf("files %v, %v", files, err)
	}
	if err := os.WriteFile(files[0], []byte("damaged"), 0o600); err != nil {
		t.Fatal(err)
	}
	openReal(t, cfg)
	if told := strings.Join(*notes, "\n"); measured != 2 || !strings.Contains(told, files[0]) {
		t.Errorf("%d times measured, notes %q", measured, told)
	}

	ctx, cancel := context.WithCancel(context.Background())
	cfg.Assets.CacheDir = t.TempDir()
	cfg.Progress = func(stage string, done float64) {
		if stage == "speculation" {
			cancel()
		}
	}
	if r, err := Open(ctx, cfg); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled while measuring: %v", err)
		if err == nil {
			r.Close()
		}
	}
}

// The real model with another format of itself as its draft model says what it
// says alone, inside a game's windows, where drafts are cut short.
func TestRealDraftInsideFrames(t *testing.T) {
	cfg, _ := realConfig(t)
	found, err := assets.Locate(assets.Options{Model: "smollm2-135m-instruct-q4_1"})
	if err != nil {
		t.Skipf("no draft model: %v", err)
	}
	cfg.Spec.Speculation = SpeculateOff
	alone := openReal(t, cfg)
	r := request(t, alone, "Say these words again: rope, torch, rope, torch, rope, torch.")
	r.MaxTokens = 24
	want := said(t, alone, r)
	alone.Close()

	cfg.Spec = Spec{Threads: 1, Steer: SteerWindows, Speculation: SpeculateElastic}
	cfg.Draft, cfg.Speculate = found.Model.Path, speculative.ModeModel
	cfg.Costs = cheap
	cfg.OpenDraft = nil
	stopped := 0
	cfg.Observe = func(w llm.Work) {
		if w.Stage == llm.Draft && w.Stopped {
			stopped++
		}
	}
	guessing := openReal(t, cfg)
	got := said(t, guessing, r)
	s := guessing.Speculation()
	t.Logf("%d rounds, %d drafts cut short; %+v", s.Rounds, stopped, s.Sources)
	if s.Off != "" || s.ModelOff != "" || s.Rounds == 0 {
		t.Errorf("off %q, model off %q, %d rounds", s.Off, s.ModelOff, s.Rounds)
	}
	same := 0
	for same < min(len(want), len(got)) && want[same] == got[same] {
		same++
	}
	// A near-tie may part the two; package speculative looks at their logits.
	if same < len(want)/2 {
		t.Errorf("said %v, alone %v", got, want)
	}
}

// said runs frames of 60 Hz, of which the model has most, until the reply ends.
func said(t *testing.T, r *Runtime, request llm.Request) []llm.Token {
	t.Helper()
	id, err := r.Engine.Submit(request)
	if err != nil {
		t.Fatal(err)
	}
	const period = 16667 * time.Microsecond
	for frame := uint64(1); ; frame++ {
		begin := r.Clock.Now()
		r.FrameBegin(frame, period, begin)
		r.FrameEnd(frame, begin+int64(period), r.Clock.Now())
		r.Clock.WaitUntil(begin+int64(period), nil)
		for _, e := range r.Engine.Poll(nil) {
			switch e.Kind {
			case llm.EventDone:
				return slices.Clone(e.Reply)
			case llm.EventFailed, llm.EventCancelled:
				t.Fatalf("request %d: %s: %v", id, e.Kind, e.Err)
			}
		}
	}
}
