package headless

import (
	"context"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lull-npc/lull/demo-game/input"
	"github.com/lull-npc/lull/demo-game/play"
	"github.com/lull-npc/lull/demo-game/talk"
)

func tour(t *testing.T, policies ...string) *Report {
	t.Helper()
	s, err := input.Named("tour")
	if err != nil {
		t.Fatal(err)
	}
	r, err := Play(context.Background(), Options{Script: s, Name: "tour", Policies: policies, Open: talk.Scripted,
		Virtual: true, Files: play.Folder{Dir: t.TempDir(), Direct: true}})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// The tour does all that the game has, and twice the same.
func TestTour(t *testing.T) {
	r := tour(t, "lull")
	var b strings.Builder
	if err := r.WriteText(&b); err != nil {
		t.Fatal(err)
	}
	text := b.String()
	for _, want := range []string{
		"Tilda    reply  Bread for 3 silver",
		"Tilda    reply  No. No coin, no goods.",
		"Tilda    action sells potion for 8 silver",
		"Odila    reply  The bell is silent, child.",
		"Garrick  bark   There. It will hold.",
		"Wren     action guard",
		"Wren     bark   They're gone.",
		"Odila    reply",
		"Pip      reply",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the transcript has no %q", want)
		}
	}
	if t.Failed() {
		t.Log(text)
	}
	again := tour(t, "lull")
	if d := cmp.Diff(r.Transcript, again.Transcript); d != "" {
		t.Errorf("played twice (-first +second):\n%s", d)
	}
}
