//go:build unix

package assets

import (
	"errors"
	"syscall"

	"golang.org/x/sys/unix"
)

// freeBytes is what an ordinary user may still write on the folder's disk.
func freeBytes(folder string) (int64, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(folder, &st); err != nil {
		return 0, err
	}
	return int64(st.Bavail) * int64(st.Bsize), nil
}

func isDiskFull(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}
