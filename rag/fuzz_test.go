package rag

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// sample makes the files of a small store with everything in it.
func sample(t testing.TB) (journal, snap []byte) {
	t.Helper()
	dir := t.TempDir()
	cfg := DefaultConfig(dir)
	cfg.Embedder = newEmbedder()
	s := openStore(t, cfg)
	a := remember(t, s, Memory{Owner: "Mara", Speaker: "Bo", Scene: "s", Text: "The mill burns.", Importance: 8})
	remember(t, s, Memory{Owner: "Bo", Scope: Witnessed, Audience: []string{"Ilse", "Mara"}, Text: "I saw it."})
	remember(t, s, Memory{Owner: "Mara", Text: "The mill is lost.", Sources: []ID{a}})
	remember(t, s, Memory{Owner: "Mara", Speaker: "Bo", Text: "The mill burns.", Importance: 9})
	if _, err := s.Supersede(a, own("The mill is out.")); err != nil {
		t.Fatal(err)
	}
	s.Work(time.Hour)
	recall(t, s, Query{Knower: mara, Text: "mill", Now: time.Hour})
	must(t, s.Flush())
	journal, err := os.ReadFile(filepath.Join(dir, journalName(0)))
	must(t, err)
	must(t, s.Compact())
	must(t, s.Close())
	snap, err = os.ReadFile(filepath.Join(dir, snapshotName))
	must(t, err)
	return journal, snap
}

// reframed gives each payload of a fuzzer's bytes a right checksum, so that it
// reaches the decoder: runs that a zero length byte begins.
func reframed(data []byte) []byte {
	var out []byte
	for len(data) > 1 {
		n := min(int(data[0]), len(data)-1)
		out = appendFrame(out, data[1:1+n])
		data = data[1+n:]
	}
	return out
}

func payloads(data []byte) []byte {
	var out []byte
	for sc := newScanner(data); ; {
		p, _, ok := sc.next()
		if !ok {
			return out
		}
		out = append(append(out, byte(min(len(p), 255))), p[:min(len(p), 255)]...)
	}
}

func FuzzJournal(f *testing.F) {
	journal, _ := sample(f)
	f.Add(journal, false)
	f.Add(payloads(journal), true)
	f.Add([]byte(strings.Repeat(frameMark, 50)), false)
	f.Fuzz(func(t *testing.T, data []byte, frames bool) {
		if frames {
			data = reframed(data)
		}
		c := contents{journal: "memory-0.log"}
		c.snap.head = head{version: formatVersion, branch: 1, next: 1}
		if err := c.parseJournal(data); err != nil {
			return
		}
		if c.whole < 0 || c.whole+c.torn != int64(len(data)) {
			t.Fatalf("%d whole bytes and %d torn of %d", c.whole, c.torn, len(data))
		}
		cfg := DefaultConfig("")
		st := c.state(&cfg)
		// What was read can be written, and reads the same.
		e := newEncoder()
		again := contents{journal: c.journal}
		again.snap = c.snap
		var out []byte
		for i := range c.ops {
			out = appendFrame(out, e.op(&c.ops[i]))
		}
		if err := again.parseJournal(out); err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(summary(st), summary(again.state(&cfg))); d != "" || again.damage {
			t.Fatalf("written and read again (%q):\n%s", again.notes, d)
		}
	})
}

// summary is what of a state can be compared.
func summary(s *state) []any {
	var out []any
	for _, it := range s.order {
		q := [][]int8{}
		for _, v := range it.vectors {
			q = append(q, v.q)
		}
		out = append(out, it.m, q)
	}
	return append(out, s.position, s.identity, s.vectors, s.pending.size())
}

func FuzzSnapshot(f *testing.F) {
	_, snap := sample(f)
	f.Add(snap, false)
	f.Add(payloads(snap), true)
	f.Fuzz(func(t *testing.T, data []byte, frames bool) {
		if frames {
			data = reframed(data)
		}
		cfg := DefaultConfig("")
		if s, _, err := parseSnapshot(data, true); err == nil {
			restore(&cfg, s, 0) // what is salvaged makes a state
		}
		s, notes, err := parseSnapshot(data, false)
		if err != nil {
			return
		}
		path := filepath.Join(t.TempDir(), "again")
		if _, err := s.write(system{}, path); err != nil {
			t.Fatal(err)
		}
		out, err := os.ReadFile(path)
		must(t, err)
		again, _, err := parseSnapshot(out, false)
		if err != nil || len(notes) > 0 {
			t.Fatalf("notes %q, written and read again: %v", notes, err)
		}
		if d := cmp.Diff(summary(restore(&cfg, s, 0)), summary(restore(&cfg, again, 0))); d != "" {
			t.Fatal(d)
		}
	})
}

func FuzzImport(f *testing.F) {
	f.Add(`{"owner":"Mara","text":"x","at_s":1.5}` + "\n" + `{"owner":"","scope":"world","text":"y"}`)
	f.Add(`{"id":3,"owner":"a","text":"b"}` + "\n\n" + `{"id":4,"owner":"a","text":"c","sources":[3],"until_s":-2e3}`)
	f.Add(`{"owner":"a","scope":"region","audience":["b","b"],"text":"\ud800"}`)
	f.Fuzz(func(t *testing.T, text string) {
		s, err := Open(DefaultConfig(""))
		must(t, err)
		first, err := s.Import(strings.NewReader(text))
		if err != nil {
			if n := s.Stats().Memories; n != 0 {
				t.Fatalf("%d memories were added, and %v", n, err)
			}
			return
		}
		exported := dump(t, s)
		if again, err := s.Import(strings.NewReader(exported)); err != nil || again.Added != 0 {
			t.Fatalf("%+v, then %+v, %v:\n%s", first, again, err, exported)
		}
	})
}

func FuzzTerms(f *testing.F) {
	f.Add("The smith's 3 hammers; 昨日の夜 🐺 Ärger")
	f.Fuzz(func(t *testing.T, text string) {
		n := 0
		eachTerm(text, func(term string) {
			if n++; term == "" || len(term) > maxTerm+8 {
				t.Fatalf("term %q", term)
			}
		})
		if n > maxTerms {
			t.Fatalf("%d terms", n)
		}
	})
}

// A few bytes that claim billions must take no memory for them.
func TestHostileLengthsTakeNoMemory(t *testing.T) {
	claims := map[string][]byte{
		"array":  {0xdd, 0xff, 0xff, 0xff, 0xff},
		"text":   {0x92, 0x02, 0xdb, 0xff, 0xff, 0xff, 0xff},
		"bytes":  {0x94, 0x06, 0x01, 0x01, 0x91, 0xc6, 0xff, 0xff, 0xff, 0xff},
		"memory": {0xdc, 0x00, 0x12, 0x02, 0x01, 0x01, 0xdb, 0x7f, 0xff, 0xff, 0xff},
		"ids":    {0x94, 0x05, 0x01, 0x00, 0xdd, 0xff, 0xff, 0xff, 0xff},
		"head":   {0x9c, 0x01, 0x01, 0, 0, 0, 0, 0, 0, 0xdb, 0xff, 0xff, 0xff, 0xff},
	}
	for name, payload := range claims {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, opErr := decodeOp(payload)
		_, keptErr := decodeKept(payload)
		_, headErr := decodeHead(payload)
		runtime.ReadMemStats(&after)
		grew := after.TotalAlloc - before.TotalAlloc
		if opErr == nil || keptErr == nil || headErr == nil || grew > 1<<20 {
			t.Errorf("%s: %d bytes were taken; %v, %v, %v", name, grew, opErr, keptErr, headErr)
		}
	}
	frame := binary.LittleEndian.AppendUint32([]byte(frameMark), 0xffffffff)
	sc := newScanner(append(frame, slices.Repeat([]byte{0}, 100)...))
	if _, _, ok := sc.next(); ok || sc.tail.to != 108 {
		t.Errorf("a frame of 4 GB: %+v", sc.tail)
	}
}

// Bytes made to be searched for ever are given up in time that grows with them.
func TestSearchBehindDamageIsBounded(t *testing.T) {
	one := binary.LittleEndian.AppendUint32([]byte(frameMark), maxPayload/2)
	data := slices.Repeat(one, 100_000)
	sc := newScanner(data)
	if _, _, ok := sc.next(); ok {
		t.Error("found a frame")
	}
	if sc.effort < -2*maxPayload {
		t.Errorf("%d bytes were read beyond the bound", -sc.effort)
	}
}
