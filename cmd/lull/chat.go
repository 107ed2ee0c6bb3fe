package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	"github.com/peterh/liner"
	"github.com/spf13/cobra"

	"github.com/lull-npc/lull/npc"
	"github.com/lull-npc/lull/runtime/llm"
	"github.com/lull-npc/lull/runtime/local"
	"github.com/lull-npc/lull/runtime/speculative"
)

type chatFlags struct {
	seed    uint32
	greedy  bool
	context int
	threads int
	stats   bool

	speculate string
	draft     string
	devices   string
}

func newChatCommand(a *app) *cobra.Command {
	var f chatFlags
	c := &cobra.Command{
		Use:   "chat [PERSONA]",
		Short: "Talk to a character in the terminal",
		Long: `Talk to a character: a shipped persona by name, or a YAML file of your own.
What is missing is fetched first. Lines that begin with / are commands; /help
lists them. Ctrl-C cancels the reply, Ctrl-D ends the program.

Without a terminal the lines are read from standard input, one turn each, and
shown. With --json the whole conversation is printed as one object at the end.

Tokens are guessed ahead where that pays on this machine: from what was said
before, and by a small draft model if --draft names one with the same
vocabulary. It changes the speed, not the replies.

Once "lull calibrate" has measured this machine, the model runs where replies
were shortest; --devices says otherwise, and "lull devices" shows the choice.`,
		Example: fmt.Sprintf(`  lull chat                       # %s
  lull chat my-wizard.yaml --seed 7
  lull chat --model smollm2-135m-instruct-q8_0 --draft smollm2-135m-instruct-q4_0 --stats
  lull chat --devices prefill=Vulkan0,decode=CPU --llama-lib llama-linux-x64-vulkan
  printf 'Hello!\nWhat do you sell?\n' | lull chat %s --greedy --json`, npc.Shipped()[0], npc.Shipped()[0]),
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			name := npc.Shipped()[0]
			if len(args) == 1 {
				name = args[0]
			}
			return a.chat(cmd.Context(), name, f)
		},
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return npc.Shipped(), cobra.ShellCompDirectiveDefault
		},
	}
	c.Flags().Uint32Var(&f.seed, "seed", 0, "seed of the sampling; 0 is the persona's own")
	c.Flags().BoolVar(&f.greedy, "greedy", false, "always the most probable word: the same replies each time")
	c.Flags().IntVar(&f.context, "context", 2048, "tokens that each conversation may hold")
	c.Flags().IntVar(&f.threads, "threads", 0, "threads of the model; 0 is one a core")
	c.Flags().BoolVar(&f.stats, "stats", false, "show after each reply what it cost")
	c.Flags().StringVar(&f.draft, "draft", "", "draft model: a GGUF `FILE`, or a model's name in the cache")
	c.Flags().StringVar(&f.speculate, "speculate", "auto", "who guesses tokens ahead: auto, off, ngram or model")
	addDevices(c, &f.devices)
	return c
}

// chatSession is one run of the command: several characters, one of them
// spoken to.
type chatSession struct {
	app   *app
	flags chatFlags
	run   *local.Runtime
	chats map[string]*npc.Chat
	order []string
	now   *npc.Chat
	turns []chatTurn
	mode  speculative.Mode
}

type chatTurn struct {
	NPC    string    `json:"npc"`
	Player string    `json:"player"`
	Reply  string    `json:"reply"`
	End    string    `json:"end"`
	Usage  usageJSON `json:"usage"`
}

type usageJSON struct {
	Prompt    int     `json:"prompt_tokens"`
	Reused    int     `json:"reused_tokens"`
	Prefilled int     `json:"prefilled_tokens"`
	Generated int     `json:"generated_tokens"`
	TTFTMs    float64 `json:"ttft_ms"`
	TotalMs   float64 `json:"total_ms"`
}

func (a *app) chat(ctx context.Context, persona string, f chatFlags) error {
	s := &chatSession{app: a, flags: f, chats: map[string]*npc.Chat{}}
	if err := s.meet(persona); err != nil { // before the model is loaded: a typo should not cost seconds
		return err
	}
	var err error
	if s.mode, err = speculation(f.speculate, f.draft); err != nil {
		return err
	}
	cfg := local.Config{
		Spec:    local.Spec{Steer: local.SteerNone, Threads: f.threads, Speculation: local.SpeculateElastic},
		Context: f.context, Speculate: s.mode, Draft: f.draft,
	}
	if cfg.Devices, err = a.whichDevices(f.devices); err != nil {
		return err
	}
	if s.run, err = a.open(ctx, cfg); err != nil {
		return err
	}
	defer s.run.Close()
	if err := s.loop(ctx); err != nil {
		return err
	}
	if a.json {
		turns := append([]chatTurn{}, s.turns...) // [] rather than null of a chat in which nothing was said
		return a.ui.object(map[string]any{"model": s.run.Model.Info().Name, "turns": turns,
			"speculation": newSpeculationJSON(s.mode, s.run.Speculation())})
	}
	return nil
}

// speculation reads --speculate and --draft together.
func speculation(name, draft string) (speculative.Mode, error) {
	mode, err := speculative.ParseMode(name)
	switch {
	case err != nil:
		return 0, usagef("--speculate %q: want auto, off, ngram or model", name)
	case mode == speculative.ModeModel && draft == "":
		return 0, usagef("--speculate model needs --draft FILE")
	case draft != "" && (mode == speculative.ModeOff || mode == speculative.ModeNGram):
		return 0, usagef("--speculate %s leaves nothing to do for --draft %s: take auto or model", name, draft)
	}
	return mode, nil
}

// loadPersona reads a shipped persona by its name, or a file. A name that is
// neither is a slip of the command line.
func loadPersona(name string) (npc.Persona, error) {
	p, err := npc.LoadPersona(name)
	if errors.Is(err, fs.ErrNotExist) && !strings.ContainsAny(name, `/\.`) {
		return p, &usageError{fmt.Errorf("there is no persona %q: shipped are %s", name,
			strings.Join(npc.Shipped(), ", ")), "or give the path of a YAML file of your own"}
	}
	return p, err
}

// meet makes a persona the one spoken to; a known one goes on where it was.
func (s *chatSession) meet(name string) error {
	p, err := loadPersona(name)
	if err != nil {
		return err
	}
	if s.flags.seed != 0 {
		p.Sampling.Seed = s.flags.seed
	}
	if s.flags.greedy {
		p.Sampling = llm.Sampling{}
	}
	if s.chats[p.Name] == nil {
		s.chats[p.Name] = npc.NewChat(p)
		s.order = append(s.order, p.Name)
	}
	s.now = s.chats[p.Name]
	return nil
}

// lineReader gives the player's lines; io.EOF ends.
type lineReader interface {
	Prompt(prompt string) (string, error)
	AppendHistory(line string)
	Close() error
}

// pipeReader reads lines from what is no terminal.
type pipeReader struct{ in *bufio.Reader }

func (p pipeReader) Prompt(string) (string, error) {
	line, err := p.in.ReadString('\n')
	if line != "" {
		err = nil
	}
	return strings.TrimRight(line, "\r\n"), err
}
func (pipeReader) AppendHistory(string) {}
func (pipeReader) Close() error         { return nil }

func (s *chatSession) reader() lineReader {
	in, isFile := s.app.ui.in.(*os.File)
	if !isFile || !terminal(in) || !s.app.ui.outTerminal {
		return pipeReader{bufio.NewReader(s.app.ui.in)}
	}
	l := liner.NewLiner()
	l.SetCtrlCAborts(true)
	l.SetCompleter(func(line string) (out []string) {
		for _, c := range chatCommands {
			if name := "/" + c.name; strings.HasPrefix(name, line) {
				out = append(out, name)
			}
		}
		return out
	})
	return l
}

func (s *chatSession) loop(ctx context.Context) error {
	in := s.reader()
	defer in.Close()
	_, piped := in.(pipeReader)
	ui := s.app.ui
	ui.printf("%s\n", ui.paint(dim, fmt.Sprintf("%s on %s. /help lists commands, Ctrl-D ends.", s.run.Model.Info().Name,
		s.run.Model.Info().Device)))
	s.greet()
	for ctx.Err() == nil {
		line, err := s.prompt(ctx, in)
		switch {
		case errors.Is(err, liner.ErrPromptAborted):
			ui.printf("(Ctrl-D or /quit ends)\n")
			continue
		case errors.Is(err, io.EOF):
			return nil
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err != nil:
			return fmt.Errorf("reading your line: %w", err)
		}
		if strings.TrimSpace(line) == "" {
			continue
		}
		in.AppendHistory(line)
		if piped { // nobody typed it where the replies stand
			ui.printf("%s %s\n", ui.paint(dim, "you>"), printable(line))
		}
		if line[0] == '/' {
			quit, err := s.command(line)
			if quit {
				return nil
			}
			if err != nil {
				ui.failure(err)
			}
			continue
		}
		if err := s.say(ctx, line); err != nil {
			return err
		}
	}
	return context.Cause(ctx)
}

// prompt reads a line, and stops waiting for it when ctx ends: a pipe may stay
// open and silent for ever. The reader is then left to the end of the process.
func (s *chatSession) prompt(ctx context.Context, in lineReader) (string, error) {
	type answer struct {
		line string
		err  error
	}
	got := make(chan answer, 1)
	go func() {
		line, err := in.Prompt("you> ")
		got <- answer{line, err}
	}()
	select {
	case a := <-got:
		return a.line, a.err
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
}

func (s *chatSession) greet() {
	if g := s.now.Persona().Greeting; g != "" && len(s.now.History()) == 0 {
		s.app.ui.printf("%s %s\n", s.app.ui.paint(green, s.now.Persona().Name+">"), g)
	}
}

// say sends one line and shows the reply as it comes. Only a broken engine is
// an error; what is wrong with the line is told and forgotten.
func (s *chatSession) say(ctx context.Context, line string) error {
	ui, p := s.app.ui, s.now.Persona()
	request, prompt, err := s.now.Say(s.run.Model, npc.DefaultBudget(s.run.Model.Info(), p), line)
	if err != nil {
		ui.failure(err)
		return nil
	}
	if prompt.DroppedTurns > 0 {
		ui.notef("%s no longer remembers the first %d turns: the context is full", p.Name, s.now.Forgotten())
	}
	id, err := s.run.Engine.Submit(request)
	if err != nil {
		s.now.Undo()
		ui.failure(err)
		return nil
	}
	s.now.Sent(id)
	defer s.cancelOnInterrupt(id)()
	ui.printf("%s ", ui.paint(green, p.Name+">"))
	turn := chatTurn{NPC: p.Name, Player: line}
	before := s.run.Speculation()
	text, usage, err := listen(ctx, s.run.Engine, func(e llm.Event) {
		s.now.Hear(e)
		switch e.Kind {
		case llm.EventText:
			ui.printf("%s", printable(e.Text))
		case llm.EventDone:
			turn.End = string(e.Reason)
		case llm.EventCancelled:
			turn.End = "cancelled"
			ui.printf("%s", ui.paint(dim, " …"))
		}
	})
	ui.printf("\n")
	if err != nil {
		return err
	}
	turn.Reply = text
	turn.Usage = usageJSON{usage.Prompt, usage.Reused, usage.Prefilled, usage.Generated,
		float64(usage.TTFT.Microseconds()) / 1e3, float64(usage.Total.Microseconds()) / 1e3}
	s.turns = append(s.turns, turn)
	if s.flags.stats {
		ui.printf("%s\n%s\n", ui.paint(dim, costLine(usage)), ui.paint(dim, guessLine(before, s.run.Speculation())))
	}
	return nil
}

func costLine(u llm.Usage) string {
	if u.Generated == 0 {
		return fmt.Sprintf("[prompt %d tokens, %d of them new; ended before the first word]", u.Prompt, u.Prefilled)
	}
	rate := 0.0
	if rest := u.Total - u.TTFT; u.Generated > 1 && rest > 0 {
		rate = float64(u.Generated-1) / rest.Seconds()
	}
	return fmt.Sprintf("[prompt %d tokens, %d of them new; first word after %.2f s; %d tokens at %.0f/s]",
		u.Prompt, u.Prefilled, u.TTFT.Seconds(), u.Generated, rate)
}

// cancelOnInterrupt makes Ctrl-C end the reply instead of the program, until
// the returned function is called.
func (s *chatSession) cancelOnInterrupt(id llm.RequestID) func() {
	hook := func() bool { return s.run.Engine.Cancel(id) }
	interruptHook.Store(&hook)
	return func() { interruptHook.Store(nil) }
}

type chatCommand struct {
	name, args, help string
	do               func(s *chatSession, arg string) error
}

var errQuit = errors.New("quit")

var chatCommands []chatCommand

func init() { // /help lists the list
	chatCommands = []chatCommand{
		{"help", "", "list the commands", (*chatSession).help},
		{"persona", "NAME|FILE", "talk to another character; each keeps its conversation", (*chatSession).persona},
		{"history", "", "show the conversation so far", (*chatSession).history},
		{"undo", "", "take the last exchange back", (*chatSession).undo},
		{"reset", "", "begin the conversation anew", (*chatSession).reset},
		{"save", "FILE", "write the conversation to a file", (*chatSession).save},
		{"load", "FILE", "go on with a saved conversation", (*chatSession).load},
		{"stats", "", "show or hide what each reply costs", (*chatSession).toggleStats},
		{"quit", "", "end", func(*chatSession, string) error { return errQuit }},
	}
}

func (s *chatSession) command(line string) (quit bool, err error) {
	name, arg, _ := strings.Cut(strings.TrimPrefix(line, "/"), " ")
	for _, c := range chatCommands {
		if c.name != name {
			continue
		}
		if arg = strings.TrimSpace(arg); c.args != "" && arg == "" {
			return false, fmt.Errorf("/%s wants %s", c.name, c.args)
		}
		err := c.do(s, arg)
		return errors.Is(err, errQuit), err
	}
	return false, hinted{fmt.Errorf("there is no command /%s", name), "/help lists them"}
}

func (s *chatSession) help(string) error {
	for _, c := range chatCommands {
		s.app.ui.printf("  %-20s %s\n", "/"+c.name+" "+c.args, c.help)
	}
	s.app.ui.printf("  shipped personas: %s\n", strings.Join(npc.Shipped(), ", "))
	return nil
}

func (s *chatSession) persona(arg string) error {
	if err := s.meet(arg); err != nil {
		return err
	}
	s.app.ui.printf("%s\n", s.app.ui.paint(dim, "now with "+s.now.Persona().Name))
	s.greet()
	return nil
}

func (s *chatSession) history(string) error {
	for _, t := range s.now.History() {
		who := "you>"
		if t.Role == llm.Assistant {
			who = s.now.Persona().Name + ">"
		}
		s.app.ui.printf("%s %s\n", s.app.ui.paint(dim, who), printable(t.Text))
	}
	return nil
}

func (s *chatSession) undo(string) error {
	if !s.now.Undo() {
		return errors.New("there is nothing to take back")
	}
	return nil
}

func (s *chatSession) reset(string) error {
	s.now.Clear()
	s.greet()
	return nil
}

func (s *chatSession) save(file string) error {
	data, err := s.now.Save()
	if err != nil {
		return err
	}
	if err := writeFile(file, data); err != nil {
		return err
	}
	s.confirm("saved %d turns with %s to %s", len(s.now.History()), s.now.Persona().Name, file)
	return nil
}

// confirm says what a command did.
func (s *chatSession) confirm(format string, args ...any) {
	s.app.ui.printf("%s\n", s.app.ui.paint(dim, printable(fmt.Sprintf(format, args...))))
}

func (s *chatSession) load(file string) error {
	data, err := readBounded(file, maxChatFile)
	if err != nil {
		return err
	}
	trial := npc.NewChat(s.now.Persona()) // nothing changes until all of it is good
	if err := trial.Load(data); err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	if err := checkTokens(file, trial.History(), s.run.Model.Info().Vocab); err != nil {
		return err
	}
	if err := s.now.Load(data); err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	s.confirm("loaded %d turns with %s from %s; /history shows them", len(s.now.History()), s.now.Persona().Name, file)
	return nil
}

func (s *chatSession) toggleStats(string) error {
	if s.flags.stats = !s.flags.stats; !s.flags.stats {
		s.confirm("costs are no longer shown")
		return nil
	}
	s.confirm("each reply's costs are shown from now on; guessing ahead costs here:")
	s.tellCosts()
	return nil
}

// maxChatFile bounds a saved conversation: 500 turns of 16 KiB.
const maxChatFile = 16 << 20

func readBounded(file string, limit int64) ([]byte, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && int64(len(data)) > limit {
		err = fmt.Errorf("%s is larger than %s, which is the most", file, megabytes(limit))
	}
	return data, err
}
