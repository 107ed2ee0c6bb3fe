package llamacpp

import "golang.org/x/sys/windows"

// openLibrary returns a handle of a library of this process.
func openLibrary(path string) (uintptr, error) {
	h, err := windows.LoadLibrary(path)
	return uintptr(h), err
}

func findSymbol(lib uintptr, name string) (uintptr, error) {
	return windows.GetProcAddress(windows.Handle(lib), name)
}
