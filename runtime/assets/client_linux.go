package assets

import (
	"os/exec"
	"syscall"
)

// groupTogether puts the child into a process group of its own, to be killed
// as one, and asks the kernel to kill the child when this thread dies.
func groupTogether(cmd *exec.Cmd) (release func()) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	return func() {}
}

func started(*exec.Cmd) {}
