package bench

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/lull-npc/lull/harness/metrics"
	"github.com/lull-npc/lull/runtime/llm"
	"github.com/lull-npc/lull/runtime/speculative"
)

// Preemption is how fast a draft gives way, in milliseconds from the moment the
// gate is shut to the return of the draft's batch.
type Preemption struct {
	N       int     `json:"n"`
	P50     float64 `json:"p50_ms"`
	P99     float64 `json:"p99_ms"`
	Max     float64 `json:"max_ms"`
	LayerMs float64 `json:"layer_ms"` // p50 of one layer of the draft model

	// Ended counts drafts that were in their last part, after the layers, which
	// is not divided: it ended, and the candidate was kept.
	Ended    int     `json:"ended"`
	EndedP99 float64 `json:"ended_p99_ms"`
}

// preemptLimit is what a preemption may take beyond one layer.
const preemptLimit = 0.2

// preempt shuts the gate at random moments of the draft model's batches.
func (b *speculation) preempt(ctx context.Context) (*Preemption, error) {
	b.target.Gate().Publish(llm.Window{LayersPerStop: 1})
	defer b.target.Gate().Publish(llm.Window{})
	d, err := newDraftRun(b)
	if err != nil {
		return nil, err
	}
	defer d.seq.Close()
	typical, err := d.warm()
	if err != nil {
		return nil, err
	}
	var stopped, ended []float64
	for tries := 0; len(stopped) < b.cfg.Stops && tries < 20*b.cfg.Stops && ctx.Err() == nil; tries++ {
		took, gaveWay, err := d.once(time.Duration(b.random.Float64() * 0.95 * float64(typical)))
		switch {
		case err != nil:
			return nil, err
		case took < 0: // the batch was over before the gate shut
		case gaveWay:
			stopped = append(stopped, took.Seconds()*1e3)
		default:
			ended = append(ended, took.Seconds()*1e3)
		}
		b.cfg.Progress("preemptions", len(stopped), b.cfg.Stops)
	}
	slices.Sort(stopped)
	slices.Sort(ended)
	p := &Preemption{N: len(stopped), Ended: len(ended), LayerMs: metrics.Quartiles(d.layers).Median}
	if len(stopped) > 0 {
		p.P50, p.P99 = metrics.Quantile(stopped, 0.5), metrics.Quantile(stopped, 0.99)
		p.Max = stopped[len(stopped)-1]
	}
	if len(ended) > 0 {
		p.EndedP99 = metrics.Quantile(ended, 0.99)
	}
	return p, context.Cause(ctx)
}

// draftRun decodes one token of the draft model again and again.
type draftRun struct {
	b      *speculation
	seq    llm.Sequence
	batch  llm.Batch
	held   int
	layers []float64 // ms
}

func newDraftRun(b *speculation) (*draftRun, error) {
	seq, err := b.draft.NewSequence()
	if err != nil {
		return nil, err
	}
	d := &draftRun{b: b, seq: seq}
	tokens := promptTokens(b.draft, 64)
	for _, t := range tokens {
		d.batch.Add(seq, t, false)
	}
	if _, err := b.draft.Decode(&d.batch, llm.Grant{Threads: b.cfg.Threads}); err != nil {
		seq.Close()
		return nil, err
	}
	d.held = len(seq.Tokens())
	d.batch.Reset()
	d.batch.Add(seq, tokens[0], true)
	d.batch.Tentative = true
	return d, nil
}

// decode computes the token and takes it back.
func (d *draftRun) decode() (llm.Work, error) {
	w, err := d.b.draft.Decode(&d.batch, llm.Grant{Threads: d.b.cfg.Threads})
	if err == nil {
		for _, s := range w.Samples {
			if s.First == s.Last && int(s.Last) < d.b.draft.Info().Layers && !s.Switched {
				d.layers = append(d.layers, s.Duration.Seconds()*1e3)
			}
		}
	}
	if len(d.seq.Tokens()) > d.held {
		err = errors.Join(err, d.seq.Truncate(d.held))
	}
	return w, err
}

// warm finds out how long a batch takes.
func (d *draftRun) warm() (time.Duration, error) {
	var best time.Duration
	for range 5 {
		w, err := d.decode()
		if err != nil {
			return 0, err
		}
		if took := time.Duration(w.End - w.Start); best == 0 || took < best {
			best = took
		}
	}
	return best, nil
}

// once shuts the gate some time after the batch began. The time is negative
// where the batch was over by then.
func (d *draftRun) once(after time.Duration) (took time.Duration, gaveWay bool, err error) {
	clock, gate := d.b.clock, d.b.target.Gate()
	shut := make(chan int64, 1)
	begin := clock.Now()
	go func() {
		clock.WaitUntil(begin+int64(after), nil)
		at := clock.Now()
		gate.Publish(llm.Window{Mode: llm.GateClosed, LayersPerStop: 1})
		shut <- at
	}()
	w, err := d.decode()
	at := <-shut
	gate.Publish(llm.Window{LayersPerStop: 1})
	if err != nil && !errors.Is(err, llm.ErrStopped) {
		return 0, false, fmt.Errorf("bench: preempt: %w", err)
	}
	return time.Duration(w.End - at), err != nil, nil
}

// enoughRatio is what talk may lose: the issue is that speculation never costs.
const enoughRatio = 0.97

// checks says what the data says of what speculation claims.
func checks(r *SpeculateReport, row speculative.Row) []Check {
	var list []Check
	for _, x := range r.Rows {
		switch {
		case x.Method == Plain || x.Ratio.Median == 0:
		case x.Kind == natural:
			list = append(list, Check{fmt.Sprintf("%s: %s >= %.2f x plain", x.Method, natural, enoughRatio),
				answer(x, enoughRatio), interval(x)})
		case row.Widest(maxVerify) < 2:
			list = append(list, Check{fmt.Sprintf("%s: %s > plain", x.Method, copying), "does not apply",
				"no verify batch is faster here than its tokens one by one"})
		default:
			list = append(list, Check{fmt.Sprintf("%s: %s > plain where T(B) allows", x.Method, copying), answer(x, 1),
				fmt.Sprintf("%s, predicted %.3f", interval(x), x.Predicted)})
		}
	}
	if p := r.Preemption; p != nil && p.N > 0 {
		c := Check{Claim: fmt.Sprintf("a draft gives way within one layer + %.1f ms, p99", preemptLimit), Answer: "no",
			Why: fmt.Sprintf("p99 %.2f ms, a layer takes %.2f ms", p.P99, p.LayerMs)}
		if p.P99 <= p.LayerMs+preemptLimit {
			c.Answer = "yes"
		}
		if p.Ended > 0 {
			c.Why += fmt.Sprintf("; %d of %d were in the output head, which ended: p99 %.2f ms", p.Ended, p.N+p.Ended,
				p.EndedP99)
		}
		list = append(list, c)
	}
	if n := r.Replies.Compared; n > 0 {
		c := Check{"replies equal plain greedy ones, but for near-ties", "yes",
			fmt.Sprintf("%d of %d equal", r.Replies.Equal, n)}
		if len(r.Replies.Differences) > 0 {
			c.Why += fmt.Sprintf(", the others part at a logit gap of %.3f at most", r.Replies.LargestGap)
			if r.Replies.LargestGap > nearTie {
				c.Answer = "no"
			}
		}
		list = append(list, c)
	}
	return list
}

const (
	// maxVerify is the widest verify batch that is tried.
	maxVerify = 8

	// nearTie is by how much two logits may differ and still change places with
	// the shape of the batch: other kernels add up in another order.
	nearTie = 0.5
)

func answer(x SpeculateRow, least float64) string {
	switch {
	case x.Low >= least:
		return "yes"
	case x.High != 0 && x.High < least:
		return "no"
	}
	return "undecided"
}

func interval(x SpeculateRow) string {
	return fmt.Sprintf("%.3f, 95 %% of %.3f … %.3f", x.Ratio.Median, x.Low, x.High)
}
