package load

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// cpuKnown says whether cpu means something here.
const cpuKnown = true

// ownSession makes a process the first of a session, so that it and the display
// that it starts are known together.
func ownSession() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setsid: true, Pdeathsig: unix.SIGKILL}
}

// kill ends all of the session's processes.
func (w *window) kill() { _ = unix.Kill(-w.cmd.Process.Pid, unix.SIGKILL) } // gone is as good

// cpu is the CPU time that they used. /proc counts in hundredths of a second.
func (w *window) cpu() (used time.Duration) {
	const session, user, system = 3, 11, 12 // after the name: fields 6, 14, 15
	files, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return 0
	}
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			continue // it ended
		}
		text := string(raw)
		fields := strings.Fields(text[strings.LastIndexByte(text, ')')+1:])
		if len(fields) <= system || fields[session] != strconv.Itoa(w.cmd.Process.Pid) {
			continue
		}
		for _, f := range []string{fields[user], fields[system]} {
			if n, err := strconv.ParseInt(f, 10, 64); err == nil {
				used += time.Duration(n) * time.Second / 100
			}
		}
	}
	return used
}
