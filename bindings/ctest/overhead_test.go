package ctest

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/lull-npc/lull/bindings/capi/world"
)

// callsGo are what overhead.c calls, as a game in Go does.
var callsGo = []struct {
	name string
	call func(w *world.World, n *world.NPC, frame uint64) error
}{
	{"frame_begin", func(w *world.World, _ *world.NPC, frame uint64) error {
		return w.FrameBegin(frame, 16666667, 0)
	}},
	{"frame_end", func(w *world.World, _ *world.NPC, frame uint64) error {
		_, err := w.FrameEnd(frame, 0, 0)
		return err
	}},
	{"poll_events", func(w *world.World, _ *world.NPC, _ uint64) error {
		w.Collect()
		for w.Peek() != nil {
			w.Drop()
		}
		return nil
	}},
	{"npc_is_busy", func(_ *world.World, n *world.NPC, _ uint64) error {
		n.Busy()
		return nil
	}},
	{"npc_set_distance", func(_ *world.World, n *world.NPC, frame uint64) error {
		return n.SetDistance(float32(frame % 9))
	}},
	{"world_set_phase", func(w *world.World, _ *world.NPC, _ uint64) error { return w.SetPhase(0) }},
	{"world_get_status", func(w *world.World, _ *world.NPC, _ uint64) error {
		w.Status()
		return nil
	}},
}

// TestOverhead prints what the way through C costs: percentiles of each call of
// a frame, less those of the same in Go. No time is asserted, since the machine
// may be busy; that a frame allocates nothing is. To measure,
//
//	LULL_SOAK=1 go test ./bindings/ctest -run Overhead -v -count 1
func TestOverhead(t *testing.T) {
	n := times(2000, 200_000)
	c := map[string][2]time.Duration{}
	var own, heap int64
	out := command(t, 5*time.Minute, nil, compileC(t, "overhead"), strconv.Itoa(n))
	for line := range strings.Lines(out) {
		var name string
		var a, b int64
		if _, err := fmt.Sscan(line, &name, &a, &b); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		if name == "allocations" {
			own, heap = a, b
		} else {
			c[name] = [2]time.Duration{time.Duration(a), time.Duration(b)}
		}
	}
	inGo := measureGo(t, n)
	t.Logf("%-18s %10s %10s %10s %10s %10s %10s", "of a call, ns", "C p50", "C p99", "Go p50", "Go p99", "more p50",
		"more p99")
	for _, k := range callsGo {
		a, ok := c[k.name]
		if !ok {
			t.Fatalf("overhead.c does not call %s:\n%s", k.name, out)
		}
		b := inGo[k.name]
		t.Logf("%-18s %10d %10d %10d %10d %10d %10d", k.name, a[0], a[1], b[0], b[1], a[0]-b[0], a[1]-b[1])
	}
	t.Logf("allocations of %d frames: %d in C, %d in Go", n, own, heap)
	// Go's own background work, such as a sweep, may allocate now and then.
	if limit := int64(n / 100); own > limit || heap > limit {
		t.Errorf("frames allocate: %d times in C and %d in Go in %d frames", own, heap, n)
	}
}

func measureGo(t *testing.T, n int) map[string][2]time.Duration {
	t.Helper()
	id, err := world.Create(world.Def{Scripted: true, LowPriority: true})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := world.Destroy(t.Context(), id); err != nil {
			t.Error(err)
		}
	}()
	npc := readyNPC(t, id)
	took := map[string][]time.Duration{}
	for i := range n + n/10 {
		for _, k := range callsGo {
			begin := time.Now()
			w, who, err := world.EnterNPC(npc)
			if err != nil {
				t.Fatal(err)
			}
			err = k.call(w, who, uint64(i+1))
			w.Leave()
			if err != nil {
				t.Fatal(err)
			}
			if i >= n/10 {
				took[k.name] = append(took[k.name], time.Since(begin))
			}
		}
	}
	p := map[string][2]time.Duration{}
	for name, all := range took {
		slices.Sort(all)
		p[name] = [2]time.Duration{all[len(all)/2], all[len(all)*99/100]}
	}
	return p
}

// readyNPC waits until the world is ready, and gives a character of it.
func readyNPC(t *testing.T, id world.ID) (npc world.NPCID) {
	t.Helper()
	for ready := false; !ready; {
		w, err := world.Enter(id)
		if err != nil {
			t.Fatal(err)
		}
		w.Collect()
		for e := w.Peek(); e != nil; e = w.Peek() {
			if e.Kind == world.WorldFailed {
				t.Fatal(e.Text)
			}
			ready = ready || e.Kind == world.WorldReady
			w.Drop()
		}
		if ready {
			if npc, err = w.CreateNPC(world.NPCDef{File: "blacksmith"}); err != nil {
				t.Error(err)
			}
		}
		w.Leave()
	}
	return npc
}
