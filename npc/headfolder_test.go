package npc

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/lull-npc/lull/runtime/llm"
	"github.com/lull-npc/lull/runtime/scripted"
)

func TestHeadFolderKeepsTheNewest(t *testing.T) {
	dir := t.TempDir()
	f, err := NewHeadFolder(filepath.Join(dir, "heads"), 300)
	if err != nil {
		t.Fatal(err)
	}
	info := llm.Info{Name: "m", Library: "l"}
	state := func(n byte) []byte { return bytes.Repeat([]byte{n}, 100) }
	past := time.Unix(1_000_000, 0)
	for n := byte(1); n <= 4; n++ {
		f.Put(info, []llm.Token{llm.Token(n)}, state(n))
		name := f.file(info, []llm.Token{llm.Token(n)})
		if err := os.Chtimes(name, past, past.Add(time.Duration(n)*time.Hour)); err != nil {
			t.Fatal(err)
		}
		if n == 3 && !bytes.Equal(f.Get(info, []llm.Token{1}), state(1)) { // used: it is no more the oldest
			t.Error("the first is lost")
		}
	}
	for n, want := range map[byte]bool{1: true, 2: false, 3: true, 4: true} {
		got := f.Get(info, []llm.Token{llm.Token(n)})
		if (got != nil) != want || want && !bytes.Equal(got, state(n)) {
			t.Errorf("head %d is there: %v, want %v", n, got != nil, want)
		}
	}
	if f.Get(llm.Info{Name: "other", Library: "l"}, []llm.Token{1}) != nil {
		t.Error("the head of another model")
	}
	f.Put(info, []llm.Token{9}, make([]byte, 301))
	if f.Err() == nil {
		t.Error("no error about a head that does not fit")
	}
}

// After a restart a character's first reply computes only what is new.
func TestHeadsAfterRestart(t *testing.T) {
	dir := t.TempDir()
	var first [2]llm.Usage
	for run := range first {
		heads, err := NewHeadFolder(dir, 0)
		if err != nil {
			t.Fatal(err)
		}
		model, err := scripted.New(scripted.Config{Context: 4096, Script: scripted.Echo})
		if err != nil {
			t.Fatal(err)
		}
		engine, err := llm.NewEngine(model, llm.EngineConfig{Heads: heads})
		if err != nil {
			t.Fatal(err)
		}
		w, err := NewWorld(WorldConfig{Engine: engine, Model: model, Manual: true})
		if err != nil {
			t.Fatal(err)
		}
		s := &stage{T: t, model: model, engine: engine, world: w, tick: frame, steps: 4}
		brenna, err := LoadPersona("blacksmith")
		if err != nil {
			t.Fatal(err)
		}
		brenna.Sampling = llm.Sampling{}
		s.add("brenna", brenna)
		s.say("brenna", "Hello")
		s.until(EventDone, "brenna")
		first[run] = w.Explain("brenna")[0].Usage
		w.Close()
		engine.Close()
		if err := heads.Err(); err != nil {
			t.Fatal(err)
		}
	}
	if first[0].Reused != 0 || first[1].Prefilled*4 > first[0].Prefilled {
		t.Errorf("before the restart %+v, after it %+v", first[0], first[1])
	}
}
