//go:build !linux

package load

import (
	"syscall"
	"time"
)

// cpuKnown says whether cpu means something here.
const cpuKnown = false

func ownSession() *syscall.SysProcAttr { return nil }

func (w *window) kill() { _ = w.cmd.Process.Kill() } // gone is as good

// cpu is not known here: a limit of tokens/s is then too high.
func (w *window) cpu() time.Duration { return 0 }
