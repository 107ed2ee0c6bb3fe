//go:build !cgo && !linux

package llamacpp

// involuntarySwitches: this system does not say; the robust aggregation alone
// tells disturbed samples apart.
func involuntarySwitches() int64 { return 0 }
