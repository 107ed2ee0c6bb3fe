package deps

import (
	_ "github.com/ebitengine/purego"
	_ "github.com/goccy/go-yaml"
	_ "github.com/google/go-cmp/cmp"
	_ "github.com/guptarohit/asciigraph"
	_ "github.com/hybridgroup/yzma/pkg/llama"
	_ "github.com/jedib0t/go-pretty/v6/table"
	_ "github.com/go-echarts/go-echarts/v2/charts"
	_ "github.com/mattn/go-isatty"
	_ "github.com/peterh/liner"
	_ "github.com/schollz/progressbar/v3"
	_ "github.com/spf13/cobra"
	_ "golang.org/x/sys/unix"
	_ "golang.org/x/term"
	_ "gonum.org/v1/gonum/stat"
	_ "github.com/gofrs/flock"
	_ "github.com/google/renameio/v2"
	_ "github.com/vmihailenco/msgpack/v5"
	_ "pgregory.net/rapid"
)
