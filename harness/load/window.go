package load

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"
)

// ErrNoWindow is wrapped where a game can't be drawn here.
var ErrNoWindow = errors.New("load: no window to draw the game in")

const (
	// windowProgram draws: the demo game, beside the program that runs.
	windowProgram = "lull-demo"

	// windowSize is that of the picture: software draws it in half a frame.
	windowSize = "640x360"

	// windowOpens bounds how long the first frame takes.
	windowOpens = 30 * time.Second
)

// window is a process that draws a frame of a real game for each byte that it is
// sent, and sends one back when the frame is on the display.
type window struct {
	cmd    *exec.Cmd
	to     io.WriteCloser
	from   io.Reader
	begins []byte
	done   [1]byte
	said   tail
}

// openWindow starts the program and draws the first frame. A display of its own
// is preferred: what a real one does besides would be counted.
func openWindow() (*window, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNoWindow, err)
	}
	program := filepath.Join(filepath.Dir(self), windowProgram)
	if runtime.GOOS == "windows" {
		program += ".exe"
	}
	if named := os.Getenv("LULL_DEMO"); named != "" {
		program = named
	}
	if _, err := os.Stat(program); err != nil {
		return nil, fmt.Errorf("%w: there is no %s: `make build` builds it", ErrNoWindow, program)
	}
	args := []string{program, "--serve", "--size", windowSize}
	if virtual, err := exec.LookPath("xvfb-run"); err == nil {
		args = append([]string{virtual, "-a", "-s", "-screen 0 1280x720x24"}, args...)
	} else if runtime.GOOS == "linux" && os.Getenv("DISPLAY") == "" {
		return nil, fmt.Errorf("%w: there is neither xvfb-run nor a display: install xvfb", ErrNoWindow)
	}
	w := &window{cmd: exec.Command(args[0], args[1:]...), begins: []byte{1}}
	w.cmd.Stderr = &w.said
	w.cmd.SysProcAttr = ownSession()
	if w.to, err = w.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	if w.from, err = w.cmd.StdoutPipe(); err != nil {
		return nil, err
	}
	if err := w.cmd.Start(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNoWindow, err)
	}
	slow := time.AfterFunc(windowOpens, w.kill)
	defer slow.Stop()
	if err := errors.Join(w.begin(), w.wait()); err != nil {
		w.close()
		return nil, err
	}
	return w, nil
}

// begin asks for a frame; wait returns when it was shown.
func (w *window) begin() error {
	_, err := w.to.Write(w.begins)
	return err
}

func (w *window) wait() error {
	if _, err := io.ReadFull(w.from, w.done[:]); err != nil {
		w.close() // then all that it said is there
		return fmt.Errorf("%w: the game's window ended: %s", ErrNoWindow, strings.TrimSpace(w.said.String()))
	}
	return nil
}

// close ends the process, which ends by itself when nobody asks any more. A second
// one does nothing.
func (w *window) close() {
	_ = w.to.Close() // it ends all the same
	end := time.AfterFunc(closeWait, w.kill)
	defer end.Stop()
	_ = w.cmd.Wait() // how it ended says nothing
}

// closeWait is how long a window may take to end.
const closeWait = 5 * time.Second

// tail keeps the beginning of what a process says.
type tail struct{ text []byte }

// maxTail bounds it.
const maxTail = 2000

// Write implements io.Writer.
func (t *tail) Write(p []byte) (int, error) {
	t.text = append(t.text, p[:min(len(p), maxTail-len(t.text))]...)
	return len(p), nil
}

func (t *tail) String() string { return string(t.text) }

// Drawn is a game whose frames are drawn by a real window besides: the demo
// game's, under a display of its own where there is one.
type Drawn struct{ Source }

// Job implements Source.
func (d Drawn) Job(i uint64, at time.Duration, j *Job) {
	d.Source.Job(i, at, j)
	j.Draw = true
}

// Needs implements Source.
func (d Drawn) Needs() Needs {
	n := d.Source.Needs()
	n.Window = true
	return n
}
