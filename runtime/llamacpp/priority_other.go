//go:build !linux && !windows && !darwin

package llamacpp

import "errors"

// LowerThread lowers the priority of the calling OS thread, where this package
// knows how.
func LowerThread() error { return errors.ErrUnsupported }
