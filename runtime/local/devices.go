package local

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/lull-npc/lull/runtime/assets"
	"github.com/lull-npc/lull/runtime/calibrate"
	"github.com/lull-npc/lull/runtime/llamacpp"
	"github.com/lull-npc/lull/runtime/probe"
	"github.com/lull-npc/lull/scheduler"
)

// ErrDevices is wrapped where Config.Devices can't be read.
var ErrDevices = errors.New("want auto, a device, prefill=DEVICE,decode=DEVICE, or offload=DEVICE")

// devicesAuto is the text of Config.Devices that leaves it to what was measured.
const devicesAuto = "auto"

// parseDevices reads Config.Devices.
func parseDevices(text string) (auto bool, on scheduler.Placement, err error) {
	bad := func(why string) (bool, scheduler.Placement, error) {
		return false, scheduler.Placement{}, fmt.Errorf("local: devices %q: %s: %w", text, why, ErrDevices)
	}
	words := strings.TrimSpace(text)
	switch {
	case words == "" || strings.EqualFold(words, devicesAuto):
		return words != "", on, nil
	case !strings.ContainsAny(words, "=,"):
		return false, scheduler.Placement{Prefill: scheduler.DeviceID(words), Decode: scheduler.DeviceID(words)}, nil
	}
	var helper scheduler.DeviceID
	for part := range strings.SplitSeq(words, ",") {
		stage, id, _ := strings.Cut(part, "=")
		stage, id = strings.TrimSpace(stage), strings.TrimSpace(id)
		to := map[string]*scheduler.DeviceID{"prefill": &on.Prefill, "decode": &on.Decode,
			"offload": &helper}[strings.ToLower(stage)]
		switch {
		case to == nil:
			return bad(fmt.Sprintf("no stage is called %q", stage))
		case id == "":
			return bad(stage + " has no device")
		case *to != "":
			return bad(stage + " stands there twice")
		}
		*to = scheduler.DeviceID(id)
	}
	switch {
	case helper != "" && on != scheduler.Placement{}:
		return bad("offload stands alone: the CPU does the rest")
	case helper != "":
		return false, scheduler.Placement{Prefill: helper, Offload: true}, nil
	case on.Prefill == "" || on.Decode == "":
		return bad("one of the stages is missing")
	}
	return false, on, nil
}

// CheckDevices reports what is wrong with a text for Config.Devices, before
// anything is loaded; the error wraps ErrDevices.
func CheckDevices(text string) error {
	_, _, err := parseDevices(text)
	return err
}

// placeByDevices fills in Device and Placement from Devices. The library is loaded.
func (cfg *Config) placeByDevices(found assets.Located) error {
	if cfg.Devices == "" {
		return nil
	}
	if cfg.Device != "" || cfg.Placement != nil {
		return errors.New("local: Devices goes without Device and Placement: it sets both")
	}
	auto, on, err := parseDevices(cfg.Devices)
	if err != nil {
		return err
	}
	if auto {
		cfg.placeByProfile()
		return nil
	}
	if on.Offload {
		all, _, err := chosenDevices(nil)
		if err != nil {
			return err
		}
		on.Decode = scheduler.DeviceID(all[0].ID) // the CPU comes first
	}
	_, list, err := chosenDevices([]string{string(on.Prefill), string(on.Decode)})
	if err != nil {
		return err
	}
	for _, d := range list { // as ggml spells them
		for _, id := range []*scheduler.DeviceID{&on.Prefill, &on.Decode} {
			if strings.EqualFold(string(*id), d.ID) {
				*id = scheduler.DeviceID(d.ID)
			}
		}
	}
	cfg.Device = string(on.Decode)
	switch {
	case on.Prefill == on.Decode && on.Offload:
		return fmt.Errorf("local: devices %q: the CPU can't help itself: %w", cfg.Devices, ErrDevices)
	case on.Prefill == on.Decode:
		return nil
	case on.Offload:
		cfg.Placement = &PlacementConfig{Offload: string(on.Prefill), Fixed: &on}
		return nil
	}
	if err := cfg.twoFit(found.Model.Path); err != nil {
		return err
	}
	cfg.Placement = &PlacementConfig{Devices: []string{string(on.Prefill)}, Fixed: &on}
	return nil
}

// placeByProfile takes what was measured here. Without figures that hold it is the
// CPU alone, and a note says why.
func (cfg *Config) placeByProfile() {
	choice, err := ChooseDevices(cfg.Assets, cfg.cacheTokens(), cfg.Spec.Scheduler.FloorTokensPerSecond)
	switch {
	case err != nil:
		cfg.note("the CPU alone: %v", err)
		return
	case choice.Why != "":
		cfg.note("the CPU alone: %s", choice.Why)
		return
	case len(choice.Holds) < 2 && choice.placement.Offload == "": // no frame would want another device
		for _, r := range choice.Refused {
			if r.Placement.Prefill == r.Placement.Decode {
				cfg.note("the CPU alone; %s: %s", r.Placement, r.Why)
			}
		}
		return
	}
	place := choice.placement
	if s := &cfg.Spec.Scheduler; s.MinPrefillChunk == 0 {
		s.MinPrefillChunk = choice.least
	}
	if cfg.Spec.Steer != SteerController {
		// Nobody tells of frames, so the shortest reply is right once and for all.
		free := choice.Rows[0].Placement
		place.Fixed = &free
		place.Devices = slices.DeleteFunc(place.Devices, func(id string) bool {
			return id != string(free.Prefill) && id != string(free.Decode)
		})
	}
	if len(place.Devices) > 0 || place.Offload != "" {
		cfg.Placement = place
	}
}

// twoFit says in numbers what two copies of a model need, if that is more than
// what is free. The caches are small beside what the estimate leaves.
func (cfg *Config) twoFit(model string) error {
	info, err := os.Stat(model)
	if err != nil {
		return err
	}
	free := probe.Host().Read(0, probe.Due{Pressure: true}).Memory.Available
	need := 2 * (float64(info.Size()) + scratchBytes)
	if free.Outcome == probe.OK && need > free.Value*memoryShare {
		return fmt.Errorf("local: devices %q: two copies of the weights need %.0f MB, the budget is %.0f MB (half of "+
			"what is free): name one device, or a smaller model", cfg.Devices, need/1e6, free.Value*memoryShare/1e6)
	}
	return nil
}

// cacheTokens is how many tokens the caches hold, as the engine's defaults have it.
func (cfg *Config) cacheTokens() int {
	return cmp.Or(cfg.Context, defaultTokens) * cmp.Or(cfg.MaxSequences, defaultSequences)
}

// What llamacpp.Options opens where nothing else is said.
const defaultTokens, defaultSequences = 2048, 4

// DeviceChoice is what Config.Devices "auto" comes to on this machine.
type DeviceChoice struct {
	Why     string   // why it is the CPU alone; "": the rows say where
	File    string   // of the device profile, also where there is none yet
	Stale   []string // what changed since it was measured
	Missing bool     // nothing was measured

	Holds   []scheduler.DeviceID // that will hold the model
	Rows    []ChoiceRow          // the first is where nobody looks at frames
	Refused []scheduler.Refusal  // what isn't offered, and why

	placement *PlacementConfig
	least     int // tokens of a prompt in one batch, where the prompts are read
}

// ChoiceRow is what is chosen in one situation, once it has lasted.
type ChoiceRow struct {
	When      string
	Placement scheduler.Placement
	Reason    scheduler.PlaceReason
}

// ChooseDevices says what Config.Devices "auto" comes to with the model of o, a
// cache of tokens (0: a runtime's by default) and a floor in tokens a second (0: that
// of the balanced preset).
// It fails only where library or model are missing.
func ChooseDevices(o assets.Options, tokens int, floor float64) (*DeviceChoice, error) {
	p, file, stale, err := StoredProfile(o)
	c := &DeviceChoice{File: file, Stale: stale}
	switch {
	case errors.Is(err, fs.ErrNotExist) && file != "":
		c.Missing = true
		c.Why = "nothing was measured with this model yet: run `lull calibrate`"
	case errors.Is(err, calibrate.ErrProfile):
		c.Why = err.Error() + ": run `lull calibrate`"
	case err != nil:
		return nil, err
	case len(stale) > 0:
		c.Why = fmt.Sprintf("the device profile is stale, %s changed since it was measured: run `lull calibrate`",
			strings.Join(stale, ", "))
	default:
		c.decide(p, PlacementFor(p, "", cmp.Or(tokens, defaultTokens*defaultSequences)), floor)
	}
	return c, nil
}

// MeasuredDevices is what Config.Devices gets from a program that asks nobody: auto
// where this machine was calibrated with the model of o, so that nobody is told of a
// profile he never asked for; else "".
func MeasuredDevices(o assets.Options) string {
	if _, _, _, err := StoredProfile(o); err != nil && !errors.Is(err, calibrate.ErrProfile) {
		return "" // what is missing is fetched, and was never measured
	}
	return devicesAuto
}

// situations are what the choice is shown in, and held for.
var situations = []struct {
	when string
	in   scheduler.PlaceInput
}{
	{"menu, loading, no frames", scheduler.PlaceInput{Phase: scheduler.PhaseMenu}},
	{"exploring, frames in time", scheduler.PlaceInput{Phase: scheduler.PhaseExplore}},
	{"combat, frames in time", scheduler.PlaceInput{Phase: scheduler.PhaseCombat}},
	{"frames wait for the CPU", scheduler.PlaceInput{Phase: scheduler.PhaseExplore, Bottleneck: scheduler.BoundCPU}},
	{"frames wait for the GPU", scheduler.PlaceInput{Phase: scheduler.PhaseExplore, Bottleneck: scheduler.BoundGPU}},
	{"frames wait for memory", scheduler.PlaceInput{Phase: scheduler.PhaseExplore,
		Bottleneck: scheduler.BoundMemory}},
	{"hot", scheduler.PlaceInput{Phase: scheduler.PhaseExplore,
		Host: scheduler.HostSignals{ThermalHeadroom: 0.95, Thermal: scheduler.ThermalModerate}}},
	{"battery saver", scheduler.PlaceInput{Phase: scheduler.PhaseExplore,
		Host: scheduler.HostSignals{Power: scheduler.PowerSaver}}},
}

// lasted is longer than any dwell of the choice.
const lasted = time.Minute

// decide fills in the choice, of a profile that is not stale.
func (c *DeviceChoice) decide(p *calibrate.DeviceProfile, place *PlacementConfig, floor float64) {
	if floor <= 0 {
		floor = scheduler.DefaultConfig().FloorTokensPerSecond
	}
	i := slices.IndexFunc(p.Devices, func(d calibrate.DeviceRow) bool { return d.Kind == string(llamacpp.CPU) })
	if i < 0 {
		c.Why = "the device profile has no CPU: run `lull calibrate`"
		return
	}
	if err := place.Profile.Validate(); err != nil {
		c.Why = fmt.Sprintf("the device profile is of no use, %v: run `lull calibrate --fresh`", err)
		return
	}
	first := scheduler.DeviceID(p.Devices[i].ID)
	for _, stage := range []scheduler.Stage{scheduler.StagePrefill, scheduler.StageDecode} {
		if !slices.ContainsFunc(place.Profile.Figures, func(f scheduler.StageFigures) bool {
			return f.Device == first && f.Stage == stage && !f.Offload
		}) {
			c.Why = fmt.Sprintf("%s of %s was not measured: run `lull calibrate`", stage, first)
			return
		}
	}
	used := c.try(place.Profile, first, floor)
	if why := tooMany(place.Profile, len(used)); why != "" && c.Why == "" {
		refused := append(c.Refused, scheduler.Refusal{Placement: c.Rows[0].Placement, Why: why})
		place.Profile = onlyOn(place.Profile, first)
		used = c.try(place.Profile, first, floor)
		c.Refused = refused
	}
	for _, d := range p.Devices {
		if used[scheduler.DeviceID(d.ID)] {
			c.Holds = append(c.Holds, scheduler.DeviceID(d.ID))
		}
	}
	place.Devices = slices.DeleteFunc(place.Devices, func(id string) bool { return !used[scheduler.DeviceID(id)] })
	if len(c.Rows) > 0 {
		c.least = p.LeastChunk(string(c.Rows[0].Placement.Prefill))
	}
	if c.placement = place; c.Why == "" && len(place.Devices) == 0 {
		c.tryHelpers(p, first, floor)
	}
	if c.Why != "" {
		c.placement = nil
	}
}

// tooMany says why that many copies, all held at once, don't fit the budget.
func tooMany(p *scheduler.PlacementProfile, copies int) string {
	need := p.OtherBytes + uint64(copies)*(p.Weights+p.KVPerToken*uint64(p.Tokens)+p.ScratchBytes)
	if p.Budget == 0 || copies < 2 || need <= p.Budget {
		return ""
	}
	return fmt.Sprintf("%d copies of weights and cache, to move between, need %d bytes, the budget is %d", copies, need,
		p.Budget)
}

// onlyOn is a profile of one of its devices.
func onlyOn(p *scheduler.PlacementProfile, id scheduler.DeviceID) *scheduler.PlacementProfile {
	out := *p
	out.Devices, out.Figures, out.Handovers = nil, nil, nil
	for _, d := range p.Devices {
		if d.ID == id {
			out.Devices = append(out.Devices, d)
		}
	}
	for _, f := range p.Figures {
		if f.Device == id && !f.Offload {
			out.Figures = append(out.Figures, f)
		}
	}
	return &out
}

// try fills in the rows for a profile, and gives the devices that they use.
func (c *DeviceChoice) try(profile *scheduler.PlacementProfile, first scheduler.DeviceID,
	floor float64) map[scheduler.DeviceID]bool {
	start := scheduler.Placement{Prefill: first, Decode: first}
	used := map[scheduler.DeviceID]bool{first: true}
	c.Rows = nil
	for _, s := range situations {
		for _, stage := range []scheduler.Stage{scheduler.StageIdle, scheduler.StageDecode} {
			x, err := scheduler.NewPlacer(*profile, start, 0)
			if err != nil {
				c.Why, c.Rows = strings.TrimPrefix(err.Error(), scheduler.ErrConfig.Error()+": "), nil
				return nil
			}
			in := s.in
			in.Stage, in.Floor = stage, floor
			x.Choose(scheduler.Instant(lasted), &in) // it is wanted from now on
			to, why := x.Choose(scheduler.Instant(2*lasted), &in)
			used[to.Prefill], used[to.Decode] = true, true
			if stage == scheduler.StageIdle {
				c.Rows = append(c.Rows, ChoiceRow{s.when, to, why})
			}
			c.Refused = x.Refused()
		}
	}
	return used
}

// keepsPace is what a copy that can be offloaded may lose of the decode: kernels
// that pack the weights anew for the CPU are not used on it.
const keepsPace = 0.9

// tryHelpers looks whether one copy whose large batches go to another device does
// better, where no second copy is wanted or fits.
func (c *DeviceChoice) tryHelpers(p *calibrate.DeviceProfile, first scheduler.DeviceID, floor float64) {
	own := decodeRate(c.placement.Profile, first)
	for _, row := range p.Devices {
		if row.Helper == "" {
			continue
		}
		s, was := p.PlacementWith(row), c.placement.Profile
		s.Tokens, s.ScratchBytes, s.Budget = was.Tokens, was.ScratchBytes, was.Budget
		if s.Validate() != nil || decodeRate(&s, first) < keepsPace*own {
			continue
		}
		other := DeviceChoice{}
		if used := other.try(&s, first, floor); other.Why == "" && used[scheduler.DeviceID(row.Helper)] {
			c.Rows, c.Refused = other.Rows, append(c.Refused, other.Refused...)
			c.placement.Offload, c.placement.Profile = row.Helper, &s
			return
		}
	}
}

// decodeRate is the fastest decode measured on a device.
func decodeRate(p *scheduler.PlacementProfile, on scheduler.DeviceID) (best float64) {
	for _, f := range p.Figures {
		if f.Device == on && f.Stage == scheduler.StageDecode {
			best = max(best, f.Rate)
		}
	}
	return best
}
