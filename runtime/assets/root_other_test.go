//go:build !linux

package assets

import "os"

// diesWithParent: a Windows job does too, a BSD process group does not.
const diesWithParent = false

func dropRoot() (restore func(), ok bool) { return func() {}, os.Geteuid() > 0 }
