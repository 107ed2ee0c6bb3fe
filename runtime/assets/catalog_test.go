package assets

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func itoa(n int64) string { return strconv.FormatInt(n, 10) }

func TestEmbeddedCatalog(t *testing.T) {
	c, err := DefaultCatalog()
	must(t, err)
	var holds string
	for _, platform := range []string{"linux/amd64", "linux/arm64", "windows/amd64", "darwin/arm64"} {
		lib, ok := c.defaultOf(KindLibrary, platform)
		if !ok {
			t.Errorf("%s has no default library", platform)
			continue
		}
		if holds == "" {
			holds = lib.Holds
		}
		if lib.Holds != holds {
			t.Errorf("%s holds %s, others %s: one binding fits one release", lib.Name, lib.Holds, holds)
		}
		if _, ok := lib.Links[libraryName(platform)]; !ok {
			t.Errorf("%s lacks the plain name %s, which loaders ask for", lib.Name, libraryName(platform))
		}
		model, ok := c.defaultOf(KindModel, platform)
		if !ok {
			t.Fatalf("%s has no default model", platform)
		}
		if _, ok := c.derivedFrom(model.Name); !ok {
			t.Errorf("%s has no derived form for CPUs", model.Name)
		}
	}
	for _, a := range c.Assets {
		if a.Licence == "" || a.Purpose == "" || a.Holds == "" {
			t.Errorf("%s does not say its licence, purpose or contents", a.Name)
		}
	}
}

const smallCatalog = `schema: 1
assets:
  - name: a
    kind: model
    client: pip
    version: 1.0
    path: f
    packages:
      - name: a
        bytes: 5
        sha256: 1111111111111111111111111111111111111111111111111111111111111111
        files: [{to: f, bytes: 1, sha256: 2222222222222222222222222222222222222222222222222222222222222222}]
`

// everyConstruct goes on after smallCatalog with what that one lacks.
const everyConstruct = `  - {name: d, kind: model, version: 1, path: q, derived: {from: a, format: Q4_0}}
  - name: l
    kind: library
    platform: windows/amd64
    client: npm
    version: 1
    links: {l.dll: l.v1.dll}
    packages: [{name: "@s/l", prefix: p/, unpinned: {skip: [.node], reason: none}}]
  - name: j
    kind: embedder
    client: pip
    version: 1
    joined:
      - {to: w, bytes: 2, sha256: 3333333333333333333333333333333333333333333333333333333333333333, parts: [p]}
    packages:
      - name: j
        bytes: 5
        sha256: 4444444444444444444444444444444444444444444444444444444444444444
        files: [{to: p, bytes: 2, sha256: 3333333333333333333333333333333333333333333333333333333333333333, from: x/p}]
`

func TestCatalogRefuses(t *testing.T) {
	for _, good := range []string{smallCatalog, smallCatalog + everyConstruct} {
		if _, err := ParseCatalog([]byte(good)); err != nil {
			t.Fatal(err)
		}
	}
	cases := map[string][2]string{
		"another schema":     {"schema: 1", "schema: 2"},
		"a mistyped key":     {"sha256: 1", "sha-256: 1"},
		"a flag as name":     {"      - name: a", "      - name: --index-url=x"},
		"a flag as version":  {"version: 1.0", "version: -r"},
		"an unknown client":  {"client: pip", "client: curl"},
		"an unknown kind":    {"kind: model", "kind: rumour"},
		"an escaping file":   {"{to: f", "{to: ../f"},
		"an absolute file":   {"{to: f", "{to: /f"},
		"a backslash":        {"{to: f", `{to: 'a\f'`},
		"the stamp's name":   {"{to: f", "{to: " + stampName},
		"a short hash":       {"sha256: 1", "sha256: "},
		"a negative size":    {"bytes: 1,", "bytes: -1,"},
		"an absurd size":     {"bytes: 5", "bytes: 999999999999999"},
		"a path not in it":   {"path: f", "path: g"},
		"an escaping prefix": {"files:", "prefix: ../x/\n        files:"},
		"no YAML":            {"schema: 1", "schema: [1"},
	}
	for name, c := range cases {
		text := strings.Replace(smallCatalog, c[0], c[1], 1)
		if text == smallCatalog {
			t.Fatalf("%s: the case changes nothing", name)
		}
		if _, err := ParseCatalog([]byte(text)); !errors.Is(err, ErrCatalog) {
			t.Errorf("%s: error %v, want %v", name, err, ErrCatalog)
		}
	}
	twice := smallCatalog + strings.TrimPrefix(smallCatalog, "schema: 1\nassets:\n")
	if _, err := ParseCatalog([]byte(twice)); !errors.Is(err, ErrCatalog) || !strings.Contains(err.Error(), "twice") {
		t.Errorf("the same asset twice: %v", err)
	}
	if _, err := ParseCatalog(make([]byte, maxCatalogBytes+1)); !errors.Is(err, ErrCatalog) {
		t.Errorf("a huge catalogue: %v", err)
	}
}

func TestStampRoundTrip(t *testing.T) {
	dir := t.TempDir()
	want := Stamp{Schema: stampSchema, Name: "a", Version: "1", Pins: "p", Files: []StampFile{{"d/f", 3, sumOf("x")}},
		SourceSHA256: sumOf("s"), LibraryVersion: "llama.cpp v9", Format: "Q4_0"}
	must(t, writeStamp(dir, want))
	got, err := readStamp(dir)
	must(t, err)
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	for _, text := range []string{
		"", "{}", "null", `{"schema":9}`, `{"schema":1,"files":[]}`,
		`{"schema":1,"files":[{"path":"../x","bytes":1,"sha256":"` + sumOf("x") + `"}]}`,
		`{"schema":1,"files":[{"path":"x","bytes":-1,"sha256":"` + sumOf("x") + `"}]}`,
		`{"schema":1,"files":[{"path":"x","bytes":1,"sha256":"abc"}]}`,
	} {
		if _, err := ParseStamp([]byte(text)); !errors.Is(err, ErrStamp) {
			t.Errorf("stamp %q: error %v, want %v", text, err, ErrStamp)
		}
	}
}

func FuzzParseCatalog(f *testing.F) {
	f.Add([]byte(smallCatalog))
	f.Add([]byte(smallCatalog + everyConstruct))
	f.Fuzz(func(t *testing.T, text []byte) {
		c, err := ParseCatalog(text)
		if err != nil {
			if !errors.Is(err, ErrCatalog) {
				t.Errorf("error %v without its sentinel", err)
			}
			return
		}
		for _, a := range c.Assets {
			if !filepath.IsLocal(a.folder()) || strings.ContainsAny(a.folder(), `/\`) {
				t.Errorf("asset %q would live outside the cache", a.folder())
			}
			for _, file := range a.kept() {
				if !filepath.IsLocal(file.To) {
					t.Errorf("file %q would leave its folder", file.To)
				}
			}
			for _, p := range a.Packages {
				if strings.HasPrefix(p.Name, "-") || strings.HasPrefix(a.Version, "-") {
					t.Errorf("package %q could be taken for a flag", p.Name)
				}
			}
		}
	})
}

func FuzzParseStamp(f *testing.F) {
	text, err := json.Marshal(Stamp{Schema: 1, Name: "a", Files: []StampFile{{"f", 1, sumOf("f")}}})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text)
	f.Add([]byte(`{"schema":1,"files":[{"path":"a/../../b"}]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		s, err := ParseStamp(text)
		if err != nil {
			if !errors.Is(err, ErrStamp) {
				t.Errorf("error %v without its sentinel", err)
			}
			return
		}
		for _, file := range s.Files {
			if !filepath.IsLocal(filepath.FromSlash(file.Path)) || file.Bytes < 0 {
				t.Errorf("accepted %+v", file)
			}
		}
	})
}

// FuzzExtract feeds any bytes as an archive: nothing may appear beside the
// folder, and nothing in it but the wanted file with its pinned bytes.
func FuzzExtract(f *testing.F) {
	f.Add(tgz(f, entry{name: "package/f", text: "file"}), false)
	f.Add(tgz(f, entry{name: "../f", text: "file"}, entry{name: "package/f", text: "/etc", link: true}), false)
	f.Add(wheel(f, entry{name: "package/f", text: "file"}, entry{name: "/x", text: "y"}), true)
	f.Fuzz(func(t *testing.T, archive []byte, isZip bool) {
		dir := t.TempDir()
		path := filepath.Join(dir, "archive.tgz")
		if isZip {
			path = filepath.Join(dir, "archive.whl")
		}
		out := filepath.Join(dir, "out")
		must(t, os.Mkdir(out, 0o755))
		must(t, os.WriteFile(path, archive, 0o644))
		p := Package{Name: "p", Prefix: "package/", Files: []File{pin("f", "file")}}
		_, err := extract(t.Context(), path, out, p)
		beside, readErr := os.ReadDir(dir)
		must(t, readErr)
		if len(beside) != 2 {
			t.Errorf("%d entries beside the archive, want 2", len(beside))
		}
		text, readErr := os.ReadFile(filepath.Join(out, "f"))
		if err == nil && (readErr != nil || string(text) != "file") {
			t.Errorf("accepted, and the file holds %q (%v)", text, readErr)
		}
	})
}
