package page

import (
	"errors"
	"strings"
	"testing"
)

type failing struct{ calls int }

func (f *failing) Write([]byte) (int, error) { f.calls++; return 0, errors.New("full") }

func TestPrinter(t *testing.T) {
	var out strings.Builder
	p := NewPrinter(&out)
	p.Line("%d lines:", 2)
	list := NewTable("Name", "x")
	list.AppendRow([]any{"long name", 1})
	list.AppendRow([]any{"b", ""})
	p.Table(list)
	if want := "2 lines:\n Name       x\n long name  1\n b\n"; out.String() != want || p.Err() != nil {
		t.Errorf("%q, %v; want %q", out.String(), p.Err(), want)
	}
	f := &failing{}
	p = NewPrinter(f)
	p.Line("a")
	p.Line("b")
	if p.Err() == nil || f.calls != 1 {
		t.Errorf("%v after %d writes", p.Err(), f.calls)
	}
}
