"""Writes tokens.txt and vectors.f32 for sentences.txt: what all-MiniLM-L6-v2 says.

It is the model's definition (BERT, mean of the last layer, length 1) in numpy
with 64-bit floats, with the tokenizer that its makers publish. Nothing here is
lull's or llama.cpp's, so that the test compares with something else.

    python3 -m venv venv && venv/bin/pip install numpy==2.2.6 tokenizers==0.23.3
    venv/bin/python reference.py "$(lull assets where all-minilm-l6-v2 | xargs dirname)"

vectors.f32 holds 384 little-endian 32-bit floats for each line of sentences.txt.
"""
import json
import math
import struct
import sys
from pathlib import Path

import numpy as np
from tokenizers import Tokenizer

model, here = Path(sys.argv[1]), Path(__file__).parent
config = json.loads((model / "config.json").read_text())
heads, eps = config["num_attention_heads"], config["layer_norm_eps"]
raw = (model / "model.safetensors").read_bytes()
size = struct.unpack("<Q", raw[:8])[0]
header = json.loads(raw[8 : 8 + size])


def weight(name):
    entry = header[name]
    start, end = (8 + size + offset for offset in entry["data_offsets"])
    return np.frombuffer(raw[start:end], "<f4").reshape(entry["shape"]).astype(np.float64)


def dense(x, name):
    return x @ weight(name + ".weight").T + weight(name + ".bias")


def norm(x, name):
    centred = x - x.mean(-1, keepdims=True)
    variance = (centred**2).mean(-1, keepdims=True)
    return centred / np.sqrt(variance + eps) * weight(name + ".weight") + weight(name + ".bias")


def gelu(x):
    return x * 0.5 * (1 + np.vectorize(math.erf)(x / math.sqrt(2)))


def attention(x, layer):
    def split(name):
        return dense(x, layer + ".self." + name).reshape(len(x), heads, -1).transpose(1, 0, 2)

    q, k, v = split("query"), split("key"), split("value")
    scores = q @ k.transpose(0, 2, 1) / math.sqrt(q.shape[-1])
    scores = np.exp(scores - scores.max(-1, keepdims=True))
    scores /= scores.sum(-1, keepdims=True)
    return dense((scores @ v).transpose(1, 0, 2).reshape(len(x), -1), layer + ".output.dense")


def embed(ids):
    x = weight("embeddings.word_embeddings.weight")[ids]
    x = x + weight("embeddings.token_type_embeddings.weight")[0]
    x = norm(x + weight("embeddings.position_embeddings.weight")[: len(ids)], "embeddings.LayerNorm")
    for i in range(config["num_hidden_layers"]):
        layer = f"encoder.layer.{i}"
        x = norm(x + attention(x, layer + ".attention"), layer + ".attention.output.LayerNorm")
        inner = gelu(dense(x, layer + ".intermediate.dense"))
        x = norm(x + dense(inner, layer + ".output.dense"), layer + ".output.LayerNorm")
    mean = x.mean(0)
    return mean / np.linalg.norm(mean)


tokenizer = Tokenizer.from_file(str(model / "tokenizer.json"))
tokenizer.no_padding()
tokenizer.enable_truncation(256)
# Text never becomes a control token in lull, so here it must not either.
tokenizer.encode_special_tokens = True
lines = (here / "sentences.txt").read_text("utf-8").splitlines()
all_ids = [tokenizer.encode(line).ids for line in lines]
vectors = np.array([embed(ids) for ids in all_ids])
(here / "vectors.f32").write_bytes(vectors.astype("<f4").tobytes())
(here / "tokens.txt").write_text("".join(" ".join(map(str, ids)) + "\n" for ids in all_ids))
print(len(lines), "sentences, widest", max(map(len, all_ids)), "tokens")
