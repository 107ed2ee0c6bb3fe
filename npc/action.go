package npc

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// ErrAction is wrapped where an action is declared or called wrongly.
var ErrAction = errors.New("npc: bad action")

// The limits of what a game offers a character to do at one time. Each action
// costs some twenty tokens in the prompt that asks for the choice.
const (
	MaxActions   = 32
	MaxParams    = 8
	MaxValues    = 64 // of an enum, and targets of one kind; further targets are left out
	MaxValue     = 64 // characters of one
	MaxParamText = 200
	maxDecimals  = 6

	// MaxChoices is what an offer may take as a grammar, in bytes, its targets
	// included. A reply that may act builds it, and the engine reads it, between
	// two frames: 16 KB are some 30 actions of ten values each, and less than a
	// millisecond. Most games need a tenth.
	MaxChoices = 16 << 10

	// MaxFreeText is the characters of all ParamText of an offer together: each
	// is a rule of its grammar, of which package gbnf reads 4096.
	MaxFreeText = 2000

	// maxKinds bounds the kinds of target, so that an offer is checked in no time.
	maxKinds = 64
)

// NoAction is the name of doing nothing, which is always among the choices.
const NoAction = "none"

// ParamKind is the type of a parameter.
type ParamKind uint8

const (
	ParamInt    ParamKind = iota // a whole number, Min … Max
	ParamReal                    // a number of Decimals places, Min … Max
	ParamBool                    // true or false
	ParamEnum                    // one of Values
	ParamText                    // free text of 1 … MaxRunes characters on one line
	ParamTarget                  // one of the targets of kind Target that exist now
)

func (k ParamKind) String() string {
	return named("ParamKind", uint8(k), "int", "real", "bool", "enum", "text", "target")
}

// Param is one parameter of an action.
type Param struct {
	Name        string // small letters, digits and single _, from a letter
	Description string // optional, for the model
	Kind        ParamKind
	Min, Max    float64  // ParamInt, ParamReal: both are allowed values
	Decimals    int      // ParamReal: digits after the point, 1 … 6
	Values      []string // ParamEnum
	MaxRunes    int      // ParamText: 1 … MaxParamText
	Target      string   // ParamTarget: the kind of target, a key of Offer.Targets
}

// ActionSpec declares what a character may do.
type ActionSpec struct {
	Name        string // as a Param's name; not NoAction, not ActionOfferQuest
	Description string // for the model: "gives something from your shop"
	Params      []Param
}

// Offer is what a character may do now. An action that needs a target of a kind
// of which there is none can't be chosen.
type Offer struct {
	Actions []ActionSpec
	Targets map[string][]string // kind → what exists now, nearest first

	quest *ActionSpec // offering one of the quests, where there is one
}

// Action is a choice, checked against its Offer.
type Action struct {
	Name string
	Args []Arg // in the order of the parameters
}

// Arg is the value of a parameter; the field of its kind is set.
type Arg struct {
	Name string
	Kind ParamKind
	Int  int64   // ParamInt
	Real float64 // ParamReal
	Bool bool    // ParamBool
	Text string  // ParamEnum, ParamText, ParamTarget
}

// Arg returns an argument by name. Safe for concurrent use.
func (a Action) Arg(name string) (Arg, bool) {
	i := slices.IndexFunc(a.Args, func(x Arg) bool { return x.Name == name })
	if i < 0 {
		return Arg{}, false
	}
	return a.Args[i], true
}

// String shows a call as people write it: give(item: "sword", count: 2).
func (a Action) String() string {
	parts := make([]string, len(a.Args))
	for i, x := range a.Args {
		parts[i] = x.Name + ": " + x.json()
	}
	return a.Name + "(" + strings.Join(parts, ", ") + ")"
}

func (x Arg) json() string {
	switch x.Kind {
	case ParamInt:
		return strconv.FormatInt(x.Int, 10)
	case ParamReal:
		return strconv.FormatFloat(x.Real, 'f', -1, 64)
	case ParamBool:
		return strconv.FormatBool(x.Bool)
	}
	return quoted(x.Text)
}

// quoted is a text as JSON, with nothing escaped that need not be.
func quoted(s string) string {
	if plain(s) {
		return `"` + s + `"`
	}
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(s); err != nil {
		return `""` // no string fails to encode
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// Validate says what is wrong with an offer, wrapping ErrAction. Safe for
// concurrent use.
func (o Offer) Validate() error {
	_, err := o.Grammar()
	return err
}

// check says what is wrong with the parts of an offer.
func (o Offer) check() error {
	if len(o.Actions) > MaxActions {
		return fmt.Errorf("%w: %d actions, want at most %d", ErrAction, len(o.Actions), MaxActions)
	}
	for i, a := range o.Actions {
		if err := a.validate(); err != nil {
			return fmt.Errorf("%w: %s: %w", ErrAction, a.Name, err)
		}
		if slices.ContainsFunc(o.Actions[:i], func(b ActionSpec) bool { return b.Name == a.Name }) {
			return fmt.Errorf("%w: %s is declared twice", ErrAction, a.Name)
		}
	}
	if len(o.Targets) > maxKinds {
		return fmt.Errorf("%w: %d kinds of target, want at most %d", ErrAction, len(o.Targets), maxKinds)
	}
	for _, kind := range sortedKeys(o.Targets) {
		for _, v := range o.targets(kind) {
			if err := checkValue(v); err != nil {
				return fmt.Errorf("%w: target of kind %s: %w", ErrAction, kind, err)
			}
		}
	}
	free := 0
	for _, a := range o.Actions {
		for _, p := range a.Params {
			if p.Kind == ParamText {
				free += p.MaxRunes
			}
		}
	}
	if free > MaxFreeText {
		return fmt.Errorf("%w: free texts of %d characters in all, want at most %d: lower MaxRunes",
			ErrAction, free, MaxFreeText)
	}
	return nil
}

func (a ActionSpec) validate() error {
	switch {
	case a.Name == NoAction || a.Name == ActionOfferQuest:
		return fmt.Errorf("the name %q is lull's own: it is offered by itself where it is possible; "+
			"want another name", a.Name)
	case !isName(a.Name):
		return fmt.Errorf("%q is no name for an action: want small letters, digits and single _", a.Name)
	}
	if err := checkDescription(a.Description); err != nil {
		return err
	}
	if len(a.Params) > MaxParams {
		return fmt.Errorf("%d parameters, want at most %d", len(a.Params), MaxParams)
	}
	for i, p := range a.Params {
		if err := p.validate(); err != nil {
			return fmt.Errorf("parameter %s: %w", p.Name, err)
		}
		if slices.ContainsFunc(a.Params[:i], func(q Param) bool { return q.Name == p.Name }) {
			return fmt.Errorf("parameter %s is declared twice", p.Name)
		}
	}
	return nil
}

func (p Param) validate() error {
	if !isName(p.Name) || p.Name == "action" {
		return fmt.Errorf("%q is no name: want small letters, digits and single _, and not \"action\"", p.Name)
	}
	if err := checkDescription(p.Description); err != nil {
		return err
	}
	switch p.Kind {
	case ParamInt, ParamReal:
		return p.validateRange()
	case ParamEnum:
		if len(p.Values) == 0 || len(p.Values) > MaxValues {
			return fmt.Errorf("%d values, want 1 … %d", len(p.Values), MaxValues)
		}
		for _, v := range p.Values {
			if err := checkValue(v); err != nil {
				return err
			}
		}
	case ParamText:
		if p.MaxRunes < 1 || p.MaxRunes > MaxParamText {
			return fmt.Errorf("MaxRunes %d, want 1 … %d", p.MaxRunes, MaxParamText)
		}
	case ParamTarget:
		if p.Target == "" {
			return errors.New("want the kind of target in Target")
		}
	case ParamBool:
	default:
		return fmt.Errorf("unknown kind %d", p.Kind)
	}
	return nil
}

func (p Param) validateRange() error {
	const most = 1e9 // with six decimals, 53 bits still hold every number
	if !(p.Min <= p.Max && p.Min >= -most && p.Max <= most) {
		return fmt.Errorf("range %v … %v, want one that rises within ±1e9", p.Min, p.Max)
	}
	if p.Kind == ParamInt && (p.Min != math.Trunc(p.Min) || p.Max != math.Trunc(p.Max)) {
		return fmt.Errorf("range %v … %v, want whole numbers", p.Min, p.Max)
	}
	if p.Kind == ParamReal && (p.Decimals < 1 || p.Decimals > maxDecimals) {
		return fmt.Errorf("%d decimals, want 1 … %d", p.Decimals, maxDecimals)
	}
	if lo, hi := p.scaled(); lo > hi {
		return fmt.Errorf("no number of %d decimals lies in %v … %v", p.Decimals, p.Min, p.Max)
	}
	return nil
}

// scaled is the range as whole numbers of the last decimal.
func (p Param) scaled() (lo, hi int64) {
	if p.Kind == ParamInt {
		return int64(p.Min), int64(p.Max)
	}
	unit := math.Pow10(p.Decimals)
	// 0.1·10 is 1 up to the last bit: what is that near to a whole number is one.
	near := func(x float64, round func(float64) float64) int64 {
		if r := math.Round(x); math.Abs(x-r) < 1e-6 {
			return int64(r)
		}
		return int64(round(x))
	}
	return near(p.Min*unit, math.Ceil), near(p.Max*unit, math.Floor)
}

func isName(s string) bool {
	if s == "" || len(s) > 32 || s[0] < 'a' || s[0] > 'z' || strings.Contains(s, "__") || strings.HasSuffix(s, "_") {
		return false
	}
	return strings.Trim(s, "abcdefghijklmnopqrstuvwxyz0123456789_") == ""
}

func checkValue(v string) error {
	if plain(v) && len(v) <= MaxValue {
		return nil
	}
	if clean, _ := CleanLine(v); clean != v || v == "" || utf8.RuneCountInString(v) > MaxValue {
		return fmt.Errorf("value %q: want one visible line of 1 … %d characters", v, MaxValue)
	}
	return nil
}

// plain reports whether a text is of letters that are the same in every
// language of the way: in a line, in JSON and in a grammar. Most values are, and
// need no closer look.
func plain(s string) bool {
	for i := range len(s) {
		blank := s[i] == ' ' && i > 0 && i < len(s)-1 && s[i-1] != ' '
		if s[i] <= ' ' && !blank || s[i] >= 0x7F || s[i] == '"' || s[i] == '\\' {
			return false
		}
	}
	return s != ""
}

func checkDescription(d string) error {
	if clean, _ := CleanLine(d); clean != d || utf8.RuneCountInString(d) > MaxSheetLine {
		return fmt.Errorf("description %.40q: want one line of at most %d characters", d, MaxSheetLine)
	}
	return nil
}

// possible are the actions that can be chosen now.
func (o Offer) possible() []ActionSpec {
	var out []ActionSpec
	for _, a := range o.Actions {
		if !slices.ContainsFunc(a.Params, func(p Param) bool {
			return p.Kind == ParamTarget && len(o.Targets[p.Target]) == 0
		}) {
			out = append(out, a)
		}
	}
	if o.quest != nil {
		out = append(out, *o.quest)
	}
	return out
}

// values are what a parameter of enum or target may be.
func (o Offer) values(p Param) []string {
	if p.Kind == ParamTarget {
		return o.targets(p.Target)
	}
	return p.Values
}

// targets are those of a kind that can be chosen: the nearest.
func (o Offer) targets(kind string) []string {
	all := o.Targets[kind]
	return all[:min(len(all), MaxValues)]
}

// Describe tells a model what it can do, one action a line. Safe for concurrent
// use.
func (o Offer) Describe() string {
	var b strings.Builder
	for _, a := range o.possible() {
		fmt.Fprintf(&b, "- %s", a.Name)
		if a.Description != "" {
			fmt.Fprintf(&b, ": %s", a.Description)
		}
		for i, p := range a.Params {
			fmt.Fprintf(&b, "%s%s is %s", map[bool]string{true: "; ", false: ", "}[i == 0], p.Name, o.describe(p))
		}
		b.WriteString("\n")
	}
	fmt.Fprintf(&b, "- %s: nothing of that\n", NoAction)
	return b.String()
}

func (o Offer) describe(p Param) string {
	what := p.Description
	switch p.Kind {
	case ParamInt:
		what += fmt.Sprintf(" (%d to %d)", int64(p.Min), int64(p.Max))
	case ParamReal:
		what += fmt.Sprintf(" (%v to %v)", p.Min, p.Max)
	case ParamBool:
		what += " (true or false)"
	case ParamText:
		what += " (a few words)"
	default:
		what += " (" + strings.Join(o.values(p), ", ") + ")"
	}
	return strings.TrimSpace(what)
}

// Parse reads a call as Grammar describes it and checks it against the offer,
// as it is now: a target may have gone since the choice began. The error wraps
// ErrAction; beside it stands the call as it was meant, as far as that can be
// read. Safe for concurrent use.
func (o Offer) Parse(text string) (Action, error) {
	fields, err := readCall(text)
	if err != nil {
		return Action{}, fmt.Errorf("%w: %.80q: %w", ErrAction, text, err)
	}
	name, ok := fields["action"].(string)
	if !ok {
		return Action{}, fmt.Errorf("%w: %.80q names no action", ErrAction, text)
	}
	if name == NoAction && len(fields) == 1 {
		return Action{Name: NoAction}, nil
	}
	possible := o.possible()
	i := slices.IndexFunc(possible, func(a ActionSpec) bool { return a.Name == name })
	if i < 0 {
		return o.meant(name, fields), fmt.Errorf("%w: %.40q is not possible now", ErrAction, name)
	}
	spec := possible[i]
	if len(fields) != len(spec.Params)+1 {
		return o.meant(name, fields), fmt.Errorf("%w: %s has %d arguments, want %d",
			ErrAction, name, len(fields)-1, len(spec.Params))
	}
	out := Action{Name: name}
	for _, p := range spec.Params {
		arg, err := o.argument(p, fields[p.Name])
		if err != nil {
			return o.meant(name, fields), fmt.Errorf("%w: %s: %s: %w", ErrAction, name, p.Name, err)
		}
		out.Args = append(out.Args, arg)
	}
	return out, nil
}

// meant is a call that is not possible, with those of its arguments that are of
// their kind, for a log or a debugger.
func (o Offer) meant(name string, fields map[string]any) Action {
	i := slices.IndexFunc(o.Actions, func(a ActionSpec) bool { return a.Name == name })
	switch {
	case i < 0 && isName(name):
		return Action{Name: name}
	case i < 0:
		return Action{}
	}
	out := Action{Name: name}
	for _, p := range o.Actions[i].Params {
		arg, ok := Arg{Name: p.Name, Kind: p.Kind}, false
		switch v := fields[p.Name].(type) {
		case bool:
			arg.Bool, ok = v, p.Kind == ParamBool
		case json.Number:
			arg.Real, _ = v.Float64()
			arg.Int, _ = v.Int64()
			ok = p.Kind == ParamInt || p.Kind == ParamReal
		case string:
			arg.Text, _ = CleanLine(v)
			ok = p.Kind >= ParamEnum
		}
		if ok {
			out.Args = append(out.Args, arg)
		}
	}
	return out
}

// readCall reads a flat JSON object, each key once.
func readCall(text string) (map[string]any, error) {
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return nil, errors.New("want a JSON object")
	}
	fields := map[string]any{}
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return nil, err
		}
		value, err := d.Token()
		if err != nil {
			return nil, err
		}
		name, _ := key.(string)
		if _, twice := fields[name]; twice || len(fields) > MaxParams {
			return nil, fmt.Errorf("key %.40q comes twice, or there are too many", name)
		}
		if _, nested := value.(json.Delim); nested {
			return nil, fmt.Errorf("key %.40q: want a plain value", name)
		}
		fields[name] = value
	}
	if _, err := d.Token(); err != nil {
		return nil, err
	}
	if d.More() {
		return nil, errors.New("something follows the object")
	}
	return fields, nil
}

// argument checks one value.
func (o Offer) argument(p Param, v any) (Arg, error) {
	arg := Arg{Name: p.Name, Kind: p.Kind}
	var ok bool
	switch p.Kind {
	case ParamBool:
		arg.Bool, ok = v.(bool)
	case ParamInt, ParamReal:
		ok = p.readNumber(&arg, v)
	case ParamText:
		var text string
		text, ok = v.(string)
		n := utf8.RuneCountInString(text)
		ok = ok && n <= p.MaxRunes && !strings.ContainsFunc(text, func(r rune) bool { return r < ' ' })
		arg.Text, _ = CleanLine(text) // a game shows it: nothing that nobody sees, or that turns text round
		ok = ok && arg.Text != ""
	default:
		arg.Text, ok = v.(string)
		ok = ok && slices.Contains(o.values(p), arg.Text)
	}
	if !ok {
		return Arg{}, fmt.Errorf("%v: want %s", v, o.describe(p))
	}
	return arg, nil
}

func (p Param) readNumber(arg *Arg, v any) bool {
	n, ok := v.(json.Number)
	if !ok {
		return false
	}
	lo, hi := p.scaled()
	if p.Kind == ParamInt {
		i, err := n.Int64()
		arg.Int = i
		return err == nil && i >= lo && i <= hi
	}
	f, err := n.Float64()
	unit := math.Pow10(p.Decimals)
	arg.Real = math.Round(f*unit) / unit
	i := math.Round(f * unit)
	return err == nil && i >= float64(lo) && i <= float64(hi)
}
