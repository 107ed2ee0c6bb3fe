package local

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/lull-npc/lull/runtime/assets"
	"github.com/lull-npc/lull/runtime/llamacpp"
	"github.com/lull-npc/lull/runtime/llm"
	"github.com/lull-npc/lull/scheduler"
)

// vulkanLibrary is the asset whose library has a Vulkan backend.
const vulkanLibrary = "llama-linux-x64-vulkan"

// inChild says that this process is the one that loads that library: a process
// has one llama.cpp, and the other tests here use the default one.
const inChild = "LULL_TEST_TWO_DEVICES"

const (
	// handoverTie is how far two logits may lie apart and still change places
	// between two devices, whose products are rounded otherwise: the CPU's kernels
	// for quantised weights round the activations to 8 bits, and Vulkan's do not.
	// The logits of one token differ by 0.1 … 0.7 (root mean square) and up to 1.6.
	handoverTie = 0.5

	// handoverEqual is the share of replies that meet no near-tie at all; 0.86 were seen.
	handoverEqual = 0.75
)

// TestTwoDevices moves replies between the CPU and a Vulkan device, which may be
// llvmpipe.
func TestTwoDevices(t *testing.T) {
	if os.Getenv(inChild) == "" {
		twoDevicesInChild(t)
		return
	}
	models := openTwo(t, "")
	// A token takes llvmpipe half a second and more, so the long test is a soak.
	prompts, switches, soak := 1, 2, os.Getenv("LULL_SOAK") != ""
	if soak {
		prompts, switches = 20, 100
	}
	equal := 0
	replies := map[int][]llm.Token{}
	cpu, gpu := models[0], models[1]
	p := placeTwo(t, models, nil)
	rng := rand.New(rand.NewPCG(1, 2))
	for i := range prompts { // prefill there, decode here
		prompt := handoverPrompt(t, cpu, i)
		replies[i] = replyOf(t, p, prompt, func(int) { p.Place(on("CPU", "CPU")) })
		if !soak {
			continue
		}
		got := replyOf(t, p, prompt, func(int) { p.Place(on(gpu.Info().Device, "CPU")) })
		equal += sameUpToTies(t, cpu, prompt, replies[i], got, fmt.Sprintf("prompt %d, prefill on Vulkan", i))
		got = replyOf(t, p, prompt, func(int) { p.Place(on(gpu.Info().Device, gpu.Info().Device)) })
		equal += sameUpToTies(t, cpu, prompt, replies[i], got, fmt.Sprintf("prompt %d, all on Vulkan", i))
	}
	for i := range switches { // in the middle of a reply, there and perhaps back
		k := i % prompts
		prompt := handoverPrompt(t, cpu, k)
		at, back := 1+rng.IntN(handoverTokens-1), rng.IntN(2*handoverTokens)
		if !soak {
			at, back = 2+i, 4+i
		}
		got := replyOf(t, p, prompt, func(n int) {
			to := on("CPU", "CPU")
			if n >= at && (back < at || n < back) {
				to = on(gpu.Info().Device, gpu.Info().Device)
			}
			p.Place(to)
		})
		what := fmt.Sprintf("prompt %d, switched at %d and %d", k, at, back)
		equal += sameUpToTies(t, cpu, prompt, replies[k], got, what)
	}
	t.Logf("%d replies are token for token those of the CPU", equal)
	if all := 2*prompts + switches; soak && float64(equal) < handoverEqual*float64(all) {
		t.Errorf("%d of %d replies are token for token those of the CPU: want %v of them", equal, all, handoverEqual)
	}
	if h := p.Handovers(); h.Moved < prompts || h.Computed > 0 {
		t.Errorf("%+v: want each move by the state", h)
	} else {
		t.Logf("%d moves of %d tokens", h.Moved, h.Tokens)
	}
	failsMidReply(t, models, handoverPrompt(t, cpu, 0), replies[0])
}

// failsMidReply takes the Vulkan device away after some tokens.
func failsMidReply(t *testing.T, models []llm.Model, prompt, want []llm.Token) {
	broken := &failing{Model: models[1], after: 2}
	var events []DeviceEvent
	p := placeTwo(t, []llm.Model{models[0], broken}, func(e DeviceEvent) { events = append(events, e) })
	id := broken.Info().Device
	got := replyOf(t, p, prompt, func(int) { p.Place(on("CPU", id)) })
	sameUpToTies(t, models[0], prompt, want, got, "the device failed in the middle")
	if len(events) != 1 || events[0].To != "CPU" || p.Handovers().Computed != 1 {
		t.Errorf("%+v %+v", events, p.Handovers())
	}
}

// helperLeast is from how many tokens on the helper computes here, set by ggml's own
// variable: with 32 a batch takes llvmpipe half a minute.
const helperLeast = 3

// TestOffload computes the last tokens of a prompt on the Vulkan device, with the
// CPU's copy of the weights, and all else on the CPU: the reply is the CPU's.
func TestOffload(t *testing.T) {
	const timings = "Vulkan Timings"
	if os.Getenv(inChild) == "" {
		out := twoDevicesInChild(t, "GGML_VK_PERF_LOGGER=1", fmt.Sprint("GGML_OP_OFFLOAD_MIN_BATCH=", helperLeast))
		before, after, found := strings.Cut(out, "now the helper")
		if strings.Contains(before, timings) || !found || !strings.Contains(after, timings) ||
			!strings.Contains(after, "MUL_MAT") {
			t.Errorf("want products of the helper in large batches alone:\n%s", out)
		}
		return
	}
	models := openTwo(t, "offload")
	prompt := handoverPrompt(t, models[0], 0)
	want := replyOf(t, models[0], prompt, func(int) {})
	s, err := models[1].NewSequence()
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	decode := func(tokens []llm.Token) {
		t.Helper()
		var b llm.Batch
		for i, x := range tokens {
			b.Add(s, x, i == len(tokens)-1)
		}
		if _, err := models[1].Decode(&b, llm.Grant{}); err != nil {
			t.Fatal(err)
		}
	}
	large := len(prompt) - helperLeast
	for small := range slices.Chunk(prompt[:large], helperLeast-1) {
		decode(small)
	}
	fmt.Fprintln(os.Stderr, "now the helper")
	decode(prompt[large:])
	sampler, err := models[1].NewSampler(llm.Sampling{})
	if err != nil {
		t.Fatal(err)
	}
	defer sampler.Close()
	var got []llm.Token
	for len(got) < handoverTokens {
		x, err := sampler.Sample(0)
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, x)
		decode(got[len(got)-1:])
	}
	sameUpToTies(t, models[0], prompt, want, got, "the end of the prompt with a helper")
}

// TestOpenDevices opens a runtime by what Config.Devices says, on two devices.
func TestOpenDevices(t *testing.T) {
	if os.Getenv(inChild) == "" {
		twoDevicesInChild(t)
		return
	}
	texts := []string{"offload=vulkan0"}
	if os.Getenv("LULL_SOAK") != "" { // each warms a device up, which takes llvmpipe seconds
		texts = append(texts, "vulkan0", "prefill=vulkan0,decode=cpu")
	}
	for _, text := range texts {
		var notes []string
		r, err := Open(context.Background(), Config{Spec: Spec{Threads: 1, Steer: SteerNone}, Devices: text,
			Context: 128, MaxSequences: 1, MaxBatch: 64, Note: func(n string) { notes = append(notes, n) },
			Assets: assets.Options{Offline: true, LlamaLib: vulkanLibrary}})
		switch {
		case errors.Is(err, llamacpp.ErrDevice):
			t.Skip(err)
		case err != nil:
			t.Fatalf("%s: %v", text, err)
		}
		prompt, err := r.Model.Tokenize(nil, "The bridge", false)
		if err != nil {
			t.Fatal(err)
		}
		id, err := r.Engine.Submit(llm.Request{Prompt: prompt, MaxTokens: 2})
		if err != nil {
			t.Fatal(err)
		}
		if said, e := reply(r, id); e.Kind != llm.EventDone || said == "" {
			t.Errorf("%s: %q %+v", text, said, e)
		}
		for _, n := range notes {
			if !strings.Contains(n, "warmed up") { // a busy machine may not get that far
				t.Errorf("%s: %s", text, n)
			}
		}
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	}
}

func on(prefill, decode string) scheduler.Placement {
	return scheduler.Placement{Prefill: scheduler.DeviceID(prefill), Decode: scheduler.DeviceID(decode)}
}

// failing is a model whose device is gone after some batches.
type failing struct {
	llm.Model
	after int
}

func (f *failing) Fingerprint() string              { return identity(f.Model) }
func (f *failing) AdoptSampler(s llm.Sampler) error { return f.Model.(samplerAdopter).AdoptSampler(s) }
func (f *failing) Decode(b *llm.Batch, g llm.Grant) (llm.Work, error) {
	if f.after--; f.after < 0 {
		return llm.Work{}, errors.New("device lost")
	}
	return f.Model.Decode(b, g)
}

// twoDevicesInChild runs this test again, in a process with the other library.
func twoDevicesInChild(t *testing.T, env ...string) (output string) {
	t.Helper()
	store, err := assets.Open(assets.Options{Offline: true, LlamaLib: vulkanLibrary})
	if err == nil {
		_, err = store.LocateLibrary()
	}
	if err != nil {
		t.Skipf("no second device: %v (lull assets fetch %s)", err, vulkanLibrary)
	}
	if _, err := assets.Locate(assets.Options{Offline: true}); err != nil {
		t.Skipf("no real model: %v", err)
	}
	cmd := exec.Command(os.Args[0], "-test.run", "^"+t.Name()+"$", "-test.v")
	cmd.Env = append(append(os.Environ(), inChild+"=1", "GGML_VK_VISIBLE_DEVICES=0"), env...)
	out, err := cmd.CombinedOutput()
	switch {
	case err != nil:
		t.Fatalf("%v\n%s", err, out)
	case strings.Contains(string(out), "--- SKIP"):
		t.Skipf("%s", out)
	}
	return string(out)
}

// openTwo opens the model on the CPU and on the Vulkan device; or with "offload" on
// the CPU alone, and there with the Vulkan device as a helper.
func openTwo(t *testing.T, how string) []llm.Model {
	t.Helper()
	found, err := assets.Locate(assets.Options{Offline: true, LlamaLib: vulkanLibrary})
	if err != nil {
		t.Fatal(err)
	}
	if err := llamacpp.Load(found.Library.Path); err != nil {
		t.Fatal(err)
	}
	devices, err := llamacpp.Devices()
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(devices, func(d llamacpp.Device) bool { return d.Kind == llamacpp.GPU })
	if i < 0 {
		t.Skip("no Vulkan device: apt-get install mesa-vulkan-drivers brings one that computes on the CPU")
	}
	clock := llm.NewClock()
	var models []llm.Model
	opt := llamacpp.Options{Clock: clock, Admit: Admit, Context: 256, MaxSequences: 2, MaxBatch: 64, Threads: 1}
	for _, id := range []string{"", devices[i].ID} {
		if opt.Device = id; how == "offload" {
			opt.Device, opt.Offload = "", id
		}
		m, err := llamacpp.Open(context.Background(), found.Model.Path, opt)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { m.Close() })
		models = append(models, m)
	}
	return models
}

func placeTwo(t *testing.T, models []llm.Model, note func(DeviceEvent)) *Placed {
	t.Helper()
	p, err := NewPlaced(models, note)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// handoverTokens is the length of a reply here.
const handoverTokens = 8

var handoverTopics = []string{"the old bridge", "your wares", "the dragon in the north", "the king's daughter",
	"a bed for the night", "the road to the harbour", "your broken sword", "the missing cat", "tonight's weather",
	"the price of bread", "the temple bells", "your childhood", "the war", "a game of dice", "the best ale here",
	"ghosts", "the river's fish", "gold", "the stranger at the door", "saying goodbye"}

func handoverPrompt(t *testing.T, m llm.Model, i int) []llm.Token {
	t.Helper()
	segments, err := m.RenderChat([]llm.Turn{{Role: llm.User, Text: "Tell me about " + handoverTopics[i] + "."}}, true)
	if err != nil {
		t.Fatal(err)
	}
	prompt, _, err := llm.TokenizeChat(m, segments)
	if err != nil {
		t.Fatal(err)
	}
	return prompt
}

// replyOf decodes a prompt and then greedily; before is called ahead of each
// batch with how many tokens have been said.
func replyOf(t *testing.T, m llm.Model, prompt []llm.Token, before func(said int)) []llm.Token {
	t.Helper()
	s, err := m.NewSequence()
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	sampler, err := m.NewSampler(llm.Sampling{})
	if err != nil {
		t.Fatal(err)
	}
	defer sampler.Close()
	var b llm.Batch
	var out []llm.Token
	next := prompt
	for len(out) < handoverTokens {
		b.Reset()
		for i, x := range next {
			b.Add(s, x, i == len(next)-1)
		}
		before(len(out))
		if _, err := m.Decode(&b, llm.Grant{}); err != nil {
			t.Fatal(err)
		}
		x, err := sampler.Sample(0)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, x)
		next = out[len(out)-1:]
	}
	return out
}

// sameUpToTies compares replies up to the first near-tie: what follows one is
// another reply. It returns 1 where there is none.
func sameUpToTies(t *testing.T, m llm.Model, prompt, want, got []llm.Token, what string) (equal int) {
	t.Helper()
	at := 0
	for at < len(want) && want[at] == got[at] {
		at++
	}
	if at == len(want) {
		return 1
	}
	s, err := m.NewSequence()
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	var b llm.Batch
	all := append(slices.Clone(prompt), want[:at]...)
	for i, x := range all {
		b.Add(s, x, i == len(all)-1)
	}
	if _, err := m.Decode(&b, llm.Grant{}); err != nil {
		t.Fatal(err)
	}
	logits, err := m.(*llamacpp.Model).Logits(0)
	if err != nil {
		t.Fatal(err)
	}
	gap := logits[want[at]] - logits[got[at]]
	t.Logf("%s: token %d differs, the logits by %.3f", what, at, gap)
	if gap > handoverTie {
		t.Errorf("%s: token %d differs, and the logits by %.3f: that is no near-tie", what, at, gap)
	}
	return 0
}
