package convert

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"hash/crc32"
	"io"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/x448/float16"
	"pgregory.net/rapid"
)

var update = flag.Bool("update", false, "write the golden files")

// small is a BERT of one layer, four wide, that knows eight tokens.
var small = config{Type: "bert", Activation: "gelu", Width: 4, Inner: 6, Context: 5, Heads: 2, Layers: 1,
	TokenTypes: 2, Vocab: 8, Epsilon: 1e-12}

const smallVocab = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nplay\n##ing\n##\n"

// model is what a folder holds; a test changes it before it is written.
type model struct {
	files   map[string]string
	kind    string // of the numbers
	header  map[string]any
	numbers []byte
	weights []byte // the whole file, if not made of the two above
}

func newModel(t *testing.T, kind string) *model {
	t.Helper()
	text, err := json.Marshal(small)
	if err != nil {
		t.Fatal(err)
	}
	m := &model{kind: kind, header: map[string]any{"__metadata__": map[string]string{"format": "pt"}},
		files: map[string]string{
			"config.json": string(text), "vocab.txt": smallVocab,
			"1_Pooling/config.json": `{"pooling_mode_mean_tokens": true}`,
			"README.md":             "---\nlicense: mit\n---\n\n# makers/tiny-embedder\nText.\n",
		}}
	m.add("embeddings.position_ids", "I64", []int64{1, 5}, make([]byte, 40))
	for i, e := range tensorsOf(small, F32) {
		var raw []byte
		for k := range e.count {
			raw = append(raw, number(kind, float32(i)+float32(k)/64)...)
		}
		shape := slices.Clone(e.sizes)
		slices.Reverse(shape)
		m.add(e.source, kind, shape, raw)
	}
	return m
}

func (m *model) add(name, kind string, shape []int64, raw []byte) {
	at := len(m.numbers)
	m.numbers = append(m.numbers, raw...)
	m.header[name] = map[string]any{"dtype": kind, "shape": shape, "data_offsets": []int{at, len(m.numbers)}}
}

func number(kind string, x float32) []byte {
	switch kind {
	case "F16":
		return binary.LittleEndian.AppendUint16(nil, float16.Fromfloat32(x).Bits())
	case "BF16":
		return binary.LittleEndian.AppendUint16(nil, uint16(math.Float32bits(x)>>16))
	}
	return binary.LittleEndian.AppendUint32(nil, math.Float32bits(x))
}

func (m *model) file(t *testing.T) []byte {
	t.Helper()
	if m.weights != nil {
		return m.weights
	}
	text, err := json.Marshal(m.header)
	if err != nil {
		t.Fatal(err)
	}
	out := binary.LittleEndian.AppendUint64(nil, uint64(len(text)))
	return append(append(out, text...), m.numbers...)
}

func (m *model) write(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	m.files[WeightsFile] = string(m.file(t))
	for name, text := range m.files {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// list reads a GGUF file as text that a person can check: a reader of its own,
// after the format's description.
func list(t *testing.T, file []byte) string {
	t.Helper()
	var out strings.Builder
	in := bytes.NewReader(file)
	read := func(v any) {
		if err := binary.Read(in, binary.LittleEndian, v); err != nil {
			t.Fatalf("%v after\n%s", err, out.String())
		}
	}
	u32 := func() (n uint32) { read(&n); return n }
	u64 := func() (n uint64) { read(&n); return n }
	text := func() string { b := make([]byte, u64()); read(b); return string(b) }
	value := func(kind uint32) string {
		switch kind {
		case valueUint32:
			return fmt.Sprint(u32())
		case valueInt32:
			return fmt.Sprint(int32(u32()))
		case valueFloat32:
			return fmt.Sprint(math.Float32frombits(u32()))
		case valueBool:
			b, err := in.ReadByte()
			return fmt.Sprint(b == 1 && err == nil)
		case valueString:
			return fmt.Sprintf("%q", text())
		}
		t.Fatalf("value of type %d", kind)
		return ""
	}
	magic := make([]byte, 4)
	read(magic)
	fmt.Fprintf(&out, "%s version %d\n", magic, u32())
	tensors, pairs := u64(), u64()
	for range pairs {
		key, kind := text(), u32()
		if kind != valueArray {
			fmt.Fprintf(&out, "%s = %s\n", key, value(kind))
			continue
		}
		kind, n := u32(), u64()
		fmt.Fprintf(&out, "%s =", key)
		for range n {
			fmt.Fprintf(&out, " %s", value(kind))
		}
		out.WriteByte('\n')
	}
	listTensors(&out, file, tensors, text, u32, u64, func() int64 { at, _ := in.Seek(0, io.SeekCurrent); return at })
	return out.String()
}

func listTensors(out *strings.Builder, file []byte, tensors uint64, text func() string, u32 func() uint32,
	u64 func() uint64, at func() int64) {
	type row struct {
		name         string
		sizes        []uint64
		kind         uint32
		offset, size uint64
	}
	var rows []row
	for range tensors {
		r := row{name: text(), size: 4}
		for range u32() {
			r.sizes = append(r.sizes, u64())
		}
		if r.kind, r.offset = u32(), u64(); r.kind == uint32(F16) {
			r.size = 2
		}
		for _, n := range r.sizes {
			r.size *= n
		}
		rows = append(rows, r)
	}
	base := uint64(aligned(at()))
	for _, r := range rows {
		part := file[base+r.offset:][:r.size]
		fmt.Fprintf(out, "%s %v %s at %d, crc %08x\n", r.name, r.sizes, map[uint32]string{0: "F32", 1: "F16"}[r.kind],
			r.offset, crc32.ChecksumIEEE(part))
	}
	last := rows[len(rows)-1]
	fmt.Fprintf(out, "%d bytes follow the last tensor\n", uint64(len(file))-base-last.offset-last.size)
}

func TestGGUFGolden(t *testing.T) {
	for name, format := range map[string]Format{"f32": F32, "f16": F16} {
		dst := filepath.Join(t.TempDir(), "out.gguf")
		last := 0.0
		if err := BERT(t.Context(), newModel(t, "F32").write(t), dst, format, func(done float64) {
			if done < last || done > 1 {
				t.Errorf("progress went from %v to %v", last, done)
			}
			last = done
		}); err != nil {
			t.Fatal(err)
		}
		if last != 1 {
			t.Errorf("progress ended at %v", last)
		}
		file, err := os.ReadFile(dst)
		if err != nil {
			t.Fatal(err)
		}
		golden := filepath.Join("testdata", name+".txt")
		got := list(t, file)
		if *update {
			if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(golden)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want), got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", golden, diff)
		}
	}
}

// Half-precision weights give the same file as full ones that hold the same
// numbers; so do weights below "bert." and a vocabulary with Windows' line ends.
func TestSameModelWrittenOtherwise(t *testing.T) {
	convert := func(m *model) string {
		dst := filepath.Join(t.TempDir(), "out.gguf")
		if err := BERT(t.Context(), m.write(t), dst, F32, nil); err != nil {
			t.Fatal(err)
		}
		file, err := os.ReadFile(dst)
		if err != nil {
			t.Fatal(err)
		}
		return list(t, file)
	}
	prefixed := newModel(t, "F32")
	for _, name := range slices.Collect(maps.Keys(prefixed.header)) {
		if name != "__metadata__" {
			prefixed.header["bert."+name] = prefixed.header[name]
			delete(prefixed.header, name)
		}
	}
	prefixed.header["pooler.dense.weight"] = map[string]any{"dtype": "F32", "shape": []int{1},
		"data_offsets": []int{0, 4}}
	windows := newModel(t, "F32")
	windows.files["vocab.txt"] = strings.ReplaceAll(smallVocab, "\n", "\r\n")
	want := convert(newModel(t, "F32"))
	for name, m := range map[string]*model{"F16": newModel(t, "F16"), "prefixed": prefixed, "windows": windows} {
		if diff := cmp.Diff(want, convert(m)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	if got := convert(newModel(t, "BF16")); strings.Count(got, "\n") != strings.Count(want, "\n") {
		t.Errorf("BF16:\n%s", got)
	}
	first := newModel(t, "F32")
	first.files["1_Pooling/config.json"] = `{"pooling_mode_cls_token": true}`
	first.files["tokenizer_config.json"] = `{"do_lower_case": false}`
	delete(first.files, "README.md")
	got := convert(first)
	for _, line := range []string{"bert.pooling_type = 2\n", "tokenizer.ggml.normalizer.lowercase = false\n"} {
		if !strings.Contains(got, line) {
			t.Errorf("no %q in\n%s", line, got)
		}
	}
}

// Every fault is refused with its place, and leaves no file.
func TestRefuses(t *testing.T) {
	edit := func(key, value string) func(*model) {
		return func(m *model) {
			var c map[string]any
			if json.Unmarshal([]byte(m.files["config.json"]), &c) != nil {
				t.Fatal("config.json")
			}
			c[key] = json.RawMessage(value)
			text, _ := json.Marshal(c)
			m.files["config.json"] = string(text)
		}
	}
	text := func(name, text string) func(*model) { return func(m *model) { m.files[name] = text } }
	tensor := func(name, key string, value any) func(*model) {
		return func(m *model) { m.header[name].(map[string]any)[key] = value }
	}
	header := func(s string) func(*model) {
		return func(m *model) {
			m.weights = append(binary.LittleEndian.AppendUint64(nil, uint64(len(s))), s...)
		}
	}
	const word = "embeddings.word_embeddings.weight"
	for name, c := range map[string]struct {
		change func(*model)
		want   error
		says   string
	}{
		"another model":      {edit("model_type", `"gpt2"`), ErrModel, "gpt2"},
		"another activation": {edit("hidden_act", `"relu"`), ErrModel, "relu"},
		"other positions":    {edit("position_embedding_type", `"rotary"`), ErrModel, "rotary"},
		"no epsilon":         {edit("layer_norm_eps", `0`), ErrModel, "layer_norm_eps"},
		"negative width":     {edit("hidden_size", `-4`), ErrModel, "hidden_size"},
		"huge width":         {edit("hidden_size", `9000000000`), ErrModel, "hidden_size"},
		"many layers":        {edit("num_hidden_layers", `100000000`), ErrModel, "num_hidden_layers"},
		"odd heads":          {edit("num_attention_heads", `3`), ErrModel, "heads"},
		"more layers":        {edit("num_hidden_layers", `2`), ErrWeights, "encoder.layer.1"},
		"another vocabulary": {edit("vocab_size", `9`), ErrModel, "vocab.txt"},
		"text for a number":  {edit("vocab_size", `"8"`), ErrModel, "config.json"},
		"no JSON":            {text("config.json", "{"), ErrModel, "config.json"},
		"long config":        {text("config.json", strings.Repeat(" ", maxConfigBytes+1)), ErrModel, "longer"},
		"no pooling":         {text("1_Pooling/config.json", `{}`), ErrModel, "1_Pooling"},
		"two poolings": {text("1_Pooling/config.json",
			`{"pooling_mode_mean_tokens": true, "pooling_mode_cls_token": true}`), ErrModel, "1_Pooling"},
		"bad tokenizer":   {text("tokenizer_config.json", `[]`), ErrModel, "tokenizer_config"},
		"short vocab":     {text("vocab.txt", "[PAD]\n"), ErrModel, "1 tokens"},
		"long vocab":      {text("vocab.txt", smallVocab+"more\n"), ErrModel, "line 9"},
		"empty token":     {text("vocab.txt", strings.Replace(smallVocab, "play", "", 1)), ErrModel, "line 6"},
		"bytes as token":  {text("vocab.txt", strings.Replace(smallVocab, "play", "\xff", 1)), ErrModel, "line 6"},
		"no unknown":      {text("vocab.txt", strings.Replace(smallVocab, "[UNK]", "x", 1)), ErrModel, "[UNK]"},
		"missing tensor":  {func(m *model) { delete(m.header, word) }, ErrWeights, word},
		"wrong shape":     {tensor(word, "shape", []int64{4, 8}), ErrWeights, "shape"},
		"wrong rank":      {tensor(word, "shape", []int64{32}), ErrWeights, "shape"},
		"many dimensions": {tensor(word, "shape", []int64{8, 4, 1, 1, 1}), ErrWeights, "dimensions"},
		"negative shape":  {tensor(word, "shape", []int64{-8, -4}), ErrWeights, "impossible"},
		"overflow":        {tensor(word, "shape", []int64{1 << 40, 1 << 40}), ErrWeights, "impossible"},
		"other type":      {tensor(word, "dtype", "I8"), ErrWeights, "I8"},
		"other width":     {tensor(word, "dtype", "F16"), ErrWeights, "F16"},
		"span outside":    {tensor(word, "data_offsets", []int64{0, 1 << 40}), ErrWeights, "offsets"},
		"span backwards":  {tensor(word, "data_offsets", []int64{128, 0}), ErrWeights, "offsets"},
		"negative span":   {tensor(word, "data_offsets", []int64{-128, 0}), ErrWeights, "offsets"},
		"one offset":      {tensor(word, "data_offsets", []int64{0}), ErrWeights, "offsets"},
		"not a number": {func(m *model) { copy(m.numbers[len(m.numbers)-4:], number("F32", float32(math.NaN()))) },
			ErrWeights, "NaN"},
		"too large for a half": {func(m *model) {
			at := m.header[word].(map[string]any)["data_offsets"].([]int)[0]
			copy(m.numbers[at:], number("F32", 1e6))
		}, ErrWeights, "1e+06"},
		"empty file":  {func(m *model) { m.weights = []byte{} }, ErrWeights, "0 bytes"},
		"huge header": {func(m *model) { m.weights = bytes.Repeat([]byte{0xff}, 64) }, ErrWeights, "header of"},
		"longer header": {func(m *model) { m.weights = []byte("\x09\x00\x00\x00\x00\x00\x00\x00{}") }, ErrWeights,
			"header"},
		"list header": {header("[]"), ErrWeights, "header"},
		"no tensors":  {header("{}"), ErrWeights, "no tensor"},
		"null tensor": {header(`{"x": null}`), ErrWeights, "offsets"},
		"many tensors": {header("{" + manyNames() + `"z":{}}`), ErrWeights,
			"at most"},
	} {
		m := newModel(t, "F32")
		c.change(m)
		out := t.TempDir()
		err := BERT(t.Context(), m.write(t), filepath.Join(out, "out.gguf"), F16, nil)
		if !errors.Is(err, c.want) || !strings.Contains(fmt.Sprint(err), c.says) {
			t.Errorf("%s: error %v, want %v that says %q", name, err, c.want, c.says)
		}
		if left, _ := os.ReadDir(out); len(left) > 0 {
			t.Errorf("%s: left %s behind", name, left[0].Name())
		}
	}
}

func manyNames() string {
	var b strings.Builder
	for i := range maxTensors {
		fmt.Fprintf(&b, `"t%d":{},`, i)
	}
	return b.String()
}

func TestCancelAndMissing(t *testing.T) {
	out := t.TempDir()
	dst := filepath.Join(out, "out.gguf")
	ctx, cancel := context.WithCancelCause(t.Context())
	reason := errors.New("the player quit")
	dir := newModel(t, "F32").write(t)
	err := BERT(ctx, dir, dst, F32, func(float64) { cancel(reason) })
	if !errors.Is(err, reason) {
		t.Errorf("cancelled: %v", err)
	}
	if err := BERT(t.Context(), t.TempDir(), dst, F32, nil); !errors.Is(err, ErrModel) ||
		!errors.Is(err, os.ErrNotExist) {
		t.Errorf("an empty folder: %v", err)
	}
	if err := BERT(t.Context(), dir, dst, Format(7), nil); err == nil {
		t.Error("format 7 was written")
	}
	if err := BERT(t.Context(), dir, filepath.Join(out, "no", "folder"), F32, nil); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("into no folder: %v", err)
	}
	if left, _ := os.ReadDir(out); len(left) > 0 {
		t.Errorf("left %s behind", left[0].Name())
	}
}

// Whatever the numbers, they come back as they were: exactly in F32, and in F16
// as the nearest half.
func TestNumbersSurvive(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := rapid.SliceOfN(rapid.Float32Range(-60000, 60000), 1, 100).Draw(t, "numbers")
		for _, f := range []Format{F32, F16} {
			var out bytes.Buffer
			e := entry{name: "x", sizes: []int64{int64(len(want))}, format: f, count: int64(len(want))}
			if err := writeGGUF(&out, nil, []entry{e}, func(_ entry, each func([]float32) error) error {
				return each(want)
			}); err != nil {
				t.Fatal(err)
			}
			data := out.Bytes()[64:] // header 24, tensor 37, padded
			for i, x := range want {
				got := x
				if f == F16 {
					got = float16.Frombits(binary.LittleEndian.Uint16(data[2*i:])).Float32()
					if step := math.Max(math.Abs(float64(x))/1024, 1e-7); math.Abs(float64(got-x)) > step {
						t.Fatalf("%v became %v", x, got)
					}
				} else if got = math.Float32frombits(binary.LittleEndian.Uint32(data[4*i:])); got != x {
					t.Fatalf("%v became %v", x, got)
				}
			}
		}
	})
}

// FuzzWeights: no header makes the reader fall, take memory that the file does
// not have, or hand out a span outside the file.
func FuzzWeights(f *testing.F) {
	for _, s := range []string{`{}`, `{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}`,
		`{"a":{"dtype":"F16","shape":[9223372036854775807,2],"data_offsets":[0,4]}}`} {
		f.Add(append(append(binary.LittleEndian.AppendUint64(nil, uint64(len(s))), s...), 0, 0, 128, 63))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		w, err := openWeights(bytes.NewReader(data), int64(len(data)))
		if err != nil {
			return
		}
		for name, x := range w.tensors {
			if x.from < 8 || x.to < x.from || x.to > int64(len(data)) {
				t.Fatalf("%q: %d…%d of %d bytes", name, x.from, x.to, len(data))
			}
			if _, readable := elementBytes[x.kind]; readable {
				n := int64(0)
				err := w.stream(name, func(part []float32) error { n += int64(len(part)); return nil })
				if want, _ := elements(x.shape); err == nil && n != want {
					t.Fatalf("%q: %d numbers of shape %v", name, n, x.shape)
				}
			}
		}
	})
}

func FuzzVocab(f *testing.F) {
	f.Add([]byte(smallVocab), int64(8))
	f.Fuzz(func(t *testing.T, text []byte, want int64) {
		tokens, types, _, err := parseVocab(text, want)
		if err == nil && (int64(len(tokens)) != want || len(types) != len(tokens)) {
			t.Fatalf("%d tokens, %d types, want %d", len(tokens), len(types), want)
		}
	})
}
