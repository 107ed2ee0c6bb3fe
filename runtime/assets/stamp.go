package assets

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

const (
	// stampName is the file that makes a folder an asset.
	stampName = "lull-asset.json"

	stampSchema = 1

	// maxStampBytes and maxStampFiles bound what is read: the largest stamp made
	// here has 24 files and 4 kB.
	maxStampBytes = 1 << 20
	maxStampFiles = 4096
)

// Stamp says what was put into an asset's folder.
type Stamp struct {
	Schema  int         `json:"schema"`
	Name    string      `json:"name"`
	Version string      `json:"version"`
	Pins    string      `json:"pins"` // Asset.pins when it was made
	Pinned  bool        `json:"pinned"`
	Files   []StampFile `json:"files"`

	// Of a derived asset only.
	SourceSHA256   string `json:"source_sha256,omitempty"`
	LibraryVersion string `json:"library_version,omitempty"`
	Format         string `json:"format,omitempty"`
}

// StampFile is one file of the folder.
type StampFile struct {
	Path   string `json:"path"`
	Bytes  int64  `json:"bytes"`
	SHA256 string `json:"sha256"`
}

// ParseStamp reads and checks a stamp. Unknown keys are left alone, so that an
// older program reads a newer stamp of the same schema. Safe for concurrent use.
func ParseStamp(text []byte) (Stamp, error) {
	var s Stamp
	if len(text) > maxStampBytes {
		return s, fmt.Errorf("%w: %d bytes, want at most %d", ErrStamp, len(text), maxStampBytes)
	}
	if err := json.Unmarshal(text, &s); err != nil {
		return Stamp{}, join(ErrStamp, err)
	}
	if s.Schema != stampSchema {
		return Stamp{}, fmt.Errorf("%w: schema %d: this program reads schema %d", ErrStamp, s.Schema, stampSchema)
	}
	if len(s.Files) == 0 || len(s.Files) > maxStampFiles {
		return Stamp{}, fmt.Errorf("%w: %d files, want 1…%d", ErrStamp, len(s.Files), maxStampFiles)
	}
	seen := make(map[string]bool, len(s.Files))
	for _, f := range s.Files {
		if !safePath(f.Path) || f.Bytes < 0 || !hashForm.MatchString(f.SHA256) || seen[f.Path] {
			return Stamp{}, fmt.Errorf("%w: file %q: want a path inside the folder, once, with size and SHA-256",
				ErrStamp, f.Path)
		}
		seen[f.Path] = true
	}
	return s, nil
}

func readStamp(folder string) (Stamp, error) {
	f, err := os.Open(filepath.Join(folder, stampName))
	if err != nil {
		return Stamp{}, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxStampBytes+1))
	if err != nil {
		return Stamp{}, err
	}
	return ParseStamp(text)
}

func writeStamp(folder string, s Stamp) error {
	s.Schema = stampSchema
	text, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(folder, stampName), append(text, '\n'), 0o644)
}

// look is the cheap check: the stamp is of these pins, and every file and link
// is there with its size. It reads no file but the stamp.
func look(folder string, a Asset) (Stamp, State, error) {
	s, err := readStamp(folder)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if _, err := os.Stat(folder); err == nil {
			return s, Damaged, fmt.Errorf("%s has no stamp", folder)
		}
		return s, Absent, nil
	case err != nil:
		return s, Damaged, err
	case s.Name != a.Name || s.Pins != a.pins():
		return s, Stale, fmt.Errorf("%s was made from other pins", folder)
	}
	for _, f := range expected(a, s) {
		info, err := os.Stat(filepath.Join(folder, filepath.FromSlash(f.Path)))
		if err != nil {
			return s, Damaged, err
		}
		if !info.Mode().IsRegular() || info.Size() != f.Bytes {
			return s, Damaged, fmt.Errorf("%s has %d bytes, want %d", f.Path, info.Size(), f.Bytes)
		}
	}
	for plain, target := range a.Links {
		if err := checkLink(folder, plain, target); err != nil {
			return s, Damaged, err
		}
	}
	return s, Present, nil
}

// expected lists the files that must be there: the catalogue's where it has
// pins, else those that the stamp recorded.
func expected(a Asset, s Stamp) []StampFile {
	if a.Derived != nil || !a.Pinned() {
		return s.Files
	}
	var files []StampFile
	for _, f := range a.kept() {
		files = append(files, StampFile{Path: f.To, Bytes: f.Bytes, SHA256: f.SHA256})
	}
	return files
}

// checkLink accepts a link or, where links are not to be had, a copy by size.
func checkLink(folder, plain, target string) error {
	a, err := os.Stat(filepath.Join(folder, plain))
	if err != nil {
		return err
	}
	b, err := os.Stat(filepath.Join(folder, target))
	if err != nil {
		return err
	}
	if !os.SameFile(a, b) && a.Size() != b.Size() {
		return fmt.Errorf("%s is not the same file as %s", plain, target)
	}
	return nil
}
