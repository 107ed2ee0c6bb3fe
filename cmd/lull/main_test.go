package main

import (
	"archive/tar"
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/lull-npc/lull/runtime/assets"
)

// The test binary can be the program itself, a program with a command that
// never listens, or npm.
const (
	envMain     = "LULL_TEST_MAIN"     // "1": be lull; "stubborn": with the command "block"
	envArchive  = "LULL_TEST_ARCHIVE"  // what npm delivers
	envListener = "LULL_TEST_LISTENER" // npm reports there and never ends
)

func TestMain(m *testing.M) {
	if strings.TrimSuffix(filepath.Base(os.Args[0]), ".exe") == "npm" {
		os.Exit(fakeNpm(os.Args[1:]))
	}
	switch os.Getenv(envMain) {
	case "stubborn":
		commands = append(commands, func(*app) *cobra.Command {
			return &cobra.Command{Use: "block", RunE: func(*cobra.Command, []string) error {
				fmt.Println("ready")
				select {}
			}}
		})
		main()
	case "1":
		main()
	}
	os.Exit(m.Run())
}

func fakeNpm(args []string) int {
	if address := os.Getenv(envListener); address != "" {
		c, err := net.Dial("tcp", address)
		if err != nil {
			panic(err)
		}
		fmt.Fprintln(c, "here")
		_, _ = io.Copy(io.Discard, c)
		return 1
	}
	archive, err := os.ReadFile(os.Getenv(envArchive))
	if err != nil {
		fmt.Fprintln(os.Stderr, "npm error code ENOTFOUND")
		return 1
	}
	dest := args[slices.Index(args, "--pack-destination")+1]
	if err := os.WriteFile(filepath.Join(dest, "a.tgz"), archive, 0o644); err != nil {
		panic(err)
	}
	return 0
}

// console is one program with its output caught.
type console struct {
	t        *testing.T
	out, err bytes.Buffer
	app      *app
}

func newConsole(t *testing.T) *console {
	t.Helper()
	c := &console{t: t}
	t.Setenv(assets.EnvCache, filepath.Join(t.TempDir(), "cache"))
	t.Setenv(assets.EnvModel, "")
	t.Setenv(assets.EnvLlamaLib, "")
	c.app = newApp(strings.NewReader(""), &c.out, &c.err)
	c.app.platform = "linux/amd64"
	return c
}

// run gives the exit code; the output of earlier runs is forgotten.
func (c *console) run(args ...string) int {
	c.t.Helper()
	c.out.Reset()
	c.err.Reset()
	again := newApp(strings.NewReader(""), &c.out, &c.err)
	again.platform, again.catalog, again.derive = c.app.platform, c.app.catalog, c.app.derive
	return run(c.t.Context(), args, again)
}

// object decodes standard output, which must be exactly one JSON object.
func (c *console) object() map[string]any {
	c.t.Helper()
	d := json.NewDecoder(&c.out)
	var v map[string]any
	if err := d.Decode(&v); err != nil {
		c.t.Fatalf("standard output is no JSON object: %v", err)
	}
	if _, err := d.Token(); err != io.EOF {
		c.t.Fatal("standard output holds more than one object")
	}
	return v
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// withNpm makes the test binary the only npm, and delivers a library.
func (c *console) withNpm() {
	c.t.Helper()
	c.t.Setenv("GORACE", "atexit_sleep_ms=0")
	dir := c.t.TempDir()
	self, err := os.Executable()
	must(c.t, err)
	if err := os.Symlink(self, filepath.Join(dir, "npm")); err != nil {
		c.t.Skip("no symbolic links here:", err)
	}
	c.t.Setenv("PATH", dir)
	var archive bytes.Buffer
	gz := gzip.NewWriter(&archive)
	tw := tar.NewWriter(gz)
	const text = "a library"
	must(c.t, tw.WriteHeader(&tar.Header{Name: "package/libllama.v9.so", Mode: 0o644, Size: int64(len(text))}))
	_, err = tw.Write([]byte(text))
	must(c.t, errors.Join(err, tw.Close(), gz.Close()))
	file := filepath.Join(dir, "archive")
	must(c.t, os.WriteFile(file, archive.Bytes(), 0o644))
	c.t.Setenv(envArchive, file)
	c.app.catalog, err = assets.ParseCatalog(fmt.Appendf(nil, `schema: 1
assets:
  - name: lib
    kind: library
    platform: linux/amd64
    default: true
    client: npm
    version: 9.0.0
    holds: llama.cpp v9
    links: {libllama.so: libllama.v9.so}
    packages:
      - {name: lib, bytes: %d, sha256: %x, prefix: package/, files: [{to: libllama.v9.so, bytes: %d, sha256: %x}]}
`, archive.Len(), sha256.Sum256(archive.Bytes()), len(text), sha256.Sum256([]byte(text))))
	must(c.t, err)
}

func TestExitCodes(t *testing.T) {
	interrupted, cancel := context.WithCancelCause(t.Context())
	cancel(errInterrupted)
	cases := []struct {
		ctx  context.Context
		err  error
		want int
	}{
		{t.Context(), nil, 0},
		{t.Context(), errors.New("x"), 1},
		{t.Context(), context.Canceled, 1},
		{t.Context(), fmt.Errorf("deep: %w", usagef("x %d", 1)), 2},
		{t.Context(), fmt.Errorf("deep: %w", objectivef("jank")), 3},
		{t.Context(), &reportedError{3}, 3},
		{interrupted, fmt.Errorf("fetch: %w", context.Canceled), 130},
		{t.Context(), fmt.Errorf("fetch: %w", errInterrupted), 130},
		{interrupted, nil, 0}, // it was done before the signal could matter
		{interrupted, objectivef("jank"), 3},
	}
	for _, c := range cases {
		if got := exitCode(c.ctx, c.err); got != c.want {
			t.Errorf("%v: exit code %d, want %d", c.err, got, c.want)
		}
	}
}

// Every command explains itself with an example, and --help is not an error.
func TestEveryCommandHasHelp(t *testing.T) {
	c := newConsole(t)
	var visit func(*cobra.Command)
	visit = func(cmd *cobra.Command) {
		path := strings.Fields(cmd.CommandPath())[1:]
		if len(path) > 0 && path[0] == "completion" {
			return // cobra's own
		}
		code := c.run(append(path, "--help")...)
		if code != 0 || !strings.Contains(c.out.String(), "Examples:") || c.err.Len() > 0 {
			t.Errorf("%v --help: exit code %d, errors %q, or no example", path, code, &c.err)
		}
		if cmd.Short == "" {
			t.Errorf("%v has no short description", path)
		}
		for _, sub := range cmd.Commands() {
			visit(sub)
		}
	}
	visit(newRoot(c.app))
	if code := c.run("--version"); code != 0 || !strings.HasPrefix(c.out.String(), "lull ") ||
		!strings.Contains(c.out.String(), "llama.cpp v") {
		t.Errorf("--version: exit code %d, %q", code, &c.out)
	}
}

func TestAssetsCommands(t *testing.T) {
	c := newConsole(t)
	c.withNpm()
	code := c.run("assets", "where", "lib")
	if code != exitFailed || !strings.Contains(c.err.String(), "lull assets fetch lib") {
		t.Errorf("where of an empty cache: %d, %q", code, &c.err)
	}
	if code := c.run("assets", "fetch", "--json"); code != 0 {
		t.Fatalf("fetch: exit code %d, %q", code, &c.err)
	}
	first := c.object()["assets"].([]any)[0].(map[string]any)
	if first["name"] != "lib" || first["status"] != assets.Fetched {
		t.Errorf("fetch says %v, want lib fetched", first)
	}
	path := first["path"].(string)
	if code := c.run("assets", "fetch"); code != 0 || c.out.String() != "lib present "+path+"\n" || c.err.Len() > 0 {
		t.Errorf("second fetch: %d, %q, %q", code, &c.out, &c.err)
	}
	if code := c.run("assets", "where", "lib"); code != 0 || c.out.String() != path+"\n" {
		t.Errorf("where lib: %d, %q, want %q", code, &c.out, path)
	}
	if code := c.run("assets", "list", "--json"); code != 0 {
		t.Errorf("list: %d, %q", code, &c.err)
	}
	if got := c.object()["assets"].([]any)[0].(map[string]any)["status"]; got != "present" {
		t.Errorf("list says %v, want present", got)
	}
	if code := c.run("assets", "verify"); code != 0 || c.out.String() != "lib present\n" {
		t.Errorf("verify: %d, %q", code, &c.out)
	}
	must(t, os.WriteFile(filepath.Join(path, "libllama.v9.so"), []byte("A library"), 0o644))
	code = c.run("assets", "verify", "--json")
	if code != exitFailed || !strings.Contains(c.err.String(), "fetch --force lib") {
		t.Errorf("verify of a changed byte: %d, %q", code, &c.err)
	}
	report := c.object()
	file := report["assets"].([]any)[0].(map[string]any)["files"].([]any)[0].(map[string]any)
	if report["ok"] != false || file["status"] != assets.FileDamaged || file["got_sha256"] == file["want_sha256"] {
		t.Errorf("verify says %v", report)
	}
}

func TestWhereTellsSource(t *testing.T) {
	c := newConsole(t)
	dir := t.TempDir()
	model := filepath.Join(dir, "m.gguf")
	must(t, os.WriteFile(model, nil, 0o644))
	must(t, os.WriteFile(filepath.Join(dir, "libllama.so"), nil, 0o644))
	t.Setenv(assets.EnvLlamaLib, dir)
	if code := c.run("assets", "where", "--model", model, "--json"); code != 0 {
		t.Fatalf("exit code %d, %q", code, &c.err)
	}
	o := c.object()
	m, l := o["model"].(map[string]any), o["library"].(map[string]any)
	if m["source"] != "flag" || m["via"] != "--model" ||
		l["source"] != "environment" || l["via"] != assets.EnvLlamaLib {
		t.Errorf("where says %v", o)
	}
	if code := c.run("assets", "where", "--model", model+"x"); code != exitFailed ||
		!strings.Contains(c.err.String(), "--model") || !strings.Contains(c.out.String(), "library") {
		t.Errorf("a missing file: %d, %q, %q", code, &c.out, &c.err)
	}
}

func TestFailedFetchNamesTheCause(t *testing.T) {
	c := newConsole(t)
	c.withNpm()
	t.Setenv(envArchive, "")
	code := c.run("assets", "fetch", "--json", "--quiet")
	if code != exitFailed || !strings.Contains(c.err.String(), "ENOTFOUND") || !strings.Contains(c.err.String(), "→") {
		t.Errorf("exit code %d, errors %q, want 1 and npm's own words", code, &c.err)
	}
	e := c.object()["error"].(map[string]any)
	if !strings.Contains(e["message"].(string), "ENOTFOUND") || !strings.Contains(e["hint"].(string), "network") {
		t.Errorf("standard output has %v, want the same", e)
	}
}

func TestLineProgress(t *testing.T) {
	c := newConsole(t)
	now := time.Unix(0, 0)
	c.app.ui.now = func() time.Time { return now }
	p := c.app.ui.progress()
	p.Start("model", 100e6)
	p.Set(1e6) // too soon for a line
	now = now.Add(plainEvery)
	p.Set(50e6)
	p.Set(51e6)
	p.Done(nil)
	want := "lull: model (100.0 MB) …\nlull: model: 50.0 MB of 100.0 MB\nlull: model: done\n"
	if c.err.String() != want || c.out.Len() > 0 {
		t.Errorf("progress %q, want %q on standard error alone", &c.err, want)
	}
	c.app.ui.quiet = true
	c.err.Reset()
	p = c.app.ui.progress()
	p.Start("x", 1)
	p.Note("y")
	p.Done(nil)
	if c.err.Len() > 0 {
		t.Errorf("with --quiet: %q", &c.err)
	}
}

func TestBarProgress(t *testing.T) {
	c := newConsole(t)
	c.app.ui.errTerminal = true
	for _, total := range []int64{0, 1, 10e6} {
		c.err.Reset()
		p := c.app.ui.progress()
		p.Note("before any bar")
		p.Start("model", total)
		p.Set(total / 2)
		p.Set(total)
		p.Note("waiting")
		p.Done(nil)
		p.Start("broken", total)
		p.Done(errors.New("x"))
		if text := c.err.String(); !strings.Contains(text, "waiting") || !strings.Contains(text, "✓ model") ||
			strings.Contains(text, "✓ broken") || strings.Contains(text, "\x1b[3") {
			t.Errorf("total %d: %q", total, text)
		}
	}
}

func TestColourOnlyWhereWanted(t *testing.T) {
	env := map[string]string{}
	u := newUI(nil, io.Discard, io.Discard, func(k string) string { return env[k] })
	if u.colourOut || u.paint(red, "x") != "x" {
		t.Error("colour without a terminal")
	}
	if got := paint(true, red, "x"); got != "\x1b[31mx\x1b[0m" {
		t.Errorf("painted %q", got)
	}
}

// child starts this test binary as lull.
func child(t *testing.T, mode string, args ...string) (*exec.Cmd, *bufio.Reader) {
	t.Helper()
	self, err := os.Executable()
	must(t, err)
	cmd := exec.Command(self, args...)
	cmd.Env = append(os.Environ(), envMain+"="+mode)
	r, w, err := os.Pipe()
	must(t, err)
	cmd.Stdout, cmd.Stderr = w, w
	must(t, cmd.Start())
	must(t, w.Close())
	t.Cleanup(func() { _ = cmd.Process.Kill(); r.Close() })
	return cmd, bufio.NewReader(r)
}

// until reads lines up to one that holds the text.
func until(t *testing.T, r *bufio.Reader, text string) {
	t.Helper()
	for {
		line, err := r.ReadString('\n')
		if err != nil {
			t.Fatalf("output ended before %q: %v", text, err)
		}
		if strings.Contains(line, text) {
			return
		}
	}
}
