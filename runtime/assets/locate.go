package assets

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// Where an answer came from.
const (
	FromFlag        = "flag"
	FromEnvironment = "environment"
	FromCache       = "cache"
)

// Found is a path and who said so.
type Found struct {
	Path   string
	Source string // FromFlag, FromEnvironment or FromCache
	Via    string // the setting's word, such as "--model", "LULL_MODEL", or the cache folder
	Name   string // the asset's name, if it is one
}

// Located is everything needed to load a model.
type Located struct {
	Model   Found // a GGUF file
	Library Found // a folder with libllama and libggml under their plain names
}

// Locate answers with the library and the model to use: the flag if it is
// given, else the environment variable, else the cache. It never fetches. The
// default model is the derived one where that is there.
func Locate(o Options) (Located, error) {
	s, err := Open(o)
	if err != nil {
		return Located{}, err
	}
	var l Located
	if l.Library, err = s.LocateLibrary(); err != nil {
		return l, err
	}
	l.Model, err = s.LocateModel()
	return l, err
}

// Ensure is Locate that fetches what is missing, unless o.Offline, and makes
// the derived model if o.Derive can.
func Ensure(ctx context.Context, o Options) (Located, error) {
	s, err := Open(o)
	if err != nil {
		return Located{}, err
	}
	var l Located
	if l.Library, err = s.ensure(ctx, KindLibrary, s.LocateLibrary); err != nil {
		return l, err
	}
	l.Model, err = s.ensure(ctx, KindModel, s.LocateModel)
	return l, err
}

// EnsureLibrary is Ensure for the library alone.
func EnsureLibrary(ctx context.Context, o Options) (Found, error) {
	s, err := Open(o)
	if err != nil {
		return Found{}, err
	}
	return s.ensure(ctx, KindLibrary, s.LocateLibrary)
}

// EnsureModel answers with the model that o.Model names, and fetches or makes it
// if the cache lacks it. What names it is the setting by, in messages.
func EnsureModel(ctx context.Context, o Options, by Setting) (Found, error) {
	s, err := Open(o)
	if err != nil {
		return Found{}, err
	}
	if o.Model == "" {
		err := fmt.Errorf("%w: it is empty", ErrNoSuchPath)
		return Found{}, fail("locate", o.Word(by), err, "name a GGUF file or a model")
	}
	return s.ensure(ctx, KindModel, func() (Found, error) {
		found, _, err := s.given(KindModel, by, o.Model, "")
		return found, err
	})
}

// ensure locates, and if the cache lacks the asset fetches it and looks again.
func (s *Store) ensure(ctx context.Context, kind string, locate func() (Found, error)) (Found, error) {
	found, err := locate()
	if errors.Is(err, ErrNotFetched) && (!s.opts.Offline || s.isDerived(found.Name)) {
		if _, err := s.Fetch(ctx, []string{found.Name}, false); err != nil {
			return found, err
		}
		found, err = locate()
	}
	if err != nil || kind != KindModel || found.Source != FromCache || s.opts.Derive.Quantize == nil {
		return found, err
	}
	derived, ok := s.opts.Catalog.derivedFrom(found.Name)
	if !ok {
		return found, nil
	}
	found.Path, err = s.derive(ctx, derived, s.opts.Derive, false)
	found.Name = derived.Name
	return found, err
}

// isDerived reports whether an asset is made here, which needs no network.
func (s *Store) isDerived(name string) bool {
	a, ok := s.opts.Catalog.Asset(name)
	return ok && a.Derived != nil && s.opts.Derive.Quantize != nil
}

// LocateModel answers with the model alone.
func (s *Store) LocateModel() (Found, error) {
	found, given, err := s.given(KindModel, SettingModel, s.opts.Model, EnvModel)
	if given {
		return found, err
	}
	a, ok := s.opts.Catalog.defaultOf(KindModel, s.opts.Platform)
	if !ok {
		return found, fail("locate", "model", ErrUnknownAsset,
			"pass "+s.opts.Word(SettingModel)+" FILE or set "+EnvModel)
	}
	if derived, ok := s.opts.Catalog.derivedFrom(a.Name); ok && s.status(derived).State == Present {
		a = derived
	}
	return s.cached(a)
}

// LocateLibrary answers with the library folder alone.
func (s *Store) LocateLibrary() (Found, error) {
	found, given, err := s.given(KindLibrary, SettingLlamaLib, s.opts.LlamaLib, EnvLlamaLib)
	if given {
		return found, err
	}
	a, ok := s.opts.Catalog.defaultOf(KindLibrary, s.opts.Platform)
	if !ok {
		return found, s.unsupported("locate")
	}
	return s.cached(a)
}

// given answers from the setting or the environment variable, if either is set.
func (s *Store) given(kind string, by Setting, value, variable string) (found Found, given bool, err error) {
	via, source := s.opts.Word(by), FromFlag
	if value == "" {
		value, via, source = s.opts.Getenv(variable), variable, FromEnvironment
	}
	if value == "" {
		return found, false, nil
	}
	found = Found{Path: value, Source: source, Via: via}
	info, err := os.Stat(value)
	switch {
	case err == nil && kind == KindLibrary:
		return found, true, s.checkLibrary(value, via, info)
	case err == nil && info.IsDir():
		err := fmt.Errorf("%w: %s is a folder, want a GGUF file", ErrNoSuchPath, value)
		return found, true, fail("locate", via, err, "name the .gguf file inside it")
	case err == nil:
		return found, true, nil
	}
	if a, ok := s.opts.Catalog.Asset(value); ok && a.Kind == kind {
		cached, err := s.cached(a)
		cached.Source, cached.Via = source, via
		return cached, true, err
	}
	names := strings.Join(s.opts.Catalog.Names(kind, s.opts.Platform), ", ")
	return found, true, fail("locate", via, join(ErrNoSuchPath, err),
		fmt.Sprintf("give %s an existing path, or one of the names %s", via, names))
}

// cached answers from the cache. When the asset is not there, the answer still
// names it, so that a caller knows what to fetch.
func (s *Store) cached(a Asset) (Found, error) {
	st := s.status(a)
	found := Found{Path: st.Path, Source: FromCache, Via: s.root, Name: a.Name}
	if st.State == Present {
		return found, nil
	}
	cause := ErrNotFetched
	if st.State != Absent {
		cause = fmt.Errorf("%w in a usable form: %s", ErrNotFetched, st.Detail)
	}
	return found, fail("locate", a.Name, cause, "run `lull assets fetch "+a.Name+"`")
}

// libraryName is the plain file name that loaders ask for.
func libraryName(platform string) string {
	switch goos, _, _ := strings.Cut(platform, "/"); goos {
	case "windows":
		return "llama.dll"
	case "darwin", "ios":
		return "libllama.dylib"
	}
	return "libllama.so"
}

func (s *Store) checkLibrary(folder, via string, info os.FileInfo) error {
	name := libraryName(s.opts.Platform)
	if !info.IsDir() {
		err := fmt.Errorf("%w: %s is a file, want the folder that holds %s", ErrNoLibrary, folder, name)
		return fail("locate", via, err, "name the folder: "+filepath.Dir(folder))
	}
	if _, err := os.Stat(filepath.Join(folder, name)); err != nil {
		return fail("locate", via, fmt.Errorf("%w: %s has no %s", ErrNoLibrary, folder, name),
			"a build of llama.cpp with shared libraries puts it there; link a versioned file to that plain name")
	}
	return nil
}
