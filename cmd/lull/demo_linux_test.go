package main

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/lull-npc/lull/internal/testassets"
)

// pty starts this test binary as lull in a terminal of its own that nobody
// draws. Reading ends when the program does.
func pty(t *testing.T, args ...string) (*exec.Cmd, *os.File) {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Skip("no pseudo-terminals here:", err)
	}
	t.Cleanup(func() { master.Close() })
	fd := int(master.Fd())
	must(t, unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0))
	n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	must(t, err)
	must(t, unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: 30, Col: 100}))
	slave, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|syscall.O_NOCTTY, 0)
	must(t, err)
	defer slave.Close()
	self, err := os.Executable()
	must(t, err)
	cmd := exec.Command(self, args...)
	cmd.Env = append(os.Environ(), envMain+"=1", "TERM=xterm-256color", "CI=")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = slave, slave, slave
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	must(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	return cmd, master
}

// drain reads until the program ends; the kernel then says EIO.
func drain(r *bufio.Reader) string {
	var b bytes.Buffer
	_, _ = b.ReadFrom(r)
	return b.String()
}

// Bubble Tea's package must not ask the terminal anything in other commands.
func TestNoCommandAsksTheTerminal(t *testing.T) {
	cmd, master := pty(t, "--version")
	text := drain(bufio.NewReader(master))
	_ = cmd.Wait()
	if !strings.HasPrefix(text, "lull ") || strings.Contains(text, "\x1b") {
		t.Errorf("lull --version writes %q, want its version alone", text)
	}
}

// However the screen ends, the terminal is as before.
func TestDemoGivesTheTerminalBack(t *testing.T) {
	library, model := testassets.Locate(t)
	const enter, leave = "\x1b[?1049h", "\x1b[?1049l"
	for _, c := range []struct {
		name string
		end  func(*os.Process, *os.File) error
		code int
	}{
		{"q", types("q"), exitDone},
		{"ctrl-c", types("\x03"), exitInterrupted},
		{"SIGTERM", func(p *os.Process, _ *os.File) error { return p.Signal(syscall.SIGTERM) }, exitInterrupted},
	} {
		t.Run(c.name, func(t *testing.T) {
			cmd, master := pty(t, "demo", "--load-ms", "1", "--model", model, "--llama-lib", library)
			before, err := unix.IoctlGetTermios(int(master.Fd()), unix.TCGETS)
			must(t, err)
			r := bufio.NewReader(master)
			head := readUntil(t, r, "q quit") // the last line of the screen
			must(t, c.end(cmd.Process, master))
			tail := drain(r)
			_ = cmd.Wait()
			if code := cmd.ProcessState.ExitCode(); code != c.code {
				t.Errorf("exit code %d, want %d", code, c.code)
			}
			after, err := unix.IoctlGetTermios(int(master.Fd()), unix.TCGETS)
			must(t, err)
			if *before != *after {
				t.Errorf("the terminal was %+v and is %+v", before, after)
			}
			if in, out := strings.Contains(head, enter), strings.Contains(tail, leave); !in || !out {
				t.Errorf("alternate screen entered %t, left %t", in, out)
			}
			if _, table, _ := strings.Cut(tail, leave); !strings.Contains(table, "llama.cpp default") {
				t.Errorf("no table remains: %q", table)
			}
		})
	}
}

func types(keys string) func(*os.Process, *os.File) error {
	return func(_ *os.Process, tty *os.File) error {
		_, err := tty.WriteString(keys)
		return err
	}
}

func readUntil(t *testing.T, r *bufio.Reader, text string) string {
	t.Helper()
	var b strings.Builder
	for !strings.HasSuffix(b.String(), text) {
		c, err := r.ReadByte()
		if err != nil {
			t.Fatalf("the output ended before %q: %q", text, b.String())
		}
		b.WriteByte(c)
	}
	return b.String()
}
