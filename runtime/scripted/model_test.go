package scripted_test

import (
	"testing"

	"github.com/lull-npc/lull/runtime/llm"
	"github.com/lull-npc/lull/runtime/llmtest"
	"github.com/lull-npc/lull/runtime/scripted"
)

func echo(text string) []llm.Turn { return []llm.Turn{{Role: llm.User, Text: text}} }

func open(cfg scripted.Config) llmtest.Opener {
	return func(t *testing.T) llm.Model {
		m, err := scripted.New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
}

// TestModel runs the table over the kinds of model that the script can be.
func TestModel(t *testing.T) {
	for name, cfg := range map[string]scripted.Config{
		"echo":         {Script: scripted.Echo},
		"babble":       {},
		"one sequence": {MaxSequences: 1},
		"recurrent":    {NoTruncate: true},
		"small batch":  {MaxBatch: 3},
		"shared cache": {CacheTokens: 512, Context: 512, MaxSequences: 3},
		"with cost":    {Clock: scripted.NewClock(0), Cost: scripted.SmolLM2()},
	} {
		t.Run(name, func(t *testing.T) {
			o := llmtest.Options{Exact: true}
			if cfg.Script != nil {
				o.Say = echo
			}
			llmtest.Run(t, open(cfg), o)
		})
	}
}
