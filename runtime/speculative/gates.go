package speculative

import (
	"fmt"
	"math"
	"strings"
	"time"
)

// Limits of Costs. Beyond them a profile is refused.
const (
	maxThreads = 256 // rows: more than any device here has cores
	maxPoints  = 64  // widths measured for one number of threads
	maxWidth   = 32  // tokens of one verify batch; their logits alone are 25 MB with 200,000 words
	maxRatio   = 1e4 // a ratio beyond is a measurement gone wrong
)

// Costs says what verifying costs on one device: T(B)/T(1) for each number of
// threads measured.
type Costs struct {
	Rows []Row // rising Threads
}

// Row is what was measured with one number of threads.
type Row struct {
	Threads int
	Token   time.Duration // T(1): decoding one token, undisturbed
	Verify  []Point       // rising Width; what is between is interpolated
	Draft   float64       // one token of the draft model, in units of T(1); 0 without
}

// Point is T(B)/T(1) at one width B.
type Point struct {
	Width int
	Ratio float64
}

// Validate says what is wrong.
func (c Costs) Validate() error {
	if len(c.Rows) > maxThreads {
		return fmt.Errorf("speculative: costs of %d numbers of threads: want %d at most", len(c.Rows), maxThreads)
	}
	threads := 0
	for i, r := range c.Rows {
		if r.Threads <= threads {
			return fmt.Errorf("speculative: costs, row %d: %d threads: want more than %d", i, r.Threads, threads)
		}
		threads = r.Threads
		if err := r.validate(); err != nil {
			return fmt.Errorf("speculative: costs with %d threads: %w", r.Threads, err)
		}
	}
	return nil
}

func (r Row) validate() error {
	if r.Token < 0 || r.Token > time.Hour {
		return fmt.Errorf("a token takes %v: want 0…1h", r.Token)
	}
	if !(r.Draft >= 0 && r.Draft <= maxRatio) {
		return fmt.Errorf("a draft token takes %v tokens: want 0…%v", r.Draft, maxRatio)
	}
	if len(r.Verify) > maxPoints {
		return fmt.Errorf("%d widths: want %d at most", len(r.Verify), maxPoints)
	}
	width := 0
	for _, p := range r.Verify {
		if p.Width <= width {
			return fmt.Errorf("width %d after %d: want them rising", p.Width, width)
		}
		width = p.Width
		if !(p.Ratio > 0 && p.Ratio <= maxRatio) {
			return fmt.Errorf("width %d takes %v tokens: want more than 0, at most %v", p.Width, p.Ratio, maxRatio)
		}
	}
	return nil
}

// Row returns what was measured nearest to a number of threads, the fewer of
// two that are equally near. Without rows, nothing is known: see Ratio.
func (c Costs) Row(threads int) Row {
	var best Row
	for i, r := range c.Rows {
		if i == 0 || distance(r.Threads, threads) < distance(best.Threads, threads) {
			best = r
		}
	}
	return best
}

func distance(a, b int) int { return max(a-b, b-a) }

// Ratio is T(width)/T(1). It is 1 for a width of 1, a straight line between the
// measured widths, and +Inf beyond them: there may be a cliff.
func (r Row) Ratio(width int) float64 {
	if width <= 1 {
		return 1
	}
	left := Point{1, 1}
	for _, p := range r.Verify {
		if p.Width >= width {
			share := float64(width-left.Width) / float64(max(1, p.Width-left.Width))
			return left.Ratio + share*(p.Ratio-left.Ratio)
		}
		if p.Width > 1 {
			left = p
		}
	}
	return math.Inf(1)
}

// Widest returns the width up to limit on the flat part of T(B): the one with
// the least time a token. Beyond it even candidates that are always right make
// a token dearer: the slope is steep there, or there is a cliff.
func (r Row) Widest(limit int) int {
	best, least := 1, 1.0
	for b := 2; b <= limit; b++ {
		if each := r.Ratio(b) / float64(b); each < least {
			best, least = b, each
		}
	}
	return best
}

// Tokens is how many tokens a round yields on average: those accepted and the
// one that the target chooses after them. accept[i] is the chance that the
// i-th candidate is right when all before it are.
func Tokens(accept []float64) float64 {
	sum, all := 1.0, 1.0
	for _, a := range accept {
		all *= a
		sum += all
	}
	return sum
}

// steadyTokens is Tokens of k candidates of the same chance.
func steadyTokens(a float64, k int) float64 {
	sum, all := 1.0, 1.0
	for range k {
		all *= a
		sum += all
	}
	return sum
}

// Choose returns how many of the candidates to verify, and the speed-up to
// expect: E[accepted + 1] / (T(B)/T(1)). It returns 0 and 1 when none pays.
func (r Row) Choose(accept []float64) (k int, speedup float64) {
	speedup = 1
	sum, all := 1.0, 1.0
	for i, a := range accept {
		all *= a
		sum += all
		if s := sum / r.Ratio(i+2); s > speedup {
			k, speedup = i+1, s
		}
	}
	return k, speedup
}

// ChooseDraft returns how many tokens a draft model should draft, up to most,
// when each is right with chance a, and the speed-up to expect:
// E[accepted + 1] / (T(B)/T(1) + k·Td/T(1)). It returns 0 and 1 when none pays.
func (r Row) ChooseDraft(a float64, most int) (k int, speedup float64) {
	speedup = 1
	for i := 1; i <= most; i++ {
		if s := steadyTokens(a, i) / (r.Ratio(i+1) + float64(i)*r.Draft); s > speedup {
			k, speedup = i, s
		}
	}
	return k, speedup
}

// BreakEven returns the chance of acceptance at which a verify batch of a width
// takes as long as its tokens would alone, with n-gram candidates or with those
// of the draft model. It reports false when even 1 is not enough.
func (r Row) BreakEven(width int, model bool) (float64, bool) {
	k := width - 1
	cost := r.Ratio(width)
	if model {
		cost += float64(k) * r.Draft
	}
	if !(float64(width) >= cost) {
		return 1, false
	}
	low, high := 0.0, 1.0
	for range 40 { // halves to less than a float32 can tell
		if mid := (low + high) / 2; steadyTokens(mid, k) < cost {
			low = mid
		} else {
			high = mid
		}
	}
	return high, true
}

// String is a table with the cost and the break-even of each measured width.
func (c Costs) String() string {
	var b strings.Builder
	for _, r := range c.Rows {
		ms := r.Token.Seconds() * 1e3
		fmt.Fprintf(&b, "%d threads: token %.1f ms, flat up to %d", r.Threads, ms, r.Widest(maxWidth))
		if r.Draft > 0 {
			fmt.Fprintf(&b, ", draft %.2f tokens", r.Draft)
		}
		b.WriteString("\n")
		for _, p := range r.Verify {
			if p.Width > 1 {
				fmt.Fprintf(&b, "  width %2d: %5.2f tokens, break-even n-gram %s, model %s\n",
					p.Width, p.Ratio, r.evenText(p.Width, false), r.evenText(p.Width, true))
			}
		}
	}
	return b.String()
}

func (r Row) evenText(width int, model bool) string {
	if model && r.Draft == 0 {
		return "-"
	}
	a, ok := r.BreakEven(width, model)
	if !ok {
		return "never"
	}
	return fmt.Sprintf("%.0f %%", a*100)
}

// Rate is a rolling rate of acceptance. The zero value is 0 with no memory; see
// newRate.
type Rate struct {
	value, tries float64
}

const (
	// rateMemory is 64: a change of what is spoken about is seen within some
	// sentences, and one odd sentence does not switch a source off.
	rateMemory = 64

	// priorTries is how many tries the value that a rate begins with is worth.
	priorTries = 4
)

func newRate(prior float64) Rate { return Rate{prior, priorTries} }

// Add notes one try.
func (r *Rate) Add(hit bool) {
	r.tries = min(r.tries+1, rateMemory)
	x := 0.0
	if hit {
		x = 1
	}
	r.value += (x - r.value) / r.tries
}

// Value is the rate, [0, 1].
func (r Rate) Value() float64 { return r.value }

const (
	// trial is how many rounds a source has before it is judged. In 8 rounds a
	// source at break-even is taken for one that loses about half the time, and
	// one twice as good almost never; and 8 bad rounds cost a few tokens.
	trial = 8

	// ledgerDecay lets a round count for 1/e after 32 more: about a reply.
	ledgerDecay = 1 - 1.0/32

	// coolFirst and coolMost bound how long a source stays off. The first is a
	// sentence or two; each failure in a row doubles it, so that in the long
	// run trials take less than one round in a hundred.
	coolFirst = 2 * time.Second
	coolMost  = 2 * time.Minute
)

// Gate keeps the account of one source: what its candidates won, in tokens,
// and what they cost, in units of T(1). It closes when they cost more, and
// opens again for a trial after a cool-down. The zero value is open.
type Gate struct {
	won, paid float64
	rounds    int
	until     int64 // closed before this instant
	cool      time.Duration
	closed    bool
}

// Open reports whether the source may be used at the instant now, and whether
// that begins a new trial after a cool-down.
func (g *Gate) Open(now int64) (open, again bool) {
	if !g.closed {
		return true, false
	}
	if now < g.until {
		return false, false
	}
	g.closed, g.won, g.paid, g.rounds = false, 0, 0, 0
	return true, true
}

// Settle notes a round: won tokens for paid units of T(1).
func (g *Gate) Settle(now int64, won, paid float64) {
	g.won = g.won*ledgerDecay + won
	g.paid = g.paid*ledgerDecay + paid
	g.rounds++
	switch {
	case g.rounds < trial:
	case g.won < g.paid:
		g.Close(now)
	case g.rounds > 2*trial:
		g.cool = 0 // it pays: the next failure begins with a short one
	}
}

// Close switches the source off for the cool-down.
func (g *Gate) Close(now int64) {
	g.cool = min(max(coolFirst, 2*g.cool), coolMost)
	g.closed, g.until = true, now+int64(g.cool)
}

// Closed reports whether the source is off, and until when.
func (g *Gate) Closed() (bool, int64) { return g.closed, g.until }
