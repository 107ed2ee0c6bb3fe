package calibrate

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/vmihailenco/msgpack/v5"

	"github.com/lull-npc/lull/scheduler"
)

// ErrProfile is wrapped by the reason why a stored device profile is of no use.
// Calibrate anew.
var ErrProfile = errors.New("calibrate: stored device profile is not usable")

const (
	profileMagic = "LULLDEV1"

	// ProfileVersion is that of what is measured and how. A profile of another one is refused.
	ProfileVersion = 1

	// MaxProfile bounds a file: the rows of eight devices take 60 KB.
	MaxProfile = 1 << 20

	// maxRows bounds each table of a profile.
	maxRows = 4096
)

// Keys name what a profile depends on. Where one changes, it is stale.
type Keys struct {
	Host    string `json:"host"`    // processor, cores, memory, system
	Driver  string `json:"driver"`  // what each device says of itself
	Library string `json:"library"` // version and kernels of the engine
	Model   string `json:"model"`   // the file's fingerprint
}

var keyNames = [...]string{"host", "driver", "library", "model"}

func (k Keys) list() [4]string { return [4]string{k.Host, k.Driver, k.Library, k.Model} }

// Hashes are those of the keys, in their order. Files keep these alone.
func (k Keys) Hashes() [4][]byte {
	var out [4][]byte
	for i, s := range k.list() {
		out[i] = hash(s)
	}
	return out
}

// DeviceProfile is what was measured of a machine's devices with one model.
type DeviceProfile struct {
	Version  int           `json:"version"`
	Hashes   [4][]byte     `json:"-"`
	Made     int64         `json:"made_unix_s"`
	Took     time.Duration `json:"took_ns"`
	Complete bool          `json:"complete"` // false: interrupted; the next run goes on
	Quick    bool          `json:"quick"`

	Model   string `json:"model"`
	Library string `json:"library"`
	Weights uint64 `json:"weights_bytes"`
	KVBytes uint64 `json:"kv_bytes_per_token"`

	Devices      []DeviceRow       `json:"devices"`
	Stages       []StageRow        `json:"stages"`
	Verify       []VerifyRow       `json:"verify"`
	Layers       []LayerRow        `json:"layers"`
	Handovers    []HandoverRow     `json:"handovers"`
	Interference []InterferenceRow `json:"interference"`
	Skipped      []SkippedRow      `json:"skipped"`
	Energy       string            `json:"energy"` // ok, or why there is none
}

// DeviceRow is one device.
type DeviceRow struct {
	ID          string `json:"id"`
	Name        string `json:"name"`
	Registry    string `json:"registry"`
	Kind        string `json:"kind"`
	MemoryBytes uint64 `json:"memory_bytes"`

	// Helper computes the products of large batches for this one, whose weights it
	// gets for each; "": none does. Such a row is a way to use two devices.
	Helper string `json:"helper,omitempty"`
}

// HelperLeast is the least number of tokens in a batch that a helper computes.
const HelperLeast = 32

// StageRow is the speed of one stage. Joules are those of the whole processor
// package, idle power included; 0 is unknown.
type StageRow struct {
	Device    string  `json:"device"`
	Stage     string  `json:"stage"` // prefill or decode
	Past      int     `json:"past_tokens"`
	Width     int     `json:"width_tokens"`
	Threads   int     `json:"threads"`
	PerSecond float64 `json:"tokens_per_s"` // of the median batch
	Spread    float64 `json:"spread"`       // distance of the quartiles, share of the median
	Batches   int     `json:"batches"`
	Joules    float64 `json:"joules_per_token,omitempty"`
}

// VerifyRow is T(B)/T(1): what a batch of Width judged tokens takes, in decodes.
type VerifyRow struct {
	Device  string  `json:"device"`
	Threads int     `json:"threads"`
	Width   int     `json:"width_tokens"`
	Ratio   float64 `json:"ratio"`
}

// LayerRow is what layers take undisturbed on a device.
type LayerRow struct {
	Device  string          `json:"device"`
	Width   int             `json:"width_tokens"`
	Threads int             `json:"threads"`
	Layers  []time.Duration `json:"layers_ns"`
	Halt    time.Duration   `json:"halt_ns"`
}

// HandoverRow is what moving a conversation takes.
type HandoverRow struct {
	From   string        `json:"from"`
	To     string        `json:"to"`
	Tokens int           `json:"tokens"`
	Bytes  int           `json:"bytes"`
	Get    time.Duration `json:"get_ns"`
	Set    time.Duration `json:"set_ns"`
}

// InterferenceRow is a frame loop alone and beside a stage that runs unrestrained.
type InterferenceRow struct {
	Device string        `json:"device"`
	Stage  string        `json:"stage"`
	Alone  time.Duration `json:"frame_alone_ns"`  // median of the work of a frame
	Beside time.Duration `json:"frame_beside_ns"` // likewise
	Share  float64       `json:"interference"`    // (beside - alone) / alone, at least 0
	Frames int           `json:"frames"`          // of each
}

// SkippedRow is what was left out, and why.
type SkippedRow struct {
	Task string `json:"task"`
	Why  string `json:"why"`
}

// Stale says which of the keys are others than those that p was measured with.
func (p *DeviceProfile) Stale(now Keys) []string {
	var changed []string
	for i, h := range now.Hashes() {
		if !bytes.Equal(h, p.Hashes[i]) {
			changed = append(changed, keyNames[i])
		}
	}
	return changed
}

// Validate reports the first number that can't be; the error wraps ErrProfile.
func (p *DeviceProfile) Validate() error {
	bad := func(format string, args ...any) error {
		return fmt.Errorf("%w: %s", ErrProfile, fmt.Sprintf(format, args...))
	}
	if p.Version != ProfileVersion {
		return bad("version %d, want %d", p.Version, ProfileVersion)
	}
	for name, n := range map[string]int{"devices": len(p.Devices), "stages": len(p.Stages), "verify": len(p.Verify),
		"layers": len(p.Layers), "handovers": len(p.Handovers), "interference": len(p.Interference),
		"skipped": len(p.Skipped)} {
		if n > maxRows {
			return bad("%d rows of %s: want %d at most", n, name, maxRows)
		}
	}
	sane := func(v, most float64) bool { return v >= 0 && v <= most && !math.IsNaN(v) }
	for i, r := range p.Stages {
		if !sane(r.PerSecond, 1e7) || r.PerSecond == 0 || !sane(r.Spread, 1e6) || !sane(r.Joules, 1e4) ||
			r.Width < 1 || r.Past < 0 || r.Stage != Prefill && r.Stage != Decode {
			return bad("stages[%d]: %+v", i, r)
		}
	}
	for i, r := range p.Verify {
		if !sane(r.Ratio, 1e4) || r.Width < 1 {
			return bad("verify[%d]: %+v", i, r)
		}
	}
	for i, r := range p.Handovers {
		if r.Get < 0 || r.Set < 0 || r.Tokens < 1 || r.Bytes < 0 {
			return bad("handovers[%d]: %+v", i, r)
		}
	}
	for i, r := range p.Interference {
		if !sane(r.Share, 1e4) || r.Alone <= 0 || r.Beside < 0 {
			return bad("interference[%d]: %+v", i, r)
		}
	}
	for i, r := range p.Layers {
		for _, d := range r.Layers {
			if d < 0 {
				return bad("layers[%d]: %v", i, d)
			}
		}
	}
	return nil
}

// Stages as rows name them.
const (
	Prefill = "prefill"
	Decode  = "decode"
)

// EncodeProfile gives the stored form: magic, SHA-256 of the rest, msgpack.
func EncodeProfile(p *DeviceProfile) ([]byte, error) {
	if err := p.Validate(); err != nil {
		return nil, err
	}
	body, err := msgpack.Marshal(p)
	if err != nil {
		return nil, fmt.Errorf("calibrate: store a device profile: %w", err)
	}
	sum := sha256.Sum256(body)
	out := append(append([]byte(profileMagic), sum[:]...), body...)
	if len(out) > MaxProfile {
		return nil, fmt.Errorf("calibrate: a device profile of %d bytes: want %d at most", len(out), MaxProfile)
	}
	return out, nil
}

// DecodeProfile reads what EncodeProfile gave. The sum is checked before any
// length in it is believed. Errors wrap ErrProfile.
func DecodeProfile(data []byte) (*DeviceProfile, error) {
	bad := func(format string, args ...any) (*DeviceProfile, error) {
		return nil, fmt.Errorf("%w: %s", ErrProfile, fmt.Sprintf(format, args...))
	}
	const head = len(profileMagic) + sha256.Size
	switch {
	case len(data) > MaxProfile:
		return bad("%d bytes: want %d at most", len(data), MaxProfile)
	case len(data) < head || string(data[:len(profileMagic)]) != profileMagic:
		return bad("it doesn't begin with %q", profileMagic)
	}
	sum := sha256.Sum256(data[head:])
	if !slices.Equal(sum[:], data[len(profileMagic):head]) {
		return bad("its checksum is wrong, the file is damaged or cut short")
	}
	p := &DeviceProfile{}
	if err := msgpack.Unmarshal(data[head:], p); err != nil {
		return bad("%v", err)
	}
	if err := p.Validate(); err != nil {
		return nil, err
	}
	return p, nil
}

// LeastChunk is the widest prefill batch of a device that takes less than twice as
// long as one token: narrower ones would hardly be over sooner, and read the weights
// for fewer tokens. 0: none was measured that does.
func (p *DeviceProfile) LeastChunk(device string) int {
	token, least := 0.0, 0 // s
	for _, r := range p.Stages {
		if r.Device == device && r.Stage == Decode && r.Width == 1 {
			token = max(token, 1/r.PerSecond)
		}
	}
	for _, r := range p.Stages {
		if r.Device == device && r.Stage == Prefill && float64(r.Width)/r.PerSecond < 2*token {
			least = max(least, r.Width)
		}
	}
	return least
}

// Placement makes what the scheduler chooses by: of each device, stage and length
// of context the fastest setting. What stands in need beyond the profile is
// filled in by the caller: Tokens, Budget, Reply.
func (p *DeviceProfile) Placement() scheduler.PlacementProfile {
	out := scheduler.PlacementProfile{Quant: p.Model, Weights: p.Weights, KVPerToken: p.KVBytes}
	kinds := map[string]scheduler.DeviceKind{"gpu": scheduler.KindGPU, "npu": scheduler.KindNPU}
	for _, d := range p.Devices {
		if d.Helper != "" {
			continue
		}
		memory := d.MemoryBytes
		if d.Kind == "cpu" {
			memory = 0 // it is the machine's, which the budget bounds
		}
		out.Devices = append(out.Devices, scheduler.PlaceableDevice{ID: scheduler.DeviceID(d.ID), Kind: kinds[d.Kind],
			MemoryBytes: memory})
	}
	for _, r := range p.Stages {
		if !p.helped(r.Device) {
			out.Figures = fastest(out.Figures, p.figures(r))
		}
	}
	out.Handovers = p.handovers()
	return out
}

// PlacementWith is Placement of one copy of the weights on a device that has a
// helper for large batches; row is that of the two. Small batches stay where the
// weights are, so both are offered, as measured with that copy.
func (p *DeviceProfile) PlacementWith(row DeviceRow) scheduler.PlacementProfile {
	out := p.Placement()
	at := func(id string) scheduler.PlaceableDevice {
		for _, d := range out.Devices {
			if d.ID == scheduler.DeviceID(id) {
				return d
			}
		}
		return scheduler.PlaceableDevice{ID: scheduler.DeviceID(id)}
	}
	own := strings.TrimSuffix(row.ID, "+"+row.Helper)
	out.Devices = []scheduler.PlaceableDevice{at(own), at(row.Helper)}
	out.Figures, out.Handovers = nil, nil
	for _, r := range p.Stages {
		if r.Device != row.ID {
			continue
		}
		f := p.figures(r)
		f.Device = scheduler.DeviceID(own)
		if f.Offload = r.Stage == Prefill && r.Width >= HelperLeast; f.Offload {
			f.Device = scheduler.DeviceID(row.Helper)
		}
		out.Figures = fastest(out.Figures, f)
	}
	return out
}

// helped reports whether a device of the rows is one with a helper.
func (p *DeviceProfile) helped(id string) bool {
	return slices.ContainsFunc(p.Devices, func(d DeviceRow) bool { return d.ID == id && d.Helper != "" })
}

func (p *DeviceProfile) figures(r StageRow) scheduler.StageFigures {
	f := scheduler.StageFigures{Device: scheduler.DeviceID(r.Device), Stage: scheduler.StageDecode, Quant: p.Model,
		Past: r.Past, Rate: r.PerSecond, Joules: r.Joules, Interference: p.interference(r.Device, r.Stage)}
	if r.Stage == Prefill {
		f.Stage = scheduler.StagePrefill
	}
	return f
}

// fastest adds f, or where there is one of the same place keeps the faster.
func fastest(list []scheduler.StageFigures, f scheduler.StageFigures) []scheduler.StageFigures {
	at := slices.IndexFunc(list, func(g scheduler.StageFigures) bool {
		return g.Device == f.Device && g.Stage == f.Stage && g.Past == f.Past && g.Offload == f.Offload
	})
	if at < 0 {
		return append(list, f)
	}
	if f.Rate > list[at].Rate {
		list[at] = f
	}
	return list
}

func (p *DeviceProfile) interference(device, stage string) float64 {
	for _, r := range p.Interference {
		if r.Device == device && r.Stage == stage {
			return min(r.Share, 10)
		}
	}
	return scheduler.UnknownInterference
}

// handovers fits a line through the shortest and the longest of each pair.
func (p *DeviceProfile) handovers() []scheduler.HandoverFigures {
	var out []scheduler.HandoverFigures
	for _, low := range p.Handovers {
		high := low
		least := true
		for _, r := range p.Handovers {
			if r.From == low.From && r.To == low.To {
				least = least && low.Tokens <= r.Tokens
				if r.Tokens > high.Tokens {
					high = r
				}
			}
		}
		if !least {
			continue
		}
		h := scheduler.HandoverFigures{From: scheduler.DeviceID(low.From), To: scheduler.DeviceID(low.To),
			PerToken: (low.Get + low.Set) / time.Duration(low.Tokens)}
		if n := high.Tokens - low.Tokens; n > 0 {
			h.PerToken = max(0, (high.Get+high.Set-low.Get-low.Set)/time.Duration(n))
			h.Base = max(0, low.Get+low.Set-time.Duration(low.Tokens)*h.PerToken)
		}
		out = append(out, h)
	}
	return out
}
