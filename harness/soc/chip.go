package soc

import (
	"fmt"

	"github.com/lull-npc/lull/runtime/llm"
)

// Device is one place of a chip where a model can run.
type Device struct {
	Bandwidth  Value `yaml:"bandwidth_gb_per_s"` // that it can read weights with, alone
	Compute    Value `yaml:"compute_tflops"`     // of a wide batch; an operation counts 2 a weight and token
	BatchStep  Value `yaml:"batch_step"`         // what more than one token costs beside reading, share of T(1)
	BatchSlope Value `yaml:"batch_slope"`        // what each further token costs so, share of T(1)
	DispatchUS Value `yaml:"dispatch_us"`        // for each graph
	SmallEff   Value `yaml:"small_efficiency"`   // share of the bandwidth that small matrices (a draft's) reach
	Power      Value `yaml:"power_w"`            // while it computes
}

func (d *Device) fields(at string) []Field {
	return []Field{
		{at + ".bandwidth_gb_per_s", &d.Bandwidth, 1, 1000},
		{at + ".compute_tflops", &d.Compute, 0.01, 500},
		{at + ".batch_step", &d.BatchStep, 0, 1},
		{at + ".batch_slope", &d.BatchSlope, 0, 1},
		{at + ".dispatch_us", &d.DispatchUS, 0, 2000},
		{at + ".small_efficiency", &d.SmallEff, 0.1, 1.5},
		{at + ".power_w", &d.Power, 0.1, 400},
	}
}

// Chip holds the parameters of a system on a chip.
type Chip struct {
	Name        string `yaml:"name"`
	Description string `yaml:"description"`

	DRAM struct {
		Peak       Value `yaml:"peak_gb_per_s"`    // of the interface
		Efficiency Value `yaml:"efficiency"`       // share of it that traffic can reach
		Queue      Value `yaml:"queue"`            // how fast the latency of low-priority traffic grows with load
		Coupling   Value `yaml:"coupling"`         // bytes that one of others costs reads of high priority, memory full
		ComputeIs  Value `yaml:"coupling_compute"` // the share of that which computation feels
		Governor   Value `yaml:"governor_ms"`      // how often the clock of the memory is chosen
		LowClock   Value `yaml:"low_clock"`        // share of the peak at the lowest clock
		Energy     Value `yaml:"pj_per_byte"`
		Base       Value `yaml:"background_gb_per_s"` // of everything else
	} `yaml:"dram"`

	CPU struct {
		Cores     Value `yaml:"cores"` // fast ones, that game and model share
		Power     Value `yaml:"power_w"`
		Switch    Value `yaml:"switch_us"` // lost where a thread meets another one's core
		ModelRuns int   `yaml:"model_threads"`
	} `yaml:"cpu"`

	GPU struct {
		Power Value `yaml:"power_w"`
	} `yaml:"gpu"`

	Thermal struct {
		Ambient    Value `yaml:"ambient_c"`
		Resistance Value `yaml:"k_per_w"`
		Constant   Value `yaml:"time_constant_s"`
		Throttle   Value `yaml:"throttle_c"` // where clocks begin to fall
		Severe     Value `yaml:"severe_c"`   // where they are at their lowest
		LowClock   Value `yaml:"low_clock"`  // share of the clock there
		Idle       Value `yaml:"idle_w"`     // screen, radio and leakage
	} `yaml:"thermal"`

	NPU      Device `yaml:"npu"`
	CPUModel Device `yaml:"cpu_model"` // the model on the fast cores
	Little   Device `yaml:"little"`    // the model on cores of its own, as MNN does to protect the foreground

	// LayerSpread is how much longer the slowest layer takes than the fastest, and
	// LayerNoise how much one layer differs from itself.
	LayerSpread Value `yaml:"layer_spread"`
	LayerNoise  Value `yaml:"layer_noise"`

	LimitClock Value `yaml:"npu_limit_clock"` // share of its clock that the policy freq-limit leaves the NPU
}

// Fields lists every parameter with its bounds.
func (c *Chip) Fields() []Field {
	d, u, t := &c.DRAM, &c.CPU, &c.Thermal
	list := []Field{
		{"dram.peak_gb_per_s", &d.Peak, 5, 1000},
		{"dram.efficiency", &d.Efficiency, 0.5, 1},
		{"dram.queue", &d.Queue, 0, 3},
		{"dram.coupling", &d.Coupling, 0, 6},
		{"dram.coupling_compute", &d.ComputeIs, 0, 1},
		{"dram.governor_ms", &d.Governor, 1, 1000},
		{"dram.low_clock", &d.LowClock, 0.1, 1},
		{"dram.pj_per_byte", &d.Energy, 5, 300},
		{"dram.background_gb_per_s", &d.Base, 0, 50},
		{"cpu.cores", &u.Cores, 1, 64},
		{"cpu.power_w", &u.Power, 0.1, 100},
		{"cpu.switch_us", &u.Switch, 0, 1000},
		{"gpu.power_w", &c.GPU.Power, 0.1, 400},
		{"thermal.ambient_c", &t.Ambient, -20, 50},
		{"thermal.k_per_w", &t.Resistance, 0.01, 50},
		{"thermal.time_constant_s", &t.Constant, 1, 3600},
		{"thermal.throttle_c", &t.Throttle, 25, 110},
		{"thermal.severe_c", &t.Severe, 30, 120},
		{"thermal.low_clock", &t.LowClock, 0.1, 1},
		{"thermal.idle_w", &t.Idle, 0, 50},
		{"layer_spread", &c.LayerSpread, 0, 1},
		{"layer_noise", &c.LayerNoise, 0, 0.5},
		{"npu_limit_clock", &c.LimitClock, 0.05, 1},
	}
	list = append(list, c.NPU.fields("npu")...)
	list = append(list, c.CPUModel.fields("cpu_model")...)
	return append(list, c.Little.fields("little")...)
}

// Validate says what is wrong.
func (c *Chip) Validate() error {
	if err := check(c.Fields()); err != nil {
		return fmt.Errorf("chip %s: %w", c.Name, err)
	}
	switch {
	case c.Name == "":
		return fmt.Errorf("%w: chip: name is missing", ErrParameters)
	case c.CPU.ModelRuns < 1 || c.CPU.ModelRuns > 64:
		return fmt.Errorf("%w: chip %s: cpu.model_threads %d: want 1 … 64", ErrParameters, c.Name, c.CPU.ModelRuns)
	case c.Thermal.Severe.Value <= c.Thermal.Throttle.Value:
		return fmt.Errorf("%w: chip %s: thermal.severe_c %v: want more than throttle_c %v", ErrParameters, c.Name,
			c.Thermal.Severe.Value, c.Thermal.Throttle.Value)
	}
	return nil
}

// LoadChip reads a shipped chip.
func LoadChip(name string) (*Chip, error) { return loadValid[Chip]("chips", name) }

// ParseChip reads a chip from a file's text.
func ParseChip(file string, text []byte) (*Chip, error) { return parseValid[Chip](file, text) }

// Network holds the size of a language model.
type Network struct {
	Name       string `yaml:"name"`
	Layers     int    `yaml:"layers"`
	Params     Value  `yaml:"params_b"`   // parameters, billions
	Weights    Value  `yaml:"weights_gb"` // read once for each batch
	CacheBytes Value  `yaml:"cache_kb"`   // of one token, all layers
	HeadShare  Value  `yaml:"head_share"` // of the weights, that the output head has
}

// Fields lists every parameter with its bounds.
func (n *Network) Fields() []Field {
	return []Field{
		{"params_b", &n.Params, 0.01, 1000},
		{"weights_gb", &n.Weights, 0.005, 1000},
		{"cache_kb", &n.CacheBytes, 0, 10000},
		{"head_share", &n.HeadShare, 0, 0.9},
	}
}

// Validate says what is wrong.
func (n *Network) Validate() error {
	if err := check(n.Fields()); err != nil {
		return fmt.Errorf("model %s: %w", n.Name, err)
	}
	if n.Name == "" || n.Layers < 1 || n.Layers > 512 {
		return fmt.Errorf("%w: model %q with %d layers: want a name, and 1 … 512", ErrParameters, n.Name, n.Layers)
	}
	return nil
}

// LoadNetwork reads a shipped model's size.
func LoadNetwork(name string) (*Network, error) { return loadValid[Network]("models", name) }

// BatchTime is what a batch of width tokens takes undisturbed at a place ("npu",
// "cpu" or "little") of the chip, in ns, and how many bytes it reads.
func (c *Chip) BatchTime(n *Network, where string, width int) (ns, bytes float64, err error) {
	at, ok := map[string]place{"npu": onNPU, "cpu": onCPU, "little": onLittle}[where]
	if !ok || width < 1 || width > contextTokens {
		return 0, 0, fmt.Errorf("%w: %d tokens on %q: want 1 … %d on npu, cpu or little", ErrParameters, width, where,
			contextTokens)
	}
	m := model{world: &world{chip: c}, network: n, device: at, threads: c.CPU.ModelRuns,
		info: llm.Info{Layers: n.Layers}}
	layer := m.cost(1/float64(n.Layers), 0, width, 0, m.threads)
	head := m.cost(0, 1, 1, 0, m.threads)
	ns = mul(max(layer.read, layer.compute)+layer.extra, float64(n.Layers)) + max(head.read, head.compute) + head.extra
	return ns, mul(layer.bytes, float64(n.Layers)) + head.bytes, nil
}
