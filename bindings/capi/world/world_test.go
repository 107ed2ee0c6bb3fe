package world

import (
	"context"
	"fmt"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/lull-npc/lull/internal/testassets"
)

const patience = 30 * time.Second

func create(t testing.TB, def Def) ID {
	t.Helper()
	def.Scripted = true
	id, err := Create(def)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if Valid(id) {
			destroy(t, id)
		}
	})
	return id
}

func destroy(t testing.TB, id ID) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := Destroy(ctx, id); err != nil {
		t.Fatal(err)
	}
}

// in runs f inside a call of the host.
func in(t testing.TB, id ID, f func(w *World)) {
	t.Helper()
	w, err := Enter(id)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Leave()
	f(w)
}

func with(t testing.TB, id NPCID, f func(n *NPC)) {
	t.Helper()
	w, n, err := EnterNPC(id)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Leave()
	f(n)
}

func character(t testing.TB, id ID, def NPCDef) (npc NPCID) {
	t.Helper()
	def.Greedy = true
	if def.File == "" {
		def.File = "blacksmith"
	}
	in(t, id, func(w *World) {
		var err error
		if npc, err = w.CreateNPC(def); err != nil {
			t.Fatal(err)
		}
	})
	return npc
}

// frames polls as a game does until an event of that kind came, and writes what
// came as lines.
func frames(t testing.TB, id ID, until EventKind) string {
	t.Helper()
	var trace strings.Builder
	for end, over := time.Now().Add(patience), false; !over; {
		if time.Now().After(end) {
			t.Fatalf("no event %d came; until now:\n%s", until, trace.String())
		}
		in(t, id, func(w *World) {
			for {
				e := w.Peek()
				if e == nil {
					w.Collect()
					if e = w.Peek(); e == nil {
						break
					}
				}
				fmt.Fprintf(&trace, "%d %q %d %s\n", e.Kind, e.Text, e.Result, e.Reason)
				over = over || e.Kind == until
				w.Drop()
			}
		})
		runtime.Gosched()
	}
	return trace.String()
}

func TestConversation(t *testing.T) {
	id := create(t, Def{MemoryMode: MemoryVolatile})
	npc := character(t, id, NPCDef{Name: "smith"})
	with(t, npc, func(n *NPC) {
		if _, err := n.Say("Hello!"); CodeOf(err) != NotReady {
			t.Errorf("a line before the model is loaded: %v", err)
		}
	})
	frames(t, id, WorldReady)
	with(t, npc, func(n *NPC) {
		if _, err := n.Say("Mend my sword, please."); err != nil || !n.Busy() {
			t.Fatalf("%v, busy %v", err, n.Busy())
		}
	})
	trace := frames(t, id, Done)
	for _, want := range []string{`3 ""`, `5 "M`, `6 "Mend my sword, please."`, `9 ""`} {
		if !strings.Contains(trace, want) {
			t.Errorf("want %s in\n%s", want, trace)
		}
	}
	with(t, npc, func(n *NPC) {
		if n.Busy() {
			t.Error("busy after the end")
		}
		if line, err := n.Line(1); err != nil || line.Text != "Mend my sword, please." {
			t.Errorf("line 1: %q, %v", line.Text, err)
		}
		if text, err := n.Explain(); err != nil || !strings.Contains(text, "Brenna") {
			t.Errorf("explained: %v\n%s", err, text)
		}
	})
	in(t, id, func(w *World) {
		s := w.Statistics()
		if s.Replies != 1 || s.Generated == 0 || s.Memories == 0 || s.LastTotal <= 0 {
			t.Errorf("statistics %+v", s)
		}
	})
}

// A sentence with a blocked word is no event of text; the one before it is.
func TestBlocked(t *testing.T) {
	id := create(t, Def{Blocked: []string{"dragon*"}})
	npc := character(t, id, NPCDef{})
	frames(t, id, WorldReady)
	with(t, npc, func(n *NPC) {
		if _, err := n.Say("Good day. The Dragons sleep."); err != nil {
			t.Fatal(err)
		}
	})
	trace := frames(t, id, Done)
	if strings.Contains(trace, "Drag") || !strings.Contains(trace, fmt.Sprintf("\n%d ", Blocked)) ||
		!strings.Contains(trace, `6 "Good day."`) {
		t.Errorf("blocked:\n%s", trace)
	}
}

// A sentence that nobody will hear any more holds no other one up, whatever the
// game still owes to it: the timeout here is longer than the test.
func TestJudgeLetsGo(t *testing.T) {
	id := create(t, Def{ContentHook: true, ContentTimeout: time.Hour})
	said := func(name string) NPCID {
		npc := character(t, id, NPCDef{Name: name})
		with(t, npc, func(n *NPC) {
			if _, err := n.Say("I am " + name + "."); err != nil {
				t.Fatal(err)
			}
		})
		return npc
	}
	frames(t, id, WorldReady)
	gone := said("one")
	frames(t, id, Judge)
	said("two")
	with(t, gone, func(n *NPC) {
		if err := n.Destroy(); err != nil {
			t.Fatal(err)
		}
	})
	frames(t, id, Judge)
	in(t, id, func(w *World) {
		if w.asked.Text != "I am two." {
			t.Errorf("asked %+v", w.asked.Utterance)
		}
		if err := w.Judge(w.sentence-1, VerdictAllow, ""); CodeOf(err) != Nothing {
			t.Errorf("a verdict on what is gone: %v", err)
		}
		if err := w.Judge(w.sentence, VerdictReplace, "Call me\u202e three."); err != nil {
			t.Error(err)
		}
	})
	if trace := frames(t, id, Done); !strings.Contains(trace, `6 "Call me three."`) {
		t.Errorf("not replaced:\n%s", trace)
	}
	said("four") // and the world ends while it waits
	frames(t, id, Judge)
}

// A memory is found by what it means where the world has an embedder.
func TestEmbedder(t *testing.T) {
	library, _, file := testassets.Embedder(t)
	id, err := Create(Def{MemoryMode: MemoryVolatile, Embedder: file, Library: library})
	if err != nil {
		t.Fatal(err)
	}
	defer destroy(t, id)
	npc := character(t, id, NPCDef{Name: "smith"})
	frames(t, id, WorldReady)
	with(t, npc, func(n *NPC) {
		if err := n.Remember("The stranger paid for the horse with a golden ring.", "", 5); err != nil {
			t.Fatal(err)
		}
	})
	in(t, id, func(w *World) { // no frames are marked: nothing keeps it from being embedded
		if w.memory == nil || w.memory.store.Stats().Memories != 1 {
			t.Fatal("the memory is not there")
		}
	})
	for end := time.Now().Add(patience); ; {
		embedded := 0
		in(t, id, func(w *World) { embedded = w.memory.store.Stats().Vectors })
		if embedded == 1 {
			break
		}
		if time.Now().After(end) {
			t.Fatal("it got no vector")
		}
		Clock.WaitUntil(Clock.Now()+1e6, nil)
	}
}

// TestStale: ids of what is gone stay stale, also when their places are used
// again.
func TestStale(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		var old []ID
		var oldNPCs []NPCID
		for range rapid.IntRange(1, 4).Draw(rt, "lives") {
			id := create(t, Def{})
			npc := character(t, id, NPCDef{})
			if rapid.Bool().Draw(rt, "destroy the NPC first") {
				with(t, npc, func(n *NPC) {
					if err := n.Destroy(); err != nil {
						rt.Fatal(err)
					}
				})
				oldNPCs = append(oldNPCs, npc)
				npc = character(t, id, NPCDef{})
			}
			if !Valid(id) || !ValidNPC(npc) {
				rt.Fatal("what lives is not valid")
			}
			destroy(t, id)
			old, oldNPCs = append(old, id), append(oldNPCs, npc)
			for _, o := range old {
				if _, err := Enter(o); CodeOf(err) != StaleID || BeginDestroy(o) == nil {
					rt.Fatalf("world %v: %v", o, err)
				}
			}
			for _, o := range oldNPCs {
				if _, _, err := EnterNPC(o); CodeOf(err) != StaleID || ValidNPC(o) {
					rt.Fatalf("NPC %v: %v", o, err)
				}
			}
		}
	})
}

// TestManyThreads: calls from several threads while worlds come and go. The race
// detector looks on.
func TestManyThreads(t *testing.T) {
	var wg sync.WaitGroup
	for k := range 3 {
		wg.Go(func() {
			for range 10 {
				id, err := Create(Def{Scripted: true, MemoryMode: MemoryVolatile})
				if err != nil {
					t.Error(err)
					return
				}
				var npc NPCID
				if w, err := Enter(id); err == nil {
					npc, _ = w.CreateNPC(NPCDef{File: "innkeeper", Name: fmt.Sprint(k)})
					w.Leave()
				}
				done := make(chan struct{})
				go func() {
					defer close(done)
					hammer(id, npc)
				}()
				hammer(id, npc)
				if err := BeginDestroy(id); err != nil {
					t.Error(err)
				}
				<-done
				for !Ended(id) {
					runtime.Gosched()
				}
			}
		})
	}
	wg.Wait()
}

// hammer calls whatever it can; what is answered is no concern here.
func hammer(id ID, npc NPCID) {
	for i := range 200 {
		if w, err := Enter(id); err == nil {
			w.FrameBegin(uint64(i), time.Millisecond, 0)
			w.FrameEnd(uint64(i), 0, 0)
			w.Status()
			w.Statistics()
			if e := w.Peek(); e != nil {
				w.Drop()
			} else {
				w.Collect()
			}
			w.Leave()
		}
		if w, n, err := EnterNPC(npc); err == nil {
			switch i % 4 {
			case 0:
				n.Say("Good evening!")
			case 1:
				n.Interrupt()
			case 2:
				n.WarmUp()
			case 3:
				n.Lines()
			}
			w.Leave()
		}
	}
}

// TestNothingStays: every goroutine of a world ends with it.
func TestNothingStays(t *testing.T) {
	before := runtime.NumGoroutine()
	for range 20 {
		id := create(t, Def{TokenTime: time.Millisecond, MemoryMode: MemoryVolatile})
		npc := character(t, id, NPCDef{})
		frames(t, id, WorldReady)
		with(t, npc, func(n *NPC) {
			if _, err := n.Say("Tell me everything."); err != nil {
				t.Fatal(err)
			}
		})
		frames(t, id, Thinking)
		destroy(t, id)
	}
	for end := time.Now().Add(patience); runtime.NumGoroutine() > before; runtime.Gosched() {
		if time.Now().After(end) {
			t.Fatalf("%d goroutines, before %d", runtime.NumGoroutine(), before)
		}
	}
}

func TestActionsAndQuests(t *testing.T) {
	id := create(t, Def{})
	npc := character(t, id, NPCDef{})
	with(t, npc, func(n *NPC) {
		if err := n.AddAction("give", "gives something"); err != nil {
			t.Fatal(err)
		}
		if err := n.AddAction("Not a name", "x"); CodeOf(err) != InvalidArgument {
			t.Errorf("a bad name: %v", err)
		}
		if err := n.SetTargets("door", []string{"oak door"}); err != nil {
			t.Fatal(err)
		}
	})
	in(t, id, func(w *World) {
		if err := w.Accept(7); CodeOf(err) != Nothing {
			t.Errorf("an action that is none: %v", err)
		}
		if err := w.Refuse(7, ""); CodeOf(err) != InvalidArgument {
			t.Errorf("no reason: %v", err)
		}
	})
	frames(t, id, WorldReady)
	with(t, npc, func(n *NPC) {
		if _, err := n.Quest("cat"); CodeOf(err) != Nothing {
			t.Errorf("no quest: %v", err)
		}
	})
}

// TestSaves: what was said comes back in another world, by the NPC's name.
func TestSaves(t *testing.T) {
	first := create(t, Def{})
	npc := character(t, first, NPCDef{Name: "smith-3"})
	frames(t, first, WorldReady)
	with(t, npc, func(n *NPC) {
		if _, err := n.Say("Remember me."); err != nil {
			t.Fatal(err)
		}
	})
	frames(t, first, Done)
	var data []byte
	in(t, first, func(w *World) {
		var err error
		if data, err = w.Save(); err != nil {
			t.Fatal(err)
		}
	})
	second := create(t, Def{})
	frames(t, second, WorldReady)
	in(t, second, func(w *World) {
		if err := w.Load(data[:len(data)/2]); CodeOf(err) != Save {
			t.Errorf("half a save: %v", err)
		}
		if err := w.Load(data); err != nil {
			t.Fatal(err)
		}
	})
	again := character(t, second, NPCDef{Name: "smith-3"})
	with(t, again, func(n *NPC) {
		if line, err := n.Line(0); err != nil || line.Text != "Remember me." {
			t.Errorf("%q, %v", line.Text, err)
		}
	})
}

func TestLimits(t *testing.T) {
	for name, c := range map[string]struct {
		def  Def
		want string
	}{
		"threads": {Def{Threads: 17}, "threads is 17"},
		"context": {Def{Context: 3}, "context_tokens is 3"},
		"folder":  {Def{MemoryMode: MemoryFolder}, "memory_folder"},
		"mode":    {Def{MemoryMode: 9}, "memory_mode is 9"},
		"time":    {Def{TokenTime: -1}, "scripted_token_ns"},
		"vectors": {Def{Embedder: "all-minilm-l6-v2-q8_0"}, "memory_mode"},
	} {
		_, err := Create(c.def)
		if CodeOf(err) != InvalidArgument || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	var ids []ID
	for range MaxWorlds {
		ids = append(ids, create(t, Def{}))
	}
	if _, err := Create(Def{Scripted: true}); CodeOf(err) != Full {
		t.Errorf("one world too many: %v", err)
	}
	if n := len(Open()); n != len(ids) {
		t.Errorf("%d worlds are open, want %d", n, len(ids))
	}
}

// TestLoadNamesFields: what a host can do about a failed load is told in its own
// words, not in those of a command line.
func TestLoadNamesFields(t *testing.T) {
	library, _ := testassets.Locate(t)
	none := filepath.Join(t.TempDir(), "none")
	for name, c := range map[string]struct {
		def  Def
		want string
	}{
		"no library": {Def{Library: none}, "locate def.library: path does not exist"},
		"no model":   {Def{Library: library, Model: none}, "give def.model an existing path"},
	} {
		id, err := Create(c.def)
		if err != nil {
			t.Fatal(err)
		}
		trace := frames(t, id, WorldFailed)
		if !strings.Contains(trace, c.want) || strings.Contains(trace, "--") {
			t.Errorf("%s: %s\nwant %q and no flag", name, trace, c.want)
		}
		destroy(t, id)
	}
}

// TestLoadFails tells by an event and stays usable for questions.
func TestLoadFails(t *testing.T) {
	id, err := Create(Def{Model: "no/such/model.gguf"})
	if err != nil {
		t.Fatal(err)
	}
	defer destroy(t, id)
	if trace := frames(t, id, WorldFailed); !strings.Contains(trace, fmt.Sprint(int32(Load))) {
		t.Errorf("%s", trace)
	}
	in(t, id, func(w *World) {
		if s := w.Status(); s.State != Failed || s.Result != Load {
			t.Errorf("%+v", s)
		}
		if !w.PollLog(func(l LogLevel, text string) bool { return l == LogInfo || text == "" }) {
			t.Error("nothing is in the log")
		}
		if err := w.CancelLoad(); CodeOf(err) != Nothing {
			t.Errorf("cancelled what has ended: %v", err)
		}
	})
}
