package convert

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"unicode/utf8"
)

// WeightsFile is the name of the weights in an embedder's folder.
const WeightsFile = "model.safetensors"

// ErrModel says that a folder holds no embedder that can be converted.
var ErrModel = errors.New("no embedder that can be converted")

// Limits on the files beside the weights. The largest BERT has 24 layers of
// 1024 and 250,000 tokens.
const (
	maxConfigBytes = 1 << 20
	maxVocabBytes  = 16 << 20
	maxTokens      = 1 << 20
	maxLayers      = 128
	maxWidth       = 1 << 16
)

// config is the part of config.json that decides sizes.
type config struct {
	Name       string  `json:"_name_or_path"`
	Type       string  `json:"model_type"`
	Activation string  `json:"hidden_act"`
	Positions  string  `json:"position_embedding_type"`
	Width      int64   `json:"hidden_size"`
	Inner      int64   `json:"intermediate_size"`
	Context    int64   `json:"max_position_embeddings"`
	Heads      int64   `json:"num_attention_heads"`
	Layers     int64   `json:"num_hidden_layers"`
	TokenTypes int64   `json:"type_vocab_size"`
	Vocab      int64   `json:"vocab_size"`
	Epsilon    float64 `json:"layer_norm_eps"`
}

func (c config) validate() error {
	sizes := func(name string, v, high int64) error {
		if v < 1 || v > high {
			return fmt.Errorf("%w: config.json: %s is %d, want 1…%d", ErrModel, name, v, high)
		}
		return nil
	}
	switch {
	case c.Type != "bert":
		return fmt.Errorf("%w: config.json: model_type %.40q, want \"bert\"", ErrModel, c.Type)
	case c.Activation != "gelu":
		return fmt.Errorf("%w: config.json: hidden_act %.40q, want \"gelu\"", ErrModel, c.Activation)
	case c.Positions != "" && c.Positions != "absolute":
		return fmt.Errorf("%w: config.json: position_embedding_type %.40q, want \"absolute\"", ErrModel, c.Positions)
	case !(c.Epsilon > 0 && c.Epsilon < 1):
		return fmt.Errorf("%w: config.json: layer_norm_eps is %v, want a small number above 0", ErrModel, c.Epsilon)
	}
	err := errors.Join(
		sizes("hidden_size", c.Width, maxWidth), sizes("intermediate_size", c.Inner, maxWidth),
		sizes("max_position_embeddings", c.Context, maxWidth), sizes("num_attention_heads", c.Heads, maxWidth),
		sizes("num_hidden_layers", c.Layers, maxLayers), sizes("type_vocab_size", c.TokenTypes, maxWidth),
		sizes("vocab_size", c.Vocab, maxTokens))
	if err == nil && c.Width%c.Heads != 0 {
		err = fmt.Errorf("%w: config.json: hidden_size %d is no multiple of its %d heads", ErrModel, c.Width, c.Heads)
	}
	return err
}

// Pooling numbers of llama.cpp.
const (
	poolingMean  = 1
	poolingFirst = 2
)

// poolingOf reads how token vectors become one vector.
func poolingOf(dir string) (uint32, error) {
	var p struct {
		First bool `json:"pooling_mode_cls_token"`
		Mean  bool `json:"pooling_mode_mean_tokens"`
		Max   bool `json:"pooling_mode_max_tokens"`
		Root  bool `json:"pooling_mode_mean_sqrt_len_tokens"`
	}
	if err := readJSON(dir, "1_Pooling/config.json", &p); err != nil {
		return 0, err
	}
	switch {
	case p.Max || p.Root || p.First == p.Mean:
		return 0, fmt.Errorf("%w: 1_Pooling/config.json: want the mean of the tokens or the first one", ErrModel)
	case p.First:
		return poolingFirst, nil
	}
	return poolingMean, nil
}

func readJSON(dir, name string, into any) error {
	text, err := readBounded(filepath.Join(dir, filepath.FromSlash(name)), maxConfigBytes)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrModel, err)
	}
	if err := json.Unmarshal(text, into); err != nil {
		return fmt.Errorf("%w: %s: %w", ErrModel, name, err)
	}
	return nil
}

func readBounded(path string, most int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, most+1))
	if err == nil && int64(len(text)) > most {
		err = fmt.Errorf("%s is longer than %d bytes", path, most)
	}
	return text, err
}

// Token types of llama.cpp.
const (
	tokenNormal  = 1
	tokenUnknown = 2
	tokenControl = 3
)

// special are the tokens that text never becomes, with the key that holds the
// id of each. The spelling of "seperator" is llama.cpp's.
var special = []struct {
	token, key string
	kind       int32
}{
	{"[PAD]", "padding_token_id", tokenControl}, {"[UNK]", "unknown_token_id", tokenUnknown},
	{"[CLS]", "cls_token_id", tokenControl}, {"[SEP]", "seperator_token_id", tokenControl},
	{"[MASK]", "mask_token_id", tokenControl},
}

// parseVocab turns vocab.txt into llama.cpp's tokens, types and special ids.
func parseVocab(text []byte, want int64) ([]string, []int32, []pair, error) {
	var tokens []string
	var types []int32
	ids := map[string]uint32{}
	for line := range bytes.Lines(text) {
		raw := strings.TrimRight(string(line), "\r\n")
		if int64(len(tokens)) == want || raw == "" || !utf8.ValidString(raw) {
			return nil, nil, nil, fmt.Errorf("%w: vocab.txt line %d: %.40q, want one of %d tokens of valid UTF-8",
				ErrModel, len(tokens)+1, raw, want)
		}
		token, kind := piece(raw), int32(tokenNormal)
		for _, s := range special {
			if raw == s.token {
				token, kind, ids[raw] = raw, s.kind, uint32(len(tokens))
			}
		}
		tokens, types = append(tokens, token), append(types, kind)
	}
	if int64(len(tokens)) != want {
		return nil, nil, nil, fmt.Errorf("%w: vocab.txt has %d tokens, config.json says %d", ErrModel, len(tokens),
			want)
	}
	pairs := make([]pair, 0, len(special)+1)
	for _, s := range special {
		id, found := ids[s.token]
		if !found {
			return nil, nil, nil, fmt.Errorf("%w: vocab.txt has no token %s", ErrModel, s.token)
		}
		pairs = append(pairs, pair{"tokenizer.ggml." + s.key, id})
	}
	// A text's first token: llama.cpp puts "begin of sequence" there.
	return tokens, types, append(pairs, pair{"tokenizer.ggml.bos_token_id", ids["[CLS]"]}), nil
}

// piece writes a WordPiece token as llama.cpp does.
func piece(token string) string {
	if inside, ok := strings.CutPrefix(token, "##"); ok && inside != "" {
		return inside
	}
	return "▁" + token
}

// tensorsOf lists what the model must have, in file order.
func tensorsOf(c config, matrices Format) []entry {
	var list []entry
	add := func(name, source string, format Format, sizes ...int64) {
		count := int64(1)
		for _, n := range sizes {
			count *= n
		}
		list = append(list, entry{name, sizes, format, count, source})
	}
	both := func(name, source string, in, out int64) {
		add(name+".weight", source+".weight", matrices, in, out)
		add(name+".bias", source+".bias", F32, out)
	}
	norm := func(name, source string) {
		add(name+".weight", source+".weight", F32, c.Width)
		add(name+".bias", source+".bias", F32, c.Width)
	}
	add("token_embd.weight", "embeddings.word_embeddings.weight", matrices, c.Width, c.Vocab)
	add("token_types.weight", "embeddings.token_type_embeddings.weight", F32, c.Width, c.TokenTypes)
	add("position_embd.weight", "embeddings.position_embeddings.weight", F32, c.Width, c.Context)
	norm("token_embd_norm", "embeddings.LayerNorm")
	for i := range c.Layers {
		to, from := fmt.Sprintf("blk.%d.", i), fmt.Sprintf("encoder.layer.%d.", i)
		both(to+"attn_q", from+"attention.self.query", c.Width, c.Width)
		both(to+"attn_k", from+"attention.self.key", c.Width, c.Width)
		both(to+"attn_v", from+"attention.self.value", c.Width, c.Width)
		both(to+"attn_output", from+"attention.output.dense", c.Width, c.Width)
		norm(to+"attn_output_norm", from+"attention.output.LayerNorm")
		both(to+"ffn_up", from+"intermediate.dense", c.Width, c.Inner)
		both(to+"ffn_down", from+"output.dense", c.Inner, c.Width)
		norm(to+"layer_output_norm", from+"output.LayerNorm")
	}
	return list
}

// locate finds each tensor in the file, under its own name or below "bert.",
// and compares its shape.
func locate(list []entry, w *weights) error {
	for i, e := range list {
		t, ok := w.tensors[e.source]
		if !ok {
			e.source = "bert." + e.source
			t, ok = w.tensors[e.source]
		}
		if !ok {
			return fmt.Errorf("%w: no tensor %s", ErrWeights, list[i].source)
		}
		if _, readable := elementBytes[t.kind]; !readable {
			return fmt.Errorf("%w: tensor %s is of type %.20q, want F32, F16 or BF16", ErrWeights, e.source, t.kind)
		}
		fits := len(t.shape) == len(e.sizes)
		for k := 0; fits && k < len(e.sizes); k++ {
			fits = t.shape[len(t.shape)-1-k] == e.sizes[k] // rows first there, last here
		}
		if !fits {
			return fmt.Errorf("%w: tensor %s has shape %v, config.json wants %v reversed", ErrWeights, e.source,
				t.shape, e.sizes)
		}
		list[i] = e
	}
	return nil
}

// BERT converts the embedder in the folder dir to the file dst. A half-written
// dst is removed on error. progress, which may be nil, is told the share of the
// numbers that is written, 0 to 1.
func BERT(ctx context.Context, dir, dst string, format Format, progress func(done float64)) (err error) {
	if format != F32 && format != F16 {
		return fmt.Errorf("convert: format %d, want F32 or F16", format)
	}
	in, err := os.Open(filepath.Join(dir, WeightsFile))
	if err != nil {
		return fmt.Errorf("convert: %w: %w", ErrModel, err)
	}
	defer in.Close()
	info, err := in.Stat()
	if err != nil {
		return fmt.Errorf("convert: %w", err)
	}
	pairs, list, w, err := describe(dir, in, info.Size(), format)
	if err != nil {
		return fmt.Errorf("convert: %s: %w", dir, err)
	}
	out, err := os.Create(dst)
	if err != nil {
		return fmt.Errorf("convert: %w", err)
	}
	defer func() {
		if closed := out.Close(); err == nil && closed != nil {
			err = fmt.Errorf("convert: %w", closed)
		}
		if err != nil {
			os.Remove(dst)
		}
	}()
	if err := writeGGUF(out, pairs, list, follow(ctx, w, list, progress)); err != nil {
		return fmt.Errorf("convert: %s: %w", dir, err)
	}
	return nil
}

// follow reads the tensors, tells how far it is, and ends when ctx does.
func follow(ctx context.Context, w *weights, list []entry, progress func(float64)) source {
	var total, done int64
	for _, e := range list {
		total += e.count
	}
	return func(e entry, each func([]float32) error) error {
		return w.stream(e.source, func(part []float32) error {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			done += int64(len(part))
			if progress != nil {
				progress(float64(done) / float64(total))
			}
			return each(part)
		})
	}
}

// describe reads all but the numbers.
func describe(dir string, in io.ReaderAt, size int64, format Format) ([]pair, []entry, *weights, error) {
	var c config
	if err := readJSON(dir, "config.json", &c); err != nil {
		return nil, nil, nil, err
	}
	if err := c.validate(); err != nil {
		return nil, nil, nil, err
	}
	pooling, err := poolingOf(dir)
	if err != nil {
		return nil, nil, nil, err
	}
	lower, err := lowerCased(dir)
	if err != nil {
		return nil, nil, nil, err
	}
	text, err := readBounded(filepath.Join(dir, "vocab.txt"), maxVocabBytes)
	if err != nil {
		return nil, nil, nil, fmt.Errorf("%w: %w", ErrModel, err)
	}
	tokens, types, ids, err := parseVocab(text, c.Vocab)
	if err != nil {
		return nil, nil, nil, err
	}
	w, err := openWeights(in, size)
	if err != nil {
		return nil, nil, nil, err
	}
	list := tensorsOf(c, format)
	if err := locate(list, w); err != nil {
		return nil, nil, nil, err
	}
	pairs := append(metadata(c, format, pooling, modelName(dir)),
		pair{"tokenizer.ggml.model", "bert"},
		pair{"tokenizer.ggml.normalizer.lowercase", lower},
		pair{"tokenizer.ggml.token_type_count", uint32(c.TokenTypes)},
		pair{"tokenizer.ggml.tokens", tokens},
		pair{"tokenizer.ggml.token_type", types})
	return append(pairs, ids...), list, w, nil
}

func metadata(c config, format Format, pooling uint32, name string) []pair {
	return []pair{
		{"general.architecture", "bert"},
		{"general.name", name},
		{"general.file_type", uint32(format)},
		{"bert.context_length", uint32(c.Context)},
		{"bert.embedding_length", uint32(c.Width)},
		{"bert.feed_forward_length", uint32(c.Inner)},
		{"bert.block_count", uint32(c.Layers)},
		{"bert.attention.head_count", uint32(c.Heads)},
		{"bert.attention.layer_norm_epsilon", float32(c.Epsilon)},
		{"bert.attention.causal", false},
		{"bert.pooling_type", pooling},
	}
}

// lowerCased reads whether text is lower-cased; BERT's default is yes.
func lowerCased(dir string) (bool, error) {
	t := struct {
		Lower bool `json:"do_lower_case"`
	}{true}
	err := readJSON(dir, "tokenizer_config.json", &t)
	if errors.Is(err, os.ErrNotExist) {
		return true, nil
	}
	return t.Lower, err
}

// modelName takes the title of the model card, since config.json names the
// model that training began with; else the folder's name.
func modelName(dir string) string {
	card, err := readBounded(filepath.Join(dir, "README.md"), maxConfigBytes)
	if err == nil {
		for lines := bufio.NewScanner(bytes.NewReader(card)); lines.Scan(); {
			title, ok := strings.CutPrefix(lines.Text(), "# ")
			title = filepath.Base(strings.TrimSpace(title))
			if ok && title != "." && len(title) <= 80 && utf8.ValidString(title) {
				return title
			}
		}
	}
	return filepath.Base(dir)
}
