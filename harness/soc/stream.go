package soc

import (
	"math/rand/v2"

	"github.com/lull-npc/lull/runtime/llm"
)

const (
	// vocabulary is how many tokens there are: enough that chance repeats are
	// rare, little enough that a table of all is made at once.
	vocabulary = 4096
	// firstWord: tokens below name conversations, so that a ledger says whose it is.
	firstWord = 1024
	// copyFrom is how far text repeats what stood before it.
	copyFrom = 400
)

// stream is the text of one conversation, prompt and reply alike, as long as
// anybody asks for: words, and now and then a stretch that stood before. The
// draft model guesses each token with a chance of its own.
type stream struct {
	dice    *rand.Rand
	text    []llm.Token
	guess   []llm.Token // what the draft model would say there
	copying int         // tokens left of a repeat
	from    int
	app     *App
}

func newStream(seed, number uint64, app *App) *stream {
	s := &stream{dice: rand.New(rand.NewPCG(seed, number)), app: app}
	s.text = append(s.text, llm.Token(1+number%(firstWord-2)))
	s.guess = append(s.guess, 0)
	return s
}

// at is the token at a place, and the draft model's guess of it.
func (s *stream) at(n int) (said, guessed llm.Token) {
	for len(s.text) <= n {
		s.grow()
	}
	return s.text[n], s.guess[n]
}

func (s *stream) grow() {
	n := len(s.text)
	if s.copying == 0 && n > 16 && s.dice.Float64() < s.app.CopyStart.Value {
		s.copying = 1 + int(mul(2*s.app.CopyLength.Value, s.dice.Float64()))
		s.from = max(1, n-1-s.dice.IntN(min(n-8, copyFrom)))
	}
	t := s.word()
	if s.copying > 0 {
		s.copying--
		t = s.text[s.from]
		s.from++
	}
	g := t
	if s.dice.Float64() >= s.app.DraftRight.Value {
		g = firstWord + (t-firstWord+1)%(vocabulary-firstWord)
	}
	s.text, s.guess = append(s.text, t), append(s.guess, g)
}

// word draws from a distribution in which few words are frequent.
func (s *stream) word() llm.Token {
	u := s.dice.Float64()
	return firstWord + llm.Token(mul(mul(u, u), mul(u, vocabulary-firstWord-1)))
}
