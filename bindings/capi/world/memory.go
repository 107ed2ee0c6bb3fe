package world

import (
	"context"
	"errors"
	"path/filepath"
	"sync/atomic"

	"github.com/lull-npc/lull/npc"
	"github.com/lull-npc/lull/rag"
	"github.com/lull-npc/lull/runtime/local"
)

// MemoryMode says where memories are kept, with lull.h's numbers.
type MemoryMode int32

// Modes.
const (
	MemoryNone MemoryMode = iota
	MemoryVolatile
	MemoryFolder
)

// memory is what the characters remember, by the story's time instead of the
// clock's. Without an embedder memories are found by their words alone.
type memory struct {
	store  *rag.Store
	inner  npc.Memory
	offset atomic.Int64 // the story's time less the clock
	full   atomic.Bool  // a memory was refused: Collect tells
}

func openMemory(ctx context.Context, r *local.Runtime, d Def) (*memory, error) {
	cfg := rag.DefaultConfig("")
	if d.MemoryMode == MemoryFolder {
		cfg = rag.DefaultConfig(d.MemoryFolder)
	}
	all, err := r.OpenMemories(ctx, local.MemoryConfig{WordsOnly: d.Embedder == "",
		Embedder: local.EmbedderConfig{File: d.Embedder, Assets: d.assets()}})
	if err != nil {
		return nil, Errorf(loadCode(err), "memories: %s", loadText(err))
	}
	store, err := all.Open(cfg)
	if err != nil {
		return nil, Errorf(File, "memories: %v", err)
	}
	m := &memory{store: store, inner: all.NPC(store)}
	m.setTime(d.GameTime)
	return m, nil
}

func (m *memory) setTime(story int64) { m.offset.Store(story - Clock.Now()) }

func (m *memory) story(now int64) int64 { return now + m.offset.Load() }

// Recall implements npc.Memory. Called from the goroutine that prepares prompts.
func (m *memory) Recall(q npc.Query) ([]npc.Recalled, error) {
	q.Now = m.story(q.Now)
	return m.inner.Recall(q)
}

// Remember implements npc.Memory. Called from the host's side.
func (m *memory) Remember(e npc.Experience) error {
	e.Now = m.story(e.Now)
	err := m.inner.Remember(e)
	if err != nil {
		m.full.Store(true)
	}
	return err
}

// memories is the memory of a world that has one and is loaded.
func (w *World) memories() (*memory, error) {
	if w.def.MemoryMode == MemoryNone {
		return nil, Errorf(Nothing, "the world keeps no memories: set memory_mode")
	}
	if _, err := w.ready(); err != nil {
		return nil, err
	}
	return w.memory, nil
}

// Remember has the NPC remember something.
func (n *NPC) Remember(text, speaker string, importance int) error {
	m, err := n.world.memories()
	if err != nil {
		return err
	}
	_, err = m.store.Remember(rag.Memory{Owner: string(n.spec.ID), Text: text, Speaker: speaker,
		Importance: importance, At: rag.GameTime(m.story(Clock.Now()))})
	return memoryError(err)
}

func memoryError(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, rag.ErrMemory):
		return Errorf(InvalidArgument, "%v", err)
	case errors.Is(err, rag.ErrBusy):
		return Errorf(Busy, "%v", err)
	case errors.Is(err, rag.ErrFull), errors.Is(err, rag.ErrBacklog):
		return Errorf(Full, "%v", err)
	case errors.Is(err, rag.ErrDamaged), errors.Is(err, rag.ErrRecord):
		return Errorf(Save, "%v", err)
	}
	return Errorf(File, "%v", err)
}

// SetGameTime tells the story's time now.
func (w *World) SetGameTime(story int64) error {
	w.def.GameTime = story
	if w.def.MemoryMode == MemoryNone {
		return nil
	}
	m, err := w.memories()
	if err == nil {
		m.setTime(story)
	}
	return err
}

// SaveMemories begins to write all memories into a file.
func (w *World) SaveMemories(path string) error {
	m, err := w.memories()
	if err != nil {
		return err
	}
	full, err := filepath.Abs(path) // it is written later, when the host may be elsewhere
	if err != nil {
		return Errorf(File, "%v", err)
	}
	return memoryError(m.store.Save(full))
}

// LoadMemories goes back to memories that were saved.
func (w *World) LoadMemories(path string) error {
	m, err := w.memories()
	if err != nil {
		return err
	}
	return memoryError(m.store.Load(path))
}

// gatherMemory tells what became of memories on their way to the disk.
func (w *World) gatherMemory() {
	if w.talk == nil || w.memory == nil { // before, the loader has it
		return
	}
	if w.memory.full.Swap(false) {
		w.emit(Event{Kind: MemoryFailed, Result: Full,
			Text: "a memory was not kept: there are too many, or the disk fails"})
	}
	w.recalled = w.memory.store.Poll(w.recalled[:0])
	for _, e := range w.recalled {
		switch e.Kind {
		case rag.Durable:
			w.emit(Event{Kind: MemoryDurable})
		case rag.Failed, rag.NotSaved:
			w.emit(Event{Kind: MemoryFailed, Result: File, Text: e.Err.Error()})
			w.log.add(LogError, "memories: "+e.Err.Error())
		case rag.Recovered:
			w.log.add(LogInfo, "memories are written again")
		case rag.NotEmbedded:
			w.log.add(LogWarning, "a memory is found by its words only: "+e.Err.Error())
		case rag.Saved:
			w.emit(Event{Kind: MemorySaved, Text: e.Path})
		}
	}
}
