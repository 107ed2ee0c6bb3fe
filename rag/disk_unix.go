//go:build !windows

package rag

import (
	"errors"
	"os"
)

// busy is never so here: a file that is open elsewhere can be renamed over.
func busy(error) bool { return false }

// syncDir makes a rename survive a power cut.
func (system) syncDir(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}
