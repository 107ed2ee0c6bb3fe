package llm

import "fmt"

// TokenizeChat turns what RenderChat gave into a prompt: the BOS where the
// model wants one and the template has none, then each segment. Content cannot
// become control tokens, whatever is in it; content that has tokens already
// keeps them. starts[i] is the offset of the first token of the i-th turn that
// the segments name: what Request.Cuts is made of. Safe for concurrent use.
func TokenizeChat(tk Tokenizer, segments []Segment) (prompt []Token, starts []int, err error) {
	bos, wanted := tk.BOS()
	turn := -1
	for i, s := range segments {
		begin := len(prompt)
		if s.Tokens != nil && !s.Markup {
			prompt = append(prompt, s.Tokens...)
		} else if prompt, err = tk.Tokenize(prompt, s.Text, s.Markup); err != nil {
			return nil, nil, fmt.Errorf("llm: tokenize segment %d of %d: %w", i+1, len(segments), err)
		}
		if wanted && begin == 0 && len(prompt) > 0 {
			if prompt[0] != bos {
				prompt = append([]Token{bos}, prompt...)
				begin = 1
			}
			wanted = false
		}
		if s.Turn > turn {
			turn = s.Turn
			starts = append(starts, begin)
		}
	}
	return prompt, starts, nil
}
