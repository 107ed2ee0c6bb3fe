package speculative

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/lull-npc/lull/runtime/llm"
)

// Mode says which sources may be used. Each has to pay nevertheless.
type Mode uint8

const (
	ModeAuto  Mode = iota // patterns, and the draft model if there is one
	ModeOff               // nothing
	ModeNGram             // patterns
	ModeModel             // the draft model, its batches filled up with patterns
)

var modeNames = [...]string{"auto", "off", "ngram", "model"}

func (m Mode) String() string {
	if int(m) < len(modeNames) {
		return modeNames[m]
	}
	return "unknown"
}

// ParseMode reads the name of a mode.
func ParseMode(name string) (Mode, error) {
	for i, n := range modeNames {
		if n == name {
			return Mode(i), nil
		}
	}
	return 0, fmt.Errorf("speculative: mode %q: want %s", name, strings.Join(modeNames[:], ", "))
}

const (
	// defaultMaxWidth is 8 tokens: on CPUs a wider batch costs more than it can
	// win, and it is one burst that can't make room for a frame.
	defaultMaxWidth = 8

	// defaultConversations is 8: as many as talk in a scene. 200 KB each.
	defaultConversations = 8
	maxConversations     = 256

	// margin is what a round must be expected to win before it is tried: 15 %.
	// Talk is expected to win 2 … 5 % and loses as much where two low-priority
	// threads wait for each other; copied text wins half and more.
	// Rates and costs are known no better than that.
	margin = 1.15
)

// Options set a Speculator up.
type Options struct {
	Mode Mode

	// Draft is the draft model for ModeAuto and ModeModel. It stays the
	// caller's, to be closed after the Speculator, and should share the
	// target's gate. Its candidates are used only as far as Costs allow.
	Draft llm.Model

	// MaxWidth is the most tokens in one verify batch; 0 means 8, 32 is the
	// most.
	MaxWidth int

	// Costs were measured on this device (Measure). Without them nothing is
	// known to pay, so nothing is tried.
	Costs Costs

	// Fixed verifies MaxWidth tokens in each round, pays or not, with drafts
	// that wait at a closed gate: plain speculative decoding, to compare with.
	Fixed bool

	// Conversations is how many tables are kept; 0 means 8, 256 is the most.
	// The one unused for longest makes room.
	Conversations int
}

func (o *Options) complete() error {
	if o.MaxWidth == 0 {
		o.MaxWidth = defaultMaxWidth
	}
	if o.Conversations == 0 {
		o.Conversations = defaultConversations
	}
	switch {
	case o.Mode > ModeModel:
		return fmt.Errorf("speculative: mode %d is unknown", o.Mode)
	case o.MaxWidth < 2 || o.MaxWidth > maxWidth:
		return fmt.Errorf("speculative: MaxWidth %d: want 2…%d, or 0 for %d", o.MaxWidth, maxWidth, defaultMaxWidth)
	case o.Conversations < 1 || o.Conversations > maxConversations:
		return fmt.Errorf("speculative: Conversations %d: want 1…%d, or 0 for %d",
			o.Conversations, maxConversations, defaultConversations)
	case o.Mode == ModeModel && o.Draft == nil:
		return errors.New("speculative: mode model needs a draft model: name one, or use mode ngram")
	}
	return o.Costs.Validate()
}

// Speculator is an llm.Speculator for one engine. Its methods are called by the
// engine, from one goroutine at a time, except where they say otherwise.
type Speculator struct {
	opt    Options
	target llm.Model
	info   llm.Info
	off    atomic.Pointer[string] // why nothing is tried
	stats  counters

	conversations []conversation
	current       *conversation
	uses          uint64

	rates     [sources][longest + 1]Rate // by length of context; a draft model's at 0
	gates     [sources]Gate
	threads   int  // of the target's last batch
	pace      pace // with so many
	made      []made
	accept    []float64 // the chance of each, given those before
	expecting float64   // speed-up expected of the round

	draft *drafter // nil: none
}

var _ llm.Speculator = (*Speculator)(nil)

// made is a candidate and where it came from.
type made struct {
	token  llm.Token
	source Source
}

// New returns a speculator for target. Where the target cannot take tokens
// back, or the costs are not known, it does nothing and Stats says why. A draft
// model that does not fit the target is an error, which wraps ErrDraft.
func New(target llm.Model, o Options) (*Speculator, error) {
	if err := o.complete(); err != nil {
		return nil, err
	}
	s := &Speculator{opt: o, target: target, info: target.Info()}
	s.conversations = make([]conversation, o.Conversations)
	s.made = make([]made, 0, maxWidth)
	s.accept = make([]float64, 0, maxWidth)
	for source, prior := range priors {
		for length := range s.rates[source] {
			s.rates[source][length] = newRate(prior * trustLength[length])
		}
	}
	s.rates[FromModel][0] = newRate(modelPrior)
	if n := len(o.Costs.Rows); n > 0 {
		s.threads = o.Costs.Rows[n-1].Threads // a grant of 0 threads is all
	}
	switch {
	case o.Mode == ModeOff:
		s.turnOff("it is switched off")
	case !s.info.CanTruncate:
		s.turnOff("model " + s.info.Name + " can't take tokens back: it is recurrent or hybrid")
	case len(o.Costs.Rows) == 0 && !o.Fixed:
		s.turnOff("what verifying costs on this device is not known: measure it")
	case !o.Fixed && !slices.ContainsFunc(o.Costs.Rows, func(r Row) bool { return r.Widest(o.MaxWidth) > 1 }):
		s.turnOff("on this device no verify batch is faster than its tokens one by one")
	case o.Draft != nil && o.Mode != ModeNGram:
		d, err := newDrafter(target, o.Draft)
		if err != nil {
			return nil, err
		}
		s.draft = d
	}
	return s, nil
}

// priors and trustLength are what is thought of a pattern before any was tried:
// the longer the context, the likelier, and a rejected draft half as likely.
// They are too low to be tried on: plain decoding rates patterns for nothing, and
// copied text shows itself within ten tokens. Hopeful ones (0.6) cost 5 % of the
// first ten seconds of talk, one trial of 8 rounds for each source and length.
var (
	priors      = [sources]float64{FromReply: 0.24, FromPrompt: 0.24, FromRejected: 0.12}
	trustLength = [longest + 1]float64{0, 0.3, 0.6, 0.9, 1}
)

// modelPrior is hopeful, since a draft model has to be tried to be known: at 0.8
// it gets its trial wherever it could pay at all. A bad one loses some tokens
// in its first 8 rounds and after each cool-down.
const modelPrior = 0.8

func (s *Speculator) turnOff(why string) { s.off.Store(&why) }

// Close gives back what it holds of the draft model. Call after Engine.Close.
func (s *Speculator) Close() {
	if s.draft != nil {
		s.draft.close()
		s.draft = nil
	}
}

// Stop implements llm.Speculator. Safe for concurrent use.
func (s *Speculator) Stop() {
	if s.opt.Draft != nil {
		s.opt.Draft.Stop()
	}
}

// Resume implements llm.Speculator. Safe for concurrent use.
func (s *Speculator) Resume() {
	if s.opt.Draft != nil {
		s.opt.Draft.Resume()
	}
}

// Forget implements llm.Speculator.
func (s *Speculator) Forget(owner string) {
	for i := range s.conversations {
		if c := &s.conversations[i]; c.owner == owner {
			c.reset("")
		}
	}
	if s.draft != nil && s.draft.owner == owner {
		s.draft.forget()
	}
}

// width is how many tokens the verify batch may hold now.
func (s *Speculator) width(row Row, r llm.Reply, g llm.Grant) int {
	w := min(s.opt.MaxWidth, r.Room+1)
	if g.VerifyWidth > 0 {
		w = min(w, g.VerifyWidth)
	}
	if !s.opt.Fixed {
		w = row.Widest(w)
	}
	return w
}

func (s *Speculator) row(g llm.Grant) Row {
	if g.Threads > 0 {
		return s.opt.Costs.Row(g.Threads)
	}
	return s.opt.Costs.Row(s.threads)
}

// denied are the patterns of sources that are off now, as bits.
func (s *Speculator) denied(now int64, g llm.Grant) uint8 {
	if g.NoPatterns {
		return 1<<FromModel - 1
	}
	var deny uint8
	for source := range FromModel {
		if open, _ := s.gates[source].Open(now); !open && !s.opt.Fixed {
			deny |= 1 << source
		}
	}
	return deny
}

// Draft implements llm.Speculator.
func (s *Speculator) Draft(r llm.Reply, g llm.Grant) (llm.Work, bool) {
	if s.off.Load() != nil {
		return llm.Work{}, false
	}
	c := s.follow(r)
	d := s.draft
	if d == nil {
		return llm.Work{}, false
	}
	if !d.inRound(r) {
		d.begin(r, s.plan(c, r, g))
	}
	if d.complete() || g.NoDraftModel {
		return llm.Work{}, false
	}
	w, err := d.run(r, g, !s.opt.Fixed)
	s.stats.draftNS.Add(uint64(busy(w)))
	if err != nil {
		s.turnOffModel(err)
	}
	return w, true
}

func (s *Speculator) turnOffModel(err error) {
	why := fmt.Sprintf("the draft model failed: %v", err)
	s.stats.modelOff.Store(&why)
	s.draft.close()
	s.draft = nil
}

// plan says how many tokens the draft model is to draft for r: none where it
// does not pay, or patterns alone are expected to do better.
func (s *Speculator) plan(c *conversation, r llm.Reply, g llm.Grant) int {
	row := s.row(g)
	most := min(s.width(row, r, g)-1, s.draft.info.Context-len(r.Tokens))
	if most < 1 || g.NoDraftModel {
		return 0
	}
	if s.opt.Fixed {
		return most
	}
	gate := &s.gates[FromModel]
	open, again := gate.Open(r.Now)
	if !open {
		return 0
	}
	rate := &s.rates[FromModel][0]
	if again {
		*rate = newRate(modelPrior)
	}
	k, speedup := row.ChooseDraft(rate.Value(), most)
	if speedup < margin*s.pace.times() {
		gate.Close(r.Now)
		return 0
	}
	s.made, s.accept = s.made[:0], s.accept[:0]
	s.chain(c, most, s.denied(r.Now, g))
	if _, plain := row.Choose(s.accept); plain >= speedup {
		return 0
	}
	return k
}

// Propose implements llm.Speculator. It takes the draft model's candidates,
// fills up with patterns, and of these as many as are expected to pay.
func (s *Speculator) Propose(dst []llm.Token, r llm.Reply, g llm.Grant) []llm.Token {
	s.made, s.accept, s.expecting = s.made[:0], s.accept[:0], 1
	if s.off.Load() != nil {
		return dst
	}
	c := s.follow(r)
	row := s.row(g)
	most := s.width(row, r, g) - 1
	if d := s.draft; d != nil && d.inRound(r) {
		for _, t := range d.candidates[:max(0, min(len(d.candidates), most))] {
			s.made = append(s.made, made{t, FromModel})
			s.accept = append(s.accept, s.rates[FromModel][0].Value())
		}
	}
	modelled := len(s.made)
	s.chain(c, most, s.denied(r.Now, g))
	if !s.opt.Fixed {
		k, speedup := row.Choose(s.accept)
		if modelled == 0 && speedup < margin*s.pace.times() {
			k = 0
		}
		s.made = s.made[:k]
	}
	k := len(s.made)
	s.expecting = Tokens(s.accept[:k])
	if k > 0 {
		s.expecting /= row.Ratio(k+1)*s.pace.times() + float64(modelled)*row.Draft
	}
	for _, m := range s.made {
		dst = append(dst, m.token)
	}
	return dst
}

// Judged implements llm.Speculator.
func (s *Speculator) Judged(r llm.Reply, j llm.Judgement) {
	if s.off.Load() != nil {
		return
	}
	if n := j.Work.Threads; n > 0 && n != s.threads {
		s.threads, s.pace = n, pace{}
	}
	c := s.follow(r)
	right := common(j.Drafts, j.Chosen, 0)
	s.stats.round(&j)
	if len(j.Drafts) > len(s.made) {
		return // not from here
	}
	s.made = s.made[:len(j.Drafts)] // the engine may have had room for less
	s.settle(r, &j, right)
	if right < len(j.Drafts) {
		s.learnRejected(c, j.Drafts, right)
	}
	for _, t := range j.Chosen {
		s.learn(c, t, FromReply)
	}
}

// settle keeps the accounts: each source pays for its share of the batch.
func (s *Speculator) settle(r llm.Reply, j *llm.Judgement, right int) {
	var n, won [sources]int
	for i, m := range s.made {
		n[m.source]++
		if i < right {
			won[m.source]++
		}
		if m.source == FromModel && (i < right || i == right && right < len(j.Chosen)) {
			s.rates[FromModel][0].Add(i < right)
		}
	}
	row := s.opt.Costs.Row(s.threads)
	s.pace.observe(&j.Work, len(j.Drafts), row)
	extra := 0.0
	if k := len(s.made); k > 0 {
		extra = max(0, row.Ratio(k+1)*s.pace.times()-1) / float64(k)
		s.stats.expect(s.expecting)
	}
	spent := 0.0
	if d := s.draft; d != nil && d.inRound(r) {
		spent = d.spend(row)
	}
	for source := range Source(sources) {
		paid := extra * float64(n[source])
		if source == FromModel {
			paid += spent
		}
		if n[source] > 0 || source == FromModel && spent > 0 {
			s.stats.sources[source].judged.Add(uint64(n[source]))
			s.stats.sources[source].accepted.Add(uint64(won[source]))
			s.gates[source].Settle(r.Now, float64(won[source]), paid)
		}
	}
	for source := range s.gates {
		closed, until := s.gates[source].Closed()
		s.stats.sources[source].closed.Store(closed && r.Now < until)
	}
}

func busy(w llm.Work) int64 { return max(0, w.End-w.Start-int64(w.Waited)) }
