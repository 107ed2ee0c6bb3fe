package llamacpp

import "runtime"

// threadOfItsOwn makes Go start an OS thread that ends with the goroutine.
func threadOfItsOwn() {
	runtime.LockOSThread()
	runtime.Gosched()
}
