package llamacpp

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/lull-npc/lull/internal/testassets"
	"github.com/lull-npc/lull/runtime/llm"
)

// Every bad file gives an error that names it and wraps ErrModelFile, and the
// next load works.
func TestBadModelFiles(t *testing.T) {
	m := open(t, nil)
	_, model := testassets.Locate(t)
	good, err := os.ReadFile(model)
	if err != nil {
		t.Fatal(err)
	}
	arch := bytes.Replace(good[:1<<20], []byte("\x05\x00\x00\x00\x00\x00\x00\x00llama"),
		[]byte("\x05\x00\x00\x00\x00\x00\x00\x00lluma"), 1)
	dir := t.TempDir()
	for _, c := range []struct {
		name, says string
		content    []byte
	}{
		{"empty.gguf", "empty", nil},
		{"text.gguf", "begins with", []byte("this is not a model at all, it is text")},
		{"picture.gguf", "begins with", []byte("\x89PNG\r\n\x1a\n")},
		{"magic-only.gguf", "magic-only", []byte("GGUF")},
		{"header-cut.gguf", "header-cut", good[:100]},
		{"tensors-cut.gguf", "tensors-cut", good[:len(good)/2]},
		{"one-byte-short.gguf", "one-byte-short", good[:len(good)-1]},
		{"architecture.gguf", "lluma", append(arch, good[1<<20:]...)},
		{"version.gguf", "version", append(binary.LittleEndian.AppendUint32([]byte("GGUF"), 999), good[8:4096]...)},
		{"no-layers.gguf", "block_count", patched(good, "llama.block_count", []byte{0, 0, 0, 0})},
		{"many-layers.gguf", "block_count", patched(good, "llama.block_count", []byte{0xff, 0xff, 0xff, 0xff})},
		{"nan-epsilon.gguf", "epsilon", patched(good, "llama.attention.layer_norm_rms_epsilon", []byte{0xff, 0xff,
			0xff, 0x7f})},
		{"huge-counts.gguf", "huge-counts", append([]byte("GGUF\x03\x00\x00\x00"), bytes.Repeat([]byte{0xff}, 64)...)},
	} {
		path := filepath.Join(dir, c.name)
		if err := os.WriteFile(path, c.content, 0o600); err != nil {
			t.Fatal(err)
		}
		bad, err := Open(context.Background(), path, m.opt)
		if err == nil {
			bad.Close()
			t.Errorf("%s: loaded", c.name)
			continue
		}
		if !errors.Is(err, ErrModelFile) || !strings.Contains(err.Error(), c.says) || !strings.Contains(err.Error(),
			c.name) {
			t.Errorf("%s: %v", c.name, err)
		}
		os.Remove(path)
	}
	for _, path := range []string{filepath.Join(dir, "missing.gguf"), dir} {
		if _, err := Open(context.Background(), path, m.opt); !errors.Is(err, ErrModelFile) {
			t.Errorf("%s: %v", path, err)
		}
	}
	again, err := Open(context.Background(), model, m.opt)
	if err != nil {
		t.Fatalf("a good file after bad ones: %v", err)
	}
	greedy(t, again, tokens(t, again, "Hello", false), 2)
	again.Close()
}

// patched replaces the 4 bytes of a value in the metadata.
func patched(good []byte, key string, value []byte) []byte {
	out := bytes.Clone(good[:1<<20])
	at := bytes.Index(out, []byte(key)) + len(key) + 4
	copy(out[at:], value)
	return out
}

func FuzzMetadata(f *testing.F) {
	f.Add([]byte("GGUF\x03\x00\x00\x00"))
	f.Add(append([]byte("GGUF\x03\x00\x00\x00"), bytes.Repeat([]byte{1, 0, 0, 0, 0, 0, 0, 0}, 12)...))
	f.Fuzz(func(t *testing.T, data []byte) { checkMetadata(bytes.NewReader(data)) })
}

// A renamed file is a model all the same: the name says nothing.
func TestRenamedModel(t *testing.T) {
	m := open(t, nil)
	_, model := testassets.Locate(t)
	link := filepath.Join(t.TempDir(), "holiday photo.jpg")
	if err := os.Symlink(model, link); err != nil {
		t.Skipf("no symbolic links here: %v", err)
	}
	r, err := Open(context.Background(), link, m.opt)
	if err != nil {
		t.Fatal(err)
	}
	r.Close()
}

func TestOptionsAreChecked(t *testing.T) {
	m := open(t, nil)
	_, model := testassets.Locate(t)
	for name, change := range map[string]func(*Options){
		"context":   func(o *Options) { o.Context = -1 },
		"huge":      func(o *Options) { o.Context = 1 << 30 },
		"sequences": func(o *Options) { o.MaxSequences = 1 << 20 },
		"batch":     func(o *Options) { o.MaxBatch = -3 },
		"threads":   func(o *Options) { o.Threads = 1000 },
		"device":    func(o *Options) { o.Device = "Quantum0" },
		"clock":     func(o *Options) { o.Clock = nil },
	} {
		opt := m.opt
		change(&opt)
		if bad, err := Open(context.Background(), model, opt); err == nil {
			bad.Close()
			t.Errorf("%s: accepted", name)
		}
	}
}

func TestCancelledLoadLeavesNothing(t *testing.T) {
	m := open(t, nil)
	_, model := testassets.Locate(t)
	why := errors.New("the player left")
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(why)
	if bad, err := Open(ctx, model, m.opt); err == nil {
		bad.Close()
		t.Fatal("loaded although it was cancelled")
	} else if !errors.Is(err, why) {
		t.Errorf("error %v, want the cause in it", err)
	}
	again, err := Open(context.Background(), model, m.opt)
	if err != nil {
		t.Fatal(err)
	}
	again.Close()
}

var scenarios = map[string]func() int{
	"load": func() int {
		if err := Load(os.Getenv("LULL_TEST_DIR")); err != nil {
			fmt.Println(err)
			return 3
		}
		return 0
	},
	"second-try": func() int { // a folder without a library spoils nothing
		if err := Load(os.Getenv("LULL_TEST_EMPTY")); !errors.Is(err, ErrLibraryMissing) {
			fmt.Println("empty folder:", err)
			return 1
		}
		if err := Load(os.Getenv("LULL_TEST_DIR")); err != nil {
			fmt.Println("good folder:", err)
			return 1
		}
		if err := Load(os.Getenv("LULL_TEST_EMPTY")); err == nil {
			fmt.Println("another folder was accepted")
			return 1
		}
		return 0
	},
	"threads": startThreadsWhileCalling,
}

func TestLibraries(t *testing.T) {
	library, _ := testassets.Locate(t)
	empty := t.TempDir()
	if out, err := runScenario(t, "load", "LULL_TEST_DIR="+empty); err == nil || !strings.Contains(out, "not found") {
		t.Errorf("empty folder: %v\n%s", err, out)
	}
	for name, spoil := range map[string]func(dir string) error{
		"cut short": func(dir string) error {
			return os.WriteFile(libraryFile(dir, "llama"), make([]byte, 100),
				0o600)
		},
		"not a library": func(dir string) error {
			return os.WriteFile(libraryFile(dir, "llama"), bytes.Repeat([]byte("text "), 2000), 0o600)
		},
		"another library": func(dir string) error {
			return linkFile(libraryFile(library, "ggml-base"),
				libraryFile(dir, "llama"))
		},
	} {
		dir := t.TempDir()
		copyLibrary(t, library, dir, "llama")
		if err := spoil(dir); err != nil {
			t.Fatal(err)
		}
		out, err := runScenario(t, "load", "LULL_TEST_DIR="+dir)
		if err == nil || !strings.Contains(out, "llamacpp: ") || strings.Contains(out, "goroutine") {
			t.Errorf("%s: %v\n%s", name, err, out)
		}
	}
	if out, err := runScenario(t, "second-try", "LULL_TEST_DIR="+library, "LULL_TEST_EMPTY="+empty); err != nil {
		t.Errorf("second try: %v\n%s", err, out)
	}
}

// copyLibrary links everything of a library folder but one into another.
func copyLibrary(t *testing.T, from, to, without string) {
	t.Helper()
	files, err := os.ReadDir(from)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if target := filepath.Join(to, f.Name()); target != libraryFile(to, without) {
			if err := linkFile(filepath.Join(from, f.Name()), target); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func linkFile(from, to string) error {
	real, err := filepath.EvalSymlinks(from)
	if err != nil {
		return err
	}
	return os.Symlink(real, to)
}

// The stress that kills a process with purego below v0.11.3: Go starts OS
// threads while a call into the library runs.
func TestThreadsStartedWhileCalling(t *testing.T) {
	library, model := testassets.Locate(t)
	runs := 2
	if os.Getenv("LULL_SOAK") != "" {
		runs = 50
	}
	for i := range runs {
		if out, err := runScenario(t, "threads", "LULL_TEST_DIR="+library, "LULL_TEST_MODEL="+model); err != nil {
			t.Fatalf("run %d of %d: %v\n%s", i+1, runs, err, out)
		}
	}
}

func startThreadsWhileCalling() int {
	if err := Load(os.Getenv("LULL_TEST_DIR")); err != nil {
		fmt.Println(err)
		return 1
	}
	m, err := Open(context.Background(), os.Getenv("LULL_TEST_MODEL"),
		Options{Clock: llm.NewClock(), Admit: admit, Context: 256, MaxSequences: 1, MaxBatch: 64,
			Threads: 1})
	if err != nil {
		fmt.Println(err)
		return 1
	}
	done := make(chan error, 1)
	go func() {
		s, err := m.NewSequence()
		if err == nil {
			_, err = continueGreedy(m, s, []llm.Token{1, 2, 3, 4}, 40)
		}
		done <- err
	}()
	alive := make(chan struct{}, 500) // on a busy machine threads end later than they start; Go allows 10,000
	for {
		select {
		case err := <-done:
			if err != nil {
				fmt.Println(err)
				return 1
			}
			m.Close()
			return 0
		case <-time.After(200 * time.Microsecond):
			for range min(4, cap(alive)-len(alive)) {
				alive <- struct{}{}
				go func() { defer func() { <-alive }(); threadOfItsOwn() }()
			}
		}
	}
}

// TestSettingInErrors: what names a file is called as the program calls it.
func TestSettingInErrors(t *testing.T) {
	_, noModel := checkModelFile(filepath.Join(t.TempDir(), "none"), "def.model")
	for want, err := range map[string]error{
		"or name its folder with def.library": checkFiles(t.TempDir(), "def.library"),
		"name another with def.model":         noModel,
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: want %q", err, want)
		}
	}
}
