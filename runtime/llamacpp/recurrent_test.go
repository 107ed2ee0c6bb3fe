package llamacpp

import (
	"bytes"
	"context"
	"encoding/binary"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/lull-npc/lull/internal/testassets"
	"github.com/lull-npc/lull/runtime/llm"
)

// toy is a model file of a few kilobytes with random weights: enough for
// llama.cpp to build the graph and the memory of its architecture.
type toy struct {
	arch    string
	pairs   bytes.Buffer
	count   uint64
	infos   bytes.Buffer
	data    bytes.Buffer
	tensors uint64
	random  *rand.Rand
}

func newToy(arch string) *toy {
	y := &toy{arch: arch, random: rand.New(rand.NewPCG(1, 2))}
	y.text("general.architecture", arch)
	y.text("tokenizer.ggml.model", "no_vocab")
	y.number("vocab_size", toyVocab)
	y.number("context_length", 256)
	y.number("embedding_length", toyWidth)
	y.number("block_count", 2)
	return y
}

const (
	toyVocab = 96
	toyWidth = 32
)

func (y *toy) key(key string, kind uint32) {
	y.count++
	put(&y.pairs, uint64(len(key)), []byte(key), kind)
}

func put(b *bytes.Buffer, values ...any) {
	for _, v := range values {
		_ = binary.Write(b, binary.LittleEndian, v) // to memory: can't fail
	}
}

func (y *toy) text(key, value string) {
	y.key(key, ggufString)
	put(&y.pairs, uint64(len(value)), []byte(value))
}

func (y *toy) number(key string, v uint32) { y.key(y.arch+"."+key, 4); put(&y.pairs, v) }
func (y *toy) float(key string, v float32) { y.key(y.arch+"."+key, 6); put(&y.pairs, v) }
func (y *toy) list(key string, v ...int32) {
	y.key(y.arch+"."+key, ggufArray)
	put(&y.pairs, uint32(5), uint64(len(v)), v)
}

// tensor adds one of F32, its row's length first.
func (y *toy) tensor(name string, sizes ...uint64) {
	y.tensors++
	put(&y.infos, uint64(len(name)), []byte(name), uint32(len(sizes)), sizes, uint32(0), uint64(y.data.Len()))
	n := uint64(1)
	for _, s := range sizes {
		n *= s
	}
	for range n {
		put(&y.data, float32(y.random.NormFloat64()/math.Sqrt(toyWidth)))
	}
	y.data.Write(make([]byte, (32-y.data.Len()%32)%32))
}

func (y *toy) open(t *testing.T) *Model {
	t.Helper()
	library, _ := testassets.Locate(t)
	if err := Load(library); err != nil {
		t.Fatal(err)
	}
	var file bytes.Buffer
	put(&file, []byte("GGUF"), uint32(3), y.tensors, y.count, y.pairs.Bytes(), y.infos.Bytes())
	file.Write(make([]byte, (32-file.Len()%32)%32))
	file.Write(y.data.Bytes())
	path := filepath.Join(t.TempDir(), y.arch+".gguf")
	if err := os.WriteFile(path, file.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	m, err := Open(context.Background(), path, Options{
		Clock: llm.NewClock(), Admit: admit, Context: 128, MaxSequences: 2, MaxBatch: 32, Threads: 1,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	return m
}

// mamba is recurrent: its memory is a state, not a list of tokens.
func mamba() *toy {
	const inner, state, conv, rank = 2 * toyWidth, 8, 4, 4
	y := newToy("mamba")
	y.number("ssm.conv_kernel", conv)
	y.number("ssm.inner_size", inner)
	y.number("ssm.state_size", state)
	y.number("ssm.time_step_rank", rank)
	y.float("attention.layer_norm_rms_epsilon", 1e-5)
	y.tensor("token_embd.weight", toyWidth, toyVocab)
	y.tensor("output_norm.weight", toyWidth)
	for _, l := range []string{"blk.0.", "blk.1."} {
		y.tensor(l+"attn_norm.weight", toyWidth)
		y.tensor(l+"ssm_in.weight", toyWidth, 2*inner)
		y.tensor(l+"ssm_conv1d.weight", conv, inner)
		y.tensor(l+"ssm_conv1d.bias", inner)
		y.tensor(l+"ssm_x.weight", inner, rank+2*state)
		y.tensor(l+"ssm_dt.weight", rank, inner)
		y.tensor(l+"ssm_dt.bias", inner)
		y.tensor(l+"ssm_a", state, inner)
		y.tensor(l+"ssm_d", inner)
		y.tensor(l+"ssm_out.weight", inner, toyWidth)
	}
	return y
}

// lfm2 is a hybrid: one layer of convolution, one of attention.
func lfm2() *toy {
	const forward, kernel = 2 * toyWidth, 3
	y := newToy("lfm2")
	y.number("feed_forward_length", forward)
	y.number("attention.head_count", 2)
	y.list("attention.head_count_kv", 0, 2)
	y.number("shortconv.l_cache", kernel)
	y.float("attention.layer_norm_rms_epsilon", 1e-5)
	y.tensor("token_embd.weight", toyWidth, toyVocab)
	y.tensor("token_embd_norm.weight", toyWidth)
	for _, l := range []string{"blk.0.", "blk.1."} {
		y.tensor(l+"attn_norm.weight", toyWidth)
		y.tensor(l+"ffn_norm.weight", toyWidth)
		y.tensor(l+"ffn_gate.weight", toyWidth, forward)
		y.tensor(l+"ffn_up.weight", toyWidth, forward)
		y.tensor(l+"ffn_down.weight", forward, toyWidth)
	}
	y.tensor("blk.0.shortconv.conv.weight", kernel, toyWidth)
	y.tensor("blk.0.shortconv.in_proj.weight", toyWidth, 3*toyWidth)
	y.tensor("blk.0.shortconv.out_proj.weight", toyWidth, toyWidth)
	y.attention("blk.1.")
	return y
}

func (y *toy) attention(l string) {
	for _, name := range []string{"attn_q", "attn_k", "attn_v", "attn_output"} {
		y.tensor(l+name+".weight", toyWidth, toyWidth)
	}
	y.tensor(l+"attn_q_norm.weight", toyWidth/2)
	y.tensor(l+"attn_k_norm.weight", toyWidth/2)
}

// gemma3 looks back over a window of 8 tokens only.
func gemma3() *toy {
	const forward = 2 * toyWidth
	y := newToy("gemma3")
	y.number("feed_forward_length", forward)
	y.number("attention.head_count", 2)
	y.number("attention.head_count_kv", 2)
	y.number("attention.key_length", toyWidth/2)
	y.number("attention.value_length", toyWidth/2)
	y.number("attention.sliding_window", 8)
	y.float("attention.layer_norm_rms_epsilon", 1e-5)
	y.tensor("token_embd.weight", toyWidth, toyVocab)
	y.tensor("output_norm.weight", toyWidth)
	for _, l := range []string{"blk.0.", "blk.1."} {
		for _, name := range []string{"attn_norm", "post_attention_norm", "ffn_norm", "post_ffw_norm"} {
			y.tensor(l+name+".weight", toyWidth)
		}
		y.attention(l)
		y.tensor(l+"ffn_gate.weight", toyWidth, forward)
		y.tensor(l+"ffn_up.weight", toyWidth, forward)
		y.tensor(l+"ffn_down.weight", forward, toyWidth)
	}
	return y
}

// What can't take tokens back says so, and a sequence that was cut is empty or
// holds exactly what its ledger says: the next logits are those of the tokens.
func TestTruncateByArchitecture(t *testing.T) {
	for _, c := range []struct {
		toy *toy
		can bool
	}{{mamba(), false}, {lfm2(), false}, {gemma3(), true}} {
		t.Run(c.toy.arch, func(t *testing.T) {
			m := c.toy.open(t)
			if m.Info().CanTruncate != c.can {
				t.Fatalf("CanTruncate is %v, want %v", m.Info().CanTruncate, c.can)
			}
			text := make([]llm.Token, 40)
			for i := range text {
				text[i] = llm.Token(i * 37 % toyVocab)
			}
			const head = 25 // more than the window before it is gone by then
			cut, fresh := sequenceOf(t, m, text), sequenceOf(t, m, text[:head])
			want := slices.Clone(next(t, m, fresh, 7))
			if err := cut.Truncate(head); err != nil {
				t.Fatal(err)
			}
			switch n := len(cut.Tokens()); {
			case !c.can && n != 0:
				t.Fatalf("%d tokens are left of what can't be cut", n)
			case c.can && n != head:
				t.Fatalf("%d tokens are left, want %d", n, head)
			case n == 0:
				feed(t, m, cut, text[:head])
			}
			for i, x := range next(t, m, cut, 7) {
				if math.Abs(float64(x-want[i])) > 1e-3 {
					t.Fatalf("logit %d is %v after the cut, want %v", i, x, want[i])
				}
			}
		})
	}
}

func sequenceOf(t *testing.T, m *Model, text []llm.Token) llm.Sequence {
	t.Helper()
	s, err := m.NewSequence()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	feed(t, m, s, text)
	return s
}

func feed(t *testing.T, m *Model, s llm.Sequence, text []llm.Token) {
	t.Helper()
	for part := range slices.Chunk(text, 10) {
		var b llm.Batch
		for i, x := range part {
			b.Add(s, x, i == len(part)-1)
		}
		if _, err := m.Decode(&b, llm.Grant{}); err != nil {
			t.Fatal(err)
		}
	}
}

// next are the logits after one more token.
func next(t *testing.T, m *Model, s llm.Sequence, x llm.Token) []float32 {
	t.Helper()
	feed(t, m, s, []llm.Token{x})
	logits, err := m.Logits(0)
	if err != nil {
		t.Fatal(err)
	}
	if slices.ContainsFunc(logits, func(x float32) bool { return math.IsNaN(float64(x)) }) {
		t.Fatal("a logit is no number: the toy's weights are no good")
	}
	return logits
}
