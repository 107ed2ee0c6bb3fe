//go:build !cgo || !linux || android

package llamacpp

// trim does nothing: other allocators give back by themselves.
func trim() {}
