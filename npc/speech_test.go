package npc

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

var annSpeaks = SpeechConfig{Name: "Ann", Others: []string{"Odo", "Player"}, Emotions: []string{"joy", "anger"},
	Before: []string{"The gate shuts at nine.", "Nobody passes here at night.", "Halt!"}}

// hear gives a speech its text in pieces and returns what came of it, with
// neighbours of one kind joined.
func hear(cfg SpeechConfig, pieces ...string) ([]Spoken, *Speech) {
	s := NewSpeech(cfg)
	var all []Spoken
	for _, p := range pieces {
		all = s.Add(all, p)
	}
	all = s.End(all)
	var out []Spoken
	for _, x := range all {
		last := len(out) - 1
		if last >= 0 && out[last].Kind == x.Kind && (x.Kind == SpokenText || x.Kind == SpokenThought) {
			out[last].Text += x.Text
			continue
		}
		out = append(out, x)
	}
	return out, s
}

func TestSpeechGolden(t *testing.T) {
	var b strings.Builder
	for _, in := range []string{
		"Hello there. How are you?",
		"<think>The player greets me.\nI greet back.</think>\n\nHello.",
		"Well, <think>hm</think> no.",
		"<think>no end of it",
		"[joy] You came! [anger]You are late. [sad] So late.",
		"[JOY]Hi [joy",
		"Ann: I am Ann. Ann: no.",
		"Who goes there?\nOdo: It is me!\nAnn: Come in.",
		"Odo: I am Odo.",
		"Odometer: not a voice. a < b <thinker>",
		"I have a sword to sell. And a shield. I have a sword to sell. And a shield.",
		"No. No. No. I said no.",
		"Halt! The gate shuts at nine. Go home.",
		"The gate shuts at nine.",
		"The gate shuts at nine. Nobody passes here at night. Go home.",
		"The gate shuts at nine. Hm. Nobody passes here at night.",
		"The gate shuts at night. Go.",
		"go go go go go go go go go go",
		"All is well. to the king and to the king and to the king and to the king and to the king",
		"Aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaargh",
		"  \n ",
		"「はい。」そうです。[joy]ね！",
	} {
		out, s := hear(annSpeaks, in)
		fmt.Fprintf(&b, "%q\n", in)
		for _, x := range out {
			fmt.Fprintf(&b, "    %-8s %q\n", x.Kind, x.Text)
		}
		fmt.Fprintf(&b, "    = text %q, whole %q", s.Text(), s.Whole())
		if raw, ok := s.Raw(len(s.Text())); ok {
			fmt.Fprintf(&b, ", raw %q", raw)
		}
		if s.Ended() != SpeechOpen {
			fmt.Fprintf(&b, ", ended: %s", s.Ended())
		}
		b.WriteString("\n")
	}
	golden(t, "speech.txt", b.String())
}

func TestSpeechProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		piece := rapid.SampledFrom([]string{"<think>", "</think>", "[joy]", "[anger", "]", "Ann:", "Odo:", "\n", " ",
			"Go", "Go on now, you. ",
			"The gate shuts at nine. ", "Nobody passes here at night. ",
			". ", "! ", "日本。", "<", "[", "A", strings.Repeat("la ", 8)})
		parts := rapid.SliceOfN(piece, 0, 30).Draw(t, "pieces")
		text := strings.Join(parts, "")
		whole, s := hear(annSpeaks, text)
		split, s2 := hear(annSpeaks, strings.Split(text, "")...)
		if fmt.Sprint(whole) != fmt.Sprint(split) || s.Text() != s2.Text() || s.Ended() != s2.Ended() {
			t.Fatalf("%q\nat once  %q (%s)\nsplit    %q (%s)", text, whole, s.Ended(), split, s2.Ended())
		}
		said, sentences := "", ""
		for _, x := range whole {
			switch x.Kind {
			case SpokenText:
				said += x.Text
			case SpokenSentence:
				sentences += x.Text
			}
		}
		if strings.Contains(said, "[joy]") || strings.Contains(said, "<think>") || strings.Contains(said, "\nOdo:") {
			t.Fatalf("%q: said %q", text, said)
		}
		if s.Ended() == SpeechOpen && (said != s.Text() || visible(sentences) != visible(said)) {
			t.Fatalf("%q: deltas %q, sentences %q, text %q", text, said, sentences, s.Text())
		}
		if !strings.HasPrefix(s.Text(), s.Whole()) {
			t.Fatalf("%q: whole %q of %q", text, s.Whole(), s.Text())
		}
		if raw, ok := s.Raw(len(s.Text())); ok && !strings.HasPrefix(text, raw) {
			t.Fatalf("%q: raw %q", text, raw)
		}
	})
}
