package npc

import (
	"bytes"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// SpokenKind says what a piece of speech is.
type SpokenKind uint8

const (
	SpokenText     SpokenKind = iota // a delta of what is said, for subtitles
	SpokenSentence                   // a whole sentence, after its deltas, for a voice
	SpokenThought                    // a delta of what is thought (<think>), for nobody or a debugger
	SpokenEmotion                    // a declared emotion, without its brackets
)

func (k SpokenKind) String() string {
	return named("SpokenKind", uint8(k), "text", "sentence", "thought", "emotion")
}

// Spoken is a piece of speech.
type Spoken struct {
	Kind SpokenKind
	Text string
}

// SpeechEnd says why a speech was ended by itself, not by the model.
type SpeechEnd string

const (
	SpeechOpen    SpeechEnd = ""         // it was not
	SpeechRepeats SpeechEnd = "repeats"  // it said the same again
	SpeechVoice   SpeechEnd = "voice"    // it went on in the voice of somebody else
	SpeechEnough  SpeechEnd = "sentence" // SpeechConfig.Enough said so, after a sentence
	SpeechLong    SpeechEnd = "long"     // it exceeded what a history keeps

	// SpeechThought is for who counts tokens: they were used up by thoughts, and
	// nothing was said (OnlyThought). A persona with larger max_tokens, or a
	// model that does not think, says something.
	SpeechThought SpeechEnd = "thought"
)

const (
	// minRepeat is the length of a sentence, in bytes, from which saying it
	// again is a fault. Shorter ones ("No. No!") are how people talk.
	minRepeat = 16

	// maxSameRune and the list below are when words or letters go round in a
	// circle: a group of n words may come so many times in a row.
	maxSameRune = 24
)

var maxSameWords = [...]int{1: 7, 2: 5, 3: 4, 4: 4}

// SpeechConfig is what a Speech must know of its speaker.
type SpeechConfig struct {
	Name     string   // the speaker: "Name:" at the start of a line or a sentence is left out
	Others   []string // who else is heard: "Other:" at the start of a line or a sentence ends the speech
	Thinking bool     // it begins within <think>, as Prompt.OpensThought tells
	Emotions []string // declared: "[joy]" becomes an event
	Before   []string // sentences of earlier replies: one is left out, two in a row are told again

	// Enough is asked after each sentence whether that was enough; nil never is.
	Enough func(sentence string) bool
}

// Speech turns what a model says into what a character says: thoughts and
// emotions go their own ways, nobody speaks with another's voice, nothing is
// said twice, and whole sentences come out beside the deltas. The same text
// gives the same speech, however it is split.
//
// A name says who speaks where a colon of any script follows it, also with what
// models write around names: "**Bob:**", "- Bob :", "[Bob]:". In the middle of a
// sentence it is a word. Thoughts stand between <think> or <thinking> and its
// end. An end without a beginning is left out and ends the sentence; what stands
// before it was heard, unless SpeechConfig.Thinking told that it is a thought.
//
// What may turn out to be a tag, a name or a repetition is held back until that
// is known. Call from one goroutine at a time.
type Speech struct {
	cfg     SpeechConfig
	out     []Spoken
	thought []byte

	raw     []byte // all that came
	pending []rune // the end of raw: may begin a tag or a name
	inside  bool   // of <think>
	thinks  bool   // it had thoughts
	start   bool   // at the start of a line
	gap     bool   // a tag was taken out: the blanks after it go too

	text      []byte // what is said
	at        []int  // for each byte of text, where in raw the character ends
	given     int    // of text, in deltas
	from      int    // of text, where the sentence begins
	whole     int    // of text, the end of the last whole sentence
	cutter    Sentences
	base      int      // bytes of text before what cutter counts
	said      []string // normal forms of the sentences of this speech
	before    []string // and of those of earlier ones
	dropped   string   // the sentence left out last because it was said before
	droppedAt int      // how many sentences were said then
	altered   bool     // text can't be found in raw as one stretch
	words     []wordAt
	same      int
	lastRune  rune
	end       SpeechEnd
}

type wordAt struct {
	word string
	at   int // of text, where it begins
}

// NewSpeech begins a speech.
func NewSpeech(cfg SpeechConfig) *Speech {
	s := &Speech{cfg: cfg, start: true, inside: cfg.Thinking, thinks: cfg.Thinking, altered: cfg.Thinking}
	for _, b := range cfg.Before {
		s.before = append(s.before, normal(b))
	}
	return s
}

// normal is a sentence as it is compared with others.
func normal(s string) string { return strings.ToLower(strings.Join(strings.Fields(s), " ")) }

// Add takes the next piece of the model's text and appends what comes of it to
// dst. After End or once Ended says why, it takes no more.
func (s *Speech) Add(dst []Spoken, text string) []Spoken {
	s.out = dst
	for _, r := range text {
		if s.end != SpeechOpen {
			break
		}
		s.raw = utf8.AppendRune(s.raw, r)
		s.pending = append(s.pending, r)
		s.settle(false)
	}
	s.giveOut(s.ready())
	return s.result()
}

// End appends what was held back.
func (s *Speech) End(dst []Spoken) []Spoken {
	s.out = dst
	if s.end == SpeechOpen {
		s.settle(true)
	}
	if s.end == SpeechOpen {
		s.pause()
	}
	if len(s.text) == 0 && s.dropped != "" { // better said again than nothing
		s.text, s.altered = append(s.text, s.dropped...), true
		s.giveOut(len(s.text))
		s.whole = len(s.text)
		s.out = append(s.out, Spoken{SpokenSentence, s.dropped})
	}
	s.giveOut(len(s.Text()))
	return s.result()
}

func (s *Speech) result() []Spoken {
	s.giveThought()
	out := s.out
	s.out = nil
	return out
}

// Ended says why the speech ended itself, or SpeechOpen.
func (s *Speech) Ended() SpeechEnd { return s.end }

// Text is what was said so far, held back or not.
func (s *Speech) Text() string { return string(bytes.TrimRightFunc(s.text, unicode.IsSpace)) }

// Heard is what was said so far and given out in deltas.
func (s *Speech) Heard() string { return string(s.text[:s.given]) }

// Whole is what was said in whole sentences.
func (s *Speech) Whole() string { return string(s.text[:s.whole]) }

// OnlyThought reports whether there were thoughts and nothing was said.
func (s *Speech) OnlyThought() bool { return s.thinks && len(s.text) == 0 }

// OpensThought reports whether the chat template of a prompt ends it within
// <think>, as those of some models do: what comes first is then a thought. Safe
// for concurrent use.
func (p Prompt) OpensThought() bool {
	if len(p.Segments) == 0 {
		return false
	}
	last := p.Segments[len(p.Segments)-1]
	text := strings.TrimSpace(last.Text)
	return last.Markup && (strings.HasSuffix(text, "<think>") || strings.HasSuffix(text, "<thinking>"))
}

// Raw is what the model said for the first n bytes of Text, tags included, or
// false where that is not one stretch from the beginning.
func (s *Speech) Raw(n int) (string, bool) {
	if s.altered || n == 0 || n > len(s.at) {
		return "", false
	}
	return string(s.raw[:s.at[n-1]]), true
}

// settle decides about pending: a tag, a name, text, or not known yet.
func (s *Speech) settle(last bool) {
	for len(s.pending) > 0 && s.end == SpeechOpen {
		what, n, wait := s.match()
		switch {
		case wait && !last:
			return
		case n > 0:
			if s.act(what); s.end == SpeechOpen {
				s.pending = s.pending[:copy(s.pending, s.pending[n:])]
			}
		default:
			s.release()
		}
	}
}

type tag uint8

const (
	noTag tag = iota
	thinkTag
	endThinkTag
	emotionTag
	ownName
	otherName
)

// match compares pending with what may stand here: it returns what it is and
// how long, or that more must come to tell.
func (s *Speech) match() (what tag, n int, wait bool) {
	try := func(t tag, word string) {
		i := 0
		for _, r := range word {
			if i == len(s.pending) {
				wait = true
				return
			}
			if unicode.ToLower(s.pending[i]) != unicode.ToLower(r) {
				return
			}
			i++
		}
		if i > n {
			what, n = t, i
		}
	}
	try(endThinkTag, "</think>")
	try(endThinkTag, "</thinking>")
	if s.inside {
		return what, n, wait && n == 0
	}
	try(thinkTag, "<think>")
	try(thinkTag, "<thinking>")
	for _, e := range s.cfg.Emotions {
		try(emotionTag, "["+e+"]")
	}
	wait = wait && n == 0
	if !s.begins() {
		return what, n, wait
	}
	own, more := voiceOf(s.cfg.Name, s.pending)
	if wait = wait || more; own > n { // its marks may close yet
		what, n = ownName, own
	}
	for _, o := range s.cfg.Others {
		other, more := voiceOf(o, s.pending)
		if other > n {
			return otherName, other, false
		}
		wait = wait || more
	}
	return what, n, wait
}

// begins reports whether pending is at the start of a line or of a sentence.
func (s *Speech) begins() bool {
	c, r := &s.cutter, s.pending[0]
	switch {
	case s.start || len(c.cur) == 0:
		return true
	case c.phase == inSentence:
		return false
	}
	return c.over(r)
}

func (s *Speech) act(t tag) {
	switch t {
	case thinkTag:
		s.giveOut(s.ready())
		s.inside, s.thinks, s.altered = true, true, true
	case endThinkTag:
		s.giveThought()
		if !s.inside {
			s.endThoughts()
		}
		s.inside, s.gap, s.altered = false, true, true
	case emotionTag:
		if s.cutter.phase != inSentence { // what a mark ended, a tag ends for sure
			if s.pause(); s.end != SpeechOpen {
				return
			}
		}
		s.giveOut(s.ready())
		name := string(s.pending[1:slices.Index(s.pending, ']')])
		for _, e := range s.cfg.Emotions {
			if strings.EqualFold(e, name) {
				s.out = append(s.out, Spoken{SpokenEmotion, e})
			}
		}
		s.gap = true
	case ownName:
		s.pause()
		s.gap, s.altered = true, true // and the line still begins: another name may follow
	case otherName:
		if s.pause(); s.end == SpeechOpen {
			s.stop(SpeechVoice)
		}
	}
}

// endThoughts is at the end of thoughts that nothing began: what was said until
// here can't be taken back, and nothing joins it.
func (s *Speech) endThoughts() {
	s.pause()
	if s.end == SpeechOpen && len(s.text) > 0 && !s.blankBefore() {
		s.speak(' ')
	}
}

func (s *Speech) giveThought() {
	if len(s.thought) > 0 {
		s.out = append(s.out, Spoken{SpokenThought, string(s.thought)})
		s.thought = s.thought[:0]
	}
}

// release takes the first of pending as text.
func (s *Speech) release() {
	r := s.pending[0]
	s.pending = s.pending[:copy(s.pending, s.pending[1:])]
	if s.inside {
		s.thought = utf8.AppendRune(s.thought, r)
		return
	}
	space := unicode.IsSpace(r)
	s.start = r == '\n' || s.start && space
	if space && (len(s.text) == 0 || s.gap && s.blankBefore()) {
		return
	}
	s.gap = s.gap && space
	s.speak(r)
}

func (s *Speech) blankBefore() bool {
	last, _ := utf8.DecodeLastRune(s.text)
	return unicode.IsSpace(last)
}

// speak adds a character to what is said.
func (s *Speech) speak(r rune) {
	if sentence, end, ok := s.cutter.push(r); ok {
		s.finish(sentence, s.base+end, s.cutter.total-utf8.RuneLen(r))
		if s.end != SpeechOpen {
			return
		}
		if len(s.text) == 0 && unicode.IsSpace(r) {
			s.base -= utf8.RuneLen(r) // the cutter takes it, the text does not
			return
		}
	}
	raw := len(s.raw)
	for _, p := range s.pending {
		raw -= utf8.RuneLen(p)
	}
	s.text = utf8.AppendRune(s.text, r)
	for len(s.at) < len(s.text) {
		s.at = append(s.at, raw)
	}
	switch {
	case len(s.text) > maxTurnBytes:
		s.stop(SpeechLong)
	case s.circles(r):
		s.stop(SpeechRepeats)
	}
}

// pause ends the sentence here.
func (s *Speech) pause() {
	if sentence, end, ok := s.cutter.flush(); ok {
		s.finish(sentence, s.base+end, s.cutter.total)
	}
}

// finish ends a sentence, which ends at a byte of text; the cutter has taken so
// many bytes for what text holds now.
func (s *Speech) finish(sentence string, end, taken int) {
	key := normal(sentence)
	if len(key) >= minRepeat && slices.Contains(s.said, key) {
		s.text, s.at = s.text[:s.whole], s.at[:s.whole]
		s.stop(SpeechRepeats)
		return
	}
	if len(key) >= minRepeat && slices.Contains(s.before, key) {
		if s.dropped != "" && len(s.said) == s.droppedAt && key != normal(s.dropped) {
			end += s.retell()
		} else {
			s.leaveOut(sentence, taken)
			return
		}
	}
	s.said = append(s.said, key)
	s.giveOut(end)
	s.whole, s.from = end, len(s.text)
	s.out = append(s.out, Spoken{SpokenSentence, sentence})
	if s.cfg.Enough != nil && s.cfg.Enough(sentence) {
		s.text, s.at = s.text[:s.whole], s.at[:s.whole]
		s.stop(SpeechEnough)
	}
}

// leaveOut takes a sentence back that was said in an earlier reply.
func (s *Speech) leaveOut(sentence string, taken int) {
	s.dropped, s.droppedAt = sentence, len(s.said)
	s.text, s.at = s.text[:s.from], s.at[:s.from]
	s.base = len(s.text) - taken
	s.altered = true
	s.words = s.words[:0]
}

// retell puts the sentence that was left out back, because a second one follows
// that was said before too: that is no slip but the same told again. It returns
// how many bytes that put in.
func (s *Speech) retell() int {
	insert := s.dropped + " "
	s.text = slices.Insert(s.text, s.from, []byte(insert)...)
	s.at = slices.Insert(s.at, s.from, make([]int, len(insert))...)
	s.base += len(insert)
	s.giveOut(s.from + len(s.dropped))
	s.out = append(s.out, Spoken{SpokenSentence, s.dropped})
	s.dropped, s.before = "", nil
	return len(insert)
}

// ready is how much of text may be given out: not a sentence that so far is the
// beginning of one said before.
func (s *Speech) ready() int {
	key := normal(string(s.text[s.from:]))
	repeats := func(old string) bool { return len(old) >= minRepeat && strings.HasPrefix(old, key) }
	if key != "" && (slices.ContainsFunc(s.said, repeats) || slices.ContainsFunc(s.before, repeats)) {
		return s.given
	}
	return len(s.Text()) // blanks come with what follows them
}

func (s *Speech) giveOut(to int) {
	if to > s.given {
		s.giveThought()
		s.out = append(s.out, Spoken{SpokenText, string(s.text[s.given:to])})
		s.given = to
	}
}

func (s *Speech) stop(why SpeechEnd) {
	s.end = why
	s.pending = s.pending[:0]
	s.given, s.from = min(s.given, len(s.text)), min(s.from, len(s.text))
}

// circles reports whether the end of text goes round in a circle.
func (s *Speech) circles(r rune) bool {
	space := unicode.IsSpace(r)
	if r != s.lastRune || space {
		s.same = 0
	}
	s.lastRune = r
	if s.same++; s.same > maxSameRune {
		return true
	}
	if !space {
		return false
	}
	text := strings.TrimRightFunc(string(s.text[s.from:]), unicode.IsSpace)
	begin := strings.LastIndexFunc(text, unicode.IsSpace) + 1
	if text == "" || len(s.words) > 0 && s.words[len(s.words)-1].at == s.from+begin {
		return false
	}
	s.words = append(s.words, wordAt{strings.ToLower(text[begin:]), s.from + begin})
	const look = 16 // words: the longest group times its limit
	if len(s.words) > look {
		s.words = s.words[:copy(s.words, s.words[len(s.words)-look:])]
	}
	for n := 1; n < len(maxSameWords); n++ {
		if s.rounds(n) >= maxSameWords[n] {
			return true
		}
	}
	return false
}

// rounds is how many times in a row the last n words were said.
func (s *Speech) rounds(n int) int {
	count := 1
	for i := len(s.words) - n - 1; i >= 0 && s.words[i].word == s.words[i+n].word; i-- {
		if (len(s.words)-i)%n == 0 {
			count++
		}
	}
	return count
}
