package assets

import (
	"os/exec"
	"sync"
	"syscall"
	"unsafe"

	"golang.org/x/sys/windows"
)

// jobs maps a command to its job object between Start and release.
var jobs sync.Map // *exec.Cmd → windows.Handle

// groupTogether makes a job object that kills its processes when its last
// handle closes: on cancel, on release, and when this process dies.
func groupTogether(cmd *exec.Cmd) (release func()) {
	cmd.SysProcAttr = &syscall.SysProcAttr{CreationFlags: windows.CREATE_NEW_PROCESS_GROUP}
	job, err := windows.CreateJobObject(nil, nil)
	if err != nil {
		return func() {} // without a job only the client's own process is killed
	}
	var limit windows.JOBOBJECT_EXTENDED_LIMIT_INFORMATION
	limit.BasicLimitInformation.LimitFlags = windows.JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE
	_, err = windows.SetInformationJobObject(job, windows.JobObjectExtendedLimitInformation,
		uintptr(unsafe.Pointer(&limit)), uint32(unsafe.Sizeof(limit)))
	if err != nil {
		windows.CloseHandle(job)
		return func() {}
	}
	jobs.Store(cmd, job)
	cmd.Cancel = func() error {
		if err := windows.TerminateJobObject(job, 1); err != nil {
			return cmd.Process.Kill()
		}
		return cmd.Process.Kill()
	}
	return func() {
		jobs.Delete(cmd)
		windows.CloseHandle(job)
	}
}

// started puts the running child into its job. What it spawned in the instants
// before is missed; npm and pip spawn nothing that early.
func started(cmd *exec.Cmd) {
	job, ok := jobs.Load(cmd)
	if !ok {
		return
	}
	const access = windows.PROCESS_SET_QUOTA | windows.PROCESS_TERMINATE
	h, err := windows.OpenProcess(access, false, uint32(cmd.Process.Pid))
	if err != nil {
		return
	}
	defer windows.CloseHandle(h)
	_ = windows.AssignProcessToJobObject(job.(windows.Handle), h)
}
