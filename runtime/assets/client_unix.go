//go:build unix && !linux

package assets

import (
	"os/exec"
	"syscall"
)

// groupTogether puts the child into a process group of its own, to be killed
// as one.
func groupTogether(cmd *exec.Cmd) (release func()) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	return func() {}
}

func started(*exec.Cmd) {}
