package headless

import (
	"context"
	"os"
	"runtime"
	"testing"

	"github.com/lull-npc/lull/demo-game/data"
	"github.com/lull-npc/lull/demo-game/input"
	"github.com/lull-npc/lull/demo-game/play"
	"github.com/lull-npc/lull/demo-game/talk"
)

// tours is how often the tour is played in one process: once for a look, and
// with LULL_SOAK for half an hour of play.
func tours() int {
	if os.Getenv("LULL_SOAK") != "" {
		return 16
	}
	return 3
}

// Saved and loaded a hundred times, the game keeps what it had.
func TestHundredSaves(t *testing.T) {
	d, err := data.Load()
	if err != nil {
		t.Fatal(err)
	}
	v, err := talk.New(talk.Config{Game: d, Open: talk.Scripted(d), Direct: true})
	if err != nil {
		t.Fatal(err)
	}
	defer v.Close()
	g := play.New(play.Config{Game: d, Voices: v, Files: play.Folder{Dir: t.TempDir(), Direct: true}})
	tick := func(n int) {
		for range n {
			g.Tick(&input.Frame{})
		}
	}
	v.Tell("pip", "wren", "The wolves are gone.", 0)
	for i := range 100 {
		g.Save()
		tick(1)
		g.Load()
		tick(1)
		if faults := g.Faults(); len(faults) > 0 {
			t.Fatalf("save %d: %v", i, faults)
		}
	}
	if v.KeepMemories() == nil {
		t.Fatal("no memories are open")
	}
	if n := v.Memories(); n != 1 {
		t.Errorf("%d memories after 100 saves, want the one there was", n)
	}
}

// Tour after tour, memory stays where it was and no reply is stuck.
func TestToursStayFlat(t *testing.T) {
	script, err := input.Named("tour")
	if err != nil {
		t.Fatal(err)
	}
	var first, last uint64
	for i := range tours() {
		r, err := Play(context.Background(), Options{Script: script, Name: "tour", Policies: []string{"lull"},
			Open: talk.Scripted, Virtual: true, Files: play.Folder{Dir: t.TempDir(), Direct: true}})
		if err != nil {
			t.Fatal(err)
		}
		if run := r.Runs[0]; run.Replies < 10 || run.Failed > 0 {
			t.Fatalf("tour %d: %d replies, %d failed", i, run.Replies, run.Failed)
		}
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		if last = m.HeapAlloc; i == 1 { // after one to warm up
			first = last
		}
	}
	const slack = 1 << 20 // of the runtime's own, whatever a tour takes
	if last > first+first/50+slack {
		t.Errorf("%d bytes after the last tour, %d after the second", last, first)
	}
}
