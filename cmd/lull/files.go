package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"unicode"

	"github.com/lull-npc/lull/internal/wholefile"
)

// writeFile replaces a file at once, so that an old one survives a full disk. A
// device or a pipe is written to.
func writeFile(file string, data []byte) error {
	err := wholefile.Write(file, data, 0o644)
	if errors.Is(err, wholefile.ErrNotRegular) {
		err = writeInto(file, data)
	}
	if err != nil {
		return fmt.Errorf("writing %s: %w", file, err)
	}
	return nil
}

func writeInto(device string, data []byte) error {
	f, err := os.OpenFile(device, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	return errors.Join(err, f.Close())
}

// checkFolder reports before long work that a file could not be written after
// it, since its folder is not there.
func checkFolder(flag, file string) error {
	if file == "" || file == "-" {
		return nil
	}
	if info, err := os.Stat(filepath.Dir(file)); err != nil || !info.IsDir() {
		err := fmt.Errorf("%s %s: there is no folder %s", flag, file, filepath.Dir(file))
		return hinted{err, "give a file in a folder that exists"}
	}
	return nil
}

// printable shows control characters instead of sending them to the terminal:
// names and texts may come from anybody.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) && r != '\n' && r != '\t' {
			return unicode.ReplacementChar
		}
		return r
	}, text)
}

// stickyWriter remembers the first error, so that a result that was not written
// does not look like success, and whether there was any.
type stickyWriter struct {
	io.Writer
	err  error
	used bool
}

func (w *stickyWriter) Write(p []byte) (int, error) {
	n, err := w.Writer.Write(p)
	w.used = w.used || len(p) > 0
	if err != nil && w.err == nil {
		w.err = err
	}
	return n, err
}
