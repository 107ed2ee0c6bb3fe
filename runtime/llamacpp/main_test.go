package llamacpp

import (
	"context"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/lull-npc/lull/internal/testassets"
	"github.com/lull-npc/lull/runtime/llm"
	"github.com/lull-npc/lull/scheduler"
)

// scenario names a function below that runs in a process of its own: loading a
// library happens once a process.
const scenario = "LULL_LLAMACPP_SCENARIO"

func TestMain(m *testing.M) {
	if name := os.Getenv(scenario); name != "" {
		os.Exit(scenarios[name]())
	}
	os.Exit(m.Run())
}

// runScenario runs one in a child and returns what it printed.
func runScenario(t *testing.T, name string, env ...string) (string, error) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(append(os.Environ(), scenario+"="+name), env...)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// admit is the scheduler's rule with this side's types; package local has the
// same few lines for the real thing.
func admit(now, lastEnd int64, w llm.Window, next time.Duration, tentative bool) (llm.Verdict, int64) {
	sw := scheduler.Window{
		Gate: scheduler.Gate(w.Mode), Open: scheduler.Instant(w.Open), Close: scheduler.Instant(w.Close),
		Pause:   w.Pause,
		Expires: scheduler.Instant(w.Expires),
	}
	v, until := scheduler.Admit(scheduler.Instant(now), scheduler.Instant(lastEnd), sw, next, tentative)
	return llm.Verdict(v), int64(until)
}

// open loads the real model with small defaults; change edits them. One thread:
// two wait for each other at every node, for long where the machine is busy, and
// beside another package's tests it always is. What threads change is tried by
// the tests of the head.
func open(t testing.TB, change func(*Options)) *Model {
	t.Helper()
	library, model := testassets.Locate(t)
	if err := Load(library); err != nil {
		t.Fatal(err)
	}
	opt := Options{Clock: llm.NewClock(), Admit: admit, Context: 512, MaxSequences: 3, MaxBatch: 64,
		Threads: 1}
	if change != nil {
		change(&opt)
	}
	m, err := Open(context.Background(), model, opt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	return m
}

// tokens is Tokenize that must work.
func tokens(t testing.TB, m *Model, text string, markup bool) []llm.Token {
	t.Helper()
	out, err := m.Tokenize(nil, text, markup)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// greedy decodes prompt and then n tokens in a fresh sequence.
func greedy(t testing.TB, m *Model, prompt []llm.Token, n int) []llm.Token {
	t.Helper()
	s, err := m.NewSequence()
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	out, err := continueGreedy(m, s, prompt, n)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// continueGreedy appends prompt to a sequence and then n greedy tokens.
func continueGreedy(m *Model, s llm.Sequence, prompt []llm.Token, n int) ([]llm.Token, error) {
	sampler, err := m.NewSampler(llm.Sampling{})
	if err != nil {
		return nil, err
	}
	defer sampler.Close()
	var b llm.Batch
	for i, t := range prompt {
		b.Add(s, t, i == len(prompt)-1)
		if len(b.Entries) == m.info.MaxBatch || i == len(prompt)-1 {
			if _, err := m.Decode(&b, llm.Grant{}); err != nil {
				return nil, err
			}
			b.Reset()
		}
	}
	var out []llm.Token
	for range n {
		next, err := sampler.Sample(0)
		if err != nil {
			return out, err
		}
		out = append(out, next)
		b.Reset()
		b.Add(s, next, true)
		if _, err := m.Decode(&b, llm.Grant{}); err != nil {
			return out, err
		}
	}
	return out, nil
}
