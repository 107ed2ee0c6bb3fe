package assets

import (
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// diesWithParent: the kernel kills a client whose fetch was killed.
const diesWithParent = true

// dropRoot makes file access on this thread that of nobody, if we are root.
func dropRoot() (restore func(), ok bool) {
	if os.Geteuid() != 0 {
		return func() {}, true
	}
	const nobody = 65534
	runtime.LockOSThread()
	if err := unix.Setfsuid(nobody); err != nil {
		runtime.UnlockOSThread()
		return nil, false
	}
	return func() {
		_ = unix.Setfsuid(0)
		runtime.UnlockOSThread()
	}, true
}
