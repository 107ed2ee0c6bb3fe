// The calls into llama.cpp that a token makes, straight through the addresses of
// its functions. The binding's own way makes a dozen small objects of a call's
// arguments, so that each token would leave work to Go's garbage collector.
#ifndef LULL_HOT_H
#define LULL_HOT_H

#include <stdbool.h>
#include <stdint.h>

// llama_batch, which is handed over by value.
typedef struct {
    int32_t n_tokens;
    void *token, *embd, *pos, *n_seq_id, *seq_id, *logits;
} lull_batch;

// Addresses of llama.cpp's functions. Handles are numbers here: none is Go's.
typedef struct {
    int32_t (*decode)(uintptr_t ctx, lull_batch batch);
    float *(*logits)(uintptr_t ctx, int32_t i);
    bool (*remove)(uintptr_t memory, int32_t sequence, int32_t from, int32_t to);
    int32_t (*first)(uintptr_t memory, int32_t sequence);
    int32_t (*last)(uintptr_t memory, int32_t sequence);
    int32_t (*sample)(uintptr_t chain, uintptr_t ctx, int32_t i);
    int32_t (*piece)(uintptr_t vocab, int32_t token, char *text, int32_t bytes, int32_t strip, bool special);
    bool (*is_end)(uintptr_t vocab, int32_t token);
} lull_hot;

extern lull_hot lull_llama;

static inline int32_t lull_decode(uintptr_t ctx, const lull_batch *b) { return lull_llama.decode(ctx, *b); }
static inline float *lull_logits(uintptr_t ctx, int32_t i) { return lull_llama.logits(ctx, i); }
static inline bool lull_remove(uintptr_t memory, int32_t sequence, int32_t from) {
    return lull_llama.remove(memory, sequence, from, -1);
}
// Whether the cache has exactly n tokens of a sequence, from the first on.
static inline bool lull_holds(uintptr_t memory, int32_t sequence, int32_t n) {
    return lull_llama.first(memory, sequence) == 0 && lull_llama.last(memory, sequence) == n - 1;
}
static inline int32_t lull_sample_token(uintptr_t chain, uintptr_t ctx, int32_t i) {
    return lull_llama.sample(chain, ctx, i);
}
static inline int32_t lull_piece(uintptr_t vocab, int32_t token, char *text, int32_t bytes) {
    return lull_llama.piece(vocab, token, text, bytes, 0, false);
}
static inline bool lull_is_end(uintptr_t vocab, int32_t token) { return lull_llama.is_end(vocab, token); }

#endif
