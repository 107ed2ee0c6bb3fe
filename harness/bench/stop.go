package bench

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/lull-npc/lull/harness/metrics"
	"github.com/lull-npc/lull/runtime/llamacpp"
	"github.com/lull-npc/lull/runtime/llm"
)

// medianInterval is the 95 % bootstrap interval of the median.
func medianInterval(xs []float64) (low, high float64) {
	p, err := metrics.Pair(make([]float64, len(xs)), xs, 1)
	if err != nil { // fewer than two rounds: no interval
		return 0, 0
	}
	return p.Low, p.High
}

// stopChunk is how many tokens of a prompt run when they are stopped: what the
// scheduler grants beside a game. A batch stops between two operations, and the
// longest one grows with it.
const stopChunk = 32

// stops measures from Stop to the return of Decode of a batch of `width` tokens.
func stops(ctx context.Context, cfg Config, m *llamacpp.Model, stage string, width int) (Stop, error) {
	random := rand.New(rand.NewPCG(cfg.Seed, uint64(width)))
	typical, err := batchTime(m, width)
	if err != nil {
		return Stop{}, err
	}
	tokens := promptTokens(m, width)
	var ms []float64
	for tries := 0; len(ms) < cfg.Stops && tries < 20*cfg.Stops; tries++ {
		if err := ctx.Err(); err != nil {
			return summariseStops(stage, ms), err
		}
		after := time.Duration(random.Float64() * 0.9 * float64(typical))
		d, err := oneStop(m, tokens, after)
		if errors.Is(err, errLate) {
			continue
		}
		if err != nil {
			return summariseStops(stage, ms), err
		}
		ms = append(ms, float64(d)/1e6)
		cfg.Progress(len(ms), cfg.Stops)
	}
	return summariseStops(stage, ms), nil
}

func summariseStops(stage string, ms []float64) Stop {
	if len(ms) == 0 {
		return Stop{Stage: stage}
	}
	slices.Sort(ms)
	return Stop{stage, len(ms), metrics.Quantile(ms, 0.5), metrics.Quantile(ms, 0.99), ms[len(ms)-1]}
}

func batchTime(m *llamacpp.Model, width int) (time.Duration, error) {
	tokens := promptTokens(m, width)
	var best time.Duration
	for range 3 {
		var start time.Time
		end, err := oneBatch(m, tokens, func() { start = time.Now() })
		if err != nil {
			return 0, err
		}
		if d := end.Sub(start); best == 0 || d < best {
			best = d
		}
	}
	return best, nil
}

// oneBatch decodes tokens in a new sequence: begin is called right before, and
// end is right after, so that neither a tokeniser nor a sequence is timed.
func oneBatch(m *llamacpp.Model, tokens []llm.Token, begin func()) (end time.Time, err error) {
	s, err := m.NewSequence()
	if err != nil {
		return time.Time{}, err
	}
	defer s.Close()
	var b llm.Batch
	for i, t := range tokens {
		b.Add(s, t, i == len(tokens)-1)
	}
	begin()
	_, err = m.Decode(&b, llm.Grant{})
	return time.Now(), err
}

// oneStop starts a batch and stops it `after` its start.
func oneStop(m *llamacpp.Model, tokens []llm.Token, after time.Duration) (time.Duration, error) {
	m.Resume()
	defer m.Resume()
	stopped := make(chan time.Time, 1)
	end, err := oneBatch(m, tokens, func() {
		go func() {
			time.Sleep(after)
			at := time.Now()
			m.Stop()
			stopped <- at
		}()
	})
	at := <-stopped
	switch {
	case err == nil || end.Before(at):
		return 0, errLate
	case !errors.Is(err, llm.ErrStopped):
		return 0, fmt.Errorf("bench: stop: %w", err)
	}
	return end.Sub(at), nil
}
