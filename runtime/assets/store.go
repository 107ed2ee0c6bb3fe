package assets

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/gofrs/flock"
)

// Environment variables that this package reads.
const (
	EnvCache    = "LULL_CACHE"
	EnvModel    = "LULL_MODEL"
	EnvLlamaLib = "LULL_LLAMA_LIB"
)

// lockRetry is how often a waiting fetch looks whether the lock is free: short
// enough that nobody notices, long enough to cost nothing over minutes.
const lockRetry = 150 * time.Millisecond

// Options say where to look and what may be done. The zero value is right for a
// program that wants the defaults.
type Options struct {
	Model    string // a GGUF file, or the name of a model in the catalogue
	LlamaLib string // a folder, or the name of a library in the catalogue

	CacheDir      string // empty: LULL_CACHE, else "lull" in the user's cache folder
	Platform      string // empty: this program's GOOS/GOARCH
	Offline       bool   // never start a package client
	AllowUnpinned bool   // accept assets whose hashes the catalogue does not know
	Catalog       *Catalog
	Progress      Progress
	Derive        Derivation
	Getenv        func(string) string // nil: os.Getenv

	// Words are what the program's user calls the settings, for messages and
	// Found.Via. One that is missing is called as a flag: --model.
	Words map[Setting]string
}

// Setting is what a program's user sets to say which file or folder to use. Its
// value is its name, and that of its flag where there is a command line.
type Setting string

// The settings.
const (
	SettingModel    Setting = "model"
	SettingLlamaLib Setting = "llama-lib"
	SettingEmbedder Setting = "embedder"
	SettingDraft    Setting = "draft"
)

// Word is what the program's user calls a setting.
func (o Options) Word(s Setting) string {
	if word := o.Words[s]; word != "" {
		return word
	}
	return "--" + string(s)
}

// State is what the cache holds of an asset.
type State string

// States. Stale is whole but made from other pins than the catalogue's.
const (
	Absent  State = "absent"
	Present State = "present"
	Damaged State = "damaged"
	Stale   State = "stale"
)

// Store is the cache. Safe for concurrent use, also by several processes, as
// long as each call's Progress is not shared.
type Store struct {
	opts Options
	root string

	freeBytes func(folder string) (int64, error)
}

// Open finds the cache folder. It creates nothing, so that looking never writes.
func Open(o Options) (*Store, error) {
	if o.Getenv == nil {
		o.Getenv = os.Getenv
	}
	if o.Platform == "" {
		o.Platform = runtime.GOOS + "/" + runtime.GOARCH
	}
	if o.Progress == nil {
		o.Progress = silent{}
	}
	if o.Catalog == nil {
		c, err := DefaultCatalog()
		if err != nil {
			return nil, fail("open", "catalogue", err, "this is a fault of the program: please report it")
		}
		o.Catalog = c
	}
	root := o.CacheDir
	if root == "" {
		root = o.Getenv(EnvCache)
	}
	if root == "" {
		base, err := os.UserCacheDir()
		if err != nil {
			return nil, fail("open", "cache", err, "set LULL_CACHE to a folder for downloaded files")
		}
		root = filepath.Join(base, "lull")
	}
	root, err := filepath.Abs(root)
	if err != nil {
		return nil, fail("open", "cache", err, "set LULL_CACHE to an absolute path")
	}
	return &Store{opts: o, root: root, freeBytes: freeBytes}, nil
}

// Root is the cache folder; it may not exist yet.
func (s *Store) Root() string { return s.root }

// Platform is the GOOS/GOARCH that defaults are chosen for.
func (s *Store) Platform() string { return s.opts.Platform }

// Catalog is what the store can hold.
func (s *Store) Catalog() *Catalog { return s.opts.Catalog }

// Status is one line of List.
type Status struct {
	Asset  Asset
	State  State
	Detail string // why it is damaged or stale
	Folder string // where it is, or would be
	Path   string // what its user opens
}

// List looks at every asset of the catalogue, cheaply.
func (s *Store) List() []Status {
	var all []Status
	for _, a := range s.opts.Catalog.Assets {
		all = append(all, s.status(a))
	}
	return all
}

func (s *Store) status(a Asset) Status {
	folder := filepath.Join(s.root, a.folder())
	stamp, state, err := look(folder, a)
	if err == nil && state == Present && a.Derived != nil {
		err = s.fresh(a, stamp, "")
		if err != nil {
			state = Stale
		}
	}
	st := Status{Asset: a, State: state, Folder: folder, Path: folder}
	if err != nil {
		st.Detail = err.Error()
	}
	if a.Path != "" {
		st.Path = filepath.Join(folder, filepath.FromSlash(a.Path))
	}
	return st
}

// Status looks at one asset, cheaply.
func (s *Store) Status(name string) (Status, error) {
	a, err := s.asset("look at", name)
	if err != nil {
		return Status{}, err
	}
	return s.status(a), nil
}

func (s *Store) asset(op, name string) (Asset, error) {
	a, ok := s.opts.Catalog.Asset(name)
	if !ok {
		return a, fail(op, name, ErrUnknownAsset,
			"known names: "+strings.Join(s.opts.Catalog.Names("", s.opts.Platform), ", "))
	}
	return a, nil
}

// Defaults names the library of this platform, the default model, and the
// model derived from it.
func (s *Store) Defaults() ([]string, error) {
	lib, ok := s.opts.Catalog.defaultOf(KindLibrary, s.opts.Platform)
	if !ok {
		return nil, s.unsupported("fetch")
	}
	names := []string{lib.Name}
	if model, ok := s.opts.Catalog.defaultOf(KindModel, s.opts.Platform); ok {
		names = append(names, model.Name)
		if derived, ok := s.opts.Catalog.derivedFrom(model.Name); ok {
			names = append(names, derived.Name)
		}
	}
	return names, nil
}

func (s *Store) unsupported(op string) error {
	return fail(op, s.opts.Platform, ErrUnsupportedPlatform,
		"build "+s.libraryRelease()+" as shared libraries and pass "+s.opts.Word(SettingLlamaLib)+" DIR or set "+
			EnvLlamaLib)
}

// libraryRelease is the release of llama.cpp that the catalogue's libraries hold.
func (s *Store) libraryRelease() string {
	for _, a := range s.opts.Catalog.Assets {
		if a.Kind == KindLibrary && a.Holds != "" {
			return a.Holds
		}
	}
	return "llama.cpp"
}

// locked runs do while no other process works in the cache, and removes what a
// killed one left behind.
func (s *Store) locked(ctx context.Context, op string, do func(work string) error) error {
	if err := os.MkdirAll(s.root, 0o755); err != nil {
		return fail(op, s.root, err, "set "+EnvCache+" to a folder that can be made")
	}
	lock := flock.New(filepath.Join(s.root, "fetch.lock"))
	got, err := lock.TryLock()
	if err == nil && !got {
		s.opts.Progress.Note("another process is filling " + s.root + ": waiting for it")
		got, err = lock.TryLockContext(ctx, lockRetry)
	}
	if err != nil || !got {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return fail(op, s.root, fmt.Errorf("lock of the cache: %w", err), "")
	}
	defer lock.Unlock()
	// A client that outlived a killed fetch may still write there for a moment,
	// so what cannot be removed now is left to the next fetch.
	tmp := filepath.Join(s.root, "tmp")
	if err := os.RemoveAll(tmp); err != nil {
		s.opts.Progress.Note("left for the next fetch to remove: " + err.Error())
	}
	if err := os.MkdirAll(tmp, 0o755); err != nil {
		return fail(op, tmp, err, "set "+EnvCache+" to a folder that you may write to")
	}
	work, err := os.MkdirTemp(tmp, "work-")
	if err != nil {
		return fail(op, tmp, err, "set "+EnvCache+" to a folder that you may write to")
	}
	err = do(work)
	if cleanup := os.RemoveAll(tmp); err == nil && cleanup != nil {
		s.opts.Progress.Note("left for the next fetch to remove: " + cleanup.Error())
	}
	return err
}

// publish makes a finished folder visible under its final name. What stood
// there before goes into the working folder, which is removed afterwards.
func (s *Store) publish(work, out string, a Asset) error {
	if err := syncTree(out); err != nil {
		return err
	}
	final := filepath.Join(s.root, a.folder())
	old := filepath.Join(work, "old")
	err := os.Rename(final, old)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("replace %s: %w (is a program using it?)", final, err)
	}
	if err := os.Rename(out, final); err != nil {
		return errors.Join(err, ignoreNotExist(os.Rename(old, final)))
	}
	return syncFolder(s.root)
}

func ignoreNotExist(err error) error {
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return err
}

// syncTree makes the contents of a folder safe against a power cut before a
// rename points at them.
func syncTree(root string) error {
	return filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir():
			return syncFolder(path)
		case d.Type().IsRegular():
			f, err := os.OpenFile(path, os.O_RDWR, 0)
			if err != nil {
				return err
			}
			return errors.Join(f.Sync(), f.Close())
		}
		return nil
	})
}

// syncFolder flushes a folder's entries. Windows has no such call and needs none.
func syncFolder(path string) error {
	if runtime.GOOS == "windows" {
		return nil
	}
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}
