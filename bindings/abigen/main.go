package main

import (
	"errors"
	"flag"
	"fmt"
	"go/format"
	"os"
	"path/filepath"
)

func main() {
	root := flag.String("root", ".", "the folder bindings")
	check := flag.Bool("check", false, "write nothing, fail where an output is stale")
	flag.Parse()
	if err := run(*root, *check); err != nil {
		fmt.Fprintf(os.Stderr, "abigen: %v\n", err)
		os.Exit(1)
	}
}

// run makes every output below root, or compares them with what is there.
func run(root string, check bool) error {
	text, err := os.ReadFile(filepath.Join(root, "include", "lull.h"))
	if err != nil {
		return err
	}
	h, err := Parse(string(text))
	if err != nil {
		return fmt.Errorf("include/lull.h: %w", err)
	}
	outputs, err := Outputs(h)
	if err != nil {
		return err
	}
	var stale []error
	for name, want := range outputs {
		path := filepath.Join(root, filepath.FromSlash(name))
		have, err := os.ReadFile(path)
		switch {
		case err == nil && string(have) == want:
		case check:
			stale = append(stale, fmt.Errorf("bindings/%s is not what lull.h says: run make generate", name))
		default:
			if err := write(path, want); err != nil {
				return err
			}
		}
	}
	return errors.Join(stale...)
}

func write(path, text string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, []byte(text), 0o644)
}

// Outputs are the texts of all generated files, by path below bindings.
func Outputs(h *Header) (map[string]string, error) {
	abi, err := golden(h)
	if err != nil {
		return nil, err
	}
	code, err := format.Source([]byte(entriesGo(h)))
	if err != nil {
		return nil, fmt.Errorf("the Go entries do not parse: %w", err)
	}
	return map[string]string{
		"abi.golden.txt":                         abi,
		"capi/entries_gen.h":                     entriesH(h),
		"capi/entries_gen.c":                     entriesC(h),
		"capi/entries_gen.go":                    string(code),
		"capi/exports_gen.map":                   exportsMap(h),
		"capi/exports_gen.def":                   exportsDef(h),
		"unity/com.lull.npc/Runtime/Native.g.cs": csharp(h),
		"love/lull_cdef.lua":                     lua(h),
	}, nil
}
