package rag

import (
	"errors"
	"syscall"
)

// Errors of Windows while another program holds a file.
const (
	accessDenied     = syscall.Errno(5) // also a file that is about to vanish
	sharingViolation = syscall.Errno(32)
	lockViolation    = syscall.Errno(33)
)

func busy(err error) bool {
	return errors.Is(err, accessDenied) || errors.Is(err, sharingViolation) || errors.Is(err, lockViolation)
}

// syncDir has nothing to do: folders have no fsync on Windows, NTFS journals
// the rename.
func (system) syncDir(string) error { return nil }
