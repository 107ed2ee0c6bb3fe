package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// shortScript walks to Tilda, asks and is answered.
const shortScript = "20 press act\n90 hold up 16\n108 hold left 80\n190 hold up 8\n202 press act\n" +
	"230 press act\n420 end\n"

func TestDemoScript(t *testing.T) {
	file := filepath.Join(t.TempDir(), "short.txt")
	must(t, os.WriteFile(file, []byte(shortScript), 0o644))
	c := newConsole(t)
	if code := c.run("demo", "--headless", "--script", file, "--scripted", "--json", "-"); code != exitDone {
		t.Fatalf("exit code %d: %s", code, &c.err)
	}
	o := c.object()
	if o["scenario"] != "demo-game" || o["simulated"] != true || len(o["runs"].([]any)) != 1 {
		t.Errorf("scenario %v, simulated %v, runs %v", o["scenario"], o["simulated"], o["runs"])
	}
	kinds := map[string]int{}
	for _, x := range o["transcript"].([]any) {
		line := x.(map[string]any)
		if line["npc"] == "" || line["text"] == "" || line["t_s"].(float64) <= 0 {
			t.Errorf("a line of the transcript: %v", line)
		}
		kinds[line["kind"].(string)]++
	}
	if kinds["bark"] == 0 || kinds["reply"] == 0 {
		t.Errorf("the transcript has %v, want barks and replies", kinds)
	}
}

func TestDemoScriptRefuses(t *testing.T) {
	bad := filepath.Join(t.TempDir(), "bad.txt")
	must(t, os.WriteFile(bad, []byte("1 dance\n"), 0o644))
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"--script", "opera"}, exitUsage, "there is no script"},
		{[]string{"--script", bad}, exitUsage, "bad.txt:1"},
		{[]string{"--script", "tour", "--policy", "magic"}, exitUsage, "magic"},
		{[]string{"--script", "tour", "--lang", "xx"}, exitUsage, "--lang"},
		{[]string{"--script", "tour", "--json", filepath.Join(bad, "no", "x")}, exitFailed, "there is no folder"},
	} {
		console := newConsole(t)
		args := append([]string{"demo", "--headless", "--scripted"}, c.args...)
		if code := console.run(args...); code != c.code || !strings.Contains(console.err.String(), c.want) {
			t.Errorf("%q: exit code %d, %q; want %d and %q", c.args, code, &console.err, c.code, c.want)
		}
	}
}
