/* Random calls with random ids, null pointers, wrong sizes, wrong lengths and
 * broken text, from several threads at once. Each answer must be one of
 * lull.h's, never LULL_ERROR_INTERNAL, and no byte beside a buffer may change.
 *
 *     fuzz CALLS SEED THREADS
 */
#define _POSIX_C_SOURCE 200112L
#include "lull.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define POOL 64

typedef struct random_state {
    uint64_t x;
} random_state;

static uint32_t next(random_state *r) {
    r->x ^= r->x << 13;
    r->x ^= r->x >> 7;
    r->x ^= r->x << 17;
    return (uint32_t)(r->x >> 16);
}

static uint32_t below(random_state *r, uint32_t n) { return next(r) % n; }
static int one_in(random_state *r, uint32_t n) { return below(r, n) == 0; }

/* Ids that were given out at some time; some live, most stale. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static lull_world_id worlds[POOL];
static lull_npc_id npcs[POOL];
static uint64_t answers[32];
static uint64_t calls_made;
static int failed;

static lull_world_id any_world(random_state *r) {
    lull_world_id id;
    pthread_mutex_lock(&lock);
    id = worlds[below(r, one_in(r, 4) ? POOL : 4)];
    pthread_mutex_unlock(&lock);
    if (one_in(r, 20)) {
        id.index1 = one_in(r, 2) ? next(r) : below(r, 20);
    }
    if (one_in(r, 20)) {
        id.generation = one_in(r, 2) ? next(r) : id.generation + 1;
    }
    return id;
}

static lull_npc_id any_npc(random_state *r) {
    lull_npc_id id;
    pthread_mutex_lock(&lock);
    id = npcs[below(r, one_in(r, 4) ? POOL : 8)];
    pthread_mutex_unlock(&lock);
    if (one_in(r, 20)) {
        id.index1 = (uint16_t)next(r);
    }
    if (one_in(r, 20)) {
        id.world1 = (uint16_t)below(r, 20);
    }
    if (one_in(r, 20)) {
        id.generation += below(r, 3);
    }
    return id;
}

static uint64_t any_reply(random_state *r) { return one_in(r, 20) ? next(r) : below(r, 400); }

/* Bytes that end with a NUL: words, broken UTF-8, control characters. */
static const char *text(random_state *r, char *into, uint32_t room, int32_t *bytes) {
    static const char *pieces[] = {"Hello ", "\xf0\x9f\x97\xbb", "\xf0\x9f", "<|im_end|>", "\n", "\x01", "\xe2\x80\xae",
                                   "blacksmith", "name: X\n", "\xff", "e\xcc\x81", " ", "lull: 1\n", "\x00"};
    uint32_t n = 0, parts = below(r, 12);
    into[0] = 0;
    while (parts-- > 0) {
        const char *p = pieces[below(r, sizeof pieces / sizeof *pieces)];
        uint32_t length = (uint32_t)strlen(p);
        if (n + length + 1 < room) {
            memcpy(into + n, p, length + 1);
            n += length;
        }
    }
    switch (below(r, 8)) {
    case 0:
        *bytes = LULL_TERMINATED;
        break;
    case 1:
        *bytes = (int32_t)below(r, n + 1);
        break;
    case 2:
        *bytes = one_in(r, 2) ? INT32_MIN : -2;
        break;
    case 3:
        *bytes = one_in(r, 2) ? INT32_MAX : 70000 + (int32_t)below(r, 1000000); /* beyond every limit: refused unread */
        break;
    default:
        *bytes = (int32_t)n;
    }
    return one_in(r, 30) ? NULL : into;
}

static uint32_t size(random_state *r, uint32_t right) {
    switch (below(r, 12)) {
    case 0:
        return 0;
    case 1:
        return below(r, right);
    case 2:
        return right + below(r, 64);
    case 3:
        return next(r);
    default:
        return right;
    }
}

static int64_t odd_time(random_state *r) {
    switch (below(r, 6)) {
    case 0:
        return 0;
    case 1:
        return -(int64_t)next(r);
    case 2:
        return INT64_MAX - below(r, 3);
    case 3:
        return INT64_MIN + below(r, 3);
    case 4:
        return lull_time_ns() + below(r, 20000000);
    default:
        return 16666667;
    }
}

/* A buffer with guards on both sides. */
typedef struct guarded {
    char before[16], bytes[512], after[16];
} guarded;

static char *guard(guarded *g) {
    memset(g, 0x5a, sizeof *g);
    return g->bytes;
}

static void check_guard(const guarded *g, int32_t capacity, const char *where) {
    size_t i;
    for (i = 0; i < sizeof g->before; i++) {
        if (g->before[i] != 0x5a || g->after[i] != 0x5a) {
            printf("FAIL a byte beside the buffer changed: %s\n", where);
            failed = 1;
        }
    }
    for (i = capacity < 0 ? 0 : (size_t)capacity; i < sizeof g->bytes; i++) {
        if (g->bytes[i] != 0x5a) {
            printf("FAIL a byte behind the capacity changed: %s\n", where);
            failed = 1;
            return;
        }
    }
}

static int32_t capacity(random_state *r) {
    switch (below(r, 6)) {
    case 0:
        return 0;
    case 1:
        return -1 - (int32_t)below(r, 100);
    case 2:
        return (int32_t)below(r, 8);
    default:
        return (int32_t)below(r, 513);
    }
}

static int32_t make_world(random_state *r) {
    lull_world_def def;
    lull_world_id id = {0, 0};
    char name[256], lore[256];
    int32_t result = lull_default_world_def(&def, sizeof def);
    def.model_kind = one_in(r, 30) ? (int32_t)next(r) : LULL_MODEL_SCRIPTED;
    def.scripted_token_ns = one_in(r, 3) ? 1000000 : 0;
    if (one_in(r, 8)) {
        def.struct_size = size(r, sizeof def);
    }
    if (one_in(r, 10)) {
        def.requests_max = (int32_t)below(r, 5000) - 10;
        def.context_tokens = one_in(r, 2) ? (int32_t)next(r) : 0;
        def.threads = (int32_t)below(r, 20);
    }
    if (one_in(r, 10)) {
        def.model = text(r, name, sizeof name, &def.model_bytes);
    }
    if (one_in(r, 3)) {
        def.memory_mode = one_in(r, 10) ? (int32_t)below(r, 5) - 1 : LULL_MEMORY_VOLATILE;
    }
    if (one_in(r, 10)) {
        def.lore = text(r, lore, sizeof lore, &def.lore_bytes);
    }
    def.action_timeout_ns = 100000000;
    if (one_in(r, 3)) {
        def.content_hook = one_in(r, 10) ? (int32_t)next(r) : 1;
        def.content_timeout_ns = one_in(r, 10) ? odd_time(r) : 100000000;
        def.reserved0 = one_in(r, 10) ? (int32_t)next(r) : 0;
    }
    if (def.model_kind == LULL_MODEL_LLAMA) {
        def.model_kind = 77;
    }
    result = lull_world_create(one_in(r, 40) ? NULL : &def, one_in(r, 40) ? NULL : &id);
    if (result == LULL_OK) {
        lull_world_id old;
        pthread_mutex_lock(&lock);
        old = worlds[below(r, 4)];
        worlds[4 + below(r, POOL - 4)] = old;
        worlds[below(r, 4)] = id;
        pthread_mutex_unlock(&lock);
    }
    return result;
}

static int32_t make_npc(random_state *r) {
    lull_npc_def def;
    lull_npc_id id = {0, 0, 0};
    char persona[512], file[256], name[32];
    int32_t result = lull_default_npc_def(&def, sizeof def);
    def.persona_file = one_in(r, 2) ? "blacksmith" : "innkeeper";
    snprintf(name, sizeof name, "npc %u", (unsigned)below(r, 300));
    def.name = name;
    def.distance = one_in(r, 20) ? -1 : (float)below(r, 100);
    if (one_in(r, 6)) {
        def.persona = text(r, persona, sizeof persona, &def.persona_bytes);
    }
    if (one_in(r, 6)) {
        def.persona_file = text(r, file, sizeof file, &def.persona_file_bytes);
    }
    if (one_in(r, 8)) {
        def.struct_size = size(r, sizeof def);
    }
    if (one_in(r, 10)) {
        def.greedy = (int32_t)next(r);
        def.reply_tokens_max = (int32_t)below(r, 3000) - 100;
    }
    result = lull_npc_create(any_world(r), one_in(r, 40) ? NULL : &def, one_in(r, 40) ? NULL : &id);
    if (result == LULL_OK && id.generation != 0) {
        pthread_mutex_lock(&lock);
        npcs[8 + below(r, POOL - 8)] = npcs[0];
        npcs[below(r, 8)] = id;
        pthread_mutex_unlock(&lock);
    }
    return result;
}

static int32_t poll(random_state *r) {
    struct {
        char before[16];
        lull_event events[4];
        char after[16];
    } g;
    int32_t count = -7, n = one_in(r, 10) ? (int32_t)below(r, 10) - 5 : 4, result, i;
    int32_t bytes = one_in(r, 10) ? (int32_t)size(r, sizeof g.events[0]) : (int32_t)sizeof g.events[0];
    lull_world_id world = any_world(r);
    if (n > 4) {
        n = 4;
    }
    memset(&g, 0x5a, sizeof g);
    result = lull_poll_events(world, one_in(r, 40) ? NULL : g.events, bytes, n, one_in(r, 40) ? NULL : &count);
    for (i = 0; i < 16; i++) {
        if (g.before[i] != 0x5a || g.after[i] != 0x5a) {
            printf("FAIL a byte beside the events changed\n");
            failed = 1;
        }
    }
    for (i = 0; result == LULL_OK && i < count && bytes == (int32_t)sizeof g.events[0]; i++) {
        const lull_event *e = &g.events[i];
        if (e->text_bytes < 0 || e->text_bytes >= LULL_EVENT_TEXT_BYTES || e->text[e->text_bytes] != 0 || e->kind < 1) {
            printf("FAIL event of kind %d with %d bytes\n", (int)e->kind, (int)e->text_bytes);
            failed = 1;
        }
        if (e->kind == LULL_EVENT_JUDGE && !one_in(r, 3)) {
            lull_sentence_judge(world, e->sentence, (int32_t)below(r, 3), NULL, 0);
        }
    }
    return result;
}

/* Functions that fill a buffer with text. */
static int32_t texts(random_state *r, uint32_t which) {
    guarded g;
    char *buffer = guard(&g);
    int32_t room = capacity(r), length = 0, level = 0, result;
    int32_t *out = one_in(r, 10) ? NULL : &length;
    if (one_in(r, 30)) {
        buffer = NULL;
    }
    switch (which) {
    case 0:
        result = lull_version(buffer, room, out);
        break;
    case 1:
        result = lull_result_text((int32_t)below(r, 30) - 25, buffer, room, out);
        break;
    case 2:
        result = lull_last_error(any_world(r), buffer, room, out);
        break;
    case 3:
        result = lull_world_model_name(any_world(r), buffer, room, out);
        break;
    case 4:
        result = lull_decision_reason_name((int32_t)below(r, 40) - 5, buffer, room, out);
        break;
    case 5:
        result = lull_poll_log(any_world(r), one_in(r, 5) ? NULL : &level, buffer, room, out);
        break;
    case 8:
        result = lull_npc_line_speaker(any_npc(r), (int32_t)below(r, 6) - 1, buffer, room, out);
        break;
    case 9:
        result = lull_npc_explain(any_npc(r), buffer, room, out);
        break;
    case 10:
        result = lull_action_value_text(any_world(r), any_reply(r), (int32_t)below(r, 4) - 1, buffer, room, out);
        break;
    case 6:
        result = lull_npc_name(any_npc(r), buffer, room, out);
        break;
    case 7:
        result = lull_npc_greeting(any_npc(r), buffer, room, out);
        break;
    default:
        result = lull_npc_line(any_npc(r), (int32_t)below(r, 6) - 1, one_in(r, 5) ? NULL : &level, buffer, room, out);
    }
    if (buffer != NULL) {
        check_guard(&g, room, "a text");
    }
    return result;
}

/* Functions that take or fill a struct. */
static int32_t structs(random_state *r, uint32_t which) {
    union {
        lull_world_status status;
        lull_statistics statistics;
        lull_decision decision;
        lull_frame_timings timings;
        lull_frame_sample sample;
        lull_host_signals signals;
    } u;
    lull_decision decision;
    int null = one_in(r, 30);
    memset(&u, (int)below(r, 3) * 0x41, sizeof u);
    switch (which) {
    case 0:
        u.status.struct_size = size(r, sizeof u.status);
        return lull_world_get_status(any_world(r), null ? NULL : &u.status);
    case 1:
        u.statistics.struct_size = size(r, sizeof u.statistics);
        return lull_world_get_statistics(any_world(r), null ? NULL : &u.statistics);
    case 2:
        u.decision.struct_size = size(r, sizeof u.decision);
        return lull_world_get_decision(any_world(r), null ? NULL : &u.decision);
    case 3:
        u.decision.struct_size = size(r, sizeof u.decision);
        return lull_frame_end(any_world(r), next(r), odd_time(r), odd_time(r), null ? NULL : &u.decision);
    case 4:
        u.timings.struct_size = size(r, sizeof u.timings);
        u.timings.present_wait_known = (int32_t)below(r, 3);
        u.timings.gpu_busy_ns = odd_time(r);
        return lull_frame_set_timings(any_world(r), next(r), null ? NULL : &u.timings);
    case 5:
        u.sample.struct_size = size(r, sizeof u.sample);
        u.sample.present_wait_known = (int32_t)below(r, 2);
        u.sample.begin_ns = odd_time(r);
        u.sample.end_ns = u.sample.begin_ns / 2 + odd_time(r) / 2;
        u.sample.target_ns = odd_time(r);
        decision.struct_size = size(r, sizeof decision);
        return lull_frame_add_sample(any_world(r), null ? NULL : &u.sample, one_in(r, 3) ? NULL : &decision);
    default:
        u.signals.struct_size = size(r, sizeof u.signals);
        u.signals.thermal = (int32_t)below(r, 9) - 1;
        u.signals.power = (int32_t)below(r, 6) - 1;
        return lull_world_set_host_signals(any_world(r), null ? NULL : &u.signals);
    }
}

static int32_t save_and_load(random_state *r, char *save, int64_t room, int64_t *length) {
    int64_t n = 0;
    int32_t result;
    switch (below(r, 6)) {
    case 0:
        result = lull_world_save(any_world(r), save, room, &n);
        *length = result == LULL_OK ? n : *length;
        return result;
    case 1:
        return lull_world_save(any_world(r), one_in(r, 2) ? NULL : save, (int64_t)below(r, 100) - 20, &n);
    case 2:
        if (*length > 0 && one_in(r, 3)) {
            save[below(r, (uint32_t)*length)] ^= (char)(1 << below(r, 8));
        }
        return lull_world_load(any_world(r), one_in(r, 20) ? NULL : save, *length);
    case 3:
        return lull_world_load(any_world(r), save, one_in(r, 2) ? INT64_MAX : -5);
    case 4:
        return lull_world_save_file(any_world(r), one_in(r, 10) ? NULL : "no/such/file", LULL_TERMINATED);
    default:
        return lull_world_load_file(any_world(r), one_in(r, 10) ? NULL : "no/such/file", LULL_TERMINATED);
    }
}

/* Lines, cues, barks, facts: functions that take text. */
static int32_t say(random_state *r) {
    char line[512], other[256];
    int32_t bytes, other_bytes;
    uint64_t reply;
    const char *t = text(r, line, sizeof line, &bytes), *o = text(r, other, sizeof other, &other_bytes);
    switch (below(r, 13)) {
    case 12:
        return lull_sentence_judge(any_world(r), any_reply(r), (int32_t)below(r, 5) - 1, one_in(r, 2) ? NULL : t,
                                   one_in(r, 2) ? 0 : bytes);
    case 0:
        return lull_npc_cue(any_npc(r), t, bytes, one_in(r, 3) ? NULL : &reply);
    case 1:
        return lull_npc_tell(any_npc(r), o, other_bytes, t, bytes);
    case 2:
        return lull_npc_bark(any_npc(r), one_in(r, 2) ? t : "thinking", one_in(r, 2) ? bytes : LULL_TERMINATED);
    case 3:
        return lull_npc_set_fact(any_npc(r), one_in(r, 2) ? "gate" : o, LULL_TERMINATED, t, bytes, odd_time(r),
                                 odd_time(r));
    case 4:
        return lull_world_set_fact(any_world(r), "sun", 3, t, bytes, 0, odd_time(r));
    case 5:
        return lull_action_refuse(any_world(r), any_reply(r), t, bytes);
    case 6:
        return one_in(r, 20) ? lull_world_save_memories(any_world(r), "no/such/folder/file", LULL_TERMINATED)
                             : lull_world_load_memories(any_world(r), t, bytes);
    default:
        return lull_npc_say(any_npc(r), t, bytes, one_in(r, 3) ? NULL : &reply);
    }
}

/* Actions, quests and memories: functions that take what a host builds. */
static int32_t build(random_state *r) {
    static const char *names[] = {"give", "follow", "open_gate", "Bad Name", "none", ""};
    char words[256];
    int32_t bytes, count;
    lull_parameter_def parameter;
    lull_quest_def quest;
    lull_memory_def memory;
    lull_action_value value;
    lull_npc_id several[4];
    int i;
    switch (below(r, 11)) {
    case 0:
        return lull_npc_clear_actions(any_npc(r));
    case 1:
        return lull_npc_add_action(any_npc(r), names[below(r, 6)], LULL_TERMINATED, "does something", LULL_TERMINATED);
    case 2:
        lull_default_parameter_def(&parameter, sizeof parameter);
        parameter.struct_size = one_in(r, 8) ? size(r, sizeof parameter) : parameter.struct_size;
        parameter.kind = (int32_t)below(r, 8) - 1;
        parameter.name = one_in(r, 3) ? "count" : names[below(r, 6)];
        parameter.values = one_in(r, 2) ? "sword\nshield\n" : text(r, words, sizeof words, &parameter.values_bytes);
        parameter.target = "door";
        parameter.max = one_in(r, 10) ? -1.0 : (double)below(r, 100);
        parameter.decimals = (int32_t)below(r, 8);
        parameter.characters_max = (int32_t)below(r, 250);
        return lull_npc_add_parameter(any_npc(r), names[below(r, 3)], LULL_TERMINATED,
                                      one_in(r, 30) ? NULL : &parameter);
    case 3:
        return lull_npc_set_targets(any_npc(r), "door", 4, one_in(r, 2) ? "oak door\niron door" : "", LULL_TERMINATED);
    case 4:
        return lull_action_value_count(any_world(r), any_reply(r), one_in(r, 20) ? NULL : &count);
    case 5:
        value.struct_size = size(r, sizeof value);
        return lull_action_get_value(any_world(r), any_reply(r), (int32_t)below(r, 4) - 1, &value);
    case 6:
        return lull_action_accept(any_world(r), any_reply(r));
    case 7:
        lull_default_quest_def(&quest, sizeof quest);
        quest.struct_size = one_in(r, 8) ? size(r, sizeof quest) : quest.struct_size;
        quest.state = (int32_t)below(r, 7) - 1;
        quest.id = names[below(r, 6)];
        quest.text = one_in(r, 2) ? "find the cat" : text(r, words, sizeof words, &quest.text_bytes);
        return lull_npc_set_quest(any_npc(r), one_in(r, 30) ? NULL : &quest);
    case 8:
        return lull_npc_quest_state(any_npc(r), names[below(r, 6)], LULL_TERMINATED, one_in(r, 20) ? NULL : &count);
    case 9:
        lull_default_memory_def(&memory, sizeof memory);
        memory.struct_size = one_in(r, 8) ? size(r, sizeof memory) : memory.struct_size;
        memory.importance = (int32_t)below(r, 14) - 1;
        memory.text = text(r, words, sizeof words, &bytes);
        return lull_npc_remember(any_npc(r), one_in(r, 30) ? NULL : &memory);
    default:
        for (i = 0; i < 4; i++) {
            several[i] = any_npc(r);
        }
        return one_in(r, 3) ? lull_npc_part(several[0])
                            : lull_npcs_gather(one_in(r, 30) ? NULL : several,
                                               one_in(r, 20) ? -1 : 1 + (int32_t)below(r, 4));
    }
}

static int32_t one_call(random_state *r, char *save, int64_t room, int64_t *length) {
    uint64_t reply;
    int32_t count;
    switch (below(r, 28)) {
    case 0:
        return one_in(r, 40) ? make_world(r) : lull_world_is_valid(any_world(r));
    case 1:
        return one_in(r, 50) ? lull_world_destroy(any_world(r)) : lull_world_get_status(any_world(r), NULL);
    case 2:
        return make_npc(r);
    case 3:
        return one_in(r, 10) ? lull_npc_destroy(any_npc(r)) : lull_npc_is_valid(any_npc(r));
    case 4:
    case 5:
    case 6:
        return say(r);
    case 7:
        return lull_npc_interrupt(any_npc(r));
    case 8:
        return lull_npc_resume(any_npc(r), one_in(r, 3) ? NULL : &reply);
    case 9:
        return one_in(r, 4) ? lull_npc_set_distance(any_npc(r), (float)below(r, 9) - 2) : lull_npc_is_busy(any_npc(r));
    case 10:
        return lull_npc_warm_up(any_npc(r));
    case 11:
        return lull_npc_line_count(any_npc(r), one_in(r, 10) ? NULL : &count);
    case 12:
        return save_and_load(r, save, room, length);
    case 13:
        return lull_frame_begin(any_world(r), next(r), odd_time(r), odd_time(r));
    case 14:
        return lull_world_set_phase(any_world(r), (int32_t)below(r, 10) - 2);
    case 15:
        return one_in(r, 100) ? lull_world_cancel_load(any_world(r))
                              : lull_world_set_game_time(any_world(r), odd_time(r));
    case 16:
        return lull_abi_check((int32_t)below(r, 3), (int32_t)size(r, sizeof(lull_event)));
    case 17:
    case 18:
        return texts(r, below(r, 12));
    case 19:
    case 20:
        return structs(r, below(r, 7));
    case 21:
    case 22:
    case 23:
        return build(r);
    default:
        return poll(r);
    }
}

/* Most calls should find something alive. */
static void first_worlds(uint64_t seed) {
    random_state r;
    int i;
    r.x = seed * 0x9e3779b97f4a7c15u + 7;
    for (i = 0; i < 40; i++) {
        make_world(&r);
    }
    for (i = 0; i < 200; i++) {
        make_npc(&r);
    }
}

typedef struct job {
    uint64_t seed;
    long calls;
} job;

static void *run(void *data) {
    const job *j = data;
    random_state r;
    long i;
    int64_t length = 0;
    enum { room = 1 << 16 };
    char *save = calloc(1, room);
    r.x = j->seed * 0x9e3779b97f4a7c15u + 1;
    for (i = 0; i < j->calls && !failed; i++) {
        int32_t result = one_call(&r, save, room, &length);
        if (result > 1 || result < -21 || result == LULL_ERROR_INTERNAL || result == LULL_ERROR_TIMEOUT) {
            char why[2048] = "";
            lull_world_id none = {0, 0};
            lull_last_error(none, why, sizeof why, NULL);
            printf("FAIL seed %llu call %ld answered %d: %s\n", (unsigned long long)j->seed, i, (int)result, why);
            failed = 1;
        }
        pthread_mutex_lock(&lock);
        answers[result > 0 ? 31 : -result]++;
        calls_made++;
        pthread_mutex_unlock(&lock);
    }
    free(save);
    return NULL;
}

int main(int argc, char **argv) {
    long calls = argc > 1 ? atol(argv[1]) : 100000;
    uint64_t seed = argc > 2 ? (uint64_t)atol(argv[2]) : (uint64_t)time(NULL);
    int threads = argc > 3 ? atoi(argv[3]) : 3, i;
    pthread_t ids[16];
    job jobs[16];
    if (threads < 1 || threads > 16) {
        return 2;
    }
    printf("seed %llu, %d threads\n", (unsigned long long)seed, threads);
    jobs[0].seed = seed;
    first_worlds(seed);
    for (i = 0; i < threads; i++) {
        jobs[i].seed = seed + (uint64_t)i * 1000003;
        jobs[i].calls = calls / threads;
        if (pthread_create(&ids[i], NULL, run, &jobs[i]) != 0) {
            return 2;
        }
    }
    for (i = 0; i < threads; i++) {
        pthread_join(ids[i], NULL);
    }
    printf("fuzz: %llu calls;", (unsigned long long)calls_made);
    for (i = 0; i < 31; i++) {
        if (answers[i] > 0) {
            printf(" %d: %llu", -i, (unsigned long long)answers[i]);
        }
    }
    printf("\n");
    return failed;
}
