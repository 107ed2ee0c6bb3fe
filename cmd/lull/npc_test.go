package main

import (
	"strings"
	"testing"
)

func TestNPCExplain(t *testing.T) {
	c := newConsole(t)
	code := c.run("npc", "explain", "blacksmith", "--scripted", "--say", "Who are you?", "--fact", "The gate is open",
		"--lore", "The king is old", "--greedy")
	for _, want := range []string{`turn 1 of Brenna: reply to "Who are you?"`, "lore and rules", "The king is old",
		"(The gate is open.)", "temperature 0", "submitted after", "You are Brenna"} {
		if !strings.Contains(c.out.String(), want) {
			t.Errorf("the explanation lacks %q", want)
		}
	}
	if code != 0 || t.Failed() {
		t.Errorf("exit code %d\n%s%s", code, &c.out, &c.err)
	}
	code = c.run("npc", "explain", "innkeeper", "--scripted", "--say", "Hello", "--say", "And?", "--json")
	if code != 0 {
		t.Fatalf("exit code %d: %s", code, &c.err)
	}
	turns, _ := c.object()["turns"].([]any)
	if len(turns) != 2 {
		t.Fatalf("%d turns, want 2", len(turns))
	}
	second, _ := turns[1].(map[string]any)
	usage, _ := second["usage"].(map[string]any)
	reused, _ := usage["reused_tokens"].(float64)
	prompt, _ := second["prompt"].(string)
	if reused < 500 || !strings.Contains(prompt, "Hello") || second["end"] == "" {
		t.Errorf("the second turn: %v", second)
	}
}

func TestNPCExplainBlocks(t *testing.T) {
	c := newConsole(t)
	// The stand-in says these words and no others.
	args := []string{"npc", "explain", "blacksmith", "--scripted", "--greedy", "--say", "Who are you?"}
	for _, word := range []string{"the", "a", "you", "I", "to", "of", "and", "is", "in", "my", "we", "not"} {
		args = append(args, "--block", word+"*")
	}
	if code := c.run(args...); code != 0 || !strings.Contains(c.out.String(), "of the block list") {
		t.Errorf("exit code %d\n%s%s", code, &c.out, &c.err)
	}
}

func TestNPCExplainRefuses(t *testing.T) {
	c := newConsole(t)
	for _, x := range []struct {
		code int
		says string
		args []string
	}{
		{exitUsage, "nothing is said", []string{"blacksmith", "--scripted"}},
		{exitUsage, "wants PERSONA", []string{"--say", "x"}},
		{exitUsage, "there is no persona", []string{"nobody", "--scripted", "--say", "x"}},
		{exitFailed, "none shipped", []string{"nobody.yaml", "--scripted", "--say", "x"}},
		{exitUsage, "nothing can be read", []string{"blacksmith", "--scripted", "--say", "\u200b"}},
		{exitUsage, `--fact "a\nb": want`, []string{"blacksmith", "--scripted", "--say", "x", "--fact", "a\nb"}},
		{exitUsage, `--fact "": want one line`, []string{"blacksmith", "--scripted", "--say", "x", "--fact", ""}},
		{exitUsage, `--lore "": want one line`, []string{"blacksmith", "--scripted", "--say", "x", "--lore", ""}},
		{exitUsage, `--block "": want one line`, []string{"blacksmith", "--scripted", "--say", "x", "--block", ""}},
		{exitUsage, "no letter", []string{"blacksmith", "--scripted", "--say", "x", "--block", "*"}},
		{exitUsage, "--context -1: want", []string{"blacksmith", "--scripted", "--say", "x", "--context", "-1"}},
		{exitUsage, "--context 0: want", []string{"blacksmith", "--scripted", "--say", "x", "--context", "0"}},
		{exitFailed, "shorten", []string{"blacksmith", "--scripted", "--say", "x", "--context", "100"}},
	} {
		if code := c.run(append([]string{"npc", "explain"}, x.args...)...); code != x.code ||
			!strings.Contains(c.err.String(), x.says) {
			t.Errorf("%q: exit code %d, %q", x.args, code, &c.err)
		}
	}
}

func TestBenchNPCRefuses(t *testing.T) {
	c := newConsole(t)
	for _, flag := range []string{"rounds", "replies", "barks", "threads"} {
		if code := c.run("bench", "npc", "--"+flag, "0"); code != exitUsage ||
			!strings.Contains(c.err.String(), "--"+flag+" 0: want 1 …") {
			t.Errorf("--%s 0: exit code %d, %q", flag, code, &c.err)
		}
	}
}
