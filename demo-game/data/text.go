package data

import (
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Texts is what the screen says in one language, by key.
type Texts map[string]string

// Say fills a text in: pairs are names in braces and what takes their place. A
// key without a text shows as itself.
func (t Texts) Say(key string, pairs ...string) string {
	s, ok := t[key]
	if !ok {
		return key
	}
	for i := 0; i+1 < len(pairs); i += 2 {
		s = strings.ReplaceAll(s, "{"+pairs[i]+"}", pairs[i+1])
	}
	return particles(s)
}

// forms are the Korean particles that follow the sound before them: as a text
// writes them, after a consonant, after a vowel.
var forms = [...][3]string{{"을(를)", "을", "를"}, {"이(가)", "이", "가"}, {"은(는)", "은", "는"},
	{"와(과)", "과", "와"}, {"(으)로", "으로", "로"}}

// particles chooses the form of each particle by the letter before it. After
// other letters than Hangul both forms stay.
func particles(s string) string {
	for _, f := range forms {
		for from := 0; ; {
			i := strings.Index(s[from:], f[0])
			if i < 0 {
				break
			}
			at := from + i
			before, _ := utf8.DecodeLastRuneInString(s[:at])
			if before < '가' || before > '힣' {
				from = at + len(f[0])
				continue
			}
			const finals, rieul = 28, 8 // of a syllable's last consonant; ㄹ takes 로
			form := f[2]
			if last := (before - '가') % finals; last != 0 && !(last == rieul && f[1] == "으로") {
				form = f[1]
			}
			s = s[:at] + form + s[at+len(f[0]):]
			from = at + len(form)
		}
	}
	return s
}

// Correct holds a sentence that somebody said against the data. Where it names
// one thing of the data and a number that is not the thing's, it returns what is
// true instead, and true.
func (g *Game) Correct(person, sentence string) (string, bool) {
	numbers := numbersIn(sentence)
	if len(numbers) == 0 {
		return sentence, false
	}
	words := strings.FieldsFunc(strings.ToLower(sentence), func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r)
	})
	if !holdsAny(words, "silver", "coin", "coins", "cost", "costs", "price", "pay", "gold", "pieces", "worth") {
		return sentence, false
	}
	var named []Good
	for _, good := range g.Goods {
		if holdsAny(words, g.Lines.Words[good.ID]...) {
			named = append(named, good)
		}
	}
	switch {
	case len(named) > 0:
		return g.correctPrices(sentence, named, numbers)
	case person == g.Quest.Giver && !allAre(numbers, g.Quest.Reward):
		return Texts{"x": g.Lines.CorrectionReward}.Say("x", "price", strconv.Itoa(g.Quest.Reward)), true
	case person == g.Quest.Helper && !allAre(numbers, g.Quest.Forging, g.Quest.Reward):
		return Texts{"x": g.Lines.CorrectionForging}.Say("x", "price", strconv.Itoa(g.Quest.Forging)), true
	case person == g.Shopkeeper && len(g.priceless(numbers)) > 0:
		return g.correctPrices(sentence, g.Goods, numbers)
	}
	return sentence, false
}

// priceless lists the numbers that are the price of nothing.
func (g *Game) priceless(numbers []int) (out []int) {
	for _, n := range numbers {
		known := n == g.Quest.Reward || n == g.Quest.Forging
		for _, good := range g.Goods {
			known = known || good.Price == n
		}
		if !known {
			out = append(out, n)
		}
	}
	return out
}

// correctPrices accepts a sentence in which each thing stands with its price, in
// order: as many numbers as things, each the price of its own.
func (g *Game) correctPrices(sentence string, named []Good, numbers []int) (string, bool) {
	right := len(numbers) <= len(named)
	for _, n := range numbers {
		is := false
		for _, good := range named {
			is = is || good.Price == n
		}
		right = right && is
	}
	if right && (len(named) == 1 || g.inOrder(sentence)) {
		return sentence, false
	}
	var out []string
	for _, good := range named {
		s := Texts{"x": g.Lines.Correction}.Say("x", "item", title(good.ID), "price", strconv.Itoa(good.Price))
		out = append(out, s)
	}
	return strings.Join(out, " "), true
}

// inOrder reports whether each number of a sentence is the price of the thing
// named nearest: a list reads "bread for 3, a potion for 8".
func (g *Game) inOrder(sentence string) bool {
	var last *Good
	var open []int
	fields := strings.FieldsFunc(strings.ToLower(sentence), func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r)
	})
	for _, w := range fields {
		for i := range g.Goods {
			if holdsAny([]string{w}, g.Lines.Words[g.Goods[i].ID]...) {
				last = &g.Goods[i]
				for _, n := range open { // "8 silver for a potion"
					if n != last.Price {
						return false
					}
				}
				open = nil
			}
		}
		n, ok := number(w)
		switch {
		case !ok:
		case last == nil:
			open = append(open, n)
		case n != last.Price:
			return false
		}
	}
	return len(open) == 0
}

func title(s string) string { return strings.ToUpper(s[:1]) + s[1:] }

func holdsAny(words []string, any ...string) bool {
	for _, w := range words {
		for _, a := range any {
			if w == a {
				return true
			}
		}
	}
	return false
}

func allAre(numbers []int, allowed ...int) bool {
	for _, n := range numbers {
		ok := false
		for _, a := range allowed {
			ok = ok || a == n
		}
		if !ok {
			return false
		}
	}
	return true
}

// numberWords are those that a small model uses for prices. "one" is left out:
// it is said of everything.
var numberWords = map[string]int{"two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7, "eight": 8,
	"nine": 9, "ten": 10, "eleven": 11, "twelve": 12, "fifteen": 15, "twenty": 20, "thirty": 30, "forty": 40,
	"fifty": 50, "sixty": 60, "hundred": 100, "thousand": 1000}

func number(word string) (int, bool) {
	if n, err := strconv.Atoi(word); err == nil {
		return n, true
	}
	n, ok := numberWords[word]
	return n, ok
}

// numbersIn lists the numbers of a sentence, in digits or words.
func numbersIn(sentence string) (out []int) {
	words := strings.FieldsFunc(strings.ToLower(sentence), func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r)
	})
	for i := 0; i < len(words); i++ {
		n, ok := number(words[i])
		if !ok {
			continue
		}
		if i+1 < len(words) && n >= 20 && n < 100 && n%10 == 0 {
			if unit, ok := numberWords[words[i+1]]; ok && unit < 10 {
				n += unit
				i++
			}
		}
		out = append(out, n)
	}
	return out
}

// HasNumber reports whether a text states a number: such a sentence is shown
// when it is whole and was held against the data.
func HasNumber(text string) bool { return len(numbersIn(text)) > 0 }
