package main

import (
	"github.com/spf13/cobra"

	"github.com/lull-npc/lull/runtime/assets"
	"github.com/lull-npc/lull/runtime/llamacpp"
)

type deviceJSON struct {
	ID          string        `json:"id"`
	Name        string        `json:"name"`
	Registry    string        `json:"registry"`
	Kind        llamacpp.Kind `json:"kind"`
	MemoryBytes uint64        `json:"memory_bytes"`
	FreeBytes   uint64        `json:"free_bytes"`
	CanStop     bool          `json:"can_stop"`
	CanState    bool          `json:"can_state"`
}

func newDevicesCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "devices",
		Short: "List what the model can be computed on",
		Long: `List the devices of ggml's registry: processors, graphics cards, NPUs; and where
"auto" would run the model in use, by what "lull calibrate" has measured.

stop says whether a running batch can be stopped between two operations; where
it can't, only small batches keep a frame safe. state says whether a
conversation can be moved to and from the device.`,
		Example: `  lull devices
  lull devices --json
  lull devices --llama-lib ./llama.cpp/build/bin   # a build of your own`,
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			list, err := a.devices()
			if err != nil {
				return advise(err)
			}
			choice := a.deviceChoice()
			if a.json {
				return a.ui.object(map[string]any{"devices": list, "choice": choice})
			}
			t := a.ui.table("device", "kind", "memory", "stop", "state", "backend", "name")
			for _, d := range list {
				t.AppendRow([]any{d.ID, d.Kind, megabytes(int64(d.MemoryBytes)), yesNo(d.CanStop),
					yesNo(d.CanState), d.Registry, d.Name})
			}
			a.ui.render(t)
			a.showChoice(choice)
			return nil
		},
	}
}

func (a *app) devices() ([]deviceJSON, error) {
	store, err := assets.Open(a.assetOptions())
	if err != nil {
		return nil, err
	}
	found, err := store.LocateLibrary()
	if err != nil {
		return nil, err
	}
	if err := llamacpp.Load(found.Path); err != nil {
		return nil, err
	}
	devices, err := llamacpp.Devices()
	if err != nil {
		return nil, err
	}
	list := make([]deviceJSON, 0, len(devices))
	for _, d := range devices {
		list = append(list, deviceJSON{ID: d.ID, Name: d.Name, Registry: d.Registry, Kind: d.Kind,
			MemoryBytes: d.MemoryBytes, FreeBytes: d.FreeBytes, CanStop: d.CanStop, CanState: d.CanState})
	}
	return list, nil
}

func yesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}
