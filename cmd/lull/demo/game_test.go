package demo

import (
	"context"
	"errors"
	"strings"
	"testing"

	tea "github.com/charmbracelet/bubbletea"

	"github.com/lull-npc/lull/npc"
	"github.com/lull-npc/lull/runtime/llm"
	"github.com/lull-npc/lull/runtime/local"
	"github.com/lull-npc/lull/runtime/scripted"
)

// openScripted opens a mode over a model that echoes; fault may break it.
func openScripted(clock llm.Clock, fault func(int, *llm.Batch) error) OpenFunc {
	return func(ctx context.Context, m Mode, observe func(llm.Work)) (*local.Runtime, error) {
		return local.Open(ctx, local.Config{
			Spec: *m.Spec(), Observe: observe, Clock: clock,
			OpenModel: func(_ context.Context, clock llm.Clock, admit llm.AdmitFunc) (llm.Model, error) {
				return scripted.New(scripted.Config{
					Script: scripted.Echo, Clock: clock, Admit: admit, Context: 8192, Fault: fault,
				})
			},
		})
	}
}

// testProgram is the demo without a terminal, its game running.
func testProgram(t *testing.T, fault func(int, *llm.Batch) error) *program {
	t.Helper()
	clock := llm.NewClock()
	s := Setting{Hz: 240, Workers: 1}
	g, err := NewGame(t.Context(), s, clock, openScripted(clock, fault))
	if err != nil {
		t.Fatal(err)
	}
	talk, err := NewTalk()
	if err != nil {
		t.Fatal(err)
	}
	p := newProgram(g, talk, Options{Setting: s})
	g.Start()
	t.Cleanup(func() {
		if err := g.Close(); err != nil {
			t.Error(err)
		}
	})
	p.Update(tea.WindowSizeMsg{Width: 80, Height: 24})
	return p
}

// press sends keys as a terminal does.
func press(p *program, keys string) {
	p.Update(tea.KeyMsg{Type: tea.KeyRunes, Runes: []rune(keys)})
}

// until waits for ends of replies until ok.
func until(t *testing.T, p *program, ok func() bool) {
	t.Helper()
	for !ok() {
		switch msg := p.listen().(type) {
		case endedMsg:
			p.Update(msg)
		case overMsg:
			t.Fatalf("the game ended: %v", msg.err)
		}
	}
}

func ended(p *program, mode Mode, how string) (n int) {
	for _, s := range p.talk.Said() {
		if s.Mode == mode && s.End == how {
			n++
		}
	}
	return n
}

func TestProgramTalksInEachMode(t *testing.T) {
	p := testProgram(t, nil)
	p.Update(tickMsg{})
	if p.talk.Busy() {
		t.Fatal("asked while the LLM is off")
	}
	press(p, "2")
	until(t, p, func() bool { return ended(p, Plain, "end") >= 2 })
	press(p, "3")
	until(t, p, func() bool { return ended(p, Lull, "end") >= len(visits[0].lines)+1 }) // both characters
	if n := p.game.Tokens(); n[Plain] == 0 || n[Lull] == 0 || n[Off] != 0 {
		t.Errorf("tokens %v", n)
	}
	names := map[string]bool{}
	for _, s := range p.talk.Said() {
		names[s.NPC] = true
		if s.End == "end" && !strings.HasPrefix(s.Player, s.Reply[:1]) { // an echo that the temperature garbles
			t.Errorf("%q was answered with %q, the model echoes", s.Player, s.Reply)
		}
	}
	if len(names) != len(visits) {
		t.Errorf("spoken to: %v", names)
	}
	press(p, "1")
	if p.talk.Busy() || p.screen.Mode != Off {
		t.Error("1 does not switch the LLM off")
	}
	if err := p.talk.Err(); err != nil {
		t.Error(err)
	}
	if f, ok := p.screen.Meter.Newest(); !ok || f.Target != p.screen.Setting.Period() {
		t.Errorf("no frame came: %+v", f)
	}
}

// The line under way is asked again in the mode that comes.
func TestSwitchAsksAgain(t *testing.T) {
	p := testProgram(t, nil)
	press(p, "2")
	before := p.talk.Said()[0].Player
	for _, mode := range []string{"3", "1", "2"} { // faster than any reply is polled
		if p.talk.Busy() {
			line := p.talk.Said()[len(p.talk.Said())-1].Player
			press(p, mode)
			if !p.talk.Busy() {
				continue
			}
			if again := p.talk.Said()[len(p.talk.Said())-1].Player; again != line {
				t.Errorf("after %s: %q is asked, want %q again", mode, again, line)
			}
		} else {
			press(p, mode)
		}
	}
	until(t, p, func() bool { return ended(p, Plain, "end") > 0 })
	if before != visits[0].lines[0] {
		t.Errorf("began with %q", before)
	}
}

func TestProgramOwnLine(t *testing.T) {
	p := testProgram(t, nil)
	press(p, "3tq12") // typed faster than it is read: t opens the line, the rest is in it
	if !p.typing || p.input.Value() != "q12" {
		t.Fatalf("typing %t, %q", p.typing, p.input.Value())
	}
	p.Update(tea.KeyMsg{Type: tea.KeyRunes, Runes: []rune(" 🦩é"), Paste: true})
	if !strings.Contains(p.View(), "q12 🦩é") {
		t.Errorf("the line is not shown:\n%s", p.View())
	}
	p.Update(tea.KeyMsg{Type: tea.KeyEnter})
	heard := func() bool {
		for _, s := range p.talk.Said() {
			if s.Player == "q12 🦩é" && s.End == "end" {
				return true
			}
		}
		return false
	}
	until(t, p, heard)
	p.Update(tea.KeyMsg{Type: tea.KeyRunes, Runes: []rune("q"), Paste: true})
	if p.typing || len(p.talk.own) > 0 {
		t.Error("the line stays")
	}
	press(p, "t")
	p.Update(tea.KeyMsg{Type: tea.KeyEsc})
	if p.typing {
		t.Error("esc does not leave the line")
	}
	p.talk.Say(" \x00 ") // nothing that can be said
	until(t, p, func() bool { return len(p.talk.own) == 0 })
}

func TestProgramLoad(t *testing.T) {
	p := testProgram(t, nil)
	press(p, "++-")
	if got := p.screen.Setting.Load; got != loadStep || p.game.loadNS.Load() != int64(loadStep) {
		t.Errorf("load %v, want %v", got, loadStep)
	}
	press(p, "---")
	if p.screen.Setting.Load != 0 {
		t.Errorf("load %v, want 0", p.screen.Setting.Load)
	}
	if text := p.summary(); !strings.Contains(text, "load 0 ms") {
		t.Errorf("the table is of another load:\n%s", text)
	}
}

func TestProgramQuits(t *testing.T) {
	p := testProgram(t, nil)
	for _, msg := range []tea.Msg{
		tea.KeyMsg{Type: tea.KeyRunes, Runes: []rune("q")}, tea.KeyMsg{Type: tea.KeyCtrlC}, interruptMsg{}, overMsg{},
	} {
		_, cmd := p.Update(msg)
		if !quits(cmd) {
			t.Errorf("%#v does not quit", msg)
		}
	}
	if !p.interrupted {
		t.Error("an interrupt is not told")
	}
}

func quits(cmd tea.Cmd) bool {
	if cmd == nil {
		return false
	}
	switch msg := cmd().(type) {
	case tea.QuitMsg:
		return true
	case tea.BatchMsg:
		for _, c := range msg {
			if quits(c) {
				return true
			}
		}
	}
	return false
}

// A broken engine is told, and asked no more until the mode changes.
func TestBrokenEngine(t *testing.T) {
	broken := errors.New("the cable is out")
	p := testProgram(t, func(int, *llm.Batch) error { return broken })
	press(p, "2")
	until(t, p, func() bool { return p.talk.failures >= maxFailures })
	p.Update(tickMsg{})
	if p.talk.Busy() || !errors.Is(p.talk.Err(), broken) {
		t.Errorf("busy %t, error %v", p.talk.Busy(), p.talk.Err())
	}
	if !strings.Contains(p.View(), "the cable") {
		t.Errorf("the screen does not say so:\n%s", p.View())
	}
	press(p, "3")
	if !p.talk.Busy() {
		t.Error("the other engine is not asked")
	}
}

// A runtime that can't be opened leaves none behind.
func TestNewGameFails(t *testing.T) {
	clock := llm.NewClock()
	open, wrong := openScripted(clock, nil), errors.New("no such model")
	var first *local.Runtime
	_, err := NewGame(t.Context(), DefaultSetting(), clock,
		func(ctx context.Context, m Mode, observe func(llm.Work)) (*local.Runtime, error) {
			if first != nil {
				return nil, wrong
			}
			var err error
			first, err = open(ctx, m, observe)
			return first, err
		})
	if !errors.Is(err, wrong) {
		t.Errorf("error %v", err)
	}
	if _, err := first.Engine.Submit(llm.Request{Prompt: []llm.Token{1}}); !errors.Is(err, llm.ErrClosed) {
		t.Errorf("the first runtime still runs: %v", err)
	}
}

func TestRingDropsWhatNobodyTakes(t *testing.T) {
	var r frameRing
	for i := range ringFrames + 5 {
		r.put(&Frame{Mode: Mode(i % Modes)})
	}
	if got := r.take(nil); len(got) != ringFrames || r.dropped.Load() != 5 {
		t.Errorf("%d frames, %d dropped", len(got), r.dropped.Load())
	}
	if got := r.take(nil); len(got) != 0 {
		t.Errorf("%d frames twice", len(got))
	}
}

// What the player asks must be sayable to characters that exist.
func TestVisits(t *testing.T) {
	for _, v := range visits {
		if _, err := npc.LoadPersona(v.persona); err != nil {
			t.Error(err)
		}
		for _, line := range v.lines {
			if clean, _ := npc.CleanLine(line); clean != line {
				t.Errorf("%q becomes %q", line, clean)
			}
		}
	}
}
