package assets

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
)

// What a fetch did with an asset.
const (
	Fetched = "fetched"
	Kept    = "present" // it was there already
	Made    = "derived"
	Skipped = "skipped"
)

// Result is one asset after a fetch.
type Result struct {
	Asset  Asset
	Done   string // Fetched, Kept, Made or Skipped
	Path   string
	Detail string // why it was skipped, or what a person should know
}

// Fetch brings the named assets into the cache; without names, the defaults of
// this platform. What is there already costs a look and starts no process.
// force fetches it anyway. On an error the results so far are given too.
func (s *Store) Fetch(ctx context.Context, names []string, force bool) ([]Result, error) {
	if len(names) == 0 {
		defaults, err := s.Defaults()
		if err != nil {
			return nil, err
		}
		names = defaults
	}
	var list []Asset
	for _, name := range names {
		a, err := s.asset("fetch", name)
		if err != nil {
			return nil, err
		}
		list = append(list, a)
	}
	var results []Result
	for _, a := range list {
		r, err := s.fetchAny(ctx, a, force)
		if err != nil {
			return results, err
		}
		results = append(results, r)
	}
	return results, nil
}

func (s *Store) fetchAny(ctx context.Context, a Asset, force bool) (Result, error) {
	if a.Derived == nil {
		return s.fetch(ctx, a, force)
	}
	st := s.status(a)
	if st.State == Present && !force {
		return Result{Asset: a, Done: Kept, Path: st.Path}, nil
	}
	if s.opts.Derive.Quantize == nil {
		return Result{Asset: a, Done: Skipped, Path: st.Path, Detail: "this program brings no quantiser"}, nil
	}
	path, err := s.derive(ctx, a, s.opts.Derive, force)
	return Result{Asset: a, Done: Made, Path: path}, err
}

func (s *Store) fetch(ctx context.Context, a Asset, force bool) (Result, error) {
	st := s.status(a)
	r := Result{Asset: a, Done: Kept, Path: st.Path}
	if st.State == Present && !force {
		return r, nil
	}
	if s.opts.Offline {
		return r, fail("fetch", a.Name, ErrOffline, "run `lull assets fetch "+a.Name+"` once with a network")
	}
	if !a.Pinned() && !s.opts.AllowUnpinned {
		return r, s.unpinned(a)
	}
	err := s.locked(ctx, "fetch "+a.Name, func(work string) error {
		// Whoever held the lock before may have fetched this very asset.
		if st := s.status(a); st.State == Present && !force {
			return nil
		}
		r.Done = Fetched
		if err := s.enoughSpace(a); err != nil {
			return err
		}
		if err := s.build(ctx, work, a); err != nil {
			return fail("fetch", a.Name, err, "")
		}
		return nil
	})
	if a.Terms != "" {
		r.Detail = a.Licence + ": " + filepath.Join(st.Folder, filepath.FromSlash(a.Terms))
	}
	return r, err
}

func (s *Store) unpinned(a Asset) error {
	reason := ""
	for _, p := range a.Packages {
		if p.Unpinned != nil {
			reason = p.Unpinned.Reason
		}
	}
	return fail("fetch", a.Name, fmt.Errorf("%w: %s", ErrUnpinned, reason),
		"add --allow-unpinned to trust what "+a.Client+" delivers and record its hashes, or use "+
			s.opts.Word(SettingLlamaLib)+" DIR")
}

// enoughSpace asks before downloading rather than failing after a minute.
func (s *Store) enoughSpace(a Asset) error {
	free, err := s.freeBytes(s.root)
	need := a.spaceNeeded()
	if err != nil || free >= need {
		return nil // an unknown amount is no reason to refuse: the write will tell
	}
	err = fmt.Errorf("%w: %s has %d MB free, want %d MB", ErrDiskFull, s.root, free/1e6, need/1e6+1)
	return fail("fetch", a.Name, err,
		"free some space, or set "+EnvCache+" to a folder on another disk")
}

// build makes the whole folder inside work and publishes it.
func (s *Store) build(ctx context.Context, work string, a Asset) error {
	out := filepath.Join(work, "out")
	if err := os.Mkdir(out, 0o755); err != nil {
		return err
	}
	var files []StampFile
	for i, p := range a.Packages {
		got, err := s.fetchPackage(ctx, filepath.Join(work, fmt.Sprint("package-", i)), out, a, p)
		if err != nil {
			return err
		}
		files = append(files, got...)
	}
	for _, j := range a.Joined {
		if err := joinParts(ctx, out, j); err != nil {
			return err
		}
	}
	for _, plain := range sortedKeys(a.Links) {
		if err := linkPlain(out, plain, a.Links[plain]); err != nil {
			return err
		}
	}
	stamp := Stamp{Name: a.Name, Version: a.Version, Pins: a.pins(), Pinned: a.Pinned(), Files: files}
	if stamp.Pinned {
		stamp.Files = expected(a, stamp)
	}
	if err := writeStamp(out, stamp); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return context.Cause(ctx)
	}
	return s.publish(work, out, a)
}

// fetchPackage downloads one archive, checks it and takes its files out.
func (s *Store) fetchPackage(ctx context.Context, work, out string, a Asset, p Package) (got []StampFile, err error) {
	show := s.opts.Progress
	show.Start(p.Name+" "+a.Version, p.Bytes)
	defer func() { show.Done(err) }()
	if err := os.Mkdir(work, 0o755); err != nil {
		return nil, err
	}
	archive, err := s.download(ctx, work, a, p)
	if err != nil {
		return nil, err
	}
	if p.Unpinned == nil {
		if err := checkFile(archive, "archive of "+p.Name, p.Bytes, p.SHA256, nil); err != nil {
			return nil, err
		}
	}
	got, err = extract(ctx, archive, out, p)
	if err != nil {
		return nil, err
	}
	show.Set(p.Bytes)
	// The archive is of no more use, and the next package may need its space.
	return got, os.RemoveAll(work)
}

// checkFile compares a file with its pin, size first: a wrong size tells more
// than a wrong hash. count, if given, sees the bytes as they are hashed.
func checkFile(path, what string, bytes int64, sum string, count io.Writer) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if info.Size() < bytes {
		return mismatch(fmt.Sprintf("%s was cut short: %d bytes, want %d", what, info.Size(), bytes))
	}
	if info.Size() > bytes {
		return mismatch(fmt.Sprintf("%s has %d bytes, want %d", what, info.Size(), bytes))
	}
	got, err := hashOf(f, count)
	if err != nil {
		return err
	}
	if got != sum {
		return mismatch(fmt.Sprintf("%s: got %s, want %s", what, got, sum))
	}
	return nil
}

func mismatch(text string) error {
	return advised{join(ErrMismatch, errors.New(text)),
		"fetch again; if it stays so, a registry or mirror delivers other bytes than were pinned: do not use them"}
}

func hashOf(r io.Reader, count io.Writer) (string, error) {
	h := sha256.New()
	var w io.Writer = h
	if count != nil {
		w = io.MultiWriter(h, count)
	}
	if _, err := io.Copy(w, r); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// joinParts puts the parts end to end, each removed once it is in.
func joinParts(ctx context.Context, out string, j Joined) error {
	dst, err := os.OpenFile(filepath.Join(out, filepath.FromSlash(j.To)), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	for _, part := range j.Parts {
		if err := appendPart(ctx, dst, filepath.Join(out, filepath.FromSlash(part))); err != nil {
			return errors.Join(err, dst.Close())
		}
	}
	if err := dst.Close(); err != nil {
		return err
	}
	return checkFile(dst.Name(), j.To, j.Bytes, j.SHA256, nil)
}

func appendPart(ctx context.Context, dst io.Writer, part string) error {
	src, err := os.Open(part)
	if err != nil {
		return err
	}
	_, err = io.Copy(dst, reader{ctx, src})
	return errors.Join(err, src.Close(), os.Remove(part))
}

// linkPlain gives a versioned library its plain name. On Windows a symbolic
// link needs a privilege, so it is a hard link there: unlike a copy it stays
// the same file, and Windows then loads it once, not as two modules with two
// sets of backends.
func linkPlain(folder, plain, target string) error {
	from, to := filepath.Join(folder, target), filepath.Join(folder, plain)
	if _, err := os.Stat(from); err != nil {
		return fmt.Errorf("%w: %s, which %s should point at, is not in it", ErrArchive, target, plain)
	}
	if runtime.GOOS != "windows" {
		return os.Symlink(target, to)
	}
	if os.Link(from, to) == nil {
		return nil
	}
	src, err := os.Open(from)
	if err != nil {
		return err
	}
	defer src.Close()
	dst, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o755)
	if err != nil {
		return err
	}
	_, err = io.Copy(dst, src)
	return errors.Join(err, dst.Close())
}

// reader stops a long copy when the context ends.
type reader struct {
	ctx context.Context
	r   io.Reader
}

func (r reader) Read(p []byte) (int, error) {
	if r.ctx.Err() != nil {
		return 0, context.Cause(r.ctx)
	}
	return r.r.Read(p)
}
