package assets

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/goccy/go-yaml"
)

// pinSkips are suffixes of files that no asset wants: Node.js addons, their
// import libraries, and Python code.
var pinSkips = []string{".node", ".lib", ".py", ".pyc"}

// Pin downloads an asset without comparing it to anything, and gives its entry
// with fresh pins: every file under each package's prefix, and the files that
// have a From of their own. It is how the catalogue is brought to a new
// version; a person reads the result before it goes in. An empty version keeps
// the one that is listed. The cache stays as it is.
func (s *Store) Pin(ctx context.Context, name, version string) (Asset, error) {
	a, err := s.asset("pin", name)
	if err != nil {
		return a, err
	}
	if a.Derived != nil {
		return a, fail("pin", name, fmt.Errorf("%w: it is derived", ErrUnknownAsset), "pin "+a.Derived.From+" instead")
	}
	if version != "" {
		a.Version = version
	}
	if !versionForm.MatchString(a.Version) {
		return a, fail("pin", name, fmt.Errorf("%w: version %q", ErrCatalog, version), "give a version such as 1.2.3")
	}
	err = s.locked(ctx, "pin "+name, func(work string) error {
		return fail("pin", name, s.pin(ctx, work, &a), "")
	})
	return a, err
}

func (s *Store) pin(ctx context.Context, work string, a *Asset) error {
	out := filepath.Join(work, "out")
	if err := os.Mkdir(out, 0o755); err != nil {
		return err
	}
	packages := make([]Package, len(a.Packages))
	for i, p := range a.Packages {
		pinned, err := s.pinPackage(ctx, filepath.Join(work, fmt.Sprint("package-", i)), out, *a, p)
		if err != nil {
			return err
		}
		packages[i] = pinned
	}
	a.Packages = packages
	joined := make([]Joined, len(a.Joined))
	for i, j := range a.Joined {
		sum, size, err := hashParts(ctx, out, j.Parts)
		if err != nil {
			return err
		}
		joined[i] = Joined{To: j.To, Bytes: size, SHA256: sum, Parts: j.Parts}
	}
	a.Joined = joined
	return nil
}

func (s *Store) pinPackage(ctx context.Context, work, out string, a Asset, p Package) (pinned Package, err error) {
	show := s.opts.Progress
	show.Start(p.Name+" "+a.Version, 0)
	defer func() { show.Done(err) }()
	if err := os.Mkdir(work, 0o755); err != nil {
		return p, err
	}
	archive, err := s.download(ctx, work, a, Package{Name: p.Name})
	if err != nil {
		return p, err
	}
	size, err := os.Stat(archive)
	if err != nil {
		return p, err
	}
	sum, err := hashFile(ctx, archive)
	if err != nil {
		return p, err
	}
	wild := Package{Name: p.Name, Prefix: p.Prefix, Unpinned: &Unpinned{Skip: pinSkips}}
	from := map[string]string{}
	for _, f := range p.Files {
		if f.From != "" {
			from[f.To] = f.From
			wild.Files = append(wild.Files, File{To: f.To, From: f.From, Bytes: -1})
		}
	}
	got, err := extract(ctx, archive, out, wild)
	if err != nil {
		return p, err
	}
	pinned = Package{Name: p.Name, Bytes: size.Size(), SHA256: sum, Prefix: p.Prefix}
	for _, f := range got {
		pinned.Files = append(pinned.Files, File{To: f.Path, Bytes: f.Bytes, SHA256: f.SHA256, From: from[f.Path]})
	}
	return pinned, nil
}

func hashFile(ctx context.Context, path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	return hashOf(reader{ctx, f}, nil)
}

// hashParts hashes files as if they lay end to end.
func hashParts(ctx context.Context, folder string, parts []string) (sum string, size int64, err error) {
	var all []io.Reader
	for _, part := range parts {
		f, err := os.Open(filepath.Join(folder, filepath.FromSlash(part)))
		if err != nil {
			return "", 0, err
		}
		defer f.Close()
		info, err := f.Stat()
		if err != nil {
			return "", 0, err
		}
		size += info.Size()
		all = append(all, f)
	}
	sum, err = hashOf(reader{ctx, io.MultiReader(all...)}, nil)
	return sum, size, err
}

// YAML writes an asset as an entry of the catalogue.
func (a Asset) YAML() ([]byte, error) {
	return yaml.MarshalWithOptions([]Asset{a}, yaml.Indent(2), yaml.IndentSequence(true))
}
