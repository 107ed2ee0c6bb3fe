package llamacpp

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync/atomic"
	"testing"
	"unsafe"

	"github.com/hybridgroup/yzma/pkg/llama"
	"pgregory.net/rapid"

	"github.com/lull-npc/lull/internal/testassets"
	"github.com/lull-npc/lull/runtime/assets"
	"github.com/lull-npc/lull/runtime/llm"
)

func bits(xs []float32) []byte { return unsafe.Slice((*byte)(unsafe.Pointer(&xs[0])), 4*len(xs)) }

// pair is one model opened twice: its head in slices, and whole.
type pair struct {
	sliced, whole *Model
	a, b          llm.Batch
}

func openPair(t *testing.T, file string) *pair {
	library, _ := testassets.Locate(t)
	if err := Load(library); err != nil {
		t.Fatal(err)
	}
	p := &pair{}
	for _, m := range []**Model{&p.sliced, &p.whole} {
		opt := Options{Clock: llm.NewClock(), Admit: admit, Context: 256, MaxSequences: 3, MaxBatch: 64, Threads: 2,
			WholeHead: m == &p.whole}
		var err error
		if *m, err = Open(context.Background(), file, opt); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { (*m).Close() })
	}
	return p
}

// sequences opens one in each model; Add goes to both.
func (p *pair) sequences(t *testing.T) (add func(n int, logits bool), done func()) {
	x, err1 := p.sliced.NewSequence()
	y, err2 := p.whole.NewSequence()
	if err := errors.Join(err1, err2); err != nil {
		t.Fatal(err)
	}
	next := llm.Token(100)
	return func(n int, logits bool) {
		for range n {
			p.a.Add(x, next, logits)
			p.b.Add(y, next, logits)
			next += 7
		}
	}, func() { x.Close(); y.Close() }
}

// decode runs both batches and compares every bit of every row of logits.
func (p *pair) decode(t *testing.T, what string, g llm.Grant) (inSlices bool) {
	t.Helper()
	w, err := p.sliced.Decode(&p.a, g)
	inSlices = p.sliced.hook.wholeHead() == nil
	_, err2 := p.whole.Decode(&p.b, g)
	if err := errors.Join(err, err2); err != nil {
		t.Fatal(err)
	}
	p.a.Reset()
	p.b.Reset()
	for row := range p.sliced.rows {
		x, _ := p.sliced.Logits(row)
		y, _ := p.whole.Logits(row)
		if !bytes.Equal(bits(x), bits(y)) {
			t.Errorf("%s: row %d of %d is another one in slices", what, row, w.Tokens)
		}
	}
	return inSlices
}

// The head in slices gives the same bits as the head in one piece, whatever the
// weight's format, the batch and the halts.
func TestSlicedHeadIsTheWholeHead(t *testing.T) {
	every := []int{1, 2, 3, 4, 5, 6, 7, 8, 9}
	some := []int{1, 2, 4, 7, 9} // one row, pairs, whole and broken fours, more than eight
	if os.Getenv("LULL_SOAK") != "" {
		some = every
	}
	for _, c := range []struct {
		name, buffer string
		widths       []int
		file         func(*testing.T) string
	}{
		{"Q4_0", "CPU_Mapped", every, func(t *testing.T) string { _, file := testassets.Locate(t); return file }},
		{"Q4_1", "CPU_Mapped", some, func(t *testing.T) string { return assetFile(t, "smollm2-135m-instruct-q4_1") }},
		{"repacked head", "CPU_REPACK", some, repackedHead},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := openPair(t, c.file(t))
			for _, width := range c.widths {
				add, done := p.sequences(t)
				runs := []struct{ threads, stride int }{{1, 0}, {1, 1}, {1, 3}}
				if width == 1 || width == 4 || width == 9 {
					runs[2].threads = 2
				}
				for i, run := range runs {
					p.sliced.Gate().Publish(llm.Window{LayersPerStop: run.stride})
					add(width, true)
					if got := p.decode(t, "verify", llm.Grant{Threads: run.threads}); got != (i > 0) {
						t.Errorf("%d rows, decode %d of that width: head in slices %v", width, i, got)
					}
				}
				done()
			}
			if got := ggml.bufferName(p.sliced.head.weight.buffer); got != c.buffer {
				t.Logf("the head's weight lies in %s here, not in %s", got, c.buffer)
			}
			t.Logf("%d slices of %d rows, weight of type %d", p.sliced.head.count, p.sliced.head.rows,
				p.sliced.head.weight.kind)
			mixedBatches(t, p)
		})
	}
}

// mixedBatches: prompts with one wanted row or none, several sequences of
// unequal length (llama.cpp cuts them into several graphs), and too many rows.
func mixedBatches(t *testing.T, p *pair) {
	g := llm.Grant{Threads: 1}
	for _, stride := range []int{0, 1} {
		p.sliced.Gate().Publish(llm.Window{LayersPerStop: stride})
		one, end1 := p.sequences(t)
		two, end2 := p.sequences(t)
		three, end3 := p.sequences(t)
		one(20, false)
		p.decode(t, "prompt without logits", g)
		one(10, false)
		one(1, true)
		if !p.decode(t, "end of a prompt", g) {
			t.Error("the head after a prompt is whole")
		}
		for range 2 {
			two(5, false)
			one(1, true)
			two(2, true)
			three(1, true)
			p.decode(t, "three sequences, unequal", g)
			three(1, true)
			two(1, true)
			one(1, true)
			if !p.decode(t, "three sequences, one token each", g) {
				t.Error("the head of three replies is whole")
			}
		}
		one(maxHeadWidth+1, true)
		if p.decode(t, "many rows", g) {
			t.Errorf("%d rows were computed in slices", maxHeadWidth+1)
		}
		end1()
		end2()
		end3()
	}
}

func assetFile(t *testing.T, name string) string {
	found, err := assets.Locate(assets.Options{Model: name})
	if err != nil {
		t.Skipf("%s is not here: %v", name, err)
	}
	return found.Model.Path
}

// repackedHead makes a model whose embedding table, which is its head, is Q4_0:
// ggml interleaves the rows of such a weight.
func repackedHead(t *testing.T) string {
	const q4_0 = 2 // ggml_type
	file := filepath.Join(t.TempDir(), "repacked.gguf")
	params := llama.ModelQuantizeDefaultParams()
	params.Ftype, params.AllowRequantize, params.Pure, params.NThread = llama.FtypeMostlyQ4_0, 1, 1, 2
	params.OutputTensorType, params.TokenEmbeddingType = q4_0, q4_0
	library, source := testassets.Locate(t)
	if err := Load(library); err != nil {
		t.Fatal(err)
	}
	if code := llama.ModelQuantize(source, file, &params); code != 0 {
		t.Fatalf("quantising gave %d: %s", code, lastLog())
	}
	return file
}

// A slice that is off by one bit is never trusted.
func TestHeadIsVerified(t *testing.T) {
	p := openPair(t, assetFile(t, ""))
	add, _ := p.sequences(t)
	add(1, true)
	p.decode(t, "first", llm.Grant{Threads: 1})
	m := p.sliced
	add(2, true)
	if _, err := m.Decode(&p.a, llm.Grant{Threads: 1}); err != nil {
		t.Fatal(err)
	}
	head := m.hook.wholeHead() // of two rows, seen for the first time
	g := m.head.build(head)
	if same, _ := m.head.verify(g, head); !same {
		t.Error("slices of a head as it was computed differ from it")
	}
	logits := unsafe.Slice(*(**uint32)(unsafe.Pointer(&head.data)), 2*m.info.Vocab)
	for _, at := range []int{0, m.info.Vocab - 1, m.info.Vocab + 12345} {
		logits[at] ^= 1
		if same, _ := m.head.verify(g, head); same {
			t.Errorf("logit %d was changed, and slices that differ from it pass", at)
		}
		logits[at] ^= 1
	}
	m.Stop()
	if same, stopped := m.head.verify(g, head); same || !stopped {
		t.Errorf("verifying while stopped: same %v, stopped %v", same, stopped)
	}
	ggml.free(g.ctx)
}

// Stops at any group of layers or of slices, with one thread and with two:
// nothing of the batch is kept, the cache is as the ledger says, and the reply
// goes on as without them.
func TestStopsBetweenSlices(t *testing.T) {
	fewerChecks(t, 30)
	m := open(t, func(o *Options) { o.Threads = 2 })
	prompt := tokens(t, m, "The lamp on the table", false)
	const replies = 3
	want := greedy(t, m, prompt, replies)
	begun, _ := m.NewSequence()
	if _, err := continueGreedy(m, begun, prompt[:len(prompt)-1], 0); err != nil {
		t.Fatal(err)
	}
	m.Gate().Publish(llm.Window{LayersPerStop: 1})
	sampler, _ := m.NewSampler(llm.Sampling{})
	between := 0
	property := func(t *rapid.T) {
		s, err := m.NewSequence()
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		var b llm.Batch
		b.Add(s, prompt[len(prompt)-1], true)
		err = s.CopyFrom(begun)
		if _, err2 := m.Decode(&b, llm.Grant{Threads: 1}); errors.Join(err, err2) != nil {
			t.Fatal(err, err2)
		}
		for i := range replies {
			next, err := sampler.Sample(0)
			if err != nil || next != want[i] {
				t.Fatalf("token %d is %d (%v), want %d", i, next, err, want[i])
			}
			b.Reset()
			b.Add(s, next, true)
			kept := slices.Clone(s.Tokens())
			group := rapid.IntRange(1, m.info.Layers+m.head.count).Draw(t, "group")
			if rapid.Bool().Draw(t, "in the head") {
				group = max(group, m.info.Layers+1)
			}
			w, err := stopAfter(m, &b, group, rapid.SampledFrom([]int{1, 1, 1, 1, 1, 2}).Draw(t, "threads"))
			if err == nil {
				continue // the stop came too late
			}
			if !errors.Is(err, llm.ErrStopped) || !w.Stopped || !slices.Equal(kept, s.Tokens()) ||
				!s.(*sequence).holds(len(kept)) {
				t.Fatalf("stopped in group %d: %v, %d tokens became %d", group, err, len(kept), len(s.Tokens()))
			}
			if n := len(w.Samples); n > 0 && int(w.Samples[n-1].First) == m.info.Layers {
				between++
			}
			if _, err := m.Decode(&b, llm.Grant{Threads: 1}); err != nil {
				t.Fatal(err)
			}
		}
	}
	for tries := 0; between == 0 && tries < 20; tries++ {
		rapid.Check(t, property)
	}
	if t.Logf("%d stops after a slice", between); between == 0 {
		t.Error("no stop came between two slices")
	}
}

// stopAfter decodes a batch and stops it once the model began that many groups.
func stopAfter(m *Model, b *llm.Batch, groups, threads int) (llm.Work, error) {
	_, before := m.Gate().Activity()
	var over atomic.Bool
	finished := make(chan struct{})
	go func() {
		defer close(finished)
		for !over.Load() {
			if _, n := m.Gate().Activity(); n >= before+uint64(groups) {
				m.Stop()
				return
			}
			m.opt.Clock.WaitUntil(m.opt.Clock.Now()+30_000, nil) // a core for the model
		}
	}()
	w, err := m.Decode(b, llm.Grant{Threads: threads})
	over.Store(true)
	<-finished
	m.Resume()
	return w, err
}

// fewerChecks lets properties of the real model be tried n times only, where
// nobody asks for another number and it's no soak.
func fewerChecks(t *testing.T, n int) {
	t.Helper()
	checks := flag.Lookup("rapid.checks")
	if os.Getenv("LULL_SOAK") != "" || checks.Value.String() != checks.DefValue {
		return
	}
	set := func(to string) {
		if err := flag.Set(checks.Name, to); err != nil {
			t.Fatal(err)
		}
	}
	set(strconv.Itoa(n))
	t.Cleanup(func() { set(checks.DefValue) })
}

func TestHeadSlices(t *testing.T) {
	const million = 1_000_000
	for _, c := range []struct {
		name        string
		rows        int64
		head, model uint64
		layers      int
		tied        bool
		count       int
		each        int64
	}{
		{"SmolLM2-135M, tied", 49152, 28_311_552, 134_515_008, 30, true, 8, 6144},
		{"a head of its own", 49152, 30 * million, 120 * million, 30, false, 15, 3328},
		{"a head as long as half a layer", 1000, million, 61 * million, 30, true, 1, 1024},
		{"a head that is nearly everything", 262144, 170 * million, 180 * million, 18, true, 48, 5504},
		{"the vocabulary's end is a short slice", 1000, 30 * million, 330 * million, 100, true, 8, 128},
		{"no layers", 1000, million, 2 * million, 0, true, 1, 1000},
		{"nothing beside the head", 1000, million, million, 4, true, 1, 1000},
	} {
		count, each := headSlices(c.rows, c.head, c.model, c.layers, c.tied)
		if count != c.count || each != c.each {
			t.Errorf("%s: %d slices of %d rows, want %d of %d", c.name, count, each, c.count, c.each)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		rows := rapid.Int64Range(1, 1<<19).Draw(t, "rows")
		head, model := rapid.Uint64().Draw(t, "head"), rapid.Uint64().Draw(t, "model")
		layers, tied := rapid.IntRange(0, 200).Draw(t, "layers"), rapid.Bool().Draw(t, "tied")
		n, each := headSlices(rows, head/4, model/4, layers, tied)
		if n < 1 || n > maxSlices || int64(n)*each < rows || int64(n-1)*each >= rows || n > 1 && each%64 != 0 {
			t.Errorf("%d rows in %d slices of %d", rows, n, each)
		}
	})
}

// Slices cost no memory of their own at each token. (purego's calls do.)
func TestSlicesDoNotAllocate(t *testing.T) {
	p := openPair(t, assetFile(t, ""))
	allocs := func(m *Model) float64 {
		s, _ := m.NewSequence()
		defer s.Close()
		m.Gate().Publish(llm.Window{LayersPerStop: 1})
		var b llm.Batch
		b.Add(s, 5, true)
		return testing.AllocsPerRun(10, func() {
			if _, err := m.Decode(&b, llm.Grant{Threads: 1}); err != nil {
				t.Fatal(err)
			}
		})
	}
	more := 0.5
	if GateKind != "C" {
		more = 4 * float64(maxSlices)
	}
	if a, b := allocs(p.sliced), allocs(p.whole); a > b+more {
		t.Errorf("a token with slices makes %v allocations, one without %v", a, b)
	}
}
