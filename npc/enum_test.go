package npc

import (
	"fmt"
	"testing"
)

// A value of a newer version, or of a damaged save, is printed as a number.
func TestUnknownValuesPrint(t *testing.T) {
	for want, v := range map[string]fmt.Stringer{
		"EventKind(200)": EventKind(200), "ParamKind(6)": ParamKind(6), "QuestState(5)": QuestState(5),
		"SpokenKind(4)": SpokenKind(4), "blocked": EventBlocked, "target": ParamTarget, "failed": QuestFailed,
		"emotion": SpokenEmotion,
	} {
		if got := v.String(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
