//go:build cgo

// The output head in slices. Its product with the vocabulary is one node of the
// graph and takes as long as many layers; no window of a fast game holds it, and
// nothing stops it. So the graph halts at the head's input, named result_norm.
// When llama.cpp then asks about the product, it is computed here, as products
// with slices of the same weight, each a question at the gate, into the very
// memory that llama.cpp reads the logits from. The node itself is switched off
// for that one time.
#include "gate.h"

#include <string.h>

bool lull_head_is_norm(const lull_hook *h, const lull_tensor *t) {
    return h->head.op != 0 && strcmp(t->name, "result_norm") == 0;
}

// graph_for is what computes the head for that input, NULL when it stays whole.
static lull_head_graph *graph_for(lull_hook *h, const lull_tensor *norm) {
    int64_t rows = norm->ne[1];
    if (rows < 1 || rows > LULL_HEAD_WIDTH || h->head.count < 2) return NULL;
    lull_head_graph *g = &h->head.widths[rows];
    return g->graph != NULL && memcmp(norm->ne, g->input->ne, sizeof norm->ne) == 0 &&
                   memcmp(norm->nb, g->input->nb, sizeof norm->nb) == 0 && norm->type == g->input->type
               ? g
               : NULL;
}

// lull_head_norm answers whether the graph should halt at the head's input.
bool lull_head_norm(lull_hook *h, lull_tensor *norm) {
    h->norm = norm;
    h->whole = NULL;
    h->norm_seen = 1;
    h->halted = graph_for(h, norm) != NULL || !lull_hook_unasked(h);
    return h->halted;
}

// fits tells whether t is the product that the slices were made for. It differs
// from any one of them in the number of columns alone.
static bool fits(const lull_hook *h, const lull_tensor *t, const lull_head_graph *g) {
    const lull_tensor *s = g->parts[0];
    return t->src[0] == h->head.weight && t->ne[0] == h->head.weight->ne[1] &&
           memcmp(&t->ne[1], &s->ne[1], 3 * sizeof t->ne[0]) == 0 && memcmp(t->nb, s->nb, sizeof t->nb) == 0 &&
           t->type == s->type;
}

// run computes the slices, group by group. False: the head has to run whole.
static bool run(lull_hook *h, lull_head_graph *g, lull_tensor *norm, lull_tensor *t) {
    lull_head *d = &h->head;
    g->input->data = norm->data;
    for (int32_t i = 0; i < d->count * LULL_PARTS; i++) {
        int64_t row = i / LULL_PARTS * d->rows + i % LULL_PARTS * d->half;
        if (g->parts[i] != NULL) g->parts[i]->data = (float *)t->data + row;
    }
    bool counted = !lull_hook_unasked(h) || h->done >= 0;
    if (counted && h->done < h->n_layers - 1) lull_hook_finish(h, h->n_layers - 1);
    int32_t status = 0, last = d->count - 1;
    h->slicing = 1;
    for (h->slice = 0; h->slice < d->count; h->slice = last + 1) {
        if (counted) {
            if (!lull_hook_pass(h)) break;
            last = h->halt - h->n_layers;
        }
        d->clear(g->graph);
        for (int32_t i = h->slice * LULL_PARTS; i < (last + 1) * LULL_PARTS; i++) {
            if (g->parts[i] != NULL) d->add(g->graph, g->parts[i]);
        }
        status = d->compute(d->backend, g->graph);
        if (status != 0) break;
        if (counted) lull_hook_finish_slices(h, last - h->slice + 1);
    }
    h->slicing = 0;
    if (status == 1) h->drop = 1; // ggml's number for a graph that the abort callback ended
    if (status != 0 && status != 1) {
        d->op = 0;
        return false;
    }
    if (!h->drop && counted) h->done = h->n_layers;
    return true;
}

// lull_head_after_norm looks at the node that comes right after the head's input, and
// answers whether the graph should halt at it.
bool lull_head_after_norm(lull_hook *h, lull_tensor *t) {
    lull_tensor *norm = h->norm;
    h->norm = NULL;
    bool product = t->op == h->head.op && t->src[1] == norm;
    lull_head_graph *g = product && h->halted ? graph_for(h, norm) : NULL;
    if (g != NULL && fits(h, t, g) && run(h, g, norm, t)) {
        h->muted = t;
        h->muted_op = t->op;
        t->op = 0; // ggml's number for no operation
        return true;
    }
    if (product && norm->ne[1] > 0) h->whole = t;
    if (!h->halted) return false;
    if (h->done < h->n_layers - 1) lull_hook_finish(h, h->n_layers - 1);
    if (norm->ne[1] == 0) h->done = h->n_layers; // no logits are wanted, so nothing is left to compute
    else lull_hook_pass(h);
    return false;
}

// lull_head_unmute switches the node on again: llama.cpp uses a graph several times.
void lull_head_unmute(lull_hook *h) {
    if (h->muted != NULL) h->muted->op = h->muted_op;
    h->muted = NULL;
}
