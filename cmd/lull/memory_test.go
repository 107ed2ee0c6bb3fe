package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const village = `{"owner":"Mara","speaker":"Bo","text":"The king is dead.","at_s":3600.5,"importance":9}
{"owner":"","scope":"world","text":"Wolves howl in the hills."}
{"owner":"Bo","scope":"faction","audience":["guild"],"text":"The guild hides gold."}
`

// feed runs a command with standard input.
func (c *console) feed(stdin string, args ...string) int {
	c.t.Helper()
	c.out.Reset()
	c.err.Reset()
	return run(c.t.Context(), args, newApp(strings.NewReader(stdin), &c.out, &c.err))
}

func TestMemoryInAndOut(t *testing.T) {
	c := newConsole(t)
	dir := t.TempDir()
	store, file := filepath.Join(dir, "store"), filepath.Join(dir, "village.jsonl")
	must(t, os.WriteFile(file, []byte(village), 0o600))
	code := c.feed("", "memory", "import", store, file, "--json")
	if code != exitDone || c.object()["added"] != 3.0 {
		t.Fatalf("import: %d, %s", code, c.err.String())
	}
	code = c.feed(village, "memory", "import", store, "-", "--json")
	if code != exitDone || c.object()["known"] != 3.0 {
		t.Errorf("import again: %d, %s", code, c.err.String())
	}
	if code := c.feed("", "memory", "export", store); code != exitDone || strings.Count(c.out.String(), "\n") != 3 ||
		!strings.Contains(c.out.String(), `"at_s":3600.5`) {
		t.Errorf("export: %d\n%s", code, c.out.String())
	}
	for _, q := range []struct {
		args  []string
		total float64
	}{
		{nil, 3},
		{[]string{"--npc", "Mara"}, 2},
		{[]string{"--npc", "Ilse", "--faction", "guild"}, 2},
		{[]string{"--npc", "Ilse"}, 1},
	} {
		code := c.feed("", append([]string{"memory", "ls", store, "--json"}, q.args...)...)
		if o := c.object(); code != exitDone || o["total"] != q.total {
			t.Errorf("ls %v: %d, %v", q.args, code, o)
		}
	}
	code = c.feed("", "memory", "search", store, "who is dead?", "--npc", "Mara")
	if out := c.out.String(); code != exitDone || !strings.Contains(out, "Bo: The king is dead.") ||
		strings.Contains(out, "gold") {
		t.Errorf("search: %d\n%s%s", code, out, c.err.String())
	}
	code = c.feed("", "memory", "search", store, "gold", "--npc", "Mara", "--json")
	if o := c.object(); code != exitDone || len(o["found"].([]any)) != 0 {
		t.Errorf("Mara finds the guild's gold: %v", o)
	}
	code = c.feed("", "memory", "show", store, "1")
	if code != exitDone || !strings.Contains(c.out.String(), "9 of 10") {
		t.Errorf("show: %d\n%s%s", code, c.out.String(), c.err.String())
	}
	if code := c.feed("", "memory", "stats", store, "--json"); code != exitDone || c.object()["memories"] != 3.0 {
		t.Errorf("stats: %d", code)
	}
}

func TestMemoryVerifyAndRepair(t *testing.T) {
	c := newConsole(t)
	store := filepath.Join(t.TempDir(), "store")
	if code := c.feed(village, "memory", "import", store, "-"); code != exitDone {
		t.Fatal(c.err.String())
	}
	if code := c.feed("", "memory", "verify", store, "--json"); code != exitDone || c.object()["ok"] != true {
		t.Errorf("sound: %d", code)
	}
	journal := filepath.Join(store, "memory-0.log")
	data, err := os.ReadFile(journal)
	must(t, err)
	data[len(data)/2] ^= 1
	must(t, os.WriteFile(journal, data, 0o600))
	if code := c.feed("", "memory", "verify", store, "--json"); code != exitFailed || c.object()["ok"] != false ||
		!strings.Contains(c.err.String(), "repair") {
		t.Errorf("damaged: %d, %s", code, c.err.String())
	}
	if code := c.feed("", "memory", "repair", store, "--json"); code != exitDone || c.object()["repaired"] != true {
		t.Errorf("repair: %d, %s", code, c.err.String())
	}
	code := c.feed("", "memory", "verify", store)
	if code != exitDone || !strings.Contains(c.out.String(), "2 memories") {
		t.Errorf("repaired: %d\n%s", code, c.out.String())
	}
}

func TestMemoryFailures(t *testing.T) {
	c := newConsole(t)
	dir := t.TempDir()
	store := filepath.Join(dir, "store")
	if code := c.feed(village, "memory", "import", store, "-"); code != exitDone {
		t.Fatal(c.err.String())
	}
	file := filepath.Join(dir, "x")
	must(t, os.WriteFile(file, []byte("[]"), 0o600))
	for _, f := range []struct {
		stdin string
		code  int
		says  string
		args  []string
	}{
		{"", exitFailed, "no store", []string{"ls", filepath.Join(dir, "none")}},
		{"", exitFailed, "holds no memories", []string{"ls", dir}},
		{"", exitFailed, "damaged", []string{"ls", file}},
		{"", exitUsage, "--limit", []string{"ls", store, "--limit", "-1"}},
		{"", exitUsage, "--now", []string{"search", store, "x", "--now", "soon"}},
		{"", exitUsage, "Limit", []string{"search", store, "x", "--limit", "9999"}},
		{"", exitUsage, "no id", []string{"show", store, "first"}},
		{"", exitFailed, "no memory 99", []string{"show", store, "99"}},
		{"", exitUsage, "STORE", []string{"stats"}},
		{`{"owner":"a"}`, exitFailed, "line 1: ", []string{"import", store, "-"}},
		{"", exitFailed, "no such file", []string{"import", store, filepath.Join(dir, "none")}},
		{"", exitFailed, "no folder", []string{"export", store, filepath.Join(dir, "none", "a.jsonl")}},
		{"", exitUsage, "none makes no vectors", []string{"reindex", store, "--embedder", "none"}},
		{"", exitFailed, "LoCoMo", []string{"eval", file, "--embedder", "none"}},
		{"", exitUsage, "--split", []string{"eval", file, "--split", "half"}},
		{"", exitUsage, "FusionK", []string{"eval", file, "--fusion-k", "0"}},
	} {
		code := c.feed(f.stdin, append([]string{"memory"}, f.args...)...)
		if code != f.code || !strings.Contains(c.err.String(), f.says) {
			t.Errorf("%v: %d, want %d and %q: %s", f.args, code, f.code, f.says, c.err.String())
		}
	}
}

func TestMemoryEval(t *testing.T) {
	c := newConsole(t)
	file := filepath.Join(t.TempDir(), "talk.json")
	must(t, os.WriteFile(file, []byte(`[{"conversation":{"session_1":[
{"speaker":"Ann","dia_id":"D1:1","text":"Where did you find the puppy?"},
{"speaker":"Ben","dia_id":"D1:2","text":"Behind the old bakery."}]},
"qa":[{"question":"Where was the puppy found?","evidence":["D1:2"],"category":4}]}]`), 0o600))
	code := c.feed("", "memory", "eval", file, "--embedder", "none", "--json")
	o := c.object()
	if code != exitDone || o["questions"] != 1.0 || o["recall"].(map[string]any)["5"] != 1.0 ||
		o["baselines"].(map[string]any)["bm25"].(map[string]any)["10"] != 0.0 {
		t.Errorf("%d, %v", code, o)
	}
	if code := c.feed("", "memory", "eval", file, "--embedder", "none", "--min-gain", "0.03"); code != exitObjective {
		t.Errorf("an unmet gain ends with %d: %s", code, c.err.String())
	}
	one, err := os.ReadFile(file)
	must(t, err)
	text := strings.Trim(string(one), "[]")
	must(t, os.WriteFile(file, []byte("["+text+","+strings.Replace(text, "puppy found", "moon", 1)+"]"), 0o600))
	if code := c.feed("", "memory", "eval", file, "--embedder", "none"); code != exitDone ||
		!strings.Contains(c.out.String(), "--split tune") || !strings.Contains(c.out.String(), "--split report") {
		t.Errorf("%d, %s", code, c.out.String())
	}
	code = c.feed("", "memory", "eval", file, "--embedder", "none", "--json")
	parts, _ := c.object()["parts"].(map[string]any)
	if code != exitDone || len(parts) != 2 || parts["report"].(map[string]any)["questions"] != 1.0 ||
		parts["report"].(map[string]any)["recall"].(map[string]any)["5"] != 0.0 {
		t.Errorf("%d, parts %v", code, parts)
	}
}
