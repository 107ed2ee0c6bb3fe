package scripted_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lull-npc/lull/runtime/llm"
	"github.com/lull-npc/lull/runtime/scripted"
)

func TestClockRunsWhatIsDue(t *testing.T) {
	c := scripted.NewClock(100)
	type entry struct {
		Name string
		Now  int64
	}
	var got []entry
	note := func(name string) func() { return func() { got = append(got, entry{name, c.Now()}) } }
	c.At(300, note("third"))
	c.At(200, func() {
		note("first")()
		c.At(250, note("second"))
		c.At(50, note("overdue"))
	})
	c.At(300, note("fourth"))
	c.At(301, note("too late"))
	c.WaitUntil(300, nil)
	want := []entry{{"first", 200}, {"overdue", 200}, {"second", 250}, {"third", 300}, {"fourth", 300}}
	if d := cmp.Diff(want, got); d != "" || c.Now() != 300 {
		t.Errorf("at %d (-want +got):\n%s", c.Now(), d)
	}
	c.WaitUntil(10, nil)
	if c.Now() != 300 {
		t.Errorf("the clock went back to %d", c.Now())
	}
}

func TestClockWakes(t *testing.T) {
	c := scripted.NewClock(0)
	wake := make(chan struct{}, 1)
	c.At(40, func() { wake <- struct{}{} })
	c.WaitUntil(llm.Forever, wake)
	if c.Now() != 40 {
		t.Errorf("woken at %d, want 40", c.Now())
	}
	done := make(chan struct{})
	go func() { c.WaitUntil(llm.Forever, wake); close(done) }()
	c.At(50, func() { wake <- struct{}{} })
	<-done
	if c.Now() != 50 {
		t.Errorf("woken at %d, want 50", c.Now())
	}
}
