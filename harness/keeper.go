package harness

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/lull-npc/lull/rag"
	"github.com/lull-npc/lull/runtime/llm"
	"github.com/lull-npc/lull/runtime/local"
	"github.com/lull-npc/lull/scheduler"
)

const (
	// maxRecalls may wait at one time: two for each character that there may be.
	maxRecalls = 2 * maxNPCs

	// recalled memories stand in a prompt, each cut to noteRunes: about 100 tokens
	// in all.
	recalled  = 3
	noteRunes = 160

	// maxSamples of times are kept: a recall every frame for a quarter of an hour.
	maxSamples = 1 << 16
)

// keeper is the memory of the characters in one run. Call from the game thread,
// but for what says otherwise.
type keeper struct {
	folder     string
	memories   *local.Memories
	store      *rag.Store
	render     func(persona, ask string) ([]llm.Token, int, error)
	happenings []happening
	now        func() int64

	events []rag.Event
	ids    []rag.ID // of what was remembered, in the order of ids
	acked  int      // of them
	phase  int      // of the last frame; -1: none
	out    memoryRecord

	jobs    chan recallJob
	results chan recallJob
	ctx     context.Context // of recalls
	cancel  context.CancelFunc
	scribe  sync.WaitGroup
	once    sync.Once
}

// memoryRecord is what came of the memories of a run.
type memoryRecord struct {
	before, after local.MemoryStats
	ids, acked    int
	pending       map[int]int // by phase of the timeline, when it ended
	remember      []time.Duration
	recall        []time.Duration
	dense, found  int // recalls
	failed        int
	err           error // the first one
}

// recallJob is a question on its way to a prompt.
type recallJob struct {
	speaker *speaker
	ask     int
	at      rag.GameTime
	begun   int64

	prompt      []llm.Token
	keep        int
	dense, some bool
	err         error
}

// newKeeper opens the memory of a run in a folder of its own.
func newKeeper(ctx context.Context, rt *local.Runtime, s *session) (k *keeper, err error) {
	k = &keeper{phase: -1, now: s.clock.Now, events: make([]rag.Event, 0, 64),
		jobs: make(chan recallJob, maxRecalls), results: make(chan recallJob, maxRecalls)}
	k.render = func(persona, ask string) ([]llm.Token, int, error) { return render(rt.Model, persona, ask) }
	most := 0
	for i := range s.scenario.Memories {
		h := newHappening(&s.scenario.Memories[i], s.timeline)
		k.happenings = append(k.happenings, h)
		most += len(h.memories)
	}
	k.ids = make([]rag.ID, 0, most)
	k.out = memoryRecord{pending: map[int]int{}, remember: make([]time.Duration, 0, most),
		recall: make([]time.Duration, 0, 4096)}
	if k.folder, err = os.MkdirTemp("", "lull-harness-"); err != nil {
		return nil, err
	}
	if err := k.open(ctx, rt, s); err != nil {
		return nil, errors.Join(fmt.Errorf("harness: memories: %w", err), os.RemoveAll(k.folder))
	}
	k.ctx, k.cancel = context.WithCancel(context.Background())
	k.scribe.Go(k.write)
	return k, nil
}

func (k *keeper) open(ctx context.Context, rt *local.Runtime, s *session) (err error) {
	k.memories, err = rt.OpenMemories(ctx, local.MemoryConfig{
		Embedder: local.EmbedderConfig{Assets: s.assets}, OpenEmbedder: s.embedder,
		Eager: s.policy.Lacks.Has(Deferral),
	})
	if err != nil {
		return err
	}
	cfg := rag.DefaultConfig(k.folder)
	cfg.NoLexical = s.policy.Lacks.Has(Lexical)
	k.store, err = k.memories.Open(cfg)
	return err
}

// enter is told the phase of the frame that begins, before lull is.
func (k *keeper) enter(p int) {
	if p != k.phase && k.phase >= 0 {
		k.out.pending[k.phase] = k.waiting()
	}
	k.phase = p
}

// frame remembers what happens now and hears what became of it.
func (k *keeper) frame(p int, played time.Duration) {
	k.hear()
	if played < 0 {
		return
	}
	for i := range k.happenings {
		for {
			m, ok := k.happenings[i].next(p, played)
			if !ok {
				break
			}
			k.remember(m)
		}
	}
}

func (k *keeper) remember(m rag.Memory) {
	begin := k.now()
	id, err := k.store.Remember(m)
	k.out.remember = append(k.out.remember, time.Duration(k.now()-begin))
	if err != nil {
		k.out.failed++
		k.note(fmt.Errorf("harness: %s remembers: %w", m.Owner, err))
		return
	}
	if n := len(k.ids); n == 0 || id > k.ids[n-1] { // else it was told before
		k.ids = append(k.ids, id)
	}
}

// waiting is how many memories have no vector yet and will get one.
func (k *keeper) waiting() int {
	s := k.memories.Stats()
	return max(0, len(k.ids)-s.Indexed-s.GivenUp)
}

func (k *keeper) hear() {
	k.events = k.store.Poll(k.events[:0])
	for i := range k.events {
		e := &k.events[i]
		for e.Kind == rag.Durable && k.acked < len(k.ids) && uint64(k.ids[k.acked]) <= e.Position {
			k.acked++
		}
		if e.Err != nil {
			k.note(e.Err)
		}
		k.events[i] = rag.Event{}
	}
}

func (k *keeper) note(err error) {
	if k.out.err == nil {
		k.out.err = err
	}
}

// recall hands a question over to the scribe. It reports false where too many
// wait.
func (k *keeper) recall(sp *speaker, ask int, played time.Duration) bool {
	select {
	case k.jobs <- recallJob{speaker: sp, ask: ask, at: rag.GameTime(max(played, 0)), begun: k.now()}:
		return true
	default:
		return false
	}
}

// take is the next question whose prompt is ready.
func (k *keeper) take() (j recallJob, ok bool) {
	select {
	case j = <-k.results:
	default:
		return j, false
	}
	if len(k.out.recall) < maxSamples {
		k.out.recall = append(k.out.recall, time.Duration(k.now()-j.begun))
		k.out.dense += btoi(j.dense)
		k.out.found += btoi(j.some)
	}
	if j.err != nil {
		k.note(j.err)
	}
	return j, true
}

// write is the scribe: it recalls, and makes prompts of what it found, on a
// goroutine of its own.
func (k *keeper) write() {
	for {
		select {
		case <-k.ctx.Done():
			return
		case j := <-k.jobs:
			k.prepare(&j)
			select {
			case k.results <- j:
			case <-k.ctx.Done():
				return
			}
		}
	}
}

func (k *keeper) prepare(j *recallJob) {
	sp := j.speaker
	got, err := k.store.Recall(k.ctx, rag.Query{Knower: rag.Knower{NPC: sp.name}, Text: sp.asks[j.ask], Now: j.at,
		Limit: recalled, LexicalOnly: !k.memories.MayEmbed()})
	j.dense, j.some = got.Dense, len(got.Found) > 0
	j.prompt, j.keep = sp.prompts[j.ask], sp.keep
	if err == nil && !errors.Is(got.Err, rag.ErrInterrupted) {
		err = got.Err
	}
	if err != nil {
		j.err = fmt.Errorf("harness: %s recalls: %w", sp.name, err)
	}
	if !j.some {
		return
	}
	prompt, keep, err := k.render(sp.persona, reminded(got.Found, sp.asks[j.ask]))
	if err != nil {
		j.err = fmt.Errorf("harness: prompt of %q: %w", sp.name, err)
		return
	}
	j.prompt, j.keep = prompt, keep
}

// reminded puts what came to mind before a question, as npc does.
func reminded(found []rag.Found, ask string) string {
	var b strings.Builder
	for _, f := range found {
		text := []rune(f.Text)
		if f.Speaker != "" {
			text = append([]rune(f.Speaker+" said: "), text...)
		}
		b.WriteString("You remember: " + string(text[:min(noteRunes, len(text))]) + "\n")
	}
	return b.String() + ask
}

// measure begins the measured time.
func (k *keeper) measure() {
	k.phase = -1
	clear(k.out.pending)
	k.out.before = k.memories.Stats()
	k.out.recall, k.out.dense, k.out.found = k.out.recall[:0], 0, 0
}

// finish ends it.
func (k *keeper) finish() {
	if k.phase >= 0 {
		k.out.pending[k.phase] = k.waiting()
	}
	k.out.after = k.memories.Stats()
	k.stop()
}

// stop ends the scribe.
func (k *keeper) stop() {
	k.cancel()
	k.scribe.Wait()
}

// close is called when the runtime is closed, and the store with it. It says what
// came of the run.
func (k *keeper) close() (memoryRecord, error) {
	var err error
	k.once.Do(func() {
		k.stop()
		k.hear()
		k.out.ids, k.out.acked = len(k.ids), k.acked
		err = os.RemoveAll(k.folder)
	})
	return k.out, err
}

// embeddings is what was embedded in a phase.
func (r *memoryRecord) embeddings(p scheduler.Phase) int {
	return r.after.Embeddings[p] - r.before.Embeddings[p]
}
