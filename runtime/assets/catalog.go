package assets

import (
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"errors"
	"fmt"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"
)

//go:embed catalog.yaml
var embeddedCatalog []byte

// Kinds of asset.
const (
	KindLibrary  = "library"
	KindModel    = "model"
	KindEmbedder = "embedder"
)

// Package clients that may deliver an archive.
const (
	ClientNpm = "npm"
	ClientPip = "pip"
)

const (
	// catalogSchema is the layout that this code reads. A field that old code
	// would misread raises it.
	catalogSchema = 1

	// maxCatalogBytes bounds the parser's input. The embedded catalogue has 16 kB.
	maxCatalogBytes = 1 << 20

	// maxAssetBytes bounds one archive or file: 8 GB is the largest model that
	// an on-device game could hold, and stops a bad pin from filling a disk.
	maxAssetBytes = 8 << 30
)

// Catalog is the list of what can be fetched or derived. Read-only after
// ParseCatalog, and then safe for concurrent use.
type Catalog struct {
	Schema int     `yaml:"schema"`
	Assets []Asset `yaml:"assets"`
}

// Asset is one folder in the cache.
type Asset struct {
	Name     string            `yaml:"name"`
	Kind     string            `yaml:"kind"`               // library, model or embedder
	Platform string            `yaml:"platform,omitempty"` // GOOS/GOARCH; empty fits all
	Default  bool              `yaml:"default,omitempty"`  // fetched when no name is given
	Client   string            `yaml:"client,omitempty"`   // npm or pip
	Version  string            `yaml:"version"`            // of every package below
	Holds    string            `yaml:"holds"`              // what is inside, for people
	Licence  string            `yaml:"licence"`
	Terms    string            `yaml:"terms,omitempty"` // file with terms to accept; may be empty
	Purpose  string            `yaml:"purpose"`
	Path     string            `yaml:"path,omitempty"`  // what its user opens; empty is the folder
	Links    map[string]string `yaml:"links,omitempty"` // plain name → versioned file
	Packages []Package         `yaml:"packages,omitempty"`
	Joined   []Joined          `yaml:"joined,omitempty"`
	Derived  *Derived          `yaml:"derived,omitempty"`
}

// Package is one archive and the files wanted from it.
type Package struct {
	Name     string    `yaml:"name"`
	Bytes    int64     `yaml:"bytes,omitempty"`
	SHA256   string    `yaml:"sha256,omitempty"`
	Prefix   string    `yaml:"prefix,omitempty"` // put before each file's To, unless it has From
	Files    []File    `yaml:"files,omitempty"`
	Unpinned *Unpinned `yaml:"unpinned,omitempty"`
}

// File is one wanted file of an archive.
type File struct {
	To     string `yaml:"to"`
	Bytes  int64  `yaml:"bytes,omitempty"`
	SHA256 string `yaml:"sha256,omitempty"`
	From   string `yaml:"from,omitempty"`
}

// Joined is a file made by putting parts end to end; the parts are removed.
type Joined struct {
	To     string   `yaml:"to"`
	Bytes  int64    `yaml:"bytes,omitempty"`
	SHA256 string   `yaml:"sha256,omitempty"`
	Parts  []string `yaml:"parts"`
}

// Unpinned stands where no hashes could be taken. Such an asset is fetched only
// when the caller allows it, and its hashes are recorded then.
type Unpinned struct {
	Skip   []string `yaml:"skip,omitempty"` // suffixes of files to leave
	Reason string   `yaml:"reason"`
}

// Derived names the asset that this one is made from, and the target format.
type Derived struct {
	From   string `yaml:"from,omitempty"`
	Format string `yaml:"format"`
}

// DefaultCatalog gives the embedded catalogue. Safe for concurrent use.
func DefaultCatalog() (*Catalog, error) { return ParseCatalog(embeddedCatalog) }

// ParseCatalog reads and checks a catalogue in YAML. Unknown keys are errors,
// since a mistyped hash key must not pass for "no hash". Safe for concurrent
// use.
func ParseCatalog(text []byte) (c *Catalog, err error) {
	if len(text) > maxCatalogBytes {
		return nil, fmt.Errorf("%w: %d bytes, want at most %d", ErrCatalog, len(text), maxCatalogBytes)
	}
	// The YAML library is not ours, and a bad file must not end a game.
	defer func() {
		if r := recover(); r != nil {
			c, err = nil, fmt.Errorf("%w: YAML reader gave up: %v", ErrCatalog, r)
		}
	}()
	c = new(Catalog)
	if err := yaml.UnmarshalWithOptions(text, c, yaml.Strict()); err != nil {
		return nil, join(ErrCatalog, errors.New(yaml.FormatError(err, false, false)))
	}
	if err := c.validate(); err != nil {
		return nil, join(ErrCatalog, err)
	}
	return c, nil
}

// Asset finds an asset by name.
func (c *Catalog) Asset(name string) (Asset, bool) {
	i := slices.IndexFunc(c.Assets, func(a Asset) bool { return a.Name == name })
	if i < 0 {
		return Asset{}, false
	}
	return c.Assets[i], true
}

// Names lists the assets of one kind that fit a platform; an empty kind is all.
func (c *Catalog) Names(kind, platform string) []string {
	var names []string
	for _, a := range c.Assets {
		if (kind == "" || a.Kind == kind) && a.Fits(platform) {
			names = append(names, a.Name)
		}
	}
	return names
}

// defaultOf finds the default asset of a kind for a platform.
func (c *Catalog) defaultOf(kind, platform string) (Asset, bool) {
	i := slices.IndexFunc(c.Assets, func(a Asset) bool { return a.Default && a.Kind == kind && a.Fits(platform) })
	if i < 0 {
		return Asset{}, false
	}
	return c.Assets[i], true
}

// derivedFrom finds the asset that is made from the named one, of several the
// first in the list: that is the form in which a default model is used.
func (c *Catalog) derivedFrom(name string) (Asset, bool) {
	i := slices.IndexFunc(c.Assets, func(a Asset) bool { return a.Derived != nil && a.Derived.From == name })
	if i < 0 {
		return Asset{}, false
	}
	return c.Assets[i], true
}

// Fits says whether the asset is of use on a platform such as "linux/amd64".
func (a Asset) Fits(platform string) bool { return a.Platform == "" || a.Platform == platform }

// Pinned says whether every byte of the asset is known beforehand.
func (a Asset) Pinned() bool {
	return !slices.ContainsFunc(a.Packages, func(p Package) bool { return p.Unpinned != nil })
}

// DownloadBytes is the size of the archives; 0 when unknown.
func (a Asset) DownloadBytes() int64 {
	var sum int64
	for _, p := range a.Packages {
		sum += p.Bytes
	}
	return sum
}

// folder is the asset's folder name in the cache.
func (a Asset) folder() string { return a.Name + "-" + a.Version }

// kept lists the files that stay in the folder, links aside.
func (a Asset) kept() []File {
	var files []File
	isPart := map[string]bool{}
	for _, j := range a.Joined {
		files = append(files, File{To: j.To, Bytes: j.Bytes, SHA256: j.SHA256})
		for _, part := range j.Parts {
			isPart[part] = true
		}
	}
	for _, p := range a.Packages {
		for _, f := range p.Files {
			if !isPart[f.To] {
				files = append(files, f)
			}
		}
	}
	return files
}

// spaceNeeded is what a fetch may occupy at its widest: a client keeps a second
// copy of the archive while it works, and parts lie beside the joined file.
func (a Asset) spaceNeeded() int64 {
	need := 2 * a.DownloadBytes()
	for _, p := range a.Packages {
		for _, f := range p.Files {
			need += f.Bytes
		}
	}
	for _, j := range a.Joined {
		need += j.Bytes
	}
	return need
}

// pins is a hash over everything that decides which bytes end up in the folder,
// so that a stamp of other pins counts as stale and a reworded purpose does not.
func (a Asset) pins() string {
	h := sha256.New()
	fmt.Fprintf(h, "%s %s\n", a.Name, a.Version)
	for _, p := range a.Packages {
		fmt.Fprintf(h, "package %s %d %s\n", p.Name, p.Bytes, p.SHA256)
	}
	for _, f := range a.kept() {
		fmt.Fprintf(h, "file %s %d %s\n", f.To, f.Bytes, f.SHA256)
	}
	for _, plain := range sortedKeys(a.Links) {
		fmt.Fprintf(h, "link %s %s\n", plain, a.Links[plain])
	}
	if a.Derived != nil {
		fmt.Fprintf(h, "derived %s %s\n", a.Derived.From, a.Derived.Format)
	}
	return hex.EncodeToString(h.Sum(nil))
}

func sortedKeys(m map[string]string) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// Names and versions become file names and arguments of a client, so neither
// may begin with a dash or hold a separator; npm's scope is the one exception.
var (
	nameForm    = regexp.MustCompile(`^[a-z0-9][a-z0-9._-]{0,79}$`)
	versionForm = regexp.MustCompile(`^[0-9][0-9A-Za-z.+-]{0,39}$`)
	packageForm = regexp.MustCompile(`^(@[a-z0-9][a-z0-9._-]*/)?[A-Za-z0-9][A-Za-z0-9._-]{0,99}$`)
	formatForm  = regexp.MustCompile(`^[A-Z0-9_]{1,16}$`)
	hashForm    = regexp.MustCompile(`^[0-9a-f]{64}$`)
	platforms   = regexp.MustCompile(`^[a-z0-9]+/[a-z0-9]+$`)
)

func (c *Catalog) validate() error {
	if c.Schema != catalogSchema {
		return fmt.Errorf("schema %d: this program reads schema %d", c.Schema, catalogSchema)
	}
	seen := map[string]bool{}
	for _, a := range c.Assets {
		if err := a.validate(); err != nil {
			return fmt.Errorf("asset %q: %w", a.Name, err)
		}
		if seen[a.Name] {
			return fmt.Errorf("asset %q: listed twice", a.Name)
		}
		seen[a.Name] = true
		key := a.Kind + " for " + a.Platform
		if a.Default && seen[key] {
			return fmt.Errorf("asset %q: a second default %s", a.Name, key)
		}
		seen[key] = seen[key] || a.Default
	}
	for _, a := range c.Assets {
		if a.Derived == nil {
			continue
		}
		from, ok := c.Asset(a.Derived.From)
		if !ok || from.Derived != nil || from.Path == "" || !from.Pinned() {
			return fmt.Errorf("asset %q: derived.from %q: want a pinned asset with a path", a.Name, a.Derived.From)
		}
	}
	return nil
}

func (a Asset) validate() error {
	switch {
	case !nameForm.MatchString(a.Name):
		return errors.New("name: want lower-case letters, digits, dots, dashes")
	case !versionForm.MatchString(a.Version):
		return fmt.Errorf("version %q: want one that begins with a digit", a.Version)
	case a.Kind != KindLibrary && a.Kind != KindModel && a.Kind != KindEmbedder:
		return fmt.Errorf("kind %q: want library, model or embedder", a.Kind)
	case a.Platform != "" && !platforms.MatchString(a.Platform):
		return fmt.Errorf("platform %q: want GOOS/GOARCH", a.Platform)
	case a.Path != "" && !safePath(a.Path):
		return fmt.Errorf("path %q leaves the folder", a.Path)
	}
	if a.Derived != nil {
		if len(a.Packages)+len(a.Joined)+len(a.Links) > 0 || a.Client != "" || a.Path == "" {
			return errors.New("derived: want a path, and no client, packages, joined or links")
		}
		if !formatForm.MatchString(a.Derived.Format) {
			return fmt.Errorf("derived.format %q: want a name such as Q4_0", a.Derived.Format)
		}
		return nil
	}
	if a.Client != ClientNpm && a.Client != ClientPip {
		return fmt.Errorf("client %q: want npm or pip", a.Client)
	}
	if len(a.Packages) == 0 {
		return errors.New("no packages")
	}
	return a.validateFiles()
}

func (a Asset) validateFiles() error {
	files := map[string]bool{}
	add := func(f File) error {
		switch {
		case !safePath(f.To) || f.From != "" && !safePath(f.From):
			return fmt.Errorf("file %q: path leaves the folder", f.To)
		case files[f.To] || f.To == stampName:
			return fmt.Errorf("file %q: listed twice, or a name kept for the stamp", f.To)
		case f.Bytes < 0 || f.Bytes > maxAssetBytes:
			return fmt.Errorf("file %q: %d bytes, want 0…%d", f.To, f.Bytes, int64(maxAssetBytes))
		case !hashForm.MatchString(f.SHA256):
			return fmt.Errorf("file %q: sha256 %q: want 64 hexadecimal digits", f.To, f.SHA256)
		}
		files[f.To] = true
		return nil
	}
	for _, p := range a.Packages {
		if err := p.validate(); err != nil {
			return fmt.Errorf("package %q: %w", p.Name, err)
		}
		for _, f := range p.Files {
			if err := add(f); err != nil {
				return err
			}
		}
	}
	for _, j := range a.Joined {
		for _, part := range j.Parts {
			if !files[part] {
				return fmt.Errorf("joined %q: part %q is not a file of a package", j.To, part)
			}
		}
		if err := add(File{To: j.To, Bytes: j.Bytes, SHA256: j.SHA256}); err != nil {
			return err
		}
	}
	for plain, target := range a.Links {
		if !safePath(plain) || !safePath(target) || path.Dir(plain) != "." || path.Dir(target) != "." {
			return fmt.Errorf("link %q → %q: want two plain file names", plain, target)
		}
		if files[plain] || a.Pinned() && !files[target] {
			return fmt.Errorf("link %q → %q: name taken, or target not a file of a package", plain, target)
		}
	}
	if a.Path != "" && a.Pinned() && !files[a.Path] {
		return fmt.Errorf("path %q is not a file of a package", a.Path)
	}
	return nil
}

func (p Package) validate() error {
	switch {
	case !packageForm.MatchString(p.Name):
		return errors.New("not a package name")
	case p.Prefix != "" && (!safePath(strings.TrimSuffix(p.Prefix, "/")) || !strings.HasSuffix(p.Prefix, "/")):
		return fmt.Errorf("prefix %q: want a folder in the archive, with a slash at its end", p.Prefix)
	case p.Unpinned != nil:
		if p.SHA256 != "" || p.Bytes != 0 || len(p.Files) > 0 || p.Prefix == "" {
			return errors.New("unpinned: want a prefix, and no bytes, sha256 or files")
		}
		return nil
	case p.Bytes <= 0 || p.Bytes > maxAssetBytes:
		return fmt.Errorf("%d bytes, want 1…%d", p.Bytes, int64(maxAssetBytes))
	case !hashForm.MatchString(p.SHA256):
		return fmt.Errorf("sha256 %q: want 64 hexadecimal digits", p.SHA256)
	case len(p.Files) == 0:
		return errors.New("no files wanted from it")
	}
	return nil
}

// safePath says whether a slash-separated path stays inside its folder on every
// system: relative, clean, no backslash, no drive.
func safePath(p string) bool {
	return p != "" && len(p) < 512 && !strings.ContainsAny(p, "\\:\x00") && p != "." &&
		path.Clean(p) == p && filepath.IsLocal(filepath.FromSlash(p))
}
