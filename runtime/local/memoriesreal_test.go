package local

import (
	"testing"
	"time"

	"github.com/lull-npc/lull/internal/testassets"
	"github.com/lull-npc/lull/rag"
	"github.com/lull-npc/lull/runtime/assets"
	"github.com/lull-npc/lull/scheduler"
)

// The real embedder behind the gate of the real model: nothing in a fight, all of
// it in the menu, and then found by what it means.
func TestRealMemories(t *testing.T) {
	testassets.Embedder(t)
	cfg, _ := realConfig(t)
	cfg.Spec.Steer, cfg.Spec.Speculation, cfg.Spec.LowPriority = SteerController, SpeculateOff, false
	cfg.Spec.Scheduler = scheduler.DefaultConfig()
	r := openReal(t, cfg)
	m, err := r.OpenMemories(t.Context(), MemoryConfig{Embedder: EmbedderConfig{
		Assets: assets.Options{LlamaLib: cfg.Assets.LlamaLib, Offline: true}}})
	if err != nil {
		t.Fatal(err)
	}
	k := &keeper{t: t, r: r, m: m}
	k.frames(scheduler.PhaseCombat, 1)
	if k.store, err = m.Open(rag.DefaultConfig(t.TempDir())); err != nil {
		t.Fatal(err)
	}
	texts := []string{"He forged a sharp sword.", "Boil the carrots for soup.", "The child sleeps."}
	for _, text := range texts {
		k.remember(text)
	}
	k.frames(scheduler.PhaseCombat, 20)
	ask := func() rag.Result {
		t.Helper()
		got, err := k.store.Recall(t.Context(), rag.Query{Knower: mara, Text: "somebody made a blade", ReadOnly: true})
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	if got := ask(); got.Dense || len(got.Found) > 1 { // "a" is in one of them
		t.Errorf("in a fight: %+v", got)
	}
	if s := m.Stats(); s.Embeddings != [memoryPhases]int{} {
		t.Errorf("embedded in a fight: %+v", s)
	}
	k.until(scheduler.PhaseMenu, func() bool { return k.indexed() == len(texts) })
	got := ask()
	for !got.Dense { // it waits for 0.3 s; a busy machine may take longer
		k.frames(scheduler.PhaseMenu, 1)
		got = ask()
	}
	if len(got.Found) == 0 || got.Found[0].Text != texts[0] {
		t.Errorf("in a menu: %+v", got.Found)
	}
	if s := m.Stats(); s.Busy < time.Microsecond || s.Embeddings[scheduler.PhaseMenu] < len(texts)+1 {
		t.Errorf("%+v", s)
	}
}
