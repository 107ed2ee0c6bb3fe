package ctest

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strconv"
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

// cost are percentiles of what a call took.
type cost struct{ p50, p99 time.Duration }

// TestOverhead prints what the way through C costs: percentiles of each call of
// a frame, less those of the same in Go, in blocks that follow each other, so that
// what else the machine does falls on both. No time is asserted, since that may be
// much; that a frame allocates nothing is. To measure,
//
//	LULL_SOAK=1 go test ./bindings/ctest -run Overhead -v -count 1
func TestOverhead(t *testing.T) {
	n, blocks := times(500, 5000), times(3, 40)
	host := startOverhead(t, n)
	inGo := newOverheadGo(t)
	inGo.play(t, n)
	more := map[string][]cost{}
	for range blocks {
		for name, c := range host.block(t) {
			more[name] = append(more[name], c)
		}
		for name, g := range inGo.play(t, n) {
			last := &more[name][len(more[name])-1]
			last.p50 -= g.p50
			last.p99 -= g.p99
		}
	}
	own, heap := host.allocations(t)
	t.Logf("%-18s %10s %10s %10s   (%d blocks of %d calls)", "C beyond Go, ns", "p50", "p99", "worst p99", blocks, n)
	for _, k := range callsGo {
		all := more[k.name]
		p50, p99 := middle(all, func(c cost) time.Duration { return c.p50 }), middle(all, func(c cost) time.Duration {
			return c.p99
		})
		worst := slices.MaxFunc(all, func(a, b cost) int { return int(a.p99 - b.p99) })
		t.Logf("%-18s %10d %10d %10d", k.name, p50, p99, worst.p99)
	}
	t.Logf("allocations of %d frames: %d in C, %d in Go", n*blocks, own, heap)
	// Go's own background work, such as a sweep, may allocate now and then.
	if limit := n * blocks / 100; own > limit || heap > limit {
		t.Errorf("frames allocate: %d times in C and %d in Go in %d frames", own, heap, n*blocks)
	}
}

func middle(all []cost, of func(cost) time.Duration) time.Duration {
	values := make([]time.Duration, len(all))
	for i, c := range all {
		values[i] = of(c)
	}
	slices.Sort(values)
	return values[len(values)/2]
}

// overheadC is overhead.c while it runs.
type overheadC struct {
	process *exec.Cmd
	in      io.WriteCloser
	out     *bufio.Scanner
}

func startOverhead(t *testing.T, n int) *overheadC {
	t.Helper()
	c := exec.CommandContext(t.Context(), compileC(t, "overhead"), strconv.Itoa(n))
	c.Env = append(os.Environ(), "LD_LIBRARY_PATH="+built.dir)
	c.Stderr = os.Stderr
	in, err := c.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	return &overheadC{c, in, bufio.NewScanner(out)}
}

// line reads a name and two numbers.
func (o *overheadC) line(t *testing.T) (name string, a, b int) {
	t.Helper()
	if !o.out.Scan() {
		t.Fatalf("overhead.c ended early: %v, %v", o.out.Err(), o.process.Wait())
	}
	if _, err := fmt.Sscan(o.out.Text(), &name, &a, &b); err != nil {
		t.Fatalf("%q: %v", o.out.Text(), err)
	}
	return name, a, b
}

// block has it make its calls once more.
func (o *overheadC) block(t *testing.T) map[string]cost {
	t.Helper()
	if _, err := fmt.Fprintln(o.in, "block"); err != nil {
		t.Fatal(err)
	}
	p := map[string]cost{}
	for range callsGo {
		name, a, b := o.line(t)
		p[name] = cost{time.Duration(a), time.Duration(b)}
	}
	for _, k := range callsGo {
		if _, ok := p[k.name]; !ok {
			t.Fatalf("overhead.c does not call %s", k.name)
		}
	}
	return p
}

// allocations ends it, and gives what all blocks allocated in C and in Go.
func (o *overheadC) allocations(t *testing.T) (own, heap int) {
	t.Helper()
	if err := o.in.Close(); err != nil {
		t.Fatal(err)
	}
	_, own, heap = o.line(t)
	if err := o.process.Wait(); err != nil {
		t.Fatal(err)
	}
	return own, heap
}

// overheadGo is the same world in Go.
type overheadGo struct {
	npc   world.NPCID
	frame uint64
}

func newOverheadGo(t *testing.T) *overheadGo {
	t.Helper()
	id, err := world.Create(world.Def{Scripted: true, LowPriority: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := world.Destroy(context.Background(), id); err != nil {
			t.Error(err)
		}
	})
	return &overheadGo{npc: readyNPC(t, id)}
}

func (o *overheadGo) play(t *testing.T, n int) map[string]cost {
	t.Helper()
	took := map[string][]time.Duration{}
	for range n {
		o.frame++
		for _, k := range callsGo {
			begin := time.Now()
			w, who, err := world.EnterNPC(o.npc)
			if err != nil {
				t.Fatal(err)
			}
			err = k.call(w, who, o.frame)
			w.Leave()
			end := time.Since(begin)
			if err != nil {
				t.Fatal(err)
			}
			took[k.name] = append(took[k.name], end)
		}
	}
	p := map[string]cost{}
	for name, all := range took {
		slices.Sort(all)
		p[name] = cost{all[n/2], all[n*99/100]}
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
