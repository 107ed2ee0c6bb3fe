package assets

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
)

// What Verify found about a file.
const (
	FileOK         = "ok"
	FileMissing    = "missing"
	FileDamaged    = "damaged"
	FileUnexpected = "unexpected" // llama.cpp loads every backend it finds beside it
)

// FileReport is one file as Verify found it.
type FileReport struct {
	Path   string
	Status string
	Want   string // SHA-256, or the size where that differs already
	Got    string
}

// Report is one asset as Verify found it.
type Report struct {
	Asset  Asset
	State  State
	Folder string
	Detail string
	Files  []FileReport
}

// Verify reads every byte of the named assets; without names, of all that are
// in the cache. A difference is no error but stands in the report: State is
// then not Present. A named asset that is not there is reported as Absent.
func (s *Store) Verify(ctx context.Context, names []string) ([]Report, error) {
	var list []Asset
	for _, name := range names {
		a, err := s.asset("verify", name)
		if err != nil {
			return nil, err
		}
		list = append(list, a)
	}
	if len(names) == 0 {
		for _, st := range s.List() {
			if st.State != Absent {
				list = append(list, st.Asset)
			}
		}
	}
	var reports []Report
	for _, a := range list {
		r, err := s.verify(ctx, a)
		if err != nil {
			return reports, fail("verify", a.Name, err, "")
		}
		reports = append(reports, r)
	}
	return reports, nil
}

func (s *Store) verify(ctx context.Context, a Asset) (r Report, err error) {
	st := s.status(a)
	r = Report{Asset: a, State: st.State, Folder: st.Folder, Detail: st.Detail}
	stamp, stampErr := readStamp(st.Folder)
	if st.State == Absent || stampErr != nil && (a.Derived != nil || !a.Pinned()) {
		return r, nil // nothing there, or nothing to compare with
	}
	files := expected(a, stamp)
	var total int64
	for _, f := range files {
		total += f.Bytes
	}
	show := s.opts.Progress
	show.Start("verify "+a.Name, total)
	defer func() { show.Done(err) }()
	count := &meter{to: show}
	for _, f := range files {
		report, err := verifyFile(ctx, st.Folder, f, count)
		if err != nil {
			return r, err
		}
		r.Files = append(r.Files, report)
	}
	for _, extra := range unexpected(st.Folder, a, files) {
		r.Files = append(r.Files, FileReport{Path: extra, Status: FileUnexpected})
	}
	i := slices.IndexFunc(r.Files, func(f FileReport) bool { return f.Status != FileOK })
	if i >= 0 && r.State == Present {
		r.State, r.Detail = Damaged, r.Files[i].Path+" is "+r.Files[i].Status
	}
	return r, nil
}

func verifyFile(ctx context.Context, folder string, want StampFile, count io.Writer) (FileReport, error) {
	r := FileReport{Path: want.Path, Status: FileOK, Want: want.SHA256}
	f, err := os.Open(filepath.Join(folder, filepath.FromSlash(want.Path)))
	if errors.Is(err, fs.ErrNotExist) {
		r.Status = FileMissing
		return r, nil
	}
	if err != nil {
		return r, err
	}
	defer f.Close()
	r.Got, err = hashOf(reader{ctx, f}, count)
	if err == nil && r.Got != r.Want {
		r.Status = FileDamaged
	}
	return r, err
}

// unexpected lists what is in the folder and was not put there by a fetch.
func unexpected(folder string, a Asset, files []StampFile) []string {
	known := map[string]bool{stampName: true}
	for _, f := range files {
		known[f.Path] = true
	}
	for plain := range a.Links {
		known[plain] = true
	}
	var extra []string
	_ = filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return nil
		}
		rel, err := filepath.Rel(folder, path)
		if err == nil && !known[filepath.ToSlash(rel)] {
			extra = append(extra, filepath.ToSlash(rel))
		}
		return nil
	})
	return extra
}
