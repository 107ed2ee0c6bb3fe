package llamacpp

import (
	"fmt"
	"unsafe"

	"github.com/ebitengine/purego"

	"github.com/hybridgroup/yzma/pkg/llama"
)

// tensor is ggml_tensor. checkTensors holds it against tensors that ggml made.
type tensor struct {
	kind     int32
	_        int32
	buffer   uintptr
	ne       [4]int64
	nb       [4]uintptr
	op       int32
	opParams [16]int32
	flags    int32
	src      [10]uintptr
	viewSrc  uintptr
	viewOffs uintptr
	data     uintptr
	name     [64]byte
	extra    uintptr
	_        [8]byte
}

// newContext makes memory for that many bytes of tensors and graphs, 0 if there
// is none. A context for headers only leaves the tensors' data to the caller.
func newContext(size uintptr, headersOnly bool) uintptr {
	p := ggmlInit{size: size, buffer: 0} // 0: ggml allocates
	if headersOnly {
		p.noAlloc = 1
	}
	return ggml.init(p)
}

func (t *tensor) address() uintptr { return uintptr(unsafe.Pointer(t)) }

// tensorAt is the tensor at an address in ggml's memory, which Go neither moves
// nor frees.
func tensorAt(p uintptr) *tensor { return *(**tensor)(unsafe.Pointer(&p)) }

// ggmlInit is ggml_init_params.
type ggmlInit struct {
	size, buffer, noAlloc uintptr // the last one is a bool and its padding
}

// ggml are the functions of libggml-base that yzma does not bring. Handles of
// contexts, graphs and backends are numbers here.
var ggml struct {
	init             func(ggmlInit) uintptr
	free             func(ctx uintptr)
	newTensor        func(ctx uintptr, kind int32, ne0, ne1 int64) *tensor
	view             func(ctx uintptr, t *tensor, ne0, ne1 int64, nb1, offset uintptr) *tensor
	mulMat           func(ctx uintptr, a, b *tensor) *tensor
	setName          func(t *tensor, name string) *tensor
	getData          func(t *tensor) uintptr
	newGraph         func(ctx, size uintptr, grads bool) uintptr
	expand           func(graph uintptr, t *tensor)
	graphClear       func(graph uintptr)
	graphAdd         func(graph uintptr, t *tensor)
	graphCompute     func(backend, graph uintptr) int32
	viewInit         func(t *tensor) int32
	bufferName       func(buffer uintptr) string
	deviceInit       func(device, params uintptr) uintptr
	backendFree      func(backend uintptr)
	procAddress      func(registry uintptr, name string) uintptr
	tensorOverhead   func() uintptr
	graphOverhead    func(size uintptr, grads bool) uintptr
	clear, add, comp uintptr // addresses of graphClear, graphAdd, graphCompute
}

// loadGGML finds the functions in dir. llama.cpp has loaded that library
// already, so this is the same copy. It panics where a symbol is missing.
func loadGGML(dir string) error {
	lib, err := openLibrary(libraryFile(dir, "ggml-base"))
	if err != nil {
		return err
	}
	for name, f := range map[string]any{
		"ggml_init": &ggml.init, "ggml_free": &ggml.free, "ggml_new_tensor_2d": &ggml.newTensor,
		"ggml_view_2d": &ggml.view, "ggml_mul_mat": &ggml.mulMat, "ggml_set_name": &ggml.setName,
		"ggml_get_data": &ggml.getData, "ggml_new_graph_custom": &ggml.newGraph,
		"ggml_build_forward_expand": &ggml.expand, "ggml_graph_clear": &ggml.graphClear,
		"ggml_graph_add_node": &ggml.graphAdd, "ggml_backend_graph_compute": &ggml.graphCompute,
		"ggml_backend_view_init": &ggml.viewInit, "ggml_backend_buffer_name": &ggml.bufferName,
		"ggml_backend_dev_init": &ggml.deviceInit, "ggml_backend_free": &ggml.backendFree,
		"ggml_backend_reg_get_proc_address": &ggml.procAddress, "ggml_tensor_overhead": &ggml.tensorOverhead,
		"ggml_graph_overhead_custom": &ggml.graphOverhead,
	} {
		address, err := findSymbol(lib, name)
		if err != nil {
			return err
		}
		purego.RegisterFunc(f, address)
		switch name {
		case "ggml_graph_clear":
			ggml.clear = address
		case "ggml_graph_add_node":
			ggml.add = address
		case "ggml_backend_graph_compute":
			ggml.comp = address
		}
	}
	return nil
}

// cpuBackend is a CPU backend of our own, beside the one in llama.cpp's context.
type cpuBackend struct {
	handle     uintptr
	setThreads func(backend uintptr, n int32)
	setPool    func(backend, pool uintptr)
}

// newCPUBackend makes one that the same abort callback ends as llama.cpp's.
func newCPUBackend(device llama.GGMLBackendDevice, abort, data uintptr) (*cpuBackend, error) {
	registry := uintptr(llama.GGMLBackendDeviceBackendReg(device))
	b := &cpuBackend{}
	var setAbort func(backend, callback, data uintptr)
	for name, f := range map[string]any{
		"ggml_backend_set_n_threads":      &b.setThreads,
		"ggml_backend_cpu_set_threadpool": &b.setPool,
		"ggml_backend_set_abort_callback": &setAbort,
	} {
		address := ggml.procAddress(registry, name)
		if address == 0 {
			return nil, fmt.Errorf("llamacpp: the CPU backend has no %s", name)
		}
		purego.RegisterFunc(f, address)
	}
	if b.handle = ggml.deviceInit(uintptr(device), 0); b.handle == 0 {
		return nil, fmt.Errorf("llamacpp: no second CPU backend")
	}
	setAbort(b.handle, abort, data)
	return b, nil
}
