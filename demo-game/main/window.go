//go:build windows || cgo

package main

import (
	"cmp"
	"errors"
	"fmt"
	"image"
	"image/png"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/hajimehoshi/ebiten/v2"

	"github.com/lull-npc/lull/demo-game/audio"
	"github.com/lull-npc/lull/demo-game/data"
	"github.com/lull-npc/lull/demo-game/draw"
	"github.com/lull-npc/lull/demo-game/headless"
	"github.com/lull-npc/lull/demo-game/input"
	"github.com/lull-npc/lull/demo-game/meter"
	"github.com/lull-npc/lull/demo-game/play"
	"github.com/lull-npc/lull/demo-game/rules"
	"github.com/lull-npc/lull/demo-game/talk"
	"github.com/lull-npc/lull/demo-game/ui"
	"github.com/lull-npc/lull/harness"
	"github.com/lull-npc/lull/harness/load"
	"github.com/lull-npc/lull/harness/metrics"
	"github.com/lull-npc/lull/runtime/llm"
	"github.com/lull-npc/lull/scheduler"
)

// window is the game under Ebitengine, which calls Update and Draw in turn on
// one thread. A frame begins where the sleep before it ends, so what Ebitengine
// does between two calls, the rendering, is the game's work; it ends at the end
// of Draw, where the game begins to wait.
type window struct {
	o         *options
	diag      io.Writer
	interrupt atomic.Bool
	ending    atomic.Bool // the window is about to be closed

	game     *play.Game
	voices   *talk.Voices
	meter    *meter.Meter
	data     *data.Game
	renderer *draw.Renderer
	devices  draw.Devices
	speaker  *audio.Speaker
	script   *input.Script
	tick     int64 // of the script
	canvas   ui.Canvas

	clock  llm.Clock
	timer  *load.Timer
	grid   *metrics.Grid
	id     uint64
	begin  int64
	ours   time.Duration // that our calls took in this frame
	before talk.Stats
	strain *strain

	measured measurement
	start    headless.Start
	age      time.Duration // of the process when the first game began, without measuring before
	begun    int64         // when this game began
	served   bool          // a frame was asked for
	due      int           // ticks that the frame before took: time goes on where frames are late
	err      error
	w, h     int
}

// mostDue bounds how many ticks a frame catches up: a game that stood still for a
// second does not jump.
const mostDue = 6

func newWindow(o *options, diag io.Writer) (*window, error) {
	w := &window{o: o, diag: diag, clock: llm.NewClock(), speaker: &audio.Speaker{}}
	w.age = processAge()
	var err error
	if w.data, err = data.Load(); err != nil {
		return nil, err
	}
	if w.script, err = o.readScript(); err != nil {
		return nil, err
	}
	if o.shotDir != "" {
		if err := os.MkdirAll(o.shotDir, 0o755); err != nil {
			return nil, err
		}
	}
	if !o.mute && !o.scripted && len(o.measure) == 0 {
		w.speaker = audio.Open()
	}
	w.measured.report = headless.NewReport("game", o.script, version, o.scripted)
	return w, w.begins()
}

// policy is the one that is played now.
func (w *window) policy() string {
	if len(w.o.measure) == 0 {
		return w.o.policy
	}
	return w.o.measure[w.measured.runs%len(w.o.measure)]
}

// begins makes a game with voices of its own.
func (w *window) begins() error {
	if len(w.o.measure) > 0 && w.measured.runs%len(w.o.measure) == 0 {
		if err := w.rest(); err != nil {
			return err
		}
	}
	w.begun = w.clock.Now()
	var err error
	if w.meter, err = meter.New(headless.Period); err != nil {
		return err
	}
	dir, lang, keys := w.o.dir, "", input.Default()
	if !w.o.serve {
		if lang, keys, err = play.ReadSettings(play.Folder{Dir: dir}); err != nil {
			w.tell(err.Error())
		}
	}
	if w.script != nil { // it saves, and changes the language: not the player's
		dir = filepath.Join(dir, "script")
	}
	var files play.Files = play.Folder{Dir: dir, Direct: w.o.scripted}
	if w.o.serve {
		files = nil
	}
	memories := filepath.Join(dir, "memories")
	if len(w.o.measure) > 0 { // a run begins with nothing
		memories = ""
	}
	lang = cmp.Or(w.o.lang, lang, localeLang())
	w.voices, err = talk.New(talk.Config{Game: w.data, Open: w.o.opener(w.data, memories, w.tell), Direct: w.o.scripted,
		Observe: w.meter.Observe})
	if err != nil {
		return err
	}
	w.game = play.New(play.Config{Game: w.data, Voices: w.voices, Files: files, Lang: lang, Keys: keys,
		Policy: w.policy(), Auto: len(w.o.measure) == 0})
	w.game.ShowHUD(w.o.hud)
	w.tick = 0
	return nil
}

// localeLang is the language that the system is set to, "" where the game has it
// not.
func localeLang() string {
	locale := cmp.Or(os.Getenv("LC_ALL"), os.Getenv("LC_MESSAGES"), os.Getenv("LANG"))
	lang, _, _ := strings.Cut(locale, "_")
	if slices.Contains(data.Languages, lang) {
		return lang
	}
	return ""
}

func (w *window) tell(text string) { fmt.Fprintln(w.diag, "lull-demo:", text) }

func (w *window) run() error {
	ebiten.SetWindowTitle("lull: Harrowmere")
	ebiten.SetWindowSize(w.o.width, w.o.height)
	ebiten.SetWindowResizingMode(ebiten.WindowResizingModeEnabled)
	ebiten.SetWindowSizeLimits(ui.Width/2, ui.Height/2, -1, -1)
	ebiten.SetFullscreen(w.o.full)
	ebiten.SetVsyncEnabled(false) // the deadline is our own: see Draw
	ebiten.SetTPS(ebiten.SyncWithFPS)
	ebiten.SetRunnableOnUnfocused(true)
	ebiten.SetWindowClosingHandled(true)
	err := ebiten.RunGameWithOptions(w, &ebiten.RunGameOptions{SingleThread: true})
	if w.strain != nil {
		w.strain.close()
	}
	if w.timer != nil {
		w.timer.Close()
	}
	w.keep()
	var silent error // what leaves a script without voices ends it as a failure
	if w.script != nil {
		silent = w.voices.Err()
	}
	for _, fault := range w.game.Faults() { // the player saw them as notes
		if silent == nil || !errors.Is(fault, silent) {
			w.tell(fault.Error())
		}
	}
	return errors.Join(err, w.err, silent, w.voices.Close())
}

// keep saves what was played since the game last saved by itself.
func (w *window) keep() {
	w.game.Autosave()
	for end := time.Now().Add(keepWait); w.game.Busy() && time.Now().Before(end); {
		w.game.Files()
		time.Sleep(time.Millisecond)
	}
}

// keepWait bounds how long a slow disk holds up the end.
const keepWait = 3 * time.Second

// Layout implements ebiten.Game: a pixel of the screen is a pixel of the window.
func (w *window) Layout(width, height int) (int, int) {
	w.w, w.h = max(width, 1), max(height, 1)
	return w.w, w.h
}

// Update implements ebiten.Game.
func (w *window) Update() error {
	err := w.update()
	if err != nil {
		w.ending.Store(true)
	}
	return err
}

func (w *window) update() error {
	if w.renderer == nil {
		if err := w.first(); err != nil {
			return err
		}
	} else { // a frame was shown
		w.watch()
	}
	if w.o.serve && !w.asked() {
		return ebiten.Termination
	}
	if ebiten.IsWindowBeingClosed() || w.interrupt.Load() || w.game.Quit() || w.err != nil {
		return ebiten.Termination
	}
	in, playing := w.input()
	if playing {
		w.game.Tick(&in)
		w.catchUp(&in)
		for _, s := range w.game.Sounds() {
			w.speaker.Play(s)
		}
	}
	if w.script != nil && w.over() {
		return w.finish()
	}
	if w.strain != nil {
		w.strain.run(w.game.Strain(), w.begin)
	}
	return nil
}

// first makes what needs the thread and the window.
func (w *window) first() error {
	w.renderer = draw.New(w.data)
	watchDisplay(w.displayLost)
	if w.o.scripted {
		w.renderer.Wait()
		return nil
	}
	var err error
	if w.timer, err = load.NewTimer(w.clock); err != nil {
		return err
	}
	if w.strain, err = newStrain(w.timer); err != nil {
		return err
	}
	if w.grid, err = metrics.NewGrid(time.Duration(w.clock.Now()), headless.Period, headless.Period); err != nil {
		return err
	}
	w.frameBegins()
	return nil
}

// displayLost ends the process where it stands: whatever runs now may wait for the
// display.
func (w *window) displayLost() {
	if w.ending.Load() {
		return
	}
	w.tell("the display is gone, and the game with it; Continue takes up what was saved last")
	os.Exit(1)
}

// input is what the player does, or the script; false: nothing moves yet.
func (w *window) input() (input.Frame, bool) {
	if w.script == nil {
		in := w.devices.Next(w.game.Keys(), w.game.Typing(), w.w, w.h)
		return in, true
	}
	if _, opening := w.voices.Opening(); opening && !w.o.scripted {
		return input.Frame{}, true // the title, until the voices are there
	}
	if w.tick == 0 {
		w.measured.usage = harness.WatchUsage()
	}
	in := w.script.At(w.tick)
	w.tick++
	return in, true
}

// catchUp plays the ticks that a late frame took. A script that is measured or
// photographed plays one tick a frame, however long that took.
func (w *window) catchUp(in *input.Frame) {
	watched := !w.o.scripted && len(w.o.measure) == 0 && len(w.o.shots) == 0
	for ; w.due > 1 && (w.script == nil || watched && w.tick > 0); w.due-- {
		again := in.Again()
		if w.script != nil {
			again = w.script.At(w.tick)
			w.tick++
		}
		w.game.Tick(&again)
	}
}

// over reports whether the script is.
func (w *window) over() bool {
	limit := int64(w.o.secondsOf(w.script) * rules.TicksPerSecond)
	return w.game.Ended() || w.tick > limit
}

// finish ends the program after a script, or begins the next measured run.
func (w *window) finish() error {
	switch {
	case w.o.serve: // the tour again
		return errors.Join(w.voices.Close(), w.begins())
	case len(w.o.measure) == 0:
		return ebiten.Termination
	}
	return w.next()
}

// asked answers that the frame before is on the display, and waits until another
// is wanted; false: nobody asks any more.
func (w *window) asked() bool {
	var b [1]byte
	if w.served {
		if _, err := os.Stdout.Write(b[:]); err != nil {
			return false
		}
	}
	w.served = true
	_, err := io.ReadFull(os.Stdin, b[:])
	return err == nil
}

func (w *window) frameBegins() {
	w.begin = w.clock.Now()
	w.id++
	w.before = w.voices.Stats(w.id%60 == 0)
	w.voices.FrameBegin(w.id, headless.Period, w.begin)
	w.ours = time.Duration(w.clock.Now() - w.begin)
}

// Draw implements ebiten.Game. It ends in the wait for the deadline.
func (w *window) Draw(screen *ebiten.Image) {
	if w.renderer == nil {
		return
	}
	v := w.game.View()
	if w.game.HUD() {
		s := meter.State{Stats: w.voices.Stats(false), Now: w.clock.Now()}
		s.On, s.Wanted = w.voices.Policy()
		_, _, s.TTFTMs = w.game.Replies()
		v.HUD = w.meter.HUD(v.T, s)
	}
	w.canvas.Reset()
	ui.Show(&w.canvas, v)
	draw.Show(screen, w.renderer.Canvas(&w.canvas))
	if w.o.shots[w.tick] {
		w.shoot(screen)
	}
	if w.timer != nil {
		w.frameEnds()
	}
}

// frameEnds tells that the game waits now, and waits.
func (w *window) frameEnds() {
	deadline := int64(w.grid.Deadline())
	worked := w.clock.Now()
	w.voices.FrameEnd(w.id, deadline, worked)
	after := w.voices.Stats(false)
	end := w.clock.Now()
	phase := w.game.Phase().String()
	if _, opening := w.voices.Opening(); opening {
		phase = scheduler.PhaseLoading.String()
	}
	f := meter.Frame{Frame: w.grid.Finish(time.Duration(end), phase), Ours: w.ours + time.Duration(end-worked),
		Ran:      w.before.Ran || after.Ran || w.before.Groups != after.Groups,
		Replying: after.Replying}
	f.Policy, _ = w.voices.Policy()
	w.due = min(int((f.Interval+headless.Period/2)/headless.Period), mostDue)
	w.meter.Add(f, after.Decision, after.Steered)
	w.timer.SleepUntil(int64(w.grid.Start()))
	w.frameBegins()
}

// shoot writes a picture of the window.
func (w *window) shoot(screen *ebiten.Image) {
	m := image.NewRGBA(screen.Bounds())
	screen.ReadPixels(m.Pix)
	file, err := os.Create(filepath.Join(w.o.shotDir, fmt.Sprintf("tick-%05d.png", w.tick)))
	if err == nil {
		err = errors.Join(png.Encode(file, m), file.Close())
	}
	if err != nil {
		w.err = err
	}
}
