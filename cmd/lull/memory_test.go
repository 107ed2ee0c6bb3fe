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

// What a game's folder is not, is left as it is, and told so.
func TestMemoryLeavesOthersFoldersAlone(t *testing.T) {
	c := newConsole(t)
	dir := t.TempDir()
	file := filepath.Join(dir, "notes.txt")
	must(t, os.WriteFile(file, []byte("shopping: bread"), 0o600))
	for _, args := range [][]string{{"repair", dir}, {"repair", file}, {"verify", file}, {"ls", file},
		{"reindex", dir, "--embedder", "none.gguf"}, {"reindex", file, "--embedder", "none.gguf"}} {
		code := c.feed("", append([]string{"memory"}, args...)...)
		if said := c.err.String(); code != exitFailed || strings.Contains(said, "run `lull memory repair`") {
			t.Errorf("%v: %d, %s", args, code, said)
		}
	}
	left, err := os.ReadDir(dir)
	if err != nil || len(left) != 1 {
		t.Errorf("the folder holds %v, %v", left, err)
	}
}

// Errors of an import speak of its lines, not of this program.
func TestMemoryImportErrors(t *testing.T) {
	c := newConsole(t)
	store := filepath.Join(t.TempDir(), "store")
	good := `{"owner":"a","text":"b"}` + "\n"
	for line, says := range map[string]string{
		`{"owner":"a","text":"b","audience":"guild"}`:  `2: audience is a text: want a list of texts, as ["guild"]`,
		`{"owner":"a","text":"b","audience":[7]}`:      `line 2: audience is the number: want a list of texts`,
		`{"owner":3,"text":"b"}`:                       `line 2: owner is the number: want a text`,
		`{"owner":"a","text":"b","sources":"x"}`:       `line 2: sources is a text: want a list of ids`,
		`{"owner":"a","text":"b","importance":1.5}`:    `line 2: importance is the number 1.5: want a whole number`,
		`{"owner":"a","text":"b","mood":1}`:            `line 2: there is no key "mood": a line may have owner`,
		`[]`:                                           `line 2: a list stands there: want one JSON object`,
		`{"owner":"a"`:                                 `line 2: the JSON object does not end`,
		`{"owner":"a","text":"b","at_s":"noon"}`:       `want seconds`,
		`{"owner":"a","text":"b","scope":"everybody"}`: `line 2: not a memory: scope "everybody": want one of own`,
	} {
		code := c.feed(good+line, "memory", "import", store, "-")
		said := c.err.String()
		if code != exitFailed || !strings.Contains(said, says) || !strings.Contains(said, "nothing was added") ||
			strings.Contains(said, "Go ") || strings.Contains(said, "json:") {
			t.Errorf("%s: %d, want %q: %s", line, code, says, said)
		}
	}
	if code := c.feed(good, "memory", "import", store, "-"); code != exitDone || c.out.String() !=
		"1 memory added, 0 known before\n" {
		t.Errorf("%d, %q", code, c.out.String())
	}
}

func TestMemoryImportIntoReadOnlyFolder(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Skip("who may write everything finds no folder read-only")
	}
	c := newConsole(t)
	dir := t.TempDir()
	must(t, os.Chmod(dir, 0o500))
	code := c.feed(village, "memory", "import", filepath.Join(dir, "store"), "-")
	if said := c.err.String(); code != exitFailed || !strings.Contains(said, "make the folder writable") ||
		strings.Contains(said, "View") {
		t.Errorf("%d, %s", code, said)
	}
}

// What nobody sees, or turns the text of a terminal round, is spelled out.
func TestMemoryShowsInvisibleCharacters(t *testing.T) {
	c := newConsole(t)
	store := filepath.Join(t.TempDir(), "store")
	line := "{\"owner\":\"Ma\u202era\",\"speaker\":\"B\u200bo\",\"text\":\"\u202eThe king می\u200cخواهم\"}"
	if code := c.feed(line, "memory", "import", store, "-"); code != exitDone {
		t.Fatal(c.err.String())
	}
	for _, args := range [][]string{{"ls", store}, {"show", store, "1"}, {"stats", store}, {"search", store, "king",
		"--npc", "Ma\u202era"}} {
		c.feed("", append([]string{"memory"}, args...)...)
		out := c.out.String()
		if strings.ContainsAny(out, "\u202e\u200b") || !strings.Contains(out, `\u{202e}`) {
			t.Errorf("%v: %q", args, out)
		}
	}
}
