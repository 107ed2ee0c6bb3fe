//go:build cgo

package main

import (
	"fmt"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/lull-npc/lull/bindings/capi/world"
)

func golden(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("../abi.golden.txt")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestLayout holds the golden, which abigen computes, to what the C compiler
// does with lull.h.
func TestLayout(t *testing.T) {
	var got []string
	for name, value := range layouts() {
		s := reflect.TypeOf(value)
		got = append(got, fmt.Sprintf("struct %s size %d", name, s.Size()))
		for i := range s.NumField() {
			f := s.Field(i)
			// cgo writes _ before names that are words of Go.
			got = append(got, fmt.Sprintf("field %s.%s offset %d size %d", name, strings.TrimPrefix(f.Name, "_"),
				f.Offset, f.Type.Size()))
		}
	}
	var want []string
	for line := range strings.Lines(golden(t)) {
		if strings.HasPrefix(line, "struct ") || strings.HasPrefix(line, "field ") {
			line, _, _ = strings.Cut(strings.TrimSpace(line), ": ")
			want = append(want, line)
		}
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("the compiler lays out\n%s\nthe golden says\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// TestFirstSizes: a struct may grow, and may not become smaller than it was.
func TestFirstSizes(t *testing.T) {
	for name, first := range map[string]uintptr{
		"lull_world_def": firstWorldDef, "lull_world_status": firstWorldStatus, "lull_npc_def": firstNPCDef,
		"lull_parameter_def": firstParameterDef, "lull_action_value": firstActionValue, "lull_quest_def": firstQuestDef,
		"lull_memory_def": firstMemoryDef, "lull_frame_timings": firstTimings, "lull_frame_sample": firstSample,
		"lull_host_signals": firstHostSignals, "lull_decision": firstDecision, "lull_statistics": firstStatistics,
		"lull_event": firstEvent,
	} {
		value, ok := layouts()[name]
		if !ok {
			t.Fatalf("there is no %s", name)
		}
		if now := reflect.TypeOf(value).Size(); now < first {
			t.Errorf("%s has %d bytes and had %d", name, now, first)
		}
	}
}

// TestCodes holds the results of package world to the enum of lull.h.
func TestCodes(t *testing.T) {
	members := regexp.MustCompile(`(?m)^enum lull_result (\w+) (-?\d+)$`).FindAllStringSubmatch(golden(t), -1)
	for i, m := range members {
		code := world.Code(-i)
		if !code.Known() || code.Name() != m[1] || fmt.Sprint(int32(code)) != m[2] {
			t.Errorf("%s is %s in lull.h; package world has %s for %d", m[1], m[2], code.Name(), code)
		}
	}
	if world.Code(-len(members)).Known() {
		t.Errorf("package world has a result %s that lull.h has not", world.Code(-len(members)))
	}
}

// TestKinds holds kinds of events and phases to lull.h by their numbers.
func TestKinds(t *testing.T) {
	for name, number := range map[string]int{
		"LULL_EVENT_WORLD_READY": int(world.WorldReady), "LULL_EVENT_TEXT": int(world.Text),
		"LULL_EVENT_DONE": int(world.Done), "LULL_EVENT_REPLY_FAILED": int(world.ReplyFailed),
		"LULL_EVENT_ACTION": int(world.Action), "LULL_EVENT_QUEST": int(world.Quest),
		"LULL_EVENT_SUMMARISED": int(world.Summarised), "LULL_EVENT_MEMORY_SAVED": int(world.MemorySaved),
		"LULL_EVENT_BLOCKED": int(world.Blocked),
		"LULL_MEMORY_FOLDER": int(world.MemoryFolder), "LULL_WORLD_FAILED": int(world.Failed),
		"LULL_LOG_ERROR": int(world.LogError),
	} {
		if !strings.Contains(golden(t), fmt.Sprintf(" %s %d\n", name, number)) {
			t.Errorf("%s is not %d in lull.h", name, number)
		}
	}
}
