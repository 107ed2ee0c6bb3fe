package speculative

import "github.com/lull-npc/lull/runtime/llm"

// conversation is what was learned from one owner's prompts and replies.
// Patterns of another conversation are worse than none: they match by chance.
type conversation struct {
	owner   string        // "" is that of one request only
	request llm.RequestID // the one that seen was last compared with; 0 none
	used    uint64        // Speculator.uses when it was last asked for
	table   *Table
	seen    []llm.Token // what the table has learned from, in order
}

// conversation finds that of a reply, or gives it the one unused for longest.
func (s *Speculator) conversation(r llm.Reply) *conversation {
	s.uses++
	var found, oldest *conversation
	for i := range s.conversations {
		c := &s.conversations[i]
		if c.table != nil && c.owner == r.Owner && (r.Owner != "" || c.request == r.Request) {
			found = c
			break
		}
		if oldest == nil || c.used < oldest.used {
			oldest = c
		}
	}
	if found == nil {
		found = oldest
		found.reset(r.Owner)
		if found.table == nil {
			found.table = NewTable(defaultPatterns)
			found.seen = make([]llm.Token, 0, s.info.Context+2*maxWidth) // and candidates behind
		}
	}
	found.used = s.uses
	return found
}

func (c *conversation) reset(owner string) {
	c.owner, c.request, c.used, c.seen = owner, 0, 0, c.seen[:0]
	if c.table != nil {
		c.table.Reset()
	}
}

// follow makes the conversation of r know all tokens of r. That is constant
// work for each token that is new.
func (s *Speculator) follow(r llm.Reply) *conversation {
	c := s.current
	if c == nil || c.request != r.Request {
		c = s.conversation(r)
		s.current = c
	}
	if c.request != r.Request || len(c.seen) > len(r.Tokens) {
		c.request = r.Request
		c.seen = c.seen[:common(c.seen, r.Tokens, 0)]
	}
	for i := len(c.seen); i < len(r.Tokens); i++ {
		source := FromReply
		if i < r.Prompt {
			source = FromPrompt
		}
		s.learn(c, r.Tokens[i], source)
	}
	return c
}

// common is how many tokens a and b begin with alike, of which from are known
// to be.
func common(a, b []llm.Token, from int) int {
	n := min(from, len(a), len(b))
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	return n
}

// learn adds a token. One of the reply is compared with what the table would
// have said: that is how patterns are rated without verifying anything.
func (s *Speculator) learn(c *conversation, t llm.Token, source Source) {
	if source == FromReply {
		if best, ok := c.table.Best(c.seen); ok {
			s.rates[best.Source][best.Length].Add(best.Token == t)
			if best.Token != t {
				c.table.Weaken(c.seen, best.Token)
			}
		}
	}
	c.table.Learn(c.seen, t, source)
	c.seen = append(c.seen, t)
}

// learnRejected notes the candidates of a draft model after the first wrong
// one: they may be right a few tokens later, or in the next sentence.
func (s *Speculator) learnRejected(c *conversation, drafts []llm.Token, wrong int) {
	known := len(c.seen)
	for i, t := range drafts {
		if i > wrong && s.made[i].source == FromModel {
			c.table.Learn(c.seen, t, FromRejected)
		}
		c.seen = append(c.seen, t)
	}
	c.seen = c.seen[:known]
}

// chain appends to s.made what the table expects after c.seen and s.made, until
// there are most or the table knows nothing.
func (s *Speculator) chain(c *conversation, most int, deny uint8) {
	known := len(c.seen)
	for _, m := range s.made {
		c.seen = append(c.seen, m.token)
	}
	for len(s.made) < most {
		best, ok := c.table.best(c.seen, deny)
		if !ok {
			break
		}
		s.made = append(s.made, made{best.Token, best.Source})
		s.accept = append(s.accept, s.rates[best.Source][best.Length].Value())
		c.seen = append(c.seen, best.Token)
		if s.target.IsEnd(best.Token) {
			break
		}
	}
	c.seen = c.seen[:known]
}
