package assets

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"
)

const (
	// watchEvery is how often the growing files are looked at: a person sees
	// movement, and a walk over a dozen files costs nothing.
	watchEvery = 250 * time.Millisecond

	// maxOutput, quotedLines and maxQuoted bound what is kept and quoted of a client's talk.
	maxOutput   = 16 << 10
	quotedLines = 6
	maxQuoted   = 240 // bytes of one line: pip puts a whole exception into some

	// killGrace is how long to wait for the pipes of a killed client to close.
	killGrace = 5 * time.Second
)

// invocation is one way to start a client: a program and what goes before the
// arguments that all ways share.
type invocation struct {
	program string
	first   []string
}

var invocations = map[string][]invocation{
	ClientNpm: {{"npm", nil}},
	ClientPip: {
		{"python3", []string{"-m", "pip"}}, {"python", []string{"-m", "pip"}}, {"py", []string{"-3", "-m", "pip"}},
		{"pip3", nil}, {"pip", nil},
	},
}

// missingAdvice says how to do with or without a client that is not there.
func (o Options) missingAdvice(client string) string {
	if client == ClientNpm {
		return "install Node.js, which brings npm, or pass " + o.Word(SettingLlamaLib) + " DIR (or set " +
			EnvLlamaLib + ")"
	}
	return "install Python 3 with pip; a model of your own needs none: " + o.Word(SettingModel) + " FILE (or set " +
		EnvModel + ")"
}

// arguments are what every way to start the client gets. Names and versions
// were checked by the catalogue, so none can be taken for a flag.
func arguments(client, name, version, dest string) []string {
	if client == ClientNpm {
		return []string{"pack", name + "@" + version, "--pack-destination", dest,
			"--ignore-scripts", "--loglevel=error"}
	}
	return []string{"download", "--no-deps", "--no-binary=:none:", "--disable-pip-version-check", "--no-input",
		"--no-cache-dir", "--progress-bar=off", "--retries=2", "-d", dest, name + "==" + version}
}

// environment keeps the user's own set-up of the client (registry, proxy,
// credentials) and moves its temporary files into our folder: there they are on
// the right disk, can be watched as they grow, and go when the folder goes.
func environment(tmp string) []string {
	return append(os.Environ(),
		"TMPDIR="+tmp, "TMP="+tmp, "TEMP="+tmp,
		"npm_config_cache="+filepath.Join(tmp, "npm"), "npm_config_logs_max=0", "npm_config_update_notifier=false",
		"npm_config_fetch_retries=1", "npm_config_fetch_retry_mintimeout=1000", "PYTHONUNBUFFERED=1")
}

// download lets the client put one archive into work and gives its path.
func (s *Store) download(ctx context.Context, work string, a Asset, p Package) (string, error) {
	dest, tmp := filepath.Join(work, "dest"), filepath.Join(work, "tmp")
	for _, dir := range []string{dest, tmp} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			return "", err
		}
	}
	stop := s.watch(work, p.Bytes)
	err := s.opts.runClient(ctx, a.Client, arguments(a.Client, p.Name, a.Version, dest), tmp)
	stop()
	if err != nil {
		return "", err
	}
	return onlyFile(dest, a.Client)
}

// onlyFile finds the archive: the client chose its name.
func onlyFile(dest, client string) (string, error) {
	entries, err := os.ReadDir(dest)
	if err != nil {
		return "", err
	}
	if len(entries) != 1 || !entries[0].Type().IsRegular() {
		return "", fmt.Errorf("%w: %s ended well and left %d files, want one archive",
			ErrClientFailed, client, len(entries))
	}
	return filepath.Join(dest, entries[0].Name()), nil
}

// watch reports the size of a growing folder until stop is called. Clients
// keep a second copy for a while, hence the cap.
func (s *Store) watch(folder string, total int64) (stop func()) {
	done := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		tick := time.NewTicker(watchEvery)
		defer tick.Stop()
		for {
			select {
			case <-done:
				return
			case <-tick.C:
				size := folderSize(folder)
				if total > 0 {
					size = min(size, total)
				}
				s.opts.Progress.Set(size)
			}
		}
	})
	return func() { close(done); wg.Wait() }
}

// folderSize adds up what is there; files that vanish meanwhile count nothing.
func folderSize(folder string) int64 {
	var sum int64
	_ = filepath.WalkDir(folder, func(_ string, d fs.DirEntry, err error) error {
		if err != nil {
			return nil
		}
		if info, err := d.Info(); err == nil && info.Mode().IsRegular() {
			sum += info.Size()
		}
		return nil
	})
	return sum
}

// runClient tries each way to start the client until one is usable.
func (o Options) runClient(ctx context.Context, client string, args []string, tmp string) error {
	var tried []string
	for _, way := range invocations[client] {
		program, err := exec.LookPath(way.program)
		if err != nil {
			continue
		}
		argv := append(append([]string{}, way.first...), args...)
		output, err := runGroup(ctx, program, argv, tmp)
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case unusable(err, output):
			tried = append(tried, way.program)
			continue
		}
		return o.clientError(client, append([]string{way.program}, argv...), err, output)
	}
	detail := "nothing of that name on PATH"
	if len(tried) > 0 {
		detail = strings.Join(tried, ", ") + " found, but not usable"
	}
	return advised{fmt.Errorf("%w: %s: %s", ErrClientMissing, client, detail), o.missingAdvice(client)}
}

// unusable tells a client that is not really there (a shim of a version
// manager, a Python without pip) from one that ran and failed.
func unusable(err error, output string) bool {
	var exit *exec.ExitError
	if !errors.As(err, &exit) {
		return true
	}
	return exit.ExitCode() == 127 || strings.Contains(output, "No module named pip")
}

// runGroup runs one process group and kills all of it when ctx ends. If we are
// killed ourselves, Windows ends the group and Linux its first process; what
// that one had started ends by itself, in a folder that the next fetch removes.
func runGroup(ctx context.Context, program string, argv []string, tmp string) (string, error) {
	// Linux ties the "die with parent" signal to the thread that started the
	// child, so that thread must stay until the child has ended.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var out tail
	cmd := exec.CommandContext(ctx, program, argv...)
	cmd.Dir, cmd.Env = tmp, environment(tmp)
	cmd.Stdout, cmd.Stderr = &out, &out
	cmd.WaitDelay = killGrace
	release := groupTogether(cmd)
	defer release()
	if err := cmd.Start(); err != nil {
		return "", err
	}
	started(cmd)
	err := cmd.Wait()
	return out.String(), err
}

// tail keeps the end of a client's output.
type tail struct{ buf []byte }

func (t *tail) Write(p []byte) (int, error) {
	t.buf = append(t.buf, p...)
	if len(t.buf) > 2*maxOutput {
		t.buf = append(t.buf[:0], t.buf[len(t.buf)-maxOutput:]...)
	}
	return len(p), nil
}

func (t *tail) String() string { return string(bytes.ToValidUTF8(t.buf, []byte("?"))) }

// What clients say, from npm 8–11 and pip 20–25. A wrong guess costs only a
// less fitting sentinel: the lines are quoted in any case.
var (
	saysDisk    = regexp.MustCompile(`(?i)ENOSPC|no space left|disk quota exceeded`)
	saysNetwork = regexp.MustCompile(`(?i)ENOTFOUND|EAI_AGAIN|ECONNREFUSED|ECONNRESET|ETIMEDOUT|ENETUNREACH|` +
		`NewConnectionError|ConnectTimeout|ReadTimeout|ProxyError|name resolution|connection broken|` +
		`network is unreachable|connection refused|timed out|max retries`)
	saysAbsent = regexp.MustCompile(`(?i)ETARGET|E404|notarget|no matching version|` +
		`could not find a version|no matching distribution`)
	escapes = regexp.MustCompile(`\x1b\[[0-9;]*[A-Za-z]`)
)

func (o Options) clientError(client string, command []string, err error, output string) error {
	kind, advice := ErrClientFailed, "run the command by hand to see more: "+strings.Join(command, " ")
	var reason *regexp.Regexp
	switch {
	case saysDisk.MatchString(output):
		kind, reason = ErrDiskFull, saysDisk
		advice = "free some space, or set " + EnvCache + " to a folder on another disk"
	case saysNetwork.MatchString(output):
		kind, reason = ErrNetwork, saysNetwork
		advice = "check the network and the proxy settings of " + client + ", then fetch again"
	case saysAbsent.MatchString(output):
		kind, reason = ErrNotServed, saysAbsent
		advice = "check which registry or mirror " + client + " is set to, or bring the files yourself " +
			"with " + o.Word(SettingLlamaLib) + " DIR and " + o.Word(SettingModel) + " FILE"
	}
	return advised{fmt.Errorf("%w: %s: %w%s", kind, client, err, quote(output, reason)), advice}
}

// noise matches lines of clients that tell nothing: brackets of a dumped
// object, and where a log would have been.
var noise = regexp.MustCompile(`(?i)^(npm (error|err!))?\s*[{}\])]*,?$|complete log of this run|log files were not`)

// quote gives the last telling lines of a client's output, indented; before
// them the first one that gives the reason, if they lack it.
func quote(output string, reason *regexp.Regexp) string {
	var lines []string
	first := ""
	for line := range strings.Lines(escapes.ReplaceAllString(output, "")) {
		line = strings.TrimSpace(line)
		if noise.MatchString(line) {
			continue
		}
		if len(line) > maxQuoted {
			line = strings.ToValidUTF8(line[:maxQuoted], "") + "…"
		}
		if first == "" && reason != nil && reason.MatchString(line) {
			first = line
		}
		lines = append(lines, line)
	}
	lines = lines[max(0, len(lines)-quotedLines):]
	if first != "" && !slices.ContainsFunc(lines, reason.MatchString) {
		lines = append([]string{first}, lines...)
	}
	text := ""
	for _, line := range lines {
		text += "\n    | " + line
	}
	return text
}
