package locomo

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// ErrFormat is wrapped by what is wrong with a file.
var ErrFormat = errors.New("locomo: not a file of conversations")

// Conversation is one of a file.
type Conversation struct {
	ID        string
	Turns     []Turn
	Questions []Question
}

// Turn is one line of a conversation.
type Turn struct {
	ID      string // D<session>:<line>
	Session int
	Speaker string
	Text    string
	At      time.Duration // since the first session
}

// Question is what is asked about a conversation.
type Question struct {
	Text     string
	Category int
	Evidence []string // ids of turns, without doubles; those that name no turn are left out
}

const (
	maxFile     = 256 << 20 // bytes; the whole data set has 3 MB
	maxSessions = 1000      // of one conversation
)

// categories are LoCoMo's.
var categories = map[int]string{1: "multi_hop", 2: "temporal", 3: "open_domain", 4: "single_hop", 5: "adversarial"}

type rawConversation struct {
	ID           string                     `json:"sample_id"`
	Conversation map[string]json.RawMessage `json:"conversation"`
	QA           []rawQuestion              `json:"qa"`
}

type rawTurn struct {
	Speaker string `json:"speaker"`
	ID      string `json:"dia_id"`
	Text    string `json:"text"`
}

type rawQuestion struct {
	Question string   `json:"question"`
	Category int      `json:"category"`
	Evidence []string `json:"evidence"`
}

// Parse reads a file. Evidence that names no turn is left out and noted.
func Parse(r io.Reader) (conversations []Conversation, notes []string, err error) {
	data, err := io.ReadAll(io.LimitReader(r, maxFile+1))
	if err != nil {
		return nil, nil, fmt.Errorf("locomo: %w", err)
	}
	if len(data) > maxFile {
		return nil, nil, fmt.Errorf("%w: more than %d bytes", ErrFormat, maxFile)
	}
	var raw []rawConversation
	if err := json.Unmarshal(data, &raw); err != nil {
		return nil, nil, fmt.Errorf("%w: %w", ErrFormat, err)
	}
	for i, c := range raw {
		twin := func(o Conversation) bool { return o.ID == c.ID }
		if c.ID == "" || slices.ContainsFunc(conversations, twin) {
			c.ID += "#" + strconv.Itoa(i)
		}
		one, stray, err := c.parse()
		if err != nil {
			return nil, nil, fmt.Errorf("%w: conversation %s: %w", ErrFormat, c.ID, err)
		}
		if len(stray) > 0 {
			notes = append(notes, fmt.Sprintf("%s: no turns %s", c.ID, strings.Join(stray, ", ")))
		}
		conversations = append(conversations, one)
	}
	if len(conversations) == 0 {
		return nil, nil, fmt.Errorf("%w: none in it", ErrFormat)
	}
	return conversations, notes, nil
}

func (c rawConversation) parse() (out Conversation, stray []string, err error) {
	out.ID = c.ID
	known := map[string]bool{}
	var start time.Time
	for n := range maxSessions {
		session, ok := c.Conversation[fmt.Sprintf("session_%d", n)]
		if !ok {
			continue
		}
		var turns []rawTurn
		if err := json.Unmarshal(session, &turns); err != nil {
			return out, nil, fmt.Errorf("session %d: %w", n, err)
		}
		at, err := c.date(n)
		if err != nil {
			return out, nil, err
		}
		if start.IsZero() {
			start = at
		}
		for i, t := range turns {
			id := turnIDs(t.ID)
			if len(id) != 1 || known[id[0]] {
				return out, nil, fmt.Errorf("session %d: turn %d has the id %q: want D<session>:<line>, once",
					n, i, t.ID)
			}
			known[id[0]] = true
			if strings.TrimSpace(t.Text) == "" {
				continue
			}
			// Half a minute a line keeps the lines of a session in their order.
			out.Turns = append(out.Turns, Turn{id[0], n, t.Speaker, t.Text,
				at.Sub(start) + time.Duration(i)*30*time.Second})
		}
	}
	if len(out.Turns) == 0 {
		return out, nil, errors.New("it has no turns")
	}
	for _, q := range c.QA {
		question := Question{Text: q.Question, Category: q.Category}
		for _, text := range q.Evidence {
			for _, id := range turnIDs(text) {
				if !known[id] {
					stray = append(stray, id)
				} else if !slices.Contains(question.Evidence, id) {
					question.Evidence = append(question.Evidence, id)
				}
			}
		}
		out.Questions = append(out.Questions, question)
	}
	return out, stray, nil
}

// date is when a session was; the zero time of a file without dates.
func (c rawConversation) date(session int) (time.Time, error) {
	raw, ok := c.Conversation[fmt.Sprintf("session_%d_date_time", session)]
	if !ok {
		return time.Time{}, nil
	}
	var text string
	if err := json.Unmarshal(raw, &text); err != nil {
		return time.Time{}, fmt.Errorf("session %d: its date: %w", session, err)
	}
	at, err := time.Parse("3:04 pm on 2 January, 2006", strings.ToLower(text))
	if err != nil {
		return time.Time{}, fmt.Errorf("session %d: %w", session, err)
	}
	return at, nil
}

var turnPattern = regexp.MustCompile(`D:?(\d{1,4}):(\d{1,4})`)

// turnIDs finds the ids in a text, which may hold several and leading zeros.
func turnIDs(text string) []string {
	var out []string
	for _, m := range turnPattern.FindAllStringSubmatch(text, -1) {
		session, _ := strconv.Atoi(m[1])
		line, _ := strconv.Atoi(m[2])
		out = append(out, fmt.Sprintf("D%d:%d", session, line))
	}
	return out
}

// Split divides conversations: the first two fifths, at least one, are for
// tuning, the others for reporting.
func Split(all []Conversation) (tune, report []Conversation) {
	n := max(1, len(all)*2/5)
	return all[:n], all[n:]
}
