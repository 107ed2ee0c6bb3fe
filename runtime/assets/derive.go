package assets

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// Quantizer writes the model src to dst in a format such as "Q4_0". progress may
// be called with the share done, in [0,1]. llama.cpp's quantiser is one; this
// package does not import it.
type Quantizer func(ctx context.Context, src, dst, format string, progress func(done float64)) error

// Derivation is how to make derived assets.
type Derivation struct {
	Quantize Quantizer // nil: nothing can be made
	Library  string    // release of the library behind it, such as "llama.cpp v0.5.0"
}

// ggufMagic opens every GGUF file.
var ggufMagic = []byte("GGUF")

// EnsureDerived gives the path of a derived asset, and makes it first if it is
// not there, was made by another library release, or is damaged. Its source
// must be in the cache already.
func (s *Store) EnsureDerived(ctx context.Context, name string, d Derivation) (string, error) {
	a, err := s.asset("derive", name)
	if err != nil {
		return "", err
	}
	if a.Derived == nil {
		return "", fail("derive", name, errors.New("it is fetched, not derived"), "run `lull assets fetch "+name+"`")
	}
	return s.derive(ctx, a, d, false)
}

func (s *Store) derive(ctx context.Context, a Asset, d Derivation, force bool) (string, error) {
	path, ready := s.derived(a, d)
	if ready && !force {
		return path, nil
	}
	if d.Quantize == nil {
		return "", fail("derive", a.Name, ErrNoQuantizer, "use a program that loads llama.cpp, such as `lull`")
	}
	source, err := s.Status(a.Derived.From)
	if err != nil {
		return "", err
	}
	if source.State != Present {
		if _, err := s.fetch(ctx, source.Asset, false); err != nil {
			return "", err
		}
	}
	err = s.locked(ctx, "derive "+a.Name, func(work string) error {
		if _, ready := s.derived(a, d); ready && !force {
			return nil
		}
		return fail("derive", a.Name, s.quantize(ctx, work, a, source.Path, d), "")
	})
	return path, err
}

// derived looks whether the asset is there and was made by this library.
func (s *Store) derived(a Asset, d Derivation) (string, bool) {
	st := s.status(a)
	if st.State != Present {
		return st.Path, false
	}
	stamp, err := readStamp(st.Folder)
	return st.Path, err == nil && s.fresh(a, stamp, d.Library) == nil
}

// fresh says whether a derived asset comes from the source that is pinned now
// and from the given library; an empty library accepts any.
func (s *Store) fresh(a Asset, stamp Stamp, library string) error {
	want := s.sourceHash(a)
	switch {
	case stamp.SourceSHA256 != want:
		return fmt.Errorf("made from a source with SHA-256 %.12s…, the catalogue has %.12s…", stamp.SourceSHA256, want)
	case stamp.Format != a.Derived.Format:
		return fmt.Errorf("format %s, want %s", stamp.Format, a.Derived.Format)
	case library != "" && stamp.LibraryVersion != library:
		return fmt.Errorf("made by %s, this is %s", stamp.LibraryVersion, library)
	}
	return nil
}

// sourceHash is the pinned hash of the file that a derived asset is made from.
func (s *Store) sourceHash(a Asset) string {
	source, _ := s.opts.Catalog.Asset(a.Derived.From)
	for _, f := range source.kept() {
		if f.To == source.Path {
			return f.SHA256
		}
	}
	return ""
}

func (s *Store) quantize(ctx context.Context, work string, a Asset, src string, d Derivation) (err error) {
	info, err := os.Stat(src)
	if err != nil {
		return err
	}
	show := s.opts.Progress
	show.Start(a.Name, info.Size())
	defer func() { show.Done(err) }()
	if err := s.checkSource(a, src); err != nil {
		return err
	}
	out := filepath.Join(work, "out")
	dst := filepath.Join(out, filepath.FromSlash(a.Path))
	if err := os.MkdirAll(filepath.Dir(dst), 0o755); err != nil {
		return err
	}
	progress := func(done float64) {
		if done >= 0 && done <= 1 {
			show.Set(int64(done * float64(info.Size())))
		}
	}
	if err := d.Quantize(ctx, src, dst, a.Derived.Format, progress); err != nil {
		return err
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	made, err := describe(out, a.Path)
	if err != nil {
		return err
	}
	stamp := Stamp{Name: a.Name, Version: a.Version, Pins: a.pins(), Files: []StampFile{made},
		SourceSHA256: s.sourceHash(a), LibraryVersion: d.Library, Format: a.Derived.Format}
	if err := writeStamp(out, stamp); err != nil {
		return err
	}
	return s.publish(work, out, a)
}

// checkSource reads all that the source brought. A quantised model is written
// once and depends on its source for ever: a flipped bit would stay hidden in it.
// The quantiser may need what lies beside the file too, such as a vocabulary.
func (s *Store) checkSource(a Asset, src string) error {
	source, _ := s.opts.Catalog.Asset(a.Derived.From)
	folder := strings.TrimSuffix(src, filepath.FromSlash(source.Path))
	for _, f := range source.kept() {
		path := filepath.Join(folder, filepath.FromSlash(f.To))
		if err := checkFile(path, a.Derived.From+": "+f.To, f.Bytes, f.SHA256, nil); err != nil {
			return err
		}
	}
	return nil
}

// describe hashes a quantiser's result, and refuses what is no model at all.
func describe(folder, path string) (StampFile, error) {
	f, err := os.Open(filepath.Join(folder, filepath.FromSlash(path)))
	if err != nil {
		return StampFile{}, join(ErrDerived, err)
	}
	defer f.Close()
	magic := make([]byte, len(ggufMagic))
	if _, err := io.ReadFull(f, magic); err != nil || !bytes.Equal(magic, ggufMagic) {
		return StampFile{}, fmt.Errorf("%w: it begins with %q, want %q", ErrDerived, magic, ggufMagic)
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return StampFile{}, err
	}
	sum, err := hashOf(f, nil)
	if err != nil {
		return StampFile{}, err
	}
	info, err := f.Stat()
	if err != nil {
		return StampFile{}, err
	}
	return StampFile{Path: path, Bytes: info.Size(), SHA256: sum}, nil
}
