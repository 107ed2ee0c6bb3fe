//go:build unix

package main

import (
	"bufio"
	"io"
	"net"
	"os"
	"path/filepath"
	"testing"

	"github.com/lull-npc/lull/runtime/assets"
)

func TestInterruptStopsAFetch(t *testing.T) {
	c := newConsole(t)
	c.withNpm()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer l.Close()
	t.Setenv(envListener, l.Addr().String())
	cmd, out := child(t, "1", "assets", "fetch", "llama-linux-x64")
	npm, err := l.Accept()
	must(t, err)
	defer npm.Close()
	_, err = bufio.NewReader(npm).ReadString('\n')
	must(t, err)
	must(t, cmd.Process.Signal(os.Interrupt))
	until(t, out, "stopping")
	_, _ = io.Copy(io.Discard, npm) // ends when npm is dead
	_, _ = io.Copy(io.Discard, out)
	_ = cmd.Wait()
	if code := cmd.ProcessState.ExitCode(); code != exitInterrupted {
		t.Errorf("exit code %d, want %d", code, exitInterrupted)
	}
	left, err := filepath.Glob(filepath.Join(os.Getenv(assets.EnvCache), "[^f]*"))
	must(t, err)
	if len(left) > 0 {
		t.Errorf("left behind: %q", left)
	}
}

func TestSecondInterruptQuitsAtOnce(t *testing.T) {
	cmd, out := child(t, "stubborn", "block")
	until(t, out, "ready")
	must(t, cmd.Process.Signal(os.Interrupt))
	until(t, out, "stopping")
	must(t, cmd.Process.Signal(os.Interrupt))
	_, _ = io.Copy(io.Discard, out)
	_ = cmd.Wait()
	if code := cmd.ProcessState.ExitCode(); code != exitInterrupted {
		t.Errorf("exit code %d, want %d", code, exitInterrupted)
	}
}
