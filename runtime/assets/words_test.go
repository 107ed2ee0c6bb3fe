package assets

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"
)

// TestWords: a program without a command line calls the settings by words of its
// own, and gets else the messages that a command line gives.
func TestWords(t *testing.T) {
	dir := t.TempDir()
	own := map[Setting]string{SettingModel: "my model", SettingLlamaLib: "my library", SettingEmbedder: "my embedder",
		SettingDraft: "my draft"}
	asFlags := strings.NewReplacer("my model", "--model", "my library", "--llama-lib", "my embedder", "--embedder",
		"my draft", "--draft")
	locate := func(s *Store) error { _, err := Locate(s.opts); return err }
	fetch := func(name string) func(*Store) error {
		return func(s *Store) error { _, err := s.Fetch(t.Context(), []string{name}, false); return err }
	}
	for _, c := range []struct {
		what, says string
		client     string
		change     func(*Options)
		do         func(*Store) error
	}{
		{"no library", "my library", "", func(o *Options) { o.LlamaLib = filepath.Join(dir, "none") }, locate},
		{"an empty library", "my library", "", func(o *Options) { o.LlamaLib = dir }, locate},
		{"a platform without library", "my library", "", func(o *Options) { o.Platform = "plan9/mips" }, locate},
		{"no model", "my model", "", func(o *Options) { o.Model = filepath.Join(dir, "none") },
			func(s *Store) error { _, err := s.LocateModel(); return err }},
		{"no default model", "my model", "", func(o *Options) { o.Catalog = &Catalog{Schema: catalogSchema} },
			func(s *Store) error { _, err := s.LocateModel(); return err }},
		{"no embedder", "my embedder", "", func(*Options) {},
			func(s *Store) error { _, err := EnsureEmbedder(t.Context(), s.opts, dir); return err }},
		{"no draft", "my draft", "", func(o *Options) { o.Model = "" },
			func(s *Store) error { _, err := EnsureModel(t.Context(), s.opts, SettingDraft); return err }},
		{"no npm", "my library", "", func(*Options) {}, fetch("lib")},
		{"no pip", "my model", "", func(*Options) {}, fetch("model")},
		{"not served", "my library", "npm", func(*Options) { t.Setenv(envMode, "absent") }, fetch("lib")},
	} {
		t.Run(c.what, func(t *testing.T) {
			b := newBench(t)
			if c.client != "" {
				b = newBench(t, c.client)
			}
			b.addLibrary()
			b.addModel()
			said := func(words map[Setting]string) string {
				err := c.do(b.store(func(o *Options) { c.change(o); o.Words = words }))
				var e *Error
				if !errors.As(err, &e) {
					t.Fatalf("%v: want an Error", err)
				}
				return e.Error() + "\n" + e.Hint()
			}
			words, flags := said(own), said(nil)
			if !strings.Contains(words, c.says) || asFlags.Replace(words) != flags {
				t.Errorf("%s\nwant it to say %q and else\n%s", words, c.says, flags)
			}
		})
	}
	if via := (Options{Words: own}).Word(SettingLlamaLib); via != "my library" {
		t.Errorf("it is called %q", via)
	}
}
