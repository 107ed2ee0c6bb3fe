package npc

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"github.com/lull-npc/lull/runtime/llm"
)

// DefaultHeadBytes is how much a HeadFolder keeps where nothing else is said:
// the heads of some forty personas on a small model (12 MB for 500 tokens of
// SmolLM2), few on a large one.
const DefaultHeadBytes = 512 << 20

// HeadFolder keeps the computed heads of prompts (the lore of a world and the
// sheet of a character) in files, so that the first reply after a start
// computes only what is new. It is an llm.HeadStore for EngineConfig.Heads. The
// files can be deleted at any time; when they exceed the limit, the ones not
// used for longest go. Safe for concurrent use.
type HeadFolder struct {
	dir  string
	most int64
	mu   sync.Mutex
	err  error
}

const headSuffix = ".head"

// NewHeadFolder makes the folder if need be. most bounds all files together, in
// bytes; 0 means DefaultHeadBytes.
func NewHeadFolder(dir string, most int64) (*HeadFolder, error) {
	if most == 0 {
		most = DefaultHeadBytes
	}
	if most < 0 {
		return nil, fmt.Errorf("npc: head folder of %d bytes: want more than 0", most)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("npc: head folder: %w", err)
	}
	return &HeadFolder{dir: dir, most: most}, nil
}

// file names a head by everything that its state depends on and that an
// llm.Info tells; the state itself is tied to model and library once more.
func (f *HeadFolder) file(model llm.Info, head []llm.Token) string {
	h := sha256.New()
	fmt.Fprintf(h, "%q %q %q %q %d %d %d %d\n", model.Name, model.Architecture, model.Device, model.Library,
		model.Layers, model.Vocab, model.Context, model.Bytes)
	for _, t := range head {
		h.Write(binary.LittleEndian.AppendUint32(nil, uint32(t)))
	}
	return filepath.Join(f.dir, fmt.Sprintf("%x%s", h.Sum(nil)[:16], headSuffix))
}

// Get implements llm.HeadStore.
func (f *HeadFolder) Get(model llm.Info, head []llm.Token) []byte {
	f.mu.Lock()
	defer f.mu.Unlock()
	name := f.file(model, head)
	file, err := os.Open(name)
	if err != nil {
		return nil // most often: it was never computed
	}
	defer file.Close()
	state, err := io.ReadAll(io.LimitReader(file, f.most))
	if err != nil {
		f.err = err
		return nil
	}
	if now, err := os.Stat(f.dir); err == nil {
		// A used file becomes as new as the folder, in the file system's own
		// time: no clock is read here.
		f.err = os.Chtimes(name, now.ModTime(), now.ModTime())
	}
	return state
}

// Put implements llm.HeadStore. What it can't write is not kept; Err tells.
func (f *HeadFolder) Put(model llm.Info, head []llm.Token, state []byte) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if int64(len(state)) > f.most {
		f.err = fmt.Errorf("npc: head folder: a head of %d bytes does not fit in %d", len(state), f.most)
		return
	}
	f.err = f.write(f.file(model, head), state)
	if f.err == nil {
		f.err = f.shrink()
	}
}

// Err is the last thing that went wrong, or nil. Heads are then computed.
func (f *HeadFolder) Err() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.err
}

// write replaces a file at once: a game that ends in the middle of it leaves
// the old one.
func (f *HeadFolder) write(name string, state []byte) error {
	file, err := os.CreateTemp(f.dir, "new-*"+headSuffix)
	if err != nil {
		return err
	}
	_, err = file.Write(state)
	if err = errors.Join(err, file.Close()); err == nil {
		err = os.Rename(file.Name(), name)
	}
	if err != nil {
		return errors.Join(err, os.Remove(file.Name()))
	}
	return nil
}

// shrink deletes the oldest files until the rest is within the limit.
func (f *HeadFolder) shrink() error {
	entries, err := os.ReadDir(f.dir)
	if err != nil {
		return err
	}
	var files []os.FileInfo
	sum := int64(0)
	for _, e := range entries {
		info, err := e.Info()
		if err != nil || !info.Mode().IsRegular() || filepath.Ext(e.Name()) != headSuffix {
			continue // not ours, or gone meanwhile
		}
		files = append(files, info)
		sum += info.Size()
	}
	slices.SortFunc(files, func(a, b os.FileInfo) int {
		return cmp.Or(a.ModTime().Compare(b.ModTime()), cmp.Compare(a.Name(), b.Name()))
	})
	for _, info := range files {
		if sum <= f.most {
			break
		}
		if err := os.Remove(filepath.Join(f.dir, info.Name())); err != nil {
			return err
		}
		sum -= info.Size()
	}
	return nil
}
