package rag

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

var (
	// ErrLocked: another program, or this one, has the store open.
	ErrLocked = errors.New("rag: the store is open elsewhere")
	// ErrClosed: the store was closed.
	ErrClosed = errors.New("rag: the store is closed")
	// ErrReadOnly: the store was opened for reading.
	ErrReadOnly = errors.New("rag: the store is open for reading only")
	// ErrFull: the store holds all the memories it can.
	ErrFull = fmt.Errorf("rag: the store holds %d memories, the most there can be", maxMemories)
	// ErrBacklog: the writer can't write and the queue is at its limit. Nothing
	// that was accepted is lost: it goes on when the cause is gone.
	ErrBacklog = errors.New("rag: too many changes wait for the disk")
	// ErrUnknown: there is no such memory, or it is not known to who asks.
	ErrUnknown = errors.New("rag: no such memory")
)

// Store keeps the memories of all characters of one game. Remember, Supersede
// and Poll may be called from the game thread; they neither read nor write files
// nor wait for who does. Safe for concurrent use.
type Store struct {
	cfg   Config
	notes []string // what Open had to do

	front front

	mu      sync.Mutex // state, waiting; held through a search
	state   *state
	waiting []*op // applied, not yet written
	branch  lineage

	embed worker // who embeds

	writeMu sync.Mutex // journal, lock
	journal *journal
	lock    *storeLock

	outbox  outbox
	failure atomic.Pointer[error] // why the writer can't write; nil while it can
	written atomic.Uint64         // the last position that is durable
	wake    chan struct{}
	stop    chan struct{}
	stopped chan struct{}
	once    sync.Once
}

// lineage is which future this is.
type lineage struct {
	branch, parent, fork uint64
}

// front is all that Remember touches. Its lock is never held across more than a
// few map look-ups.
type front struct {
	mu      sync.Mutex
	next    uint64 // the next position
	inbox   []*op
	known   map[sameKey]ID
	made    map[ID]*Memory // only what the game gave is read here
	refuse  error          // why nothing is accepted; nil while it is
	backlog int            // changes that are not written yet
	saves   int            // of them
}

// Open opens the store in cfg.Dir, or makes one, and begins to write. What had to
// be done to open it, for instance a torn end that was cut off, is in Notes.
func Open(cfg Config) (*Store, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if cfg.disk == nil {
		cfg.disk = system{}
	}
	s := &Store{cfg: cfg, wake: make(chan struct{}, 1), stop: make(chan struct{}), stopped: make(chan struct{})}
	if cfg.Dir == "" {
		s.install(newState(&s.cfg), 1)
		s.branch.branch = 1
		s.adoptEmbedder()
		return s, nil
	}
	lock, err := lockStore(cfg.Dir)
	if err != nil {
		return nil, err
	}
	s.lock = lock
	if err := s.load(); err != nil {
		return nil, errors.Join(err, lock.release())
	}
	s.adoptEmbedder()
	s.signal()
	go s.writeLoop()
	return s, nil
}

// View opens a store, or a save, for reading: it locks nothing and changes no
// file, so a tool may look while a game plays. What the game writes meanwhile is
// not seen.
func View(cfg Config, path string) (*Store, error) {
	cfg.Dir = ""
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	s := &Store{cfg: cfg}
	s.cfg.disk = system{}
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("rag: no store: %w", err)
	}
	c := contents{}
	if info.IsDir() {
		c, err = readQuietly(path)
	} else {
		c.snap, err = readSave(path)
	}
	if err != nil {
		return nil, err
	}
	st := c.state(&s.cfg)
	s.notes = c.notes
	h := c.snap.head
	s.branch = lineage{h.branch, h.parent, h.fork}
	s.install(st, h.next)
	s.written.Store(st.position)
	s.front.refuse = ErrReadOnly
	return s, nil
}

// readQuietly reads a store that may be compacted meanwhile: its journal then
// goes between two looks, and the next look finds the new pair.
func readQuietly(dir string) (c contents, err error) {
	const tries = 5
	for range tries {
		if c, err = readStore(dir, false); err == nil && (c.journal != "" || !c.found) {
			break
		}
	}
	if err == nil && !c.found && c.journal == "" {
		return c, fmt.Errorf("rag: %s holds no memories", dir)
	}
	return c, err
}

// Notes says what Open found and did beyond reading. Empty is usual.
func (s *Store) Notes() []string { return slices.Clone(s.notes) }

// install makes st the state; next is the next position to give.
func (s *Store) install(st *state, next uint64) {
	s.state = st
	f := &s.front
	f.next, f.inbox, f.backlog = max(next, st.position+1), nil, 0
	f.known, f.made = make(map[sameKey]ID, len(st.order)), make(map[ID]*Memory, len(st.order))
	for _, it := range st.order {
		f.made[it.m.ID] = &it.m
		if !it.m.Superseded {
			f.known[keyOf(&it.m)] = it.m.ID
		}
	}
}

// adoptEmbedder sets the identity of a store that has no vectors. A store of
// another embedder keeps its own until Reindex. The caller is alone, or holds
// front.mu.
func (s *Store) adoptEmbedder() {
	if s.cfg.Embedder == nil || s.state.identity != (Identity{}) {
		return
	}
	s.push(&op{kind: kindIdentity, model: s.cfg.Embedder.Identity()})
}

// Remember keeps a memory: it is recallable from now on, and durable when Poll
// gives an event Durable with at least its id. The same words of the same
// speaker, owner and audience reinforce the memory that is there, whose id is
// then returned.
//
// It neither reads nor writes files and embeds nothing. Only when Backlog
// changes wait for the writer does it write a small slice of them itself, which
// takes as long as the disk takes; where the disk fails, it refuses with
// ErrBacklog, and nothing that was accepted is dropped.
func (s *Store) Remember(m Memory) (ID, error) {
	return s.remember(m, 0, 0)
}

// Supersede keeps a memory that takes the place of an older one from m.At on. The
// older one stays, with the time until which it held, and is recalled only by
// who asks for the past.
func (s *Store) Supersede(old ID, m Memory) (ID, error) {
	if old == 0 {
		return 0, fmt.Errorf("%w: id 0", ErrUnknown)
	}
	return s.remember(m, old, m.At)
}

func (s *Store) remember(m Memory, old ID, at GameTime) (ID, error) {
	m, err := m.normal()
	if err != nil {
		return 0, err
	}
	if err := s.makeRoom(2); err != nil {
		return 0, err
	}
	id, err := s.accept(m, old, at)
	if err != nil {
		return 0, err
	}
	s.signal()
	if s.cfg.Eager {
		s.Work(time.Hour)
	}
	return id, nil
}

// accept puts the changes into the queue.
func (s *Store) accept(m Memory, old ID, at GameTime) (ID, error) {
	f := &s.front
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case f.refuse != nil:
		return 0, f.refuse
	case len(f.made) >= maxMemories:
		return 0, ErrFull
	}
	if err := f.cites(&m); err != nil {
		return 0, err
	}
	key := keyOf(&m)
	id, known := f.known[key]
	if old != 0 {
		before := f.made[old]
		if before == nil {
			return 0, fmt.Errorf("%w: id %d is to be superseded", ErrUnknown, old)
		}
		if known && id == old {
			return 0, fmt.Errorf("%w: it says what memory %d says, which it is to supersede", ErrMemory, old)
		}
		if was := keyOf(before); f.known[was] == old {
			delete(f.known, was)
		}
	}
	if known {
		s.push(&op{kind: kindReinforce, id: id, at: m.At, level: m.Importance})
	} else {
		id = ID(f.next)
		m.ID = id
		o := &op{kind: kindRemember, mem: m}
		f.known[key], f.made[id] = id, &o.mem
		s.push(o)
	}
	if old != 0 {
		s.push(&op{kind: kindSupersede, id: old, by: id, at: at})
	}
	return id, nil
}

// cites checks the sources of a derived memory.
func (f *front) cites(m *Memory) error {
	for _, id := range m.Sources {
		source := f.made[id]
		if source == nil {
			return fmt.Errorf("%w: source %d", ErrUnknown, id)
		}
		if !noWider(m, source) {
			return fmt.Errorf("%w: it would tell memory %d to more than may know it; keep it to the same circle",
				ErrMemory, id)
		}
	}
	return nil
}

// push queues a change under front.mu. A save takes the position of the last
// change: it is not written into the journal, so a position of its own could be
// acknowledged and, after a crash, given to a memory.
func (s *Store) push(o *op) {
	f := &s.front
	if o.kind != kindSave {
		f.next++
	}
	o.seq, o.stamp = f.next-1, s.cfg.Clock()
	f.inbox = append(f.inbox, o)
	f.backlog++
}

// helpSlice is how many changes Remember writes itself at the limit: about 10 kB.
const helpSlice = 32

// makeRoom keeps the queue within Backlog.
func (s *Store) makeRoom(n int) error {
	f := &s.front
	for {
		f.mu.Lock()
		room, refuse := f.backlog+n <= max(s.cfg.Backlog, n), f.refuse
		f.mu.Unlock()
		if refuse != nil {
			return refuse
		}
		if room {
			return nil
		}
		if err := s.writeSome(helpSlice); err != nil {
			return fmt.Errorf("%w: %w", ErrBacklog, err)
		}
	}
}

// signal wakes the writer.
func (s *Store) signal() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// applyAll makes the changes that wait. The caller holds mu.
func (s *Store) applyAll() {
	f := &s.front
	f.mu.Lock()
	in := f.inbox
	f.inbox = nil
	f.mu.Unlock()
	for _, o := range in {
		s.state.apply(o)
		if o.kind == kindSave {
			o.save.snap = s.snapshotNow()
		}
	}
	s.forget(in)
	if s.cfg.Dir != "" {
		s.waiting = append(s.waiting, in...)
		return
	}
	s.done(in)
}

// forget lets the front look at the memories of the state, so that the changes
// that made them can go.
func (s *Store) forget(ops []*op) {
	const atOnce = 64 // keeps Remember from waiting long for the lock
	for ; len(ops) > 0; ops = ops[min(atOnce, len(ops)):] {
		s.front.mu.Lock()
		for _, o := range ops[:min(atOnce, len(ops))] {
			if o.kind != kindRemember {
				continue
			}
			if it := s.state.items[o.mem.ID]; it != nil {
				s.front.made[it.m.ID] = &it.m
			}
		}
		s.front.mu.Unlock()
	}
}

// done counts changes as durable.
func (s *Store) done(ops []*op) {
	if len(ops) == 0 {
		return
	}
	s.front.mu.Lock()
	s.front.backlog -= len(ops)
	s.front.mu.Unlock()
	last := ops[len(ops)-1].seq
	s.written.Store(last)
	s.outbox.durable(last)
}

// Show gives one memory as it is, if k may know it. The zero Knower knows only
// what the world knows; see All for tools.
func (s *Store) Show(k Knower, id ID) (Memory, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.applyAll()
	it := s.state.items[id]
	if it == nil || !k.MayKnow(&it.m) {
		return Memory{}, fmt.Errorf("%w: id %d", ErrUnknown, id)
	}
	return it.m.clone(), nil
}

// All calls visit with each memory in the order of ids, whoever may know it: for
// tools, not for characters.
func (s *Store) All(visit func(Memory) bool) {
	s.mu.Lock()
	s.applyAll()
	items := s.state.copied()
	s.mu.Unlock()
	for _, it := range items {
		if !visit(it.m.clone()) {
			return
		}
	}
}

func (m Memory) clone() Memory {
	m.Audience, m.Sources = slices.Clone(m.Audience), slices.Clone(m.Sources)
	return m
}
