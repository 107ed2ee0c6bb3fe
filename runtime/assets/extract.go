package assets

import (
	"archive/tar"
	"archive/zip"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

const (
	// maxEntries bounds an archive's listing; the largest one pinned has 24.
	maxEntries = 10_000

	// maxUnpacked bounds what is decompressed of one archive, skipped entries
	// included: four times the largest file allowed would be odd already.
	maxUnpacked = 4 * maxAssetBytes

	// maxUnpinnedBytes bounds one file that has no pinned size. The largest
	// library of the family is the Vulkan backend with 43 MB.
	maxUnpinnedBytes = 1 << 30
)

// extraction takes wanted files out of one archive into a folder.
type extraction struct {
	ctx     context.Context
	out     *os.Root // refuses any path that leaves the folder, links included
	pkg     Package
	wanted  map[string]File // path in the archive → file
	got     []StampFile
	entries int
	total   int64
}

// extract takes the files of p out of a .whl/.zip or .tgz archive. An archive
// with any entry that points outside is refused as a whole, wanted or not.
func extract(ctx context.Context, archive, out string, p Package) ([]StampFile, error) {
	root, err := os.OpenRoot(out)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	x := &extraction{ctx: ctx, out: root, pkg: p, wanted: map[string]File{}}
	for _, f := range p.Files {
		from := f.From
		if from == "" {
			from = p.Prefix + f.To
		}
		x.wanted[from] = f
	}
	if ext := strings.ToLower(filepath.Ext(archive)); ext == ".whl" || ext == ".zip" {
		err = x.zip(archive)
	} else {
		err = x.tar(archive)
	}
	if err != nil {
		return nil, x.explain(err)
	}
	for from, f := range x.wanted {
		if !slices.ContainsFunc(x.got, func(g StampFile) bool { return g.Path == f.To }) {
			return nil, x.explain(fmt.Errorf("%w: it holds no %s", ErrArchive, from))
		}
	}
	if len(x.got) == 0 {
		return nil, x.explain(fmt.Errorf("%w: it holds nothing under %s", ErrArchive, p.Prefix))
	}
	return x.got, nil
}

func (x *extraction) explain(err error) error {
	for _, broken := range []error{
		io.ErrUnexpectedEOF, gzip.ErrHeader, gzip.ErrChecksum, zip.ErrFormat, zip.ErrChecksum, zip.ErrAlgorithm,
		tar.ErrHeader, tar.ErrInsecurePath, zip.ErrInsecurePath,
	} {
		if errors.Is(err, broken) {
			err = join(ErrArchive, err)
		}
	}
	return fmt.Errorf("archive of %s: %w", x.pkg.Name, err)
}

func (x *extraction) tar(archive string) error {
	f, err := os.Open(archive)
	if err != nil {
		return err
	}
	defer f.Close()
	unzipped, err := gzip.NewReader(reader{x.ctx, f})
	if err != nil {
		return err
	}
	bounded := &io.LimitedReader{R: unzipped, N: maxUnpacked}
	tr := tar.NewReader(bounded)
	for {
		h, err := tr.Next()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			if bounded.N <= 0 {
				return fmt.Errorf("%w: it unpacks to more than %d bytes", ErrArchive, int64(maxUnpacked))
			}
			return err
		}
		if h.Typeflag == tar.TypeXGlobalHeader || h.Typeflag == tar.TypeDir {
			continue
		}
		if err := x.entry(h.Name, h.Typeflag == tar.TypeReg, tr); err != nil {
			return err
		}
	}
}

func (x *extraction) zip(archive string) error {
	z, err := zip.OpenReader(archive)
	if err != nil {
		return err
	}
	defer z.Close()
	for _, f := range z.File {
		if strings.HasSuffix(f.Name, "/") {
			continue
		}
		if err := x.zipEntry(f); err != nil {
			return err
		}
	}
	return nil
}

func (x *extraction) zipEntry(f *zip.File) error {
	if _, wanted := x.want(f.Name); !wanted {
		return x.entry(f.Name, f.Mode().IsRegular(), nil)
	}
	r, err := f.Open()
	if err != nil {
		return err
	}
	return errors.Join(x.entry(f.Name, f.Mode().IsRegular(), reader{x.ctx, r}), r.Close())
}

// want says whether an archive's entry is wanted, and under which name.
func (x *extraction) want(name string) (File, bool) {
	if f, ok := x.wanted[name]; ok {
		return f, true
	}
	if u := x.pkg.Unpinned; u != nil {
		rest, ok := strings.CutPrefix(name, x.pkg.Prefix)
		skip := slices.ContainsFunc(u.Skip, func(suffix string) bool { return strings.HasSuffix(rest, suffix) })
		return File{To: rest, Bytes: -1}, ok && !skip && rest != stampName
	}
	return File{}, false
}

// entry looks at one entry that is not a folder, and writes it if it is wanted.
func (x *extraction) entry(name string, regular bool, r io.Reader) error {
	if x.entries++; x.entries > maxEntries {
		return fmt.Errorf("%w: more than %d entries", ErrArchive, maxEntries)
	}
	if !safePath(name) {
		return fmt.Errorf("%w: entry %q points outside of it", ErrArchive, name)
	}
	f, wanted := x.want(name)
	if !wanted {
		return nil
	}
	if !regular {
		return fmt.Errorf("%w: entry %q is a link or a device, want a plain file", ErrArchive, name)
	}
	if dir := path.Dir(f.To); dir != "." {
		if err := x.out.MkdirAll(filepath.FromSlash(dir), 0o755); err != nil {
			return err
		}
	}
	return x.write(f, r)
}

// write copies one file while hashing it. It reads one byte more than the pin
// at most, so a lying archive cannot fill the disk.
func (x *extraction) write(f File, r io.Reader) error {
	limit := f.Bytes
	if limit < 0 {
		limit = maxUnpinnedBytes
	}
	dst, err := x.out.OpenFile(filepath.FromSlash(f.To), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	h := sha256.New()
	n, err := io.Copy(io.MultiWriter(dst, h), io.LimitReader(r, limit+1))
	if err := errors.Join(err, dst.Close()); err != nil {
		return fmt.Errorf("%s: %w", f.To, err)
	}
	sum := hex.EncodeToString(h.Sum(nil))
	x.total += n
	switch {
	case x.total > maxUnpacked:
		return fmt.Errorf("%w: its files have more than %d bytes", ErrArchive, int64(maxUnpacked))
	case n > limit && f.Bytes < 0:
		return fmt.Errorf("%w: %s has more than %d bytes", ErrArchive, f.To, int64(maxUnpinnedBytes))
	case f.Bytes >= 0 && n != f.Bytes:
		return mismatch(fmt.Sprintf("%s: %d bytes or more, want %d", f.To, n, f.Bytes))
	case f.Bytes >= 0 && sum != f.SHA256:
		return mismatch(fmt.Sprintf("%s: got %s, want %s", f.To, sum, f.SHA256))
	}
	x.got = append(x.got, StampFile{Path: f.To, Bytes: n, SHA256: sum})
	return nil
}
