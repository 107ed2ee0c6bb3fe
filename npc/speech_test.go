package npc

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/lull-npc/lull/runtime/llm"
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
		"<thinking>The player greets me.</thinking>Hello.",
		"the player greets me.</think>Hello.",
		"<think>I could write <think> here.</think>Hello.",
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

// However models write that somebody speaks, nobody's voice but the speaker's
// is heard, and its own name is not; a name within a sentence is a word.
func TestVoices(t *testing.T) {
	cfg := SpeechConfig{Name: "Ann", Others: []string{"Bob", "ボブ", "Player"}, Emotions: []string{"joy"}}
	const cut = "cut off"
	for _, c := range [][3]string{
		{"Yes.\nPlayer： give me gold.", "Yes.", cut},
		{"行こう。\nボブ：はい。", "行こう。", cut},
		{"行こう。ボブ：はい。", "行こう。", cut},
		{"「行こう。」ボブ:はい。", "「行こう。」", cut},
		{"Yes.\nBob : I agree.", "Yes.", cut},
		{"Yes.\n**Bob:** I agree.", "Yes.", cut},
		{"Yes.\n**Bob**: I agree.", "Yes.", cut},
		{"Yes.\n\"Bob:\" I agree.", "Yes.", cut},
		{"Yes.\n\"Bob: I agree.\"", "Yes.", cut},
		{"Yes.\n[Bob]: I agree.", "Yes.", cut},
		{"Yes.\n- Bob: I agree.", "Yes.", cut},
		{"Yes.\n<bob> : I agree.", "Yes.", cut},
		{"Yes. Bob: I agree. Me too.", "Yes.", cut},
		{"Yes! **Bob:** I agree.", "Yes!", cut},
		{"Yes. [joy] Bob: I agree.", "Yes.", cut},
		{"*Bob:* hello", "", cut},
		{"**Ann:** Hello there.", "Hello there.", ""},
		{"Ann： hello", "hello", ""},
		{"[Ann]: Hello. Ann: And more.", "Hello. And more.", ""},
		{"Ann: **Bob:** hello", "", cut},
		{"Ann (", "Ann (", ""},
		{"**Ann", "**Ann", ""},
		{"He said: go. I told Bob: he is old.", "He said: go. I told Bob: he is old.", ""},
		{"Remember Bob: he is old. Mr. Bob: so we call him.", "Remember Bob: he is old. Mr. Bob: so we call him.", ""},
		{"Bob is old, Ann: said so. *Bob* knows. \"Bob!\" I cried.",
			"Bob is old, Ann: said so. *Bob* knows. \"Bob!\" I cried.", ""},
		{"- Bobbin: a thing. (Bob) too: here.", "- Bobbin: a thing. (Bob) too: here.", ""},
	} {
		for _, pieces := range [][]string{{c[0]}, strings.Split(c[0], "")} {
			out, s := hear(cfg, pieces...)
			said, end := "", ""
			for _, x := range out {
				if x.Kind == SpokenText {
					said += x.Text
				}
			}
			if s.Ended() == SpeechVoice {
				end = cut
			}
			if said != c[1] || s.Text() != c[1] || end != c[2] {
				t.Errorf("%q in %d pieces: said %q, text %q, %s; want %q %s",
					c[0], len(pieces), said, s.Text(), s.Ended(), c[1], c[2])
			}
		}
	}
}

// A template that opens the thoughts itself is known by how its prompt ends.
func TestTemplateOpensThoughts(t *testing.T) {
	prompt := func(end string, markup bool) Prompt {
		return Prompt{Segments: []llm.Segment{{Text: "<|im_start|>", Markup: true}, {Text: end, Markup: markup}}}
	}
	for want, ps := range map[bool][]Prompt{
		true:  {prompt("assistant\n<think>\n", true), prompt("<thinking>", true)},
		false: {{}, prompt("<think>", false), prompt("<think>\n\n</think>\n\n", true)},
	} {
		for _, p := range ps {
			if p.OpensThought() != want {
				t.Errorf("%+v: %v, want %v", p.Segments, !want, want)
			}
		}
	}
	out, s := hear(SpeechConfig{Name: "Ann", Thinking: true}, "A player. I greet.</think>\n\nHello.")
	want := "[{thought A player. I greet.} {text Hello.} {sentence Hello.}]"
	if got := fmt.Sprint(out); got != want || s.OnlyThought() {
		t.Error(got)
	}
	if out, s = hear(SpeechConfig{Name: "Ann"}, "<think>A player. And"); !s.OnlyThought() {
		t.Errorf("%v is said", out)
	}
}

func TestSpeechProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		piece := rapid.SampledFrom([]string{"<think>", "</think>", "[joy]", "[anger", "]", "Ann:", "Odo:", "\n", " ",
			"<thinking>", "</thinking>", "Odo", "Ann", " :", "：", "**", "\"", "- ", "(",
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
