// The layer gate in C: llama.cpp asks it at every node of a graph, and it
// answers without entering Go (a Go callback costs 1-2 us a node, 900 nodes a
// token). The rule itself is scheduler.Admit; lull_admit repeats it and a test
// runs both over the same table.
#ifndef LULL_GATE_H
#define LULL_GATE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// Modes and verdicts have the numbers of llm.GateMode and llm.Verdict.
enum { LULL_FREE, LULL_PACED, LULL_WINDOW, LULL_CLOSED };
enum { LULL_GO, LULL_WAIT, LULL_STOP };

#define LULL_FOREVER INT64_MAX

// LULL_SAMPLES: groups of layers kept per decode. More are not recorded; a
// model of 200 layers and the slices of its head still fit.
#define LULL_SAMPLES 256

// A head has at most LULL_SLICES slices, and is sliced for at most
// LULL_HEAD_WIDTH rows of logits in one graph: more are a benchmark, not speech.
#define LULL_SLICES 48
#define LULL_PARTS 2 // nodes of a slice
#define LULL_HEAD_WIDTH 16

typedef struct {
    int32_t mode;
    int32_t layers_per_stop;
    int64_t open_ns, close_ns, pause_ns, expires_ns;
    int32_t spill;
} lull_window;

// A gate is written by the game thread (seqlock) and read by decode threads.
typedef struct {
    _Atomic uint32_t seq;     // odd while a window is being written
    _Atomic uint32_t wake;    // futex word: counts windows and stops
    _Atomic uint32_t waiters; // threads that sleep until somebody wakes them
    _Atomic int32_t mode, layers_per_stop, spill;
    _Atomic int64_t open_ns, close_ns, pause_ns, expires_ns;
    _Atomic int32_t shut;     // nothing may begin until the next window, or until this one expires
    _Atomic int32_t running;  // groups of layers that run now, of all hooks
    _Atomic uint64_t groups;  // groups that began
    int64_t clock_offset_ns;  // this machine's monotonic clock minus lull's; fixed at creation
} lull_gate;

typedef struct {
    int16_t first, last, width, threads;
    int32_t switched;
    int32_t reserved;
    int64_t duration_ns;
} lull_sample;

// A tensor as ggml lays it out. The ABI test at start compares this with
// tensors that ggml itself made.
typedef struct lull_tensor {
    int32_t type;
    void *buffer;
    int64_t ne[4];
    size_t nb[4];
    int32_t op, op_params[16], flags;
    struct lull_tensor *src[10], *view_src;
    size_t view_offs;
    void *data;
    char name[64];
    void *extra;
    char padding[8];
} lull_tensor;

// The head for one number of rows: a product for each slice of the weight.
typedef struct {
    void *graph; // NULL: not sliced for that many rows
    lull_tensor *input, *parts[LULL_SLICES * LULL_PARTS]; // NULL: that slice has fewer
} lull_head_graph;

// The output head, computed in slices instead of in one node. Written between
// decodes only. ggml's functions are handed in, since it is loaded at run time.
typedef struct {
    int32_t op;         // ggml's number of the matrix product; 0 leaves the head whole
    int32_t count;      // slices; 0 until the weight is known
    int64_t rows;       // of the weight in each slice but the last
    int64_t half;       // of them in the first part
    lull_tensor *weight;
    void *backend;
    void (*clear)(void *graph);
    void (*add)(void *graph, lull_tensor *node);
    int32_t (*compute)(void *backend, void *graph);
    lull_head_graph widths[LULL_HEAD_WIDTH + 1];
} lull_head;

// A hook is one context's side of the gate. Only `stop` is written by other
// threads; all else belongs to the thread that decodes.
typedef struct {
    lull_gate *gate;
    _Atomic uint32_t stop;   // llm.Model.Stop
    uint32_t drop;           // this decode was given up at the gate
    uint32_t inside;         // this hook counts in gate->running
    int32_t n_layers;
    int32_t width, threads, tentative; // of the decode that runs
    int64_t *predict;        // [n_layers + 1] expected ns of each layer and of a slice of the head
    int32_t node, nodes;     // nodes asked in this decode; nodes of the last whole one
    int32_t by_name;         // 1 once a node named l_out-N was seen
    int32_t halt;            // last layer of the admitted group; n_layers + i is slice i of the head
    int32_t layer;           // layer at whose end the graph was asked to halt
    int32_t done;            // last finished layer, -1 before the first, n_layers after the head
    lull_head head;
    lull_tensor *norm;       // the head's input, from its own question to that of the node after it
    lull_tensor *whole;      // the head that this decode computed whole, for the owner to look at
    lull_tensor *muted;      // the head whose slices stand in for it; its operation is switched off meanwhile
    int32_t muted_op;        // that operation
    int32_t halted;          // the graph halts at norm
    int32_t norm_seen;       // 1 once a graph had a norm: the last layer's halt is there
    int32_t slicing, slice;  // slices are being admitted, from this one on
    int64_t group_start_ns, last_end_ns;
    int64_t switches;        // involuntary context switches of this thread at group_start
    int64_t waited_ns;
    int32_t cold;            // 1: the group began after a shut window, on the caches that the game left
    int32_t stops, n_samples;
    lull_sample samples[LULL_SAMPLES];
} lull_hook;

void lull_gate_init(lull_gate *g, int64_t lull_now_ns);
void lull_gate_publish(lull_gate *g, lull_window w);
bool lull_gate_running(lull_gate *g);
uint64_t lull_gate_groups(lull_gate *g);
int32_t lull_admit(int64_t now, int64_t last_end, lull_window w, int64_t next, bool tentative, int64_t *until);

void lull_hook_stop(lull_hook *h, bool on);
bool lull_hook_stopped(lull_hook *h);
bool lull_hook_enter(lull_hook *h, int32_t width, int32_t threads, bool tentative, int64_t *predict);
void lull_hook_leave(lull_hook *h, bool complete);

// What gate_c.c and head_c.c call of each other.
bool lull_hook_pass(lull_hook *h);
void lull_hook_finish(lull_hook *h, int32_t last);
void lull_hook_finish_slices(lull_hook *h, int32_t count);
bool lull_hook_unasked(lull_hook *h);
bool lull_head_is_norm(const lull_hook *h, const lull_tensor *t);
bool lull_head_norm(lull_hook *h, lull_tensor *norm);
bool lull_head_after_norm(lull_hook *h, lull_tensor *t);
void lull_head_unmute(lull_hook *h);

// llama.cpp's callbacks; the void pointer is a lull_hook.
bool lull_hook_eval(void *tensor, bool ask, void *hook);
bool lull_hook_abort(void *hook);
void *lull_hook_eval_ptr(void);
void *lull_hook_abort_ptr(void);

// Loading: progress with cancel, and the last error lines of the log.
typedef struct {
    _Atomic int32_t per_mille;
    _Atomic int32_t cancel;
} lull_loading;
bool lull_loading_progress(float done, void *loading);
void *lull_loading_ptr(void);
int32_t lull_loading_done(lull_loading *l);
void lull_loading_cancel(lull_loading *l);

#define LULL_LOG_BYTES 4096
void lull_log(int level, const char *text, void *unused);
void *lull_log_ptr(void);
size_t lull_log_take(char *buf, size_t len);

#endif
