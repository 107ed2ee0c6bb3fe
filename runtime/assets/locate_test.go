package assets

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// copyQuantizer "quantises" by turning letters to upper case after the magic.
func copyQuantizer(calls *int) Quantizer {
	return func(_ context.Context, src, dst, format string, progress func(float64)) error {
		*calls++
		if format != "Q4_0" {
			return errors.New("no format " + format)
		}
		text, err := os.ReadFile(src)
		if err != nil {
			return err
		}
		progress(0.5)
		return os.WriteFile(dst, []byte(strings.ToUpper(string(text))), 0o644)
	}
}

func TestDerive(t *testing.T) {
	b := newBench(t, "python3")
	b.addModel()
	calls := 0
	d := Derivation{Quantize: copyQuantizer(&calls), Library: "llama.cpp v9"}
	s := b.store()
	_, err := s.EnsureDerived(t.Context(), "model-q4_0", Derivation{})
	if !errors.Is(err, ErrNoQuantizer) {
		t.Errorf("without a quantiser: %v, want %v", err, ErrNoQuantizer)
	}
	path, err := s.EnsureDerived(t.Context(), "model-q4_0", d)
	must(t, err)
	if text, err := os.ReadFile(path); err != nil || string(text) != strings.ToUpper(modelText) {
		t.Errorf("derived %q, %v", text, err)
	}
	stamp, err := readStamp(filepath.Dir(path))
	must(t, err)
	if stamp.SourceSHA256 != sumOf(modelText) || stamp.LibraryVersion != d.Library || stamp.Format != "Q4_0" ||
		stamp.Files[0].SHA256 != sumOf(strings.ToUpper(modelText)) {
		t.Errorf("stamp %+v does not say what it was made from", stamp)
	}
	_, err = s.EnsureDerived(t.Context(), "model-q4_0", d)
	must(t, err)
	if calls != 1 {
		t.Errorf("%d quantisations, want 1", calls)
	}
	d.Library = "llama.cpp v10"
	_, err = s.EnsureDerived(t.Context(), "model-q4_0", d)
	must(t, err)
	if calls != 2 {
		t.Errorf("%d quantisations after another library, want 2", calls)
	}
	must(t, os.WriteFile(path, []byte(strings.ToLower("gguf the weights")), 0o644))
	reports, err := s.Verify(t.Context(), []string{"model-q4_0"})
	must(t, err)
	if reports[0].State != Damaged {
		t.Errorf("verify says %s of changed bytes, want %s", reports[0].State, Damaged)
	}
	b.holds("model-1.0", "model-q4_0-1.0")
}

func TestDeriveRefusesBadInputAndOutput(t *testing.T) {
	b := newBench(t, "python3")
	b.addModel()
	s := b.store()
	_, err := s.Fetch(t.Context(), []string{"model"}, false)
	must(t, err)
	broken := errors.New("quantiser stopped")
	cases := map[string]struct {
		q    Quantizer
		want error
	}{
		"fails": {func(context.Context, string, string, string, func(float64)) error { return broken }, broken},
		"writes nothing": {func(context.Context, string, string, string, func(float64)) error { return nil },
			ErrDerived},
		"writes no model": {func(_ context.Context, _, dst, _ string, _ func(float64)) error {
			return os.WriteFile(dst, []byte("junk"), 0o644)
		}, ErrDerived},
	}
	for name, c := range cases {
		if _, err := s.EnsureDerived(t.Context(), "model-q4_0", Derivation{Quantize: c.q}); !errors.Is(err, c.want) {
			t.Errorf("%s: error %v, want %v", name, err, c.want)
		}
		b.holds("model-1.0")
	}
	must(t, os.WriteFile(filepath.Join(b.cache, "model-1.0", "m.gguf"), []byte(strings.ToUpper(modelText)), 0o644))
	calls := 0
	_, err = s.EnsureDerived(t.Context(), "model-q4_0", Derivation{Quantize: copyQuantizer(&calls)})
	if !errors.Is(err, ErrMismatch) || calls != 0 {
		t.Errorf("damaged source: error %v after %d quantisations, want %v before any", err, calls, ErrMismatch)
	}
}

func TestLocateOrder(t *testing.T) {
	b := newBench(t, "npm", "python3")
	b.addLibrary()
	b.addModel()
	dir := t.TempDir()
	flagModel, envModel := filepath.Join(dir, "flag.gguf"), filepath.Join(dir, "env.gguf")
	lib := filepath.Join(dir, "lib")
	must(t, os.Mkdir(lib, 0o755))
	for _, f := range []string{flagModel, envModel, filepath.Join(lib, "libllama.so")} {
		must(t, os.WriteFile(f, nil, 0o644))
	}
	env := map[string]string{}
	options := func(o *Options) { o.Getenv = func(k string) string { return env[k] } }
	_, err := b.store(options).LocateModel()
	if !errors.Is(err, ErrNotFetched) {
		t.Errorf("empty cache: %v, want %v", err, ErrNotFetched)
	}
	o := Options{CacheDir: b.cache, Catalog: b.catalog, Platform: "linux/amd64"}
	options(&o)
	l, err := Ensure(t.Context(), o)
	must(t, err)
	if l.Model.Source != FromCache || l.Model.Name != "model" || l.Library.Path != filepath.Join(b.cache, "lib-9.0.0") {
		t.Errorf("ensured %+v, want both from the cache", l)
	}
	calls := 0
	o.Derive = Derivation{Quantize: copyQuantizer(&calls)}
	l, err = Ensure(t.Context(), o)
	must(t, err)
	if l.Model.Name != "model-q4_0" || calls != 1 {
		t.Errorf("ensured %+v with a quantiser, want the derived model", l.Model)
	}
	l, err = Locate(Options{CacheDir: b.cache, Catalog: b.catalog, Platform: "linux/amd64", Getenv: o.Getenv})
	must(t, err)
	if l.Model.Name != "model-q4_0" {
		t.Errorf("located %+v, want the derived model, once it is there", l.Model)
	}
	env[EnvModel], env[EnvLlamaLib] = envModel, lib
	l, err = Locate(o)
	must(t, err)
	if l.Model != (Found{Path: envModel, Source: FromEnvironment, Via: EnvModel}) || l.Library.Via != EnvLlamaLib {
		t.Errorf("located %+v, want both from the environment", l)
	}
	o.Model = flagModel
	l, err = Locate(o)
	must(t, err)
	if l.Model != (Found{Path: flagModel, Source: FromFlag, Via: "--model"}) {
		t.Errorf("located %+v, want the flag to win", l.Model)
	}
	o.Model = "model"
	l, err = Locate(o)
	must(t, err)
	if l.Model.Path != filepath.Join(b.cache, "model-1.0", "m.gguf") || l.Model.Source != FromFlag {
		t.Errorf("located %+v by name, want it from the cache", l.Model)
	}
}

func TestLocateSaysWhoWasWrong(t *testing.T) {
	b := newBench(t)
	b.addLibrary()
	b.addModel()
	dir := t.TempDir()
	file := filepath.Join(dir, "libllama.so")
	must(t, os.WriteFile(file, nil, 0o644))
	missing := filepath.Join(dir, "missing")
	cases := []struct {
		model, lib, envModel, envLib string
		want                         error
		via                          string
	}{
		{model: missing, want: ErrNoSuchPath, via: "--model"},
		{envModel: missing, want: ErrNoSuchPath, via: EnvModel},
		{model: dir, want: ErrNoSuchPath, via: "--model"},
		{lib: missing, want: ErrNoSuchPath, via: "--llama-lib"},
		{envLib: missing, want: ErrNoSuchPath, via: EnvLlamaLib},
		{lib: file, want: ErrNoLibrary, via: "--llama-lib"},
		{lib: t.TempDir(), want: ErrNoLibrary, via: "--llama-lib"},
		{model: "model", want: ErrNotFetched, via: "model"},
	}
	for _, c := range cases {
		s := b.store(func(o *Options) {
			o.Model, o.LlamaLib = c.model, c.lib
			env := map[string]string{EnvModel: c.envModel, EnvLlamaLib: c.envLib}
			o.Getenv = func(k string) string { return env[k] }
		})
		_, err := s.LocateModel()
		if c.lib+c.envLib != "" {
			_, err = s.LocateLibrary()
		}
		var e *Error
		if !errors.Is(err, c.want) || !errors.As(err, &e) || e.Name != c.via || e.Hint() == "" {
			t.Errorf("%+v: error %#v, want %v that names %s and has a hint", c, err, c.want, c.via)
		}
	}
}

func TestCacheFolder(t *testing.T) {
	s, err := Open(Options{Getenv: func(k string) string { return map[string]string{EnvCache: "/from/env"}[k] }})
	must(t, err)
	if s.Root() != filepath.FromSlash("/from/env") {
		t.Errorf("cache %s, want the one of %s", s.Root(), EnvCache)
	}
	t.Setenv("XDG_CACHE_HOME", filepath.Join(t.TempDir(), "xdg"))
	base, err := os.UserCacheDir()
	must(t, err)
	s, err = Open(Options{Getenv: func(string) string { return "" }})
	must(t, err)
	if s.Root() != filepath.Join(base, "lull") {
		t.Errorf("cache %s, want lull in %s", s.Root(), base)
	}
	if _, err := os.Stat(base); !os.IsNotExist(err) {
		t.Error("looking made a folder")
	}
}

// A program asks for a model by name, as its draft model; one that is made here
// needs no network where its source is in the cache.
func TestEnsureModel(t *testing.T) {
	b := newBench(t, "python3")
	b.addModel()
	calls := 0
	o := b.store().opts
	o.Derive, o.Model = Derivation{Quantize: copyQuantizer(&calls)}, "model-q4_0"
	o.Offline = true
	if _, err := EnsureModel(t.Context(), o, SettingDraft); !errors.Is(err, ErrOffline) {
		t.Errorf("offline without its source: %v, want %v", err, ErrOffline)
	}
	o.Offline = false
	found, err := EnsureModel(t.Context(), o, SettingDraft)
	must(t, err)
	if found.Name != "model-q4_0" || found.Via != "--draft" || calls != 1 {
		t.Errorf("found %+v after %d quantisations", found, calls)
	}
	must(t, os.RemoveAll(filepath.Dir(found.Path)))
	o.Offline = true
	again, err := EnsureModel(t.Context(), o, SettingDraft)
	must(t, err)
	if again.Path != found.Path || calls != 2 {
		t.Errorf("made again offline: %+v after %d quantisations", again, calls)
	}
	for _, name := range []string{"", "no-such-model", t.TempDir()} {
		o.Model = name
		_, err := EnsureModel(t.Context(), o, SettingDraft)
		if !errors.Is(err, ErrNoSuchPath) || !strings.Contains(err.Error(), "--draft") {
			t.Errorf("%q: %v, want %v that names --draft", name, err, ErrNoSuchPath)
		}
	}
}
