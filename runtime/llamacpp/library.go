package llamacpp

import (
	"debug/elf"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"

	"github.com/hybridgroup/yzma/pkg/llama"
)

// Version is the llama.cpp release that this package is checked against.
const Version = "v0.5.0"

// Expected conditions of loading. Each is wrapped with the file and the cause.
var (
	ErrLibraryMissing = errors.New("llama.cpp library not found")
	ErrLibraryVersion = errors.New("llama.cpp library does not fit")
	ErrModelFile      = errors.New("model file cannot be used")
	ErrDevice         = errors.New("no such device")
)

// library is the one llama.cpp of this process. It is never unloaded: a Go
// program cannot know that no thread of it runs any more.
var library struct {
	sync.Mutex
	dir  string
	err  error
	done bool
}

// Load makes llama.cpp's libraries in dir usable by this process, checks that
// their structs are those this package was built for, and finds the devices.
// A process has one llama.cpp: a second call with the same folder does nothing,
// with another folder it is an error. Safe for concurrent use.
func Load(dir string) error { return LoadNamed(dir, "--llama-lib") }

// LoadNamed is Load for a program whose user sets the folder with another setting
// than that flag, as an error then says.
func LoadNamed(dir, setting string) error {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return fmt.Errorf("llamacpp: %q: %w", dir, err)
	}
	library.Lock()
	defer library.Unlock()
	if library.done {
		if library.dir != abs {
			return fmt.Errorf("llamacpp: %s is in use, a process has one llama.cpp; %s was asked for", library.dir, abs)
		}
		return library.err
	}
	if err := checkFiles(abs, setting); err != nil {
		return err // nothing was loaded: another folder may be tried
	}
	library.done, library.dir = true, abs
	library.err = load(abs)
	return library.err
}

// checkFiles says what is missing before anything is loaded.
func checkFiles(dir, setting string) error {
	for _, name := range []string{"ggml-base", "ggml", "llama"} {
		file := libraryFile(dir, name)
		info, err := os.Stat(file)
		switch {
		case errors.Is(err, os.ErrNotExist):
			return fmt.Errorf("llamacpp: %s: %w; run 'lull assets fetch', or name its folder with %s",
				file, ErrLibraryMissing, setting)
		case err != nil:
			return fmt.Errorf("llamacpp: %w: %w", ErrLibraryMissing, err)
		case info.Size() < 4096:
			return fmt.Errorf("llamacpp: %s has %d bytes, it is cut short: %w; run 'lull assets fetch --force'",
				file, info.Size(), ErrLibraryMissing)
		}
	}
	return checkWhole(dir)
}

// checkWhole looks whether each ELF library in the folder is as long as its
// headers say: mapping one that was cut short ends the process at first touch.
func checkWhole(dir string) error {
	files, err := filepath.Glob(filepath.Join(dir, "*.so"))
	if err != nil {
		return fmt.Errorf("llamacpp: %s: %w", dir, err)
	}
	for _, name := range files {
		f, err := elf.Open(name)
		if err != nil {
			return fmt.Errorf("llamacpp: %s: %w: %w", name, ErrLibraryVersion, err)
		}
		info, err := os.Stat(name)
		size := uint64(0)
		if err == nil {
			size = uint64(info.Size())
		}
		for _, p := range f.Progs {
			if p.Type == elf.PT_LOAD && p.Off+p.Filesz > size {
				f.Close()
				return fmt.Errorf("llamacpp: %s has %d bytes, it is cut short: %w", name, size, ErrLibraryMissing)
			}
		}
		f.Close()
	}
	return nil
}

func libraryFile(dir, name string) string {
	switch runtime.GOOS {
	case "windows":
		return filepath.Join(dir, name+".dll")
	case "darwin":
		return filepath.Join(dir, "lib"+name+".dylib")
	}
	return filepath.Join(dir, "lib"+name+".so")
}

func load(dir string) (err error) {
	defer func() {
		if p := recover(); p != nil { // purego and ffi panic on a missing symbol
			err = fmt.Errorf("llamacpp: %s: %w: %v", dir, ErrLibraryVersion, p)
		}
	}()
	if err := llama.Load(dir); err != nil {
		return fmt.Errorf("llamacpp: %s: %w: %w; this build wants llama.cpp %s", dir, ErrLibraryVersion, err, Version)
	}
	if err := errors.Join(loadGGML(dir), findHot(dir)); err != nil {
		return fmt.Errorf("llamacpp: %s: %w: %w; this build wants llama.cpp %s", dir, ErrLibraryVersion, err, Version)
	}
	if err := checkABI(); err != nil {
		return fmt.Errorf("llamacpp: %s: %w: %w; this build wants llama.cpp %s", dir, ErrLibraryVersion, err, Version)
	}
	llama.LogSet(logCallback())
	llama.BackendInit()
	if err := llama.GGMLBackendLoadAllFromPath(dir); err != nil {
		return fmt.Errorf("llamacpp: %s: %w", dir, err)
	}
	if len(devices()) == 0 {
		return fmt.Errorf("llamacpp: %s: %w: no ggml backend for this processor beside the library (libggml-cpu-*)",
			dir, ErrLibraryMissing)
	}
	return nil
}

// loaded returns an error unless Load succeeded.
func loaded() error {
	library.Lock()
	defer library.Unlock()
	if !library.done {
		return fmt.Errorf("llamacpp: %w: Load was not called", ErrLibraryMissing)
	}
	return library.err
}

// lastLog makes one line of what llama.cpp complained about, newest last.
func lastLog() string {
	var lines []string
	for line := range strings.Lines(takeLog()) {
		if line = strings.TrimSpace(line); line != "" {
			lines = append(lines, line)
		}
	}
	if len(lines) > 3 { // the last ones name the cause, earlier ones are context
		lines = lines[len(lines)-3:]
	}
	return strings.Join(lines, "; ")
}
