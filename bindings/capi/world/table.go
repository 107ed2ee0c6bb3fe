package world

import (
	"context"
	"sync"
	"sync/atomic"
)

// Limits of a process, as lull.h states them.
const (
	MaxWorlds = 16
	MaxNPCs   = 4096
)

// ID names a world.
type ID struct{ Index1, Generation uint32 }

// NPCID names an NPC and its world.
type NPCID struct {
	Index1, World1 uint16
	Generation     uint32
}

// generations gives each world and NPC a number of its own; 0 is none. After
// four thousand million of them it begins anew.
var generations atomic.Uint32

func generation() uint32 {
	for {
		if g := generations.Add(1); g != 0 {
			return g
		}
	}
}

// worlds are the slots of the process. A slot is empty, or holds a world that
// is open. Those that are ending stand in ending until they have ended.
var worlds struct {
	slots  [MaxWorlds]atomic.Pointer[World]
	mu     sync.Mutex // of changes
	ending map[uint32]*World
}

// Create makes a world, which begins to load. Safe for concurrent use.
func Create(def Def) (ID, error) {
	if err := def.complete(); err != nil {
		return ID{}, err
	}
	worlds.mu.Lock()
	defer worlds.mu.Unlock()
	for i := range worlds.slots {
		if worlds.slots[i].Load() != nil {
			continue
		}
		w := open(def, uint16(i+1))
		worlds.slots[i].Store(w)
		return w.id(), nil
	}
	return ID{}, Errorf(Full, "%d worlds are open: destroy one first", MaxWorlds)
}

func find(id ID) *World {
	if id.Index1 < 1 || id.Index1 > MaxWorlds {
		return nil
	}
	if w := worlds.slots[id.Index1-1].Load(); w != nil && w.generation == id.Generation {
		return w
	}
	return nil
}

// Valid reports whether the world is open. Safe for concurrent use.
func Valid(id ID) bool { return find(id) != nil }

// ValidNPC reports whether the NPC is there. Safe for concurrent use.
func ValidNPC(id NPCID) bool {
	w, _, err := EnterNPC(id)
	if err != nil {
		return false
	}
	w.Leave()
	return true
}

// Enter takes a world for one call of the host, which ends with Leave.
func Enter(id ID) (*World, error) {
	w := find(id)
	if w == nil {
		return nil, staleWorld(id)
	}
	w.mu.Lock()
	if w.closed {
		w.mu.Unlock()
		return nil, staleWorld(id)
	}
	return w, nil
}

func staleWorld(id ID) error {
	if id == (ID{}) {
		return Errorf(StaleID, "the world's id is zeros: lull_world_create gives one")
	}
	return Errorf(StaleID, "there is no world %d of generation %d: it was destroyed, or the id is none of lull's",
		id.Index1, id.Generation)
}

// EnterNPC is Enter for the world of an NPC.
func EnterNPC(id NPCID) (*World, *NPC, error) {
	if id == (NPCID{}) {
		return nil, nil, Errorf(StaleID, "the NPC's id is zeros: lull_npc_create gives one")
	}
	if id.World1 < 1 || id.World1 > MaxWorlds || id.Index1 < 1 {
		return nil, nil, staleNPC(id)
	}
	w := worlds.slots[id.World1-1].Load()
	if w == nil {
		return nil, nil, staleNPC(id)
	}
	w.mu.Lock()
	if !w.closed && int(id.Index1) <= len(w.npcs) {
		if n := w.npcs[id.Index1-1]; n != nil && n.generation == id.Generation {
			return w, n, nil
		}
	}
	w.mu.Unlock()
	return nil, nil, staleNPC(id)
}

// NPC finds another NPC of a world that was entered.
func (w *World) NPC(id NPCID) (*NPC, error) {
	if id.World1 == w.index1 && id.Index1 >= 1 && int(id.Index1) <= len(w.npcs) {
		if n := w.npcs[id.Index1-1]; n != nil && n.generation == id.Generation {
			return n, nil
		}
	}
	return nil, staleNPC(id)
}

func staleNPC(id NPCID) error {
	return Errorf(StaleID, "there is no NPC %d of generation %d in world %d: it was destroyed, "+
		"or the id is none of lull's", id.Index1, id.Generation, id.World1)
}

// Leave ends a call of the host.
func (w *World) Leave() { w.mu.Unlock() }

// BeginDestroy makes the id of a world stale and begins to end it; Ended tells
// when that is done. Safe for concurrent use.
func BeginDestroy(id ID) error {
	worlds.mu.Lock()
	defer worlds.mu.Unlock()
	w := find(id)
	if w == nil {
		return staleWorld(id)
	}
	worlds.slots[id.Index1-1].Store(nil)
	if worlds.ending == nil {
		worlds.ending = map[uint32]*World{}
	}
	worlds.ending[w.generation] = w
	go func() {
		w.end()
		worlds.mu.Lock()
		defer worlds.mu.Unlock()
		delete(worlds.ending, w.generation) // nobody asks for one that was late
	}()
	return nil
}

// Ended reports whether a world for which BeginDestroy was called has ended,
// every goroutine and thread of it included. Safe for concurrent use.
func Ended(id ID) bool {
	worlds.mu.Lock()
	defer worlds.mu.Unlock()
	return worlds.ending[id.Generation] == nil
}

// Open lists the worlds that are open. Safe for concurrent use.
func Open() []ID {
	var ids []ID
	for i := range worlds.slots {
		if w := worlds.slots[i].Load(); w != nil {
			ids = append(ids, w.id())
		}
	}
	return ids
}

// Destroy is BeginDestroy and a wait until ctx ends. Safe for concurrent use.
func Destroy(ctx context.Context, id ID) error {
	w := find(id)
	if err := BeginDestroy(id); err != nil {
		return err
	}
	select {
	case <-w.ended:
		return nil
	case <-ctx.Done():
		return Errorf(Timeout, "the world did not end in time")
	}
}
