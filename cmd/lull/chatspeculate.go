package main

import (
	"fmt"
	"strings"

	"github.com/lull-npc/lull/runtime/llm"
	"github.com/lull-npc/lull/runtime/speculative"
)

// speculationJSON is how guessing ahead went; rates are fractions of 1.
type speculationJSON struct {
	Mode         string             `json:"mode"`
	Off          string             `json:"off,omitempty"`
	ModelOff     string             `json:"draft_model_off,omitempty"`
	Rounds       uint64             `json:"rounds"`
	VerifyTokens uint64             `json:"verify_tokens"`
	PlainTokens  uint64             `json:"plain_tokens"`
	Expected     float64            `json:"expected_speedup"`
	Measured     float64            `json:"measured_speedup"`
	Acceptance   map[string]float64 `json:"acceptance"`
}

func newSpeculationJSON(mode speculative.Mode, s speculative.Stats) speculationJSON {
	out := speculationJSON{
		Mode: mode.String(), Off: s.Off, ModelOff: s.ModelOff, Rounds: s.Rounds, VerifyTokens: s.VerifyTokens,
		PlainTokens: s.PlainTokens, Expected: s.Expected, Measured: s.Measured(), Acceptance: map[string]float64{},
	}
	for i, x := range s.Sources {
		if x.Judged > 0 {
			out.Acceptance[speculative.Source(i).String()] = x.Acceptance()
		}
	}
	return out
}

// guessLine says how guessing went since before, in brackets.
func guessLine(before, now speculative.Stats) string {
	if now.Off != "" {
		return fmt.Sprintf("[one token at a time: %s]", now.Off)
	}
	line := fmt.Sprintf("[guessed ahead: %d of %d tokens in %d batches", now.VerifyTokens-before.VerifyTokens,
		now.VerifyTokens-before.VerifyTokens+now.PlainTokens-before.PlainTokens, now.Rounds-before.Rounds)
	var sources []string
	for i, x := range now.Sources {
		judged, accepted := x.Judged-before.Sources[i].Judged, x.Accepted-before.Sources[i].Accepted
		if judged > 0 {
			sources = append(sources, fmt.Sprintf("%s %d of %d", speculative.Source(i), accepted, judged))
		}
	}
	if len(sources) > 0 {
		line += "; right: " + strings.Join(sources, ", ")
	}
	if now.ModelOff != "" {
		line += "; without the draft model: " + now.ModelOff
	}
	return line + "]"
}

// tellCosts shows what guessing costs and what came of it in all replies.
func (s *chatSession) tellCosts() {
	ui, stats := s.app.ui, s.run.Speculation()
	for line := range strings.Lines(s.run.Costs().String()) {
		ui.printf("%s\n", ui.paint(dim, "  "+strings.TrimRight(line, "\n")))
	}
	if stats.Rounds > 0 {
		ui.printf("%s\n", ui.paint(dim, fmt.Sprintf("  batches of guesses: × %.2f expected, × %.2f measured",
			stats.Expected, stats.Measured())))
	}
	ui.printf("%s\n", ui.paint(dim, "  "+guessLine(speculative.Stats{}, stats)))
}

// checkTokens refuses a saved conversation whose tokens the model does not have.
func checkTokens(file string, turns []llm.Turn, vocab int) error {
	for i, t := range turns {
		for j, token := range t.Tokens {
			if token < 0 || int(token) >= vocab {
				err := fmt.Errorf("%s: turns[%d].tokens[%d] is %d: want 0…%d, the model's vocabulary",
					file, i, j, token, vocab-1)
				return hinted{err, "load it with the model that it was saved with, or take the tokens out"}
			}
		}
	}
	return nil
}
