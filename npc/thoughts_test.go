package npc

import (
	"strings"
	"testing"

	"github.com/lull-npc/lull/runtime/llm"
	"github.com/lull-npc/lull/runtime/scripted"
)

func TestThoughtsHaveTheirOwnTokens(t *testing.T) {
	long := "<think>" + strings.Repeat("the old road and the night ", 40) + "</think>Hello traveller."
	s := newStage(t, scripted.Config{Script: func(scripted.Conversation) string { return long }}, WorldConfig{})
	p := person("Ann")
	p.Sampling, p.MaxTokens = llm.Sampling{}, 84
	s.add("a", p)
	s.say("a", "hello")
	if e := s.until(EventDone, "a"); e.Reason != string(SpeechThought) || e.Text != "" {
		t.Errorf("%q (%s)", e.Text, e.Reason)
	}
	s.say("a", "again")
	e := s.until(EventDone, "a")
	t.Logf("%q (%s)", e.Text, e.Reason)
}
