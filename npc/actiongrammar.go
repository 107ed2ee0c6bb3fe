package npc

import (
	"fmt"
	"strconv"
	"strings"
)

// Grammar describes every call that the offer allows now, and nothing else, in
// the language of package gbnf. Equal offers give equal grammars. The call is
// JSON with its keys in one order, so that a model chooses little: in
//
//	{"action":"give","item":"sword","count":2}
//
// it decides on "give", "sword" and 2; the rest is forced. The error wraps
// ErrAction. Safe for concurrent use.
func (o Offer) Grammar() (string, error) {
	if err := o.check(); err != nil {
		return "", err
	}
	var b strings.Builder
	possible := o.possible()
	b.WriteString(`root ::= ` + literal(`{"action":`) + ` (do-none`)
	for _, a := range possible {
		b.WriteString(" | do-" + ruleName(a.Name))
	}
	b.WriteString(") " + literal("}") + "\n")
	room := MaxChoices // quests come on top of what a game offers
	if o.quest != nil {
		room += len(" | do-" + ruleName(ActionOfferQuest))
	}
	b.WriteString("do-none ::= " + literal(quoted(NoAction)) + "\n")
	largest, most := "", 0
	for _, a := range possible {
		begin := b.Len()
		o.addRules(&b, a)
		if n := b.Len() - begin; n > most {
			largest, most = a.Name, n
		}
		if o.quest != nil && a.Name == ActionOfferQuest {
			room += b.Len() - begin
		}
	}
	if b.Len() > room {
		return "", fmt.Errorf("%w: too much to choose from: written out it takes %d bytes, want at most %d; "+
			"%s takes the most, %d: offer fewer or shorter actions, values and targets",
			ErrAction, b.Len(), MaxChoices, largest, most)
	}
	return b.String(), nil
}

// addRules writes the rules of one action.
func (o Offer) addRules(b *strings.Builder, a ActionSpec) {
	rule := "do-" + ruleName(a.Name)
	b.WriteString(rule + " ::= " + literal(quoted(a.Name)))
	for _, p := range a.Params {
		b.WriteString(" " + literal(","+quoted(p.Name)+":") + " " + rule + "--" + ruleName(p.Name))
	}
	b.WriteString("\n")
	for _, p := range a.Params {
		b.WriteString(rule + "--" + ruleName(p.Name) + " ::= " + o.pattern(p) + "\n")
	}
}

// ruleName is a name where only letters, digits and - are allowed. Names have
// no two _ in a row, so that -- ends one.
func ruleName(s string) string { return strings.ReplaceAll(s, "_", "-") }

// literal is a text as a literal of a grammar.
func literal(s string) string { return `"` + inLiteral.Replace(s) + `"` }

var inLiteral = strings.NewReplacer(`\`, `\\`, `"`, `\"`)

// pattern is what the values of a parameter look like.
func (o Offer) pattern(p Param) string {
	switch p.Kind {
	case ParamInt:
		lo, hi := p.scaled()
		return numbers(lo, hi, 0)
	case ParamReal:
		lo, hi := p.scaled()
		return numbers(lo, hi, p.Decimals)
	case ParamBool:
		return `"true" | "false"`
	case ParamText:
		return fmt.Sprintf(`"\"" [^"\\\x00-\x1F\x7F-\x9F\u2028\u2029]{1,%d} "\""`, p.MaxRunes)
	}
	values := o.values(p)
	out := make([]string, len(values))
	for i, v := range values {
		out[i] = literal(quoted(v))
	}
	return strings.Join(out, " | ")
}

// numbers describes the whole numbers from lo to hi, written with a point
// before the last decimals.
func numbers(lo, hi int64, decimals int) string {
	var out []string
	if lo < 0 {
		least, most := max(1, -hi), -lo
		for _, x := range naturals(least, most, decimals) {
			out = append(out, `"-" `+x)
		}
	}
	if hi >= 0 {
		out = append(out, naturals(max(0, lo), hi, decimals)...)
	}
	return strings.Join(out, " | ")
}

// naturals describes the numbers from lo to hi ≥ 0, one stretch for each number
// of digits.
func naturals(lo, hi int64, decimals int) []string {
	var out []string
	width := decimals + 1 // "0.05" has three digits
	for first := int64(0); first <= hi; {
		last := int64(1)
		for range width {
			last *= 10
		}
		last--
		if a, b := max(lo, first), min(hi, last); a <= b {
			pad := func(n int64) string {
				s := strconv.FormatInt(n, 10)
				return strings.Repeat("0", width-len(s)) + s
			}
			for _, x := range digits(pad(a), pad(b), decimals) {
				out = append(out, strings.TrimSpace(x))
			}
		}
		first = last + 1
		width++
	}
	return out
}

// digits describes the strings from a to b, of equal length.
func digits(a, b string, decimals int) []string {
	if a == "" {
		return []string{""}
	}
	point := ""
	if len(a) == decimals && decimals > 0 {
		point = `"." `
	}
	if strings.Trim(a, "0") == "" && strings.Trim(b, "9") == "" {
		return []string{point + anyDigits(len(a), decimals, point != "")}
	}
	var out []string
	add := func(from, to byte, rests []string) {
		for _, rest := range rests {
			out = append(out, point+digitClass(from, to)+" "+rest)
		}
	}
	if a[0] == b[0] {
		add(a[0], a[0], digits(a[1:], b[1:], decimals))
		return out
	}
	rest := len(a) - 1
	zeros, nines := strings.Repeat("0", rest), strings.Repeat("9", rest)
	from, to := a[0], b[0]
	if a[1:] != zeros {
		add(from, from, digits(a[1:], nines, decimals))
		from++
	}
	if b[1:] != nines {
		to--
	}
	if from <= to {
		add(from, to, digits(zeros, nines, decimals))
	}
	if b[1:] != nines {
		add(b[0], b[0], digits(zeros, b[1:], decimals))
	}
	return out
}

// anyDigits describes n digits of any value, with the point where it belongs
// unless it stands before them.
func anyDigits(n, decimals int, pointed bool) string {
	if decimals > 0 && n > decimals && !pointed {
		return anyDigits(n-decimals, 0, true) + ` "." ` + anyDigits(decimals, 0, true)
	}
	if n == 1 {
		return "[0-9]"
	}
	return fmt.Sprintf("[0-9]{%d}", n)
}

func digitClass(from, to byte) string {
	if from == to {
		return fmt.Sprintf("%q", string(from))
	}
	return fmt.Sprintf("[%c-%c]", from, to)
}
