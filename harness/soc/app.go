package soc

import (
	"fmt"

	"github.com/lull-npc/lull/scheduler"
)

// Load is what frames of an app or of one of its phases take.
type Load struct {
	CPU       Value `yaml:"cpu_ms"`       // mean CPU time of a frame, undisturbed
	GPU       Value `yaml:"gpu_ms"`       // mean GPU time after it
	Spread    Value `yaml:"spread"`       // standard deviation of both, share of the mean
	TailShare Value `yaml:"tail_share"`   // share of frames that are longer than that
	TailScale Value `yaml:"tail_scale"`   // how much longer: median 0.41 of it (shares of the mean), heavy-tailed
	CPUStall  Value `yaml:"cpu_stall"`    // share of CPU time that waits for memory, undisturbed
	GPUStall  Value `yaml:"gpu_stall"`    // share of GPU time that does
	CPURate   Value `yaml:"cpu_gb_per_s"` // memory traffic while the CPU works
	GPURate   Value `yaml:"gpu_gb_per_s"` // while the GPU works
}

func (l *Load) fields(at string) []Field {
	return []Field{
		{at + "cpu_ms", &l.CPU, 0.05, 200},
		{at + "gpu_ms", &l.GPU, 0, 200},
		{at + "spread", &l.Spread, 0, 0.5},
		{at + "tail_share", &l.TailShare, 0, 0.5},
		{at + "tail_scale", &l.TailScale, 0, 10},
		{at + "cpu_stall", &l.CPUStall, 0, 0.95},
		{at + "gpu_stall", &l.GPUStall, 0, 0.95},
		{at + "cpu_gb_per_s", &l.CPURate, 0, 200},
		{at + "gpu_gb_per_s", &l.GPURate, 0, 200},
	}
}

// Part is a phase of an app.
type Part struct {
	Phase   string  `yaml:"phase"`
	Seconds float64 `yaml:"seconds"`
	Load    `yaml:",inline"`
}

// App holds the parameters of a foreground and of the talk beside it.
type App struct {
	Name        string `yaml:"name"`
	Description string `yaml:"description"`
	Class       string `yaml:"class"` // social, tools, video, gaming, light
	Hz          Value  `yaml:"hz"`
	Threads     Value  `yaml:"cpu_threads"` // cores that the app uses
	Parts       []Part `yaml:"parts"`       // played again and again

	Prompt Value `yaml:"prompt_tokens"`
	Reply  Value `yaml:"reply_tokens"`
	Pause  Value `yaml:"pause_s"`          // mean time between the end of a reply and the next question
	Memory Value `yaml:"memories_per_min"` // that wait to be embedded

	// Text: how often it repeats what stood there before, for how long, and how
	// often a draft model guesses its next token.
	CopyStart  Value `yaml:"copy_start"`
	CopyLength Value `yaml:"copy_length"`
	DraftRight Value `yaml:"draft_right"`
}

// Fields lists every parameter with its bounds.
func (a *App) Fields() []Field {
	list := []Field{
		{"hz", &a.Hz, 10, 240},
		{"cpu_threads", &a.Threads, 0.1, 64},
		{"prompt_tokens", &a.Prompt, 1, 1500},
		{"reply_tokens", &a.Reply, 1, 500},
		{"pause_s", &a.Pause, 0, 600},
		{"memories_per_min", &a.Memory, 0, 600},
		{"copy_start", &a.CopyStart, 0, 1},
		{"copy_length", &a.CopyLength, 1, 100},
		{"draft_right", &a.DraftRight, 0, 1},
	}
	for i := range a.Parts {
		list = append(list, a.Parts[i].fields(fmt.Sprintf("parts[%d].", i))...)
	}
	return list
}

// maxParts bounds an app's phases.
const maxParts = 64

// Validate says what is wrong.
func (a *App) Validate() error {
	if a.Name == "" || len(a.Parts) == 0 || len(a.Parts) > maxParts {
		return fmt.Errorf("%w: app %q with %d parts: want a name, and 1 … %d", ErrParameters, a.Name, len(a.Parts),
			maxParts)
	}
	if err := check(a.Fields()); err != nil {
		return fmt.Errorf("app %s: %w", a.Name, err)
	}
	for i, p := range a.Parts {
		if _, err := parsePhase(p.Phase); err != nil || !(p.Seconds >= 0.1 && p.Seconds <= 3600) {
			return fmt.Errorf("%w: app %s: parts[%d]: phase %q for %v s: want a phase of a game, for 0.1 … 3600 s",
				ErrParameters, a.Name, i, p.Phase, p.Seconds)
		}
	}
	return nil
}

func parsePhase(name string) (scheduler.Phase, error) {
	for p := scheduler.PhaseExplore; p <= scheduler.PhaseBackground; p++ {
		if p.String() == name {
			return p, nil
		}
	}
	return 0, fmt.Errorf("%w: no phase %q", ErrParameters, name)
}

// LoadApp reads a shipped app.
func LoadApp(name string) (*App, error) { return loadValid[App]("apps", name) }

// ParseApp reads an app from a file's text.
func ParseApp(file string, text []byte) (*App, error) { return parseValid[App](file, text) }

// Task is a kind of text: how much it repeats, and how well a draft model guesses
// it.
type Task struct {
	Name        string `yaml:"name"`
	Description string `yaml:"description"`
	CopyStart   Value  `yaml:"copy_start"`
	CopyLength  Value  `yaml:"copy_length"`
	DraftRight  Value  `yaml:"draft_right"`
}

// LoadTask reads a shipped task.
func LoadTask(name string) (*Task, error) {
	var t Task
	if err := load("tasks", name, &t); err != nil {
		return nil, err
	}
	return &t, check([]Field{{"copy_start", &t.CopyStart, 0, 1}, {"copy_length", &t.CopyLength, 1, 100},
		{"draft_right", &t.DraftRight, 0, 1}})
}

// With is the app with texts of a task.
func (a *App) With(t *Task) *App {
	x := *a
	x.CopyStart, x.CopyLength, x.DraftRight = t.CopyStart, t.CopyLength, t.DraftRight
	return &x
}
