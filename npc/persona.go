package npc

import (
	"embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/lull-npc/lull/runtime/llm"
)

// Expected conditions. Causes are wrapped with %w.
var (
	ErrPersona = errors.New("npc: bad persona")
	ErrHistory = errors.New("npc: bad history")
	ErrBudget  = errors.New("npc: prompt does not fit")
	ErrLine    = errors.New("npc: nothing said")
	ErrControl = errors.New("npc: tokenizer made a control token of content")
	ErrBusy    = errors.New("npc: a reply is under way")
	ErrSave    = errors.New("npc: bad save")
)

// The limits of a persona, in characters (runes) and entries. They bound a
// file from a stranger (a mod), and they remind a writer that a small model
// reads some hundred tokens for each of these lines' dozens: a sheet at all its
// limits would fill a context of 8192 tokens alone.
const (
	MaxPersonaBytes = 64 << 10 // of a file: ten times the longest useful sheet
	MaxName         = 48       // a name also becomes a stop string
	MaxDescription  = 600
	MaxStyle        = 300
	MaxSheetLine    = 300 // of knowledge, limits, examples and the greeting
	MaxKnowledge    = 40
	MaxExamples     = 8 // each costs two turns in every prompt
	MaxLimits       = 12
	MaxSituation    = 40 // the name of a situation
	MaxSituations   = 64
	MaxBarks        = 32 // of one situation
	MaxBark         = 160
	MaxEmotions     = 12
	MaxEmotion      = 24 // characters of its name
	MaxReplyTokens  = 1024
)

// Persona is a character sheet. All text is plain: nothing in it can become a
// control token. Safe for concurrent use as long as nobody changes it.
type Persona struct {
	Name        string              // as the character calls itself, one line
	Description string              // completes "You are Name, …"
	Style       string              // completes "You speak like this: …"
	Knowledge   []string            // facts, most important last: small models heed the end
	Examples    []Exchange          // how the character answers; small models learn facts here too
	Limits      []string            // what the character never does, as whole sentences
	Greeting    string              // what it says first, or empty
	Sampling    llm.Sampling        // how its words are chosen
	MaxTokens   int                 // of one reply, 1 … MaxReplyTokens
	Barks       map[string][]string // situation → lines said without the model
	Emotions    []string            // that the character may show as "[joy]" in what it says
	Blocked     []string            // what it never says, beside WorldConfig.Blocked
}

// Exchange is one line of the player and the character's answer.
type Exchange struct {
	Player string
	NPC    string
}

// DefaultSampling is what a sheet that says nothing gets: lively, with unlikely
// words cut off, because a small model that draws one seldom recovers. The
// shipped sheets are written for the smallest: tried on SmolLM2-135M, greedy
// choice repeats itself from the second turn on, a temperature above 0.4 loses
// the thread, and facts are said rightly where an example has said them before.
func DefaultSampling() llm.Sampling {
	return llm.Sampling{Temperature: 0.7, TopK: 40, TopP: 0.95, MinP: 0.05, RepeatPenalty: 1.1}
}

// DefaultMaxTokens is the length of a reply where the sheet says nothing: three
// short sentences.
const DefaultMaxTokens = 96

//go:embed personas/*.yaml
var shipped embed.FS

// Shipped returns the names of the personas that come with lull, sorted, as
// LoadPersona takes them. Safe for concurrent use.
func Shipped() []string {
	files, err := fs.Glob(shipped, "personas/*.yaml")
	if err != nil {
		return nil // only a malformed pattern fails
	}
	names := make([]string, len(files))
	for i, f := range files {
		names[i] = strings.TrimSuffix(path.Base(f), ".yaml")
	}
	return names
}

// LoadPersona reads the persona of that name if lull ships one, and else the
// file of that path. Safe for concurrent use.
func LoadPersona(pathOrName string) (Persona, error) {
	if data, err := shipped.ReadFile("personas/" + pathOrName + ".yaml"); err == nil {
		return ParsePersona(pathOrName+".yaml", data)
	}
	f, err := os.Open(pathOrName)
	if errors.Is(err, fs.ErrNotExist) {
		return Persona{}, fmt.Errorf("%w: no file %q and none shipped of that name: shipped are %s (%w)",
			ErrPersona, pathOrName, strings.Join(Shipped(), ", "), err)
	}
	if err != nil {
		return Persona{}, fmt.Errorf("%w: %w", ErrPersona, err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, MaxPersonaBytes+1))
	if err != nil {
		return Persona{}, fmt.Errorf("%w: reading %s: %w", ErrPersona, pathOrName, err)
	}
	return ParsePersona(filepath.Base(pathOrName), data)
}

// Validate checks the limits. The error names every field that breaks one.
// Safe for concurrent use.
func (p Persona) Validate() error {
	var all []error
	for _, x := range p.problems() {
		all = append(all, fmt.Errorf("%w: %s: %s", ErrPersona, x.field, x.what))
	}
	return errors.Join(all...)
}

// problem is what is wrong with one field. Fields are named as in the file:
// "knowledge[2]", "examples[0].npc", "sampling.top_p".
type problem struct{ field, what string }

// problems is the one list of what a persona must be, for files and for code.
func (p Persona) problems() []problem {
	var out problems
	out.text("name", p.Name, 1, MaxName)
	if strings.ContainsAny(p.Name, "\n\t") {
		out.add("name", "has a line break or tab: want one line")
	}
	out.text("description", p.Description, 1, MaxDescription)
	out.text("style", p.Style, 0, MaxStyle)
	out.list("knowledge", p.Knowledge, MaxKnowledge, MaxSheetLine)
	out.list("limits", p.Limits, MaxLimits, MaxSheetLine)
	out.count("examples", len(p.Examples), MaxExamples)
	for i, e := range p.Examples {
		out.text(fmt.Sprintf("examples[%d].player", i), e.Player, 1, MaxSheetLine)
		out.text(fmt.Sprintf("examples[%d].npc", i), e.NPC, 1, MaxSheetLine)
	}
	out.text("greeting", p.Greeting, 0, MaxSheetLine)
	s := p.Sampling
	out.number("sampling.temperature", s.Temperature, 0, 2)
	out.number("sampling.top_p", s.TopP, 0, 1)
	out.number("sampling.min_p", s.MinP, 0, 0.999)
	if s.RepeatPenalty != 0 {
		out.number("sampling.repeat_penalty", s.RepeatPenalty, 1, 2)
	}
	if p.MaxTokens < 1 || p.MaxTokens > MaxReplyTokens {
		out.add("sampling.max_tokens", fmt.Sprintf("%d: want 1 … %d", p.MaxTokens, MaxReplyTokens))
	}
	out.list("emotions", p.Emotions, MaxEmotions, MaxEmotion)
	for i, e := range p.Emotions {
		if strings.ContainsAny(e, "[]<>\n\t") {
			out.add(fmt.Sprintf("emotions[%d]", i), "has a bracket or line break: want a word")
		}
	}
	out.blocked("blocked", p.Blocked)
	out.count("barks", len(p.Barks), MaxSituations)
	for _, situation := range sortedKeys(p.Barks) {
		out.text("barks."+situation, situation, 1, MaxSituation)
		out.list("barks."+situation, p.Barks[situation], MaxBarks, MaxBark)
	}
	return out
}

type problems []problem

func (ps *problems) add(field, what string) { *ps = append(*ps, problem{field, what}) }

func (ps *problems) text(field, s string, least, most int) {
	n := utf8.RuneCountInString(s)
	switch {
	case !utf8.ValidString(s):
		ps.add(field, "is not valid UTF-8: save the file as UTF-8")
	case n < least || least > 0 && strings.TrimSpace(s) == "":
		ps.add(field, "is missing: want some text")
	case n > most:
		ps.add(field, fmt.Sprintf("has %d characters: want at most %d", n, most))
	}
	for _, r := range s {
		if unicode.IsControl(r) && r != '\n' && r != '\t' || invisible(r) {
			ps.add(field, fmt.Sprintf("has the invisible character %U: remove it", r))
			return
		}
	}
}

func (ps *problems) list(field string, lines []string, mostLines, mostRunes int) {
	ps.count(field, len(lines), mostLines)
	for i, line := range lines {
		ps.text(fmt.Sprintf("%s[%d]", field, i), line, 1, mostRunes)
	}
}

func (ps *problems) count(field string, n, most int) {
	if n > most {
		ps.add(field, fmt.Sprintf("has %d entries: want at most %d", n, most))
	}
}

func (ps *problems) number(field string, x, least, most float32) {
	if !(x >= least && x <= most) { // false for NaN too
		ps.add(field, fmt.Sprintf("%v: want %v … %v", x, least, most))
	}
}
