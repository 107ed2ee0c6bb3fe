package demo

import (
	"context"
	"errors"
	"io"
	"strings"
	"time"

	"github.com/charmbracelet/bubbles/cursor"
	"github.com/charmbracelet/bubbles/textinput"
	tea "github.com/charmbracelet/bubbletea"

	"github.com/lull-npc/lull/runtime/llm"
)

const (
	// redrawEvery is how often the screen looks and draws: a redraw takes about
	// a millisecond of a core that the game also wants.
	redrawEvery = 100 * time.Millisecond

	// maxLine is how long a typed line may be, in characters.
	maxLine = 500
)

// ErrInterrupted says that Ctrl-C or a signal ended the demo.
var ErrInterrupted = errors.New("demo: interrupted")

// Options say how to run it.
type Options struct {
	Setting Setting
	Open    OpenFunc
	Clock   llm.Clock // that Open's runtimes have
	Out     io.Writer // the terminal
	Colour  bool

	// Program is told how to end the demo from elsewhere, before it begins.
	Program func(interrupt func())
}

// Run loads, shows and plays until the person quits, and returns the table. The
// terminal is given back in any case.
func Run(ctx context.Context, o Options) (table string, err error) {
	talk, err := NewTalk()
	if err != nil {
		return "", err
	}
	g, err := NewGame(ctx, o.Setting, o.Clock, o.Open)
	if err != nil {
		return "", err
	}
	p := newProgram(g, talk, o)
	t := tea.NewProgram(p, tea.WithContext(ctx), tea.WithOutput(o.Out), tea.WithAltScreen(), tea.WithoutSignalHandler(),
		tea.WithFPS(int(time.Second/redrawEvery)))
	if o.Program != nil {
		o.Program(func() { t.Send(interruptMsg{}) })
	}
	g.Start()
	_, err = t.Run()
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	closing := g.Close()
	p.look()
	p.screen.Meter.Refresh()
	switch {
	case p.fault != nil:
		err = p.fault
	case err == nil && p.interrupted:
		err = ErrInterrupted
	case err == nil:
		err = closing
	}
	return p.summary(), err
}

type (
	tickMsg      struct{}
	endedMsg     struct{}
	overMsg      struct{ err error } // the game thread ended
	interruptMsg struct{}
)

// program is the demo as Bubble Tea wants it.
type program struct {
	game   *Game
	talk   *Talk
	screen Screen
	input  textinput.Model
	typing bool

	width, height int
	frames        []Frame
	events        []llm.Event
	tokens        [Modes]int64
	interrupted   bool
	fault         error
}

var _ tea.Model = (*program)(nil)

func newProgram(g *Game, t *Talk, o Options) *program {
	in := textinput.New()
	in.Prompt, in.CharLimit = "you> ", maxLine
	in.Cursor.SetMode(cursor.CursorStatic) // a blinking one would redraw
	in.Cursor.Style = newStyles(o.Colour).chosen
	p := &program{game: g, talk: t, input: in}
	p.screen = Screen{Setting: o.Setting, style: newStyles(o.Colour)}
	p.screen.Meter.Under(o.Setting.Load)
	for m := Off; m < Modes; m++ {
		if rt := g.Runtime(m); rt != nil {
			info := rt.Model.Info()
			p.screen.Model = info.Name + " on " + info.Device
		}
	}
	return p
}

func tick() tea.Cmd { return tea.Tick(redrawEvery, func(time.Time) tea.Msg { return tickMsg{} }) }

// listen waits for the end of a reply or of the game.
func (p *program) listen() tea.Msg {
	select {
	case <-p.game.Done():
		return overMsg{p.game.Err()}
	case <-p.game.Ended():
		return endedMsg{}
	}
}

// Init implements tea.Model.
func (p *program) Init() tea.Cmd { return tea.Batch(tick(), p.listen) }

// Update implements tea.Model.
func (p *program) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		p.width, p.height = msg.Width, msg.Height
		p.input.Width = max(10, msg.Width-10)
	case tickMsg:
		p.look()
		return p, tick()
	case endedMsg:
		p.look()
		return p, p.listen
	case overMsg:
		p.fault = msg.err
		return p, tea.Quit
	case interruptMsg:
		p.interrupted = true
		return p, tea.Quit
	case tea.KeyMsg:
		return p, p.keys(msg)
	}
	return p, nil
}

// keys takes apart what was typed faster than Bubble Tea read. What is pasted is
// for the line, never for the keys.
func (p *program) keys(msg tea.KeyMsg) tea.Cmd {
	if msg.Type != tea.KeyRunes || msg.Paste {
		if msg.Paste && !p.typing {
			return nil
		}
		return p.key(msg)
	}
	var list []tea.Cmd
	for _, r := range msg.Runes {
		list = append(list, p.key(tea.KeyMsg{Type: tea.KeyRunes, Runes: []rune{r}, Alt: msg.Alt}))
	}
	return tea.Batch(list...)
}

// key does what a key wants.
func (p *program) key(msg tea.KeyMsg) tea.Cmd {
	switch a := keyAction(msg.String(), p.typing); a {
	case ChooseOff, ChoosePlain, ChooseLull:
		p.choose(Mode(a - ChooseOff))
	case MoreLoad:
		p.load(loadStep)
	case LessLoad:
		p.load(-loadStep)
	case Type:
		p.typing = true
		p.input.Reset()
		return p.input.Focus()
	case Send, Leave:
		if a == Send {
			p.talk.Say(p.input.Value())
		}
		p.typing = false
		p.input.Blur()
	case Quit:
		return tea.Quit
	case Interrupt:
		p.interrupted = true
		return tea.Quit
	case None:
		if p.typing {
			var cmd tea.Cmd
			p.input, cmd = p.input.Update(msg)
			return cmd
		}
	}
	return nil
}

// choose switches the mode: the reply under way is asked again in it.
func (p *program) choose(m Mode) {
	if m == p.screen.Mode {
		return
	}
	p.look() // what was counted so far is the old mode's
	p.talk.Switch()
	p.screen.Mode = m
	p.game.SetMode(m)
	p.talk.Next(m, p.game.Runtime(m))
}

func (p *program) load(by time.Duration) {
	d := min(max(p.screen.Setting.Load+by, 0), MaxLoad)
	if d == p.screen.Setting.Load {
		return
	}
	p.look() // what was counted so far is the old load's
	p.screen.Setting.Load = d
	p.game.SetLoad(d)
	p.screen.Meter.Under(d)
}

// look takes what happened, and asks on.
func (p *program) look() {
	p.frames = p.game.Frames(p.frames[:0])
	now := p.game.Tokens()
	var fresh [Modes]int64
	for m := range fresh {
		fresh[m] = now[m] - p.tokens[m]
	}
	p.tokens = now
	p.screen.Meter.Add(p.frames, fresh)
	for m := Off; m < Modes; m++ {
		p.events = p.game.Events(m, p.events[:0])
		p.talk.Hear(m, p.events, func(u llm.Usage) { p.screen.Meter.Reply(m, u.TTFT) })
	}
	clear(p.events)
	p.talk.Next(p.screen.Mode, p.game.Runtime(p.screen.Mode))
	p.screen.Said, p.screen.Err = p.talk.Said(), p.talk.Err()
}

// View implements tea.Model.
func (p *program) View() string {
	p.screen.Input = ""
	if p.typing {
		p.screen.Input = p.input.View()
	}
	return p.screen.View(p.width, p.height)
}

// summary is what stays in the terminal: the setting and the table of each
// load, plain.
func (p *program) summary() string {
	s := p.screen
	s.style = newStyles(false)
	loads := s.Meter.Loads()
	if len(loads) == 0 {
		loads = []time.Duration{s.Setting.Load}
	}
	var lines []string
	for i, d := range loads {
		if i > 0 {
			lines = append(lines, "")
		}
		s.Setting.Load = d
		s.Meter = p.screen.Meter.At(d)
		lines = append(append(lines, s.head()), s.table()...)
	}
	for i, l := range lines {
		lines[i] = strings.TrimRight(l, " ")
	}
	return strings.Join(lines, "\n") + "\n"
}
