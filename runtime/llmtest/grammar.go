package llmtest

import (
	"slices"

	"github.com/lull-npc/lull/runtime/llm"
	"github.com/lull-npc/lull/runtime/llm/gbnf"
)

// callGrammar has what a game's calls have: stretches without a choice, an enum,
// numbers in a range, a switch, free text, and letters of more than one byte.
const callGrammar = `root ::= "{\"do\":" (give | say | "\"none\"") "}"
give ::= "\"give\",\"item\":\"" ("sword" | "shield" | "Käse" | "剣") "\",\"count\":" ([1-9] | "1" [0-2])
say ::= "\"say\",\"loud\":" ("true" | "false") ",\"text\":\"" [^"\\\x00-\x1F\x7F]{1,12} "\""
`

// longestCall is more tokens than callGrammar describes, in any vocabulary.
const longestCall = 120

// testGrammar checks that whatever the model would rather say, a reply within a
// grammar is one that the grammar describes, and that what it forces is not
// chosen.
func testGrammar(s *subject) {
	g, err := gbnf.Parse(callGrammar)
	s.must(err)
	d := s.engine(llm.EngineConfig{})
	p := s.prompt(innkeeper("What do you do now?"))
	for _, hot := range []llm.Sampling{{}, {Temperature: 0.7, TopK: 40, MinP: 0.05, Seed: 1},
		{Temperature: 3, TopP: 0.99, Seed: 2}, {Temperature: 3, RepeatPenalty: 1.3, Seed: 3}} {
		hot.Grammar = callGrammar
		r := llm.Request{Prompt: p, MaxTokens: longestCall, Sampling: hot}
		o := d.reply(r)
		if !g.Match(o.text) || o.last.Reason != llm.DoneEnd {
			s.Errorf("%+v: said %q and ended by %q", hot, o.text, o.last.Reason)
		}
		if u := o.last.Usage; u.Forced < 4 || u.Forced+u.Generated < len(o.last.Reply) {
			s.Errorf("%+v: %d tokens forced, %d chosen, %d in the reply %q", hot, u.Forced, u.Generated,
				len(o.last.Reply), o.text)
		}
		if again := d.reply(r); again.text != o.text {
			s.Errorf("%+v: the same request gave %q and %q", hot, o.text, again.text)
		}
	}
	free := d.reply(llm.Request{Owner: "mira", Prompt: p, MaxTokens: few})
	if free.last.Usage.Forced != 0 {
		s.Errorf("without a grammar %d tokens were forced", free.last.Usage.Forced)
	}
}

// testGrammarCut checks that MaxTokens holds where tokens are forced too.
func testGrammarCut(s *subject) {
	d := s.engine(llm.EngineConfig{})
	p := s.prompt(innkeeper("What do you do now?"))
	for _, most := range []int{1, 2, 5} {
		o := d.reply(llm.Request{Prompt: p, MaxTokens: most, Sampling: llm.Sampling{Grammar: callGrammar}})
		if o.last.Reason != llm.DoneLength || len(o.last.Reply) > most {
			s.Errorf("MaxTokens %d: ended by %q with %d tokens", most, o.last.Reason, len(o.last.Reply))
		}
	}
	for _, bad := range []string{"root ::= root", `root ::= "a"*` + "\nx", "start ::= \"a\""} {
		_, err := s.m.NewSampler(llm.Sampling{Grammar: bad})
		s.wants(bad, err, llm.ErrRequest)
	}
}

// testGrammarClone checks that a clone stands where its original does, and goes
// its own way from there.
func testGrammarClone(s *subject) {
	q := s.sequence(s.prompt(innkeeper("What do you do now?")))
	a, err := s.m.NewSampler(llm.Sampling{Grammar: `root ::= "ab" ("c" | "d") "e"`})
	s.must(err)
	defer a.Close()
	say := func(p llm.Sampler, text string) {
		tokens, err := s.m.Tokenize(nil, text, false)
		s.must(err)
		for _, t := range tokens {
			p.Accept(t)
		}
	}
	next := func(p llm.Sampler) string {
		t, err := p.Sample(0)
		s.must(err)
		return s.text([]llm.Token{t})
	}
	say(a, "ab")
	b := a.Clone()
	defer b.Close()
	say(b, "c")
	x := next(b)
	s.extend(q, []llm.Token{1}) // other logits: a grammar may have changed those
	if y := next(a); x != "e" || y != "c" && y != "d" && y != "ce" && y != "de" {
		s.Errorf("after abc the clone says %q, after ab the original %q", x, y)
	}
}

// parrot is a speculator that guesses that the prompt is said again, and half of
// the time nonsense.
type parrot struct{ proposed int }

func (p *parrot) Draft(llm.Reply, llm.Grant) (llm.Work, bool) { return llm.Work{}, false }

func (p *parrot) Propose(dst []llm.Token, r llm.Reply, _ llm.Grant) []llm.Token {
	last := r.Tokens[len(r.Tokens)-1]
	at := slices.Index(r.Tokens[:r.Prompt], last)
	guess := r.Tokens[at+1 : min(at+4, r.Prompt)]
	p.proposed += min(len(guess), r.Room)
	return append(dst, guess[:min(len(guess), r.Room)]...)
}

func (p *parrot) Judged(llm.Reply, llm.Judgement) {}
func (p *parrot) Forget(string)                   {}
func (p *parrot) Stop()                           {}
func (p *parrot) Resume()                         {}

// testGrammarSpeculated checks that guessing changes nothing of what is said
// within a grammar, of the greedy choice and of one by dice, in turn with free
// replies of the same owner.
func testGrammarSpeculated(s *subject) {
	p := s.prompt(innkeeper(`Say again: {"do":"say","loud":true,"text":"sword shield"}`))
	say := func(spec llm.Speculator) []string {
		d := s.engine(llm.EngineConfig{Speculator: spec})
		defer d.e.Close()
		var out []string
		for _, hot := range []llm.Sampling{{Grammar: callGrammar}, {Grammar: callGrammar, Temperature: 1, Seed: 5}} {
			o := d.reply(llm.Request{Owner: "mira", Prompt: p, MaxTokens: longestCall, Sampling: hot})
			out = append(out, o.text)
			free := d.reply(llm.Request{Owner: "mira", Prompt: p, MaxTokens: few})
			if s.o.Exact {
				out = append(out, free.text)
			}
		}
		return out
	}
	plain := say(nil)
	guess := &parrot{}
	if guessed := say(guess); !slices.Equal(plain, guessed) {
		s.Errorf("with guesses the replies are %q, without %q", guessed, plain)
	}
	if guess.proposed == 0 && s.m.Info().CanTruncate && s.m.Info().MaxBatch > 1 {
		s.Error("nothing was guessed: the test shows nothing")
	}
}
