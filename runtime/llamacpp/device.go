package llamacpp

import (
	"fmt"
	"os"
	"strings"

	"github.com/hybridgroup/yzma/pkg/llama"
)

// Kind of device. ggml has no type for NPUs: they are told by their names.
type Kind string

const (
	CPU Kind = "cpu"
	GPU Kind = "gpu"
	NPU Kind = "npu"
)

// Device is one ggml device.
type Device struct {
	ID          string // name in ggml's registry: "CPU", "Vulkan0", "HTP0"
	Name        string // what the driver calls it
	Registry    string // the backend that brought it
	Kind        Kind
	MemoryBytes uint64
	FreeBytes   uint64
	CanStop     bool // a running graph can be stopped between two nodes
	CanState    bool // KV states can be read and written
	handle      llama.GGMLBackendDevice
}

// Devices lists what llama.cpp can compute on here. Load comes first.
func Devices() ([]Device, error) {
	if err := loaded(); err != nil {
		return nil, err
	}
	return devices(), nil
}

func devices() []Device {
	var list []Device
	for i := range llama.GGMLBackendDeviceCount() {
		h := llama.GGMLBackendDeviceGet(i)
		if h == 0 {
			continue
		}
		d := Device{
			ID:       llama.GGMLBackendDeviceName(h),
			Name:     llama.GGMLBackendDeviceDescription(h),
			Registry: llama.GGMLBackendRegName(llama.GGMLBackendDeviceBackendReg(h)),
			CanState: true,
			handle:   h,
		}
		d.Kind = kindOf(llama.GGMLBackendDevType(h), d.Registry, d.ID, d.Name)
		// Only the CPU backend polls the abort callback (llama.cpp v0.5.0).
		d.CanStop = d.Kind == CPU
		d.FreeBytes, d.MemoryBytes = llama.GGMLBackendDeviceMemory(h)
		list = append(list, d)
	}
	return list
}

// kindOf tells a device's kind by its names where its type does not: Hexagon
// calls its devices HTP0 …, CANN and RKNPU are registries, and what OpenVINO
// computes on stands in the description alone, since one device stands for all.
func kindOf(t llama.GGMLBackendDeviceType, registry, id, description string) Kind {
	name := strings.ToUpper(registry + " " + id)
	if strings.Contains(name, "OPENVINO") {
		name += " " + strings.ToUpper(description+" "+os.Getenv("GGML_OPENVINO_DEVICE"))
	}
	for _, npu := range []string{"HTP", "HEXAGON", "CANN", "RKNPU", "NPU"} {
		if strings.Contains(name, npu) {
			return NPU
		}
	}
	if t == llama.GGMLBackendDeviceTypeCPU || t == llama.GGMLBackendDeviceTypeACCEL {
		return CPU
	}
	return GPU
}

// Processor says what computes on the CPU: its name and the instructions that
// the kernels loaded for it use. Empty before Load.
func Processor() string {
	if loaded() != nil {
		return ""
	}
	name := ""
	for _, d := range devices() {
		if d.Kind == CPU {
			name = d.Name
			break
		}
	}
	return name + ": " + llama.PrintSystemInfo()
}

// findDevice returns the device with that id, case aside. Empty is the CPU.
func findDevice(id string) (Device, error) {
	list := devices()
	var have []string
	for _, d := range list {
		if strings.EqualFold(d.ID, id) || id == "" && d.Kind == CPU {
			return d, nil
		}
		have = append(have, d.ID)
	}
	return Device{}, fmt.Errorf("llamacpp: device %q: %w; there is %s", id, ErrDevice, strings.Join(have, ", "))
}

// OffloadLeast is the least number of tokens in a batch whose products go to
// Options.Offload: below it ggml's backends answer that the copy of the weights
// takes longer than the product (32 in v0.5.0).
const OffloadLeast = 32

// findHelper is the device that computes large products for another one.
func findHelper(of Device, id string) (Device, error) {
	d, err := findDevice(id)
	if err == nil && (of.Kind != CPU || d.Kind == CPU) {
		err = fmt.Errorf("llamacpp: offload from %s to %s: %w: want the CPU and a device beside it", of.ID, d.ID,
			ErrDevice)
	}
	return d, err
}
