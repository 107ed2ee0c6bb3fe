package llamacpp

import (
	"context"
	"encoding/binary"
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/lull-npc/lull/internal/testassets"
	"github.com/lull-npc/lull/runtime/assets/convert"
	"github.com/lull-npc/lull/runtime/llm"
)

// openEmbedder opens the Q8_0 that lull uses; change edits the options.
func openEmbedder(t testing.TB, change func(*Options)) *Embedder {
	t.Helper()
	library, _, model := testassets.Embedder(t)
	if err := Load(library); err != nil {
		t.Fatal(err)
	}
	return openEmbedderFile(t, model, change)
}

func openEmbedderFile(t testing.TB, model string, change func(*Options)) *Embedder {
	t.Helper()
	opt := Options{Clock: llm.NewClock(), Admit: admit, Threads: 1}
	if change != nil {
		change(&opt)
	}
	e, err := OpenEmbedder(t.Context(), model, opt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	return e
}

// vector is Embed that must work and give a vector of length 1.
func vector(t testing.TB, e *Embedder, text string) []float32 {
	t.Helper()
	v, w, err := e.Embed(t.Context(), nil, text, llm.Grant{})
	if err != nil || len(v) != e.Dimension() || w.Tokens == 0 {
		t.Fatalf("%.40q: %v, %d numbers, %d tokens", text, err, len(v), w.Tokens)
	}
	mustBeUnit(t, text, v)
	return v
}

func mustBeUnit(t testing.TB, text string, v []float32) {
	t.Helper()
	if n := dot(v, v); math.Abs(n-1) > 1e-5 { // NaN is caught by the next line
		t.Errorf("%.40q: the vector's length squared is %v", text, n)
	} else if math.IsNaN(n) {
		t.Errorf("%.40q: the vector is no number", text)
	}
}

func dot(a, b []float32) (sum float64) {
	for i := range a {
		sum += float64(a[i]) * float64(b[i])
	}
	return sum
}

// reference is what the model's definition says of each line of sentences.txt.
type reference struct {
	text   string
	tokens []llm.Token
	vector []float32
}

func references(t *testing.T) (list []reference) {
	t.Helper()
	read := func(name string) []byte {
		b, err := os.ReadFile(filepath.Join("testdata", "minilm", name))
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	lines := strings.Split(strings.TrimSuffix(string(read("sentences.txt")), "\n"), "\n")
	ids := strings.Split(strings.TrimSuffix(string(read("tokens.txt")), "\n"), "\n")
	raw := read("vectors.f32")
	if len(lines) != 100 || len(ids) != 100 || len(raw) != 100*384*4 {
		t.Fatalf("%d sentences, %d lists of tokens, %d bytes of vectors", len(lines), len(ids), len(raw))
	}
	for i, text := range lines {
		r := reference{text: text}
		for id := range strings.FieldsSeq(ids[i]) {
			n, err := strconv.Atoi(id)
			if err != nil {
				t.Fatal(err)
			}
			r.tokens = append(r.tokens, llm.Token(n))
		}
		for at := i * 384 * 4; at < (i+1)*384*4; at += 4 {
			r.vector = append(r.vector, math.Float32frombits(binary.LittleEndian.Uint32(raw[at:])))
		}
		list = append(list, r)
	}
	return list
}

func TestEmbedderAgreesWithReference(t *testing.T) {
	library, source, q8 := testassets.Embedder(t)
	if err := Load(library); err != nil {
		t.Fatal(err)
	}
	f16 := filepath.Join(t.TempDir(), "f16.gguf")
	if err := convert.BERT(t.Context(), source, f16, convert.F16, nil); err != nil {
		t.Fatal(err)
	}
	list := references(t)
	for _, c := range []struct {
		name, path string
		least      float64 // cosine
	}{{"F16", f16, 0.999}, {"Q8_0", q8, 0.995}} {
		e := openEmbedderFile(t, c.path, nil)
		worst, of, sum, n := 1.0, "", 0.0, 0
		for _, r := range list {
			got := []llm.Token{101}
			got = append(append(got, e.tokens(r.text, 1)...), 102)
			if !slices.Equal(got, r.tokens) {
				t.Errorf("%s %q: tokens %v, want %v", c.name, r.text, got, r.tokens)
			}
			v, _, err := e.Embed(t.Context(), nil, r.text, llm.Grant{})
			if errors.Is(err, ErrNoContent) && onlyUnknown(r.tokens) {
				continue
			}
			if err != nil {
				t.Fatalf("%s %q: %v", c.name, r.text, err)
			}
			cosine := dot(v, r.vector)
			if sum, n = sum+cosine, n+1; cosine < worst {
				worst, of = cosine, r.text
			}
		}
		t.Logf("%s: %d vectors, mean cosine %.6f, the least %.6f, of %q", c.name, n, sum/float64(n), worst, of)
		if worst < c.least || n < 90 {
			t.Errorf("%s: cosine %.6f of %q, want %v", c.name, worst, of, c.least)
		}
	}
}

func onlyUnknown(tokens []llm.Token) bool {
	return !slices.ContainsFunc(tokens[1:len(tokens)-1], func(x llm.Token) bool { return x != 100 })
}

func TestEmbedderIdentity(t *testing.T) {
	e := openEmbedder(t, nil)
	id := e.Identity()
	if id.Pooling != "mean" || id.Dimension != 384 || id.MaxTokens != 256 || len(id.SHA256) != 64 ||
		!strings.HasPrefix(id.Name, "all-MiniLM-L6-v2 ") {
		t.Errorf("identity %+v", id)
	}
	again := openEmbedder(t, func(o *Options) { o.Threads = 2 })
	if again.Identity() != id {
		t.Errorf("the same file again: %+v, want %+v", again.Identity(), id)
	}
	// More positions than the model has would end the process.
	if wide := openEmbedder(t, func(o *Options) { o.Context = 4096 }); wide.Identity().MaxTokens != 512 {
		t.Errorf("4096 tokens asked for: %+v", wide.Identity())
	} else {
		vector(t, wide, strings.Repeat("a very long memory ", 5000))
	}
}

type embedFunc func(context.Context, []float32, string, llm.Grant) ([]float32, llm.Work, error)

// Every text gives a vector of length 1 or says that it has no content.
func TestEmbedderSpecimens(t *testing.T) {
	e := openEmbedder(t, nil)
	long := strings.Repeat("The king rode out at dawn. ", 4000)
	for _, c := range []struct {
		name, text string
		content    bool
	}{
		{"emoji", "😀😀 👨‍👩‍👧‍👦", false}, {"emoji in words", "I am so happy 😀 today!", true},
		{"right to left", "قال الحارس إن البوابة مكسورة.", true}, {"mixed direction", "he said שלום and left", true},
		{"CJK", "玩家把我父亲的戒指还给了我。", true}, {"Thai", "มังกรเผาโรงสี", false},
		{"Hindi", "राजा बीमार है।", true}, {"Korean", "아버지의 반지", true},
		{"100 kB", long, true}, {"100 kB without a space", strings.Repeat("x", 100_000), true},
		{"100 kB of spaces", strings.Repeat(" ", 100_000), false},
		{"100 kB of emoji", strings.Repeat("😀", 25_000), false},
		{"100 kB of combining marks", "a" + strings.Repeat("\u0301", 50_000), true},
		{"empty", "", false}, {"spaces", " \t\n ", false}, {"NUL", "\x00\x00", false}, {"NUL inside", "a\x00b", true},
		{"invalid UTF-8", "\xff\xfe\xc0", false}, {"invalid inside", "the \xffking\xc3", true},
		{"cut character", "the king \xe7\x8e", true}, {"surrogate", "\xed\xa0\x80", false},
		{"control tokens", "[CLS][SEP]", true}, {"zero width", "\u200b\u200d\ufeff", false},
	} {
		for _, embed := range map[bool][]embedFunc{false: {e.Embed}, true: {e.Embed, e.EmbedLong}}[c.text == long] {
			v, _, err := embed(t.Context(), nil, c.text, llm.Grant{})
			switch {
			case c.content && err == nil:
				mustBeUnit(t, c.name, v)
			case c.content || !errors.Is(err, ErrNoContent) || !errors.Is(err, llm.ErrRequest) || v != nil:
				t.Errorf("%s: %v, %d numbers, want content: %v", c.name, err, len(v), c.content)
			}
		}
	}
	if a, b := vector(t, e, long), vector(t, e, long[:40_000]); dot(a, b) < 0.9999 {
		t.Errorf("cut at the same place, the vectors have cosine %v", dot(a, b))
	}
}

// A short text is the same either way; of a long one, Embed sees the head only.
func TestEmbedLong(t *testing.T) {
	e := openEmbedder(t, nil)
	head := strings.Repeat("The smith sells swords and shields. ", 40)
	tail := strings.Repeat("Whales sing in the deep cold sea. ", 40)
	long := func(text string) []float32 {
		v, _, err := e.EmbedLong(t.Context(), nil, text, llm.Grant{})
		if err != nil {
			t.Fatal(err)
		}
		mustBeUnit(t, text, v)
		return v
	}
	if c := dot(long("The smith."), vector(t, e, "The smith.")); c < 0.99999 {
		t.Errorf("a short text: cosine %v", c)
	}
	whales := vector(t, e, "whales in the sea")
	cut, whole := dot(vector(t, e, head+tail), whales), dot(long(head+tail), whales)
	if whole < cut+0.1 {
		t.Errorf("whales at the end: cosine %.3f when cut, %.3f when split", cut, whole)
	}
	dst := []float32{7}
	if v, _, err := e.EmbedLong(t.Context(), dst, head, llm.Grant{}); err != nil || v[0] != 7 || len(v) != 385 {
		t.Errorf("appended to a vector: %v, %d numbers", err, len(v))
	}
}

// Cuts between passes fall between words.
func TestWordStart(t *testing.T) {
	e := openEmbedder(t, nil)
	list := e.tokens("the antidisestablishmentarianism of the abbot", 1)
	for n := 1; n < len(list); n++ {
		k := e.wordStart(list, n, len(list))
		piece := string(e.model.AppendPiece(nil, list[k]))
		if k > n || k < n-boundaryTokens || !strings.HasPrefix(piece, " ") && k != n {
			t.Errorf("cut after %d tokens: %d, before %q", n, k, piece)
		}
		if tight := e.wordStart(list, n, len(list)-n); tight != n {
			t.Errorf("cut after %d with no room behind: %d", n, tight)
		}
	}
}

// An embedder and a chat model behind one gate: closed, neither runs.
func TestEmbedderWaitsAtTheGate(t *testing.T) {
	m := open(t, nil)
	e := openEmbedder(t, func(o *Options) { o.Gate = m.Gate() })
	if e.Gate() != m.Gate() {
		t.Fatal("the gate is another one")
	}
	want := vector(t, e, "The mill burned down.")
	m.Gate().Publish(llm.Window{Mode: llm.GateClosed})
	done := whileWaiting(m, e.Stop)
	v, w, err := e.Embed(t.Context(), nil, "The mill burned down.", llm.Grant{})
	done()
	if !errors.Is(err, llm.ErrStopped) || !w.Stopped || w.Tokens != 0 || v != nil {
		t.Fatalf("stopped at a closed gate: %v, stopped %v, %d tokens", err, w.Stopped, w.Tokens)
	}
	e.Resume()
	clock := m.opt.Clock
	opens := clock.Now() + 20e6
	m.Gate().Publish(llm.Window{Mode: llm.GateWindow, Open: opens, Close: opens + 60e9})
	got, w, err := e.Embed(t.Context(), nil, "The mill burned down.", llm.Grant{})
	if err != nil || w.End < opens || w.Waited == 0 {
		t.Errorf("a window that opens at %d: %v, ended %d, waited %v", opens, err, w.End, w.Waited)
	}
	if c := dot(got, want); c < 0.99999 {
		t.Errorf("behind a gate the vector is another one: cosine %v", c)
	}
}

// BERT's layers have no names; the gate asks between them all the same.
func TestEmbedderStopsBetweenLayers(t *testing.T) {
	e := openEmbedder(t, nil)
	layers := e.Info().Layers
	e.Gate().Publish(llm.Window{Mode: llm.GateFree, LayersPerStop: 1})
	for range 2 {
		_, w, err := e.Embed(t.Context(), nil, "The mill burned down.", llm.Grant{})
		if err != nil || w.Stops < layers || len(w.Samples) < layers {
			t.Errorf("%v, asked %d times, %d samples, want one for each of %d layers", err, w.Stops, len(w.Samples),
				layers)
		}
	}
}

func TestEmbedderContextEnds(t *testing.T) {
	e := openEmbedder(t, nil)
	want := vector(t, e, "The mill burned down.")
	reason := errors.New("the level ended")
	ctx, cancel := context.WithCancelCause(t.Context())
	e.Gate().Publish(llm.Window{Mode: llm.GateClosed})
	done := whileWaiting(e.model, func() { cancel(reason) })
	_, w, err := e.EmbedLong(ctx, nil, strings.Repeat("The mill burned down. ", 200), llm.Grant{})
	done()
	if !errors.Is(err, reason) || errors.Is(err, llm.ErrStopped) || w.Tokens != 0 {
		t.Errorf("cancelled at a closed gate: %v, %d tokens", err, w.Tokens)
	}
	if _, _, err := e.Embed(ctx, nil, "again", llm.Grant{}); !errors.Is(err, reason) {
		t.Errorf("with an ended context: %v", err)
	}
	e.Gate().Publish(llm.Window{})
	if got := vector(t, e, "The mill burned down."); dot(got, want) < 0.99999 {
		t.Errorf("after a cancel: cosine %v", dot(got, want))
	}
	// A stop while layers run: whatever it hits, the next try gives the vector.
	for range 20 {
		running := whileWaiting(e.model, func() { e.Stop(); e.Resume() })
		_, _, err := e.Embed(t.Context(), nil, strings.Repeat("The mill burned down. ", 20), llm.Grant{})
		running()
		if err != nil && !errors.Is(err, llm.ErrStopped) {
			t.Fatal(err)
		}
	}
	if got := vector(t, e, "The mill burned down."); dot(got, want) < 0.99999 {
		t.Errorf("after stops: cosine %v", dot(got, want))
	}
	e.Close()
	if _, _, err := e.Embed(t.Context(), nil, "x", llm.Grant{}); !errors.Is(err, llm.ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
}

func TestBadEmbedderFiles(t *testing.T) {
	library, _, good := testassets.Embedder(t)
	_, chat := testassets.Locate(t)
	if err := Load(library); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(good)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	write := func(name string, content []byte) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	patch := func(key string, value ...byte) []byte { return append(patched(text, key, value), text[1<<20:]...) }
	for _, c := range []struct {
		path, says string
		want       error
	}{
		{chat, "chat model", ErrNoEmbedder},
		{write("reranker.gguf", patch("bert.pooling_type", 4)), "pooling 4", ErrNoEmbedder},
		{write("unpooled.gguf", patch("bert.pooling_type", 0)), "pooling 0", ErrNoEmbedder},
		{write("half.gguf", text[:len(text)/2]), "half.gguf", ErrModelFile},
		{write("short.gguf", text[:len(text)-1]), "short.gguf", ErrModelFile},
		{write("head.gguf", text[:3000]), "head.gguf", ErrModelFile},
		{write("text.gguf", []byte("not a model")), "begins with", ErrModelFile},
		{filepath.Join(dir, "missing.gguf"), "missing.gguf", ErrModelFile},
	} {
		e, err := OpenEmbedder(t.Context(), c.path, Options{Clock: llm.NewClock(), Admit: admit})
		if err == nil {
			e.Close()
		}
		if !errors.Is(err, c.want) || !errors.Is(err, ErrModelFile) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want %v that says %q", filepath.Base(c.path), err, c.want, c.says)
		}
	}
	if m, err := Open(t.Context(), good, Options{Clock: llm.NewClock(), Admit: admit}); err == nil {
		m.Close()
		t.Error("an embedder was opened to speak")
	} else if !errors.Is(err, ErrModelFile) || !strings.Contains(err.Error(), "embedder") {
		t.Errorf("an embedder opened to speak: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = OpenEmbedder(ctx, good, Options{Clock: llm.NewClock(), Admit: admit})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

// Whoever moves the switch last, it ends as the wishes say.
func TestHaltAgreesWithAllWishes(t *testing.T) {
	for range 200 {
		var mu sync.Mutex
		on := false
		h := halt{apply: func(v bool) { mu.Lock(); on = v; mu.Unlock() }}
		var wg sync.WaitGroup
		wg.Go(func() { h.set(haltOwner, true); h.set(haltOwner, false); h.set(haltOwner, true) })
		wg.Go(func() { h.set(haltContext, true); h.set(haltContext, false) })
		wg.Wait()
		if !on {
			t.Fatal("Stop was lost beside a context that ended")
		}
		h.set(haltOwner, false)
		if on {
			t.Fatal("Resume was lost")
		}
	}
}
