package pictures

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// A display that goes away ends the game with a line, at once: neither a crash
// nor a loop.
func TestDisplayGone(t *testing.T) {
	program := build(t)
	dir := t.TempDir()
	script := filepath.Join(dir, "script.txt")
	if err := os.WriteFile(script, []byte("20 press act\n200000 end\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	display, server := startDisplay(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var said strings.Builder
	game := exec.CommandContext(ctx, program, "--scripted", "--script", script, "--dir", filepath.Join(dir, "saves"),
		"--size", "640x360", "--screenshot", dir, "--shots", "40")
	game.Env = append(os.Environ(), "DISPLAY=:"+display, "XAUTHORITY=")
	game.Stderr = &said
	if err := game.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- game.Wait() }()
	picture := time.NewTicker(20 * time.Millisecond) // the game plays once it is there
	defer picture.Stop()
	for gone := false; ; {
		select {
		case <-picture.C:
			if _, err := os.Stat(filepath.Join(dir, "tick-00040.png")); err == nil && !gone {
				gone = true
				if err := server.Process.Kill(); err != nil {
					t.Fatal(err)
				}
			}
			continue
		case err := <-ended:
			var exit *exec.ExitError
			if !errors.As(err, &exit) || exit.ExitCode() != 1 || ctx.Err() != nil ||
				!strings.Contains(said.String(), "the display is gone") {
				t.Errorf("gone %t: the game ended with %v and said %q", gone, err, &said)
			}
		}
		return
	}
}

// startDisplay starts a display server of this test's own.
func startDisplay(t *testing.T) (display string, server *exec.Cmd) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	server = exec.Command("Xvfb", "-displayfd", "3", "-screen", "0", "640x360x24", "-nolisten", "tcp")
	server.ExtraFiles = []*os.File{w}
	if err := errors.Join(server.Start(), w.Close()); err != nil {
		t.Skip("no Xvfb: internal/setup/setup.sh demo-test installs it: ", err)
	}
	t.Cleanup(func() {
		_ = server.Process.Kill()
		_ = server.Wait() // it was killed
	})
	line, err := bufio.NewReader(r).ReadString('\n')
	if _, none := fmt.Sscan(line, &display); none != nil {
		t.Fatalf("Xvfb names no display: %q, %v", line, err)
	}
	return display, server
}
