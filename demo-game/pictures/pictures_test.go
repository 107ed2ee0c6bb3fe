package pictures

import (
	"flag"
	"image"
	"image/png"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the golden pictures anew")

// differing is the share of pixels that may differ.
const differing = 0.01

// script shows the title, the keys, the village and the menu.
const script = `
20 press down
22 press down
24 press down
26 press act
40 press back
44 press act
110 press menu
140 press back
150 say Who are you?
300 end
`

// static are the screens in which nothing moves, by tick.
var static = map[string]string{"00010": "title", "00035": "keys", "00070": "loading", "00130": "menu",
	"00290": "dialogue"}

func TestStaticScreens(t *testing.T) {
	program := build(t)
	blind := exec.Command(program)
	blind.Env = append(os.Environ(), "DISPLAY=")
	if out, err := blind.CombinedOutput(); err == nil || !strings.Contains(string(out), "xvfb-run") ||
		strings.Contains(string(out), "goroutine") {
		t.Errorf("without a display: %v, %s; want one line that says what to do", err, out)
	}
	for _, c := range []struct{ lang, size string }{{"en", "640x360"}, {"ko", "640x360"}} {
		t.Run(c.lang+" "+c.size, func(t *testing.T) {
			dir := shoot(t, program, c.lang, c.size)
			for tick, name := range static {
				compare(t, filepath.Join(dir, "tick-"+tick+".png"),
					filepath.Join("testdata", name+"-"+c.lang+".png"))
			}
		})
	}
}

// build makes the window's program, or skips where its headers or a display are
// missing.
func build(t *testing.T) string {
	t.Helper()
	if _, err := exec.LookPath("xvfb-run"); err != nil {
		t.Skip("no xvfb-run: internal/setup/setup.sh demo-test installs it")
	}
	program := filepath.Join(t.TempDir(), "lull-demo")
	cmd := exec.Command("go", "build", "-o", program, "../main")
	if out, err := cmd.CombinedOutput(); err != nil {
		if strings.Contains(string(out), "No such file or directory") || strings.Contains(string(out), "pkg-config") {
			t.Skipf("the window can't be built: internal/setup/setup.sh demo installs what is missing\n%.500s", out)
		}
		t.Fatalf("%v\n%s", err, out)
	}
	out, err := exec.Command(program, "--help").CombinedOutput()
	if err != nil && strings.Contains(string(out), "cgo") {
		t.Skip("built without cgo, so without a window: CGO_ENABLED=1 builds it")
	}
	return program
}

// shoot plays the script and returns the folder of the pictures.
func shoot(t *testing.T, program, lang, size string) string {
	t.Helper()
	dir := t.TempDir()
	file := filepath.Join(dir, "script.txt")
	if err := os.WriteFile(file, []byte(script), 0o644); err != nil {
		t.Fatal(err)
	}
	var ticks []string
	for tick := range static {
		ticks = append(ticks, strings.TrimLeft(tick, "0"))
	}
	cmd := exec.Command("xvfb-run", "-a", "-s", "-screen 0 1920x1080x24", program, "--scripted", "--script", file,
		"--lang", lang, "--size", size, "--dir", filepath.Join(dir, "saves"), "--screenshot", dir,
		"--shots", strings.Join(ticks, ","))
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return dir
}

func read(t *testing.T, file string) image.Image {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	m, err := png.Decode(f)
	if err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	return m
}

func compare(t *testing.T, got, want string) {
	t.Helper()
	if *update {
		raw, err := os.ReadFile(got)
		if err == nil {
			err = os.WriteFile(want, raw, 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	a, b := read(t, got), read(t, want)
	if a.Bounds() != b.Bounds() {
		t.Fatalf("%s is %v, want %v", want, a.Bounds(), b.Bounds())
	}
	n := 0
	for y := a.Bounds().Min.Y; y < a.Bounds().Max.Y; y++ {
		for x := a.Bounds().Min.X; x < a.Bounds().Max.X; x++ {
			if a.At(x, y) != b.At(x, y) {
				n++
			}
		}
	}
	if all := a.Bounds().Dx() * a.Bounds().Dy(); float64(n) > differing*float64(all) {
		t.Errorf("%s: %d of %d pixels differ: look at it, then -update", want, n, all)
	}
}
