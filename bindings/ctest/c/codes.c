/* Each mistake that a host can make, and the code that it must get. Random
 * calls are fuzz.c's.
 *
 *     codes
 */
#define _POSIX_C_SOURCE 200112L
#include "lull.h"

#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int wrong, asked;
static lull_world_id none, world;
static lull_npc_id npc;

/* Compares, and wants a sentence with every failure. */
static void expect(int32_t code, int32_t result, lull_world_id where, const char *what) {
    char text[512] = "";
    asked++;
    lull_last_error(where, text, sizeof text, NULL);
    if (result != code || (code != LULL_OK && strlen(text) < 10)) {
        printf("FAIL %s: %d, want %d: \"%s\"\n", what, (int)result, (int)code, text);
        wrong++;
    }
}

#define IN(code, call) expect(code, call, world, #call)
#define OUT(code, call) expect(code, call, none, #call)

static lull_world_def good(void) {
    lull_world_def def;
    OUT(LULL_OK, lull_default_world_def(&def, sizeof def));
    def.model_kind = LULL_MODEL_SCRIPTED;
    return def;
}

static void ready(void) {
    lull_event e;
    int32_t n;
    do {
        IN(LULL_OK, lull_poll_events(world, &e, (int32_t)sizeof e, 1, &n));
    } while (n == 0 || e.kind != LULL_EVENT_WORLD_READY);
}

static void sizes(void) {
    lull_world_def def = good();
    lull_world_status status;
    lull_host_signals signals;
    lull_world_id made;
    OUT(LULL_ERROR_ABI, lull_abi_check(LULL_ABI_VERSION + 1, (int32_t)sizeof(lull_event)));
    OUT(LULL_ERROR_ABI, lull_abi_check(LULL_ABI_VERSION, (int32_t)sizeof(lull_event) + 8));
    OUT(LULL_ERROR_ABI, lull_abi_check(LULL_ABI_VERSION, -1));
    OUT(LULL_ERROR_STRUCT_SIZE, lull_default_world_def(&def, 0));
    OUT(LULL_ERROR_STRUCT_SIZE, lull_default_world_def(&def, UINT32_MAX));
    def.struct_size = sizeof def + 8; /* a header that is newer than the library */
    OUT(LULL_ERROR_STRUCT_SIZE, lull_world_create(&def, &made));
    def.struct_size = sizeof def - 1;
    OUT(LULL_ERROR_STRUCT_SIZE, lull_world_create(&def, &made));
    def.struct_size = 0;
    OUT(LULL_ERROR_STRUCT_SIZE, lull_world_create(&def, &made));
    status.struct_size = 4;
    IN(LULL_ERROR_STRUCT_SIZE, lull_world_get_status(world, &status));
    memset(&signals, 0, sizeof signals);
    signals.struct_size = sizeof signals;
    IN(LULL_OK, lull_world_set_host_signals(world, &signals));
    signals.reserved0 = 1;
    IN(LULL_ERROR_INVALID_ARGUMENT, lull_world_set_host_signals(world, &signals));
    def = good();
    def.reserved0 = 1;
    OUT(LULL_ERROR_INVALID_ARGUMENT, lull_world_create(&def, &made));
}

/* A host of ABI version 1's first day, whose structs were smaller: what it does
 * not know keeps its default, and nothing behind its structs is written. */
static void older_host(void) {
    struct {
        lull_event e;
        unsigned char behind[16];
    } g;
    const int32_t first_event = (int32_t)(offsetof(lull_event, text) + LULL_EVENT_TEXT_BYTES);
    const size_t first_def = offsetof(lull_world_def, blocked);
    lull_world_def def;
    lull_world_id old = {0, 0};
    int32_t n = 0;
    memset(&def, 0x5a, sizeof def);
    OUT(LULL_OK, lull_default_world_def(&def, (uint32_t)first_def));
    if (def.content_hook != 0x5a5a5a5a) {
        expect(LULL_OK, -1, none, "what an older host does not know is left alone");
    }
    def.model_kind = LULL_MODEL_SCRIPTED;
    OUT(LULL_OK, lull_world_create(&def, &old)); /* 0x5a5a5a5a in content_hook would be refused */
    OUT(LULL_OK, lull_abi_check(LULL_ABI_VERSION, first_event));
    memset(&g, 0x5a, sizeof g);
    do {
        expect(LULL_OK, lull_poll_events(old, &g.e, first_event, 1, &n), old, "an older host polls");
    } while (n == 0);
    if (g.e.kind != LULL_EVENT_WORLD_READY || g.e.sentence != 0x5a5a5a5a5a5a5a5au) {
        expect(LULL_OK, -1, none, "an event is no larger than the host said");
    }
    OUT(LULL_OK, lull_world_destroy(old));
}

static void pointers_and_text(void) {
    lull_world_def def = good();
    lull_npc_def who;
    lull_world_id made;
    lull_npc_id nobody;
    char small[4];
    static char huge[LULL_MAX_LINE_BYTES + 2];
    int32_t length = 0;
    memset(huge, 'a', sizeof huge - 1);
    OUT(LULL_ERROR_NULL_POINTER, lull_world_create(NULL, &made));
    OUT(LULL_ERROR_NULL_POINTER, lull_world_create(&def, NULL));
    OUT(LULL_ERROR_NULL_POINTER, lull_default_npc_def(NULL, sizeof who));
    IN(LULL_ERROR_NULL_POINTER, lull_npc_say(npc, NULL, LULL_TERMINATED, NULL));
    IN(LULL_ERROR_NULL_POINTER, lull_world_load(world, NULL, 10));
    IN(LULL_ERROR_NULL_POINTER, lull_npc_line_count(npc, NULL));
    IN(LULL_ERROR_UTF8, lull_npc_say(npc, "caf\xc3", LULL_TERMINATED, NULL));
    IN(LULL_ERROR_UTF8, lull_npc_say(npc, "\xed\xa0\x80", LULL_TERMINATED, NULL)); /* half of a pair of UTF-16 */
    IN(LULL_ERROR_UTF8, lull_npc_say(npc, "\xc0\xaf", LULL_TERMINATED, NULL));     /* longer than it need be */
    IN(LULL_ERROR_TOO_LONG, lull_npc_say(npc, huge, LULL_TERMINATED, NULL));
    IN(LULL_ERROR_TOO_LONG, lull_npc_say(npc, "short", INT32_MAX, NULL)); /* refused before a byte is read */
    IN(LULL_ERROR_TOO_LONG, lull_world_load(world, "short", INT64_MAX));
    IN(LULL_ERROR_INVALID_ARGUMENT, lull_npc_say(npc, "short", -2, NULL));
    IN(LULL_ERROR_INVALID_ARGUMENT, lull_npc_say(npc, " \n\t", LULL_TERMINATED, NULL));
    IN(LULL_ERROR_SAVE, lull_world_load(world, "not a save", 10));
    IN(LULL_ERROR_FILE, lull_world_load_file(world, "no/such/file", LULL_TERMINATED));
    IN(LULL_ERROR_FILE, lull_world_save_file(world, "no/such/folder/file", LULL_TERMINATED));
    IN(LULL_ERROR_BUFFER_TOO_SMALL, lull_npc_name(npc, small, sizeof small, &length));
    if (length < 4 || memchr(small, 0, sizeof small) == NULL) {
        expect(LULL_OK, -1, none, "a text that was cut ends, and its length is the whole one's");
    }
    lull_default_npc_def(&who, sizeof who);
    IN(LULL_ERROR_INVALID_ARGUMENT, lull_npc_create(world, &who, &nobody));
    who.persona = "lull: 1\nname: [";
    IN(LULL_ERROR_PERSONA, lull_npc_create(world, &who, &nobody));
    who.persona = NULL;
    who.persona_file = "no such persona";
    IN(LULL_ERROR_FILE, lull_npc_create(world, &who, &nobody));
}

static void *destroyer(void *data) {
    int32_t *result = data;
    *result = lull_world_destroy(world);
    return NULL;
}

/* What is gone stays gone, however often and from wherever it is ended. */
static void ends(void) {
    lull_world_def def = good();
    lull_world_id first = world, again;
    lull_npc_id forged = npc;
    pthread_t threads[8];
    int32_t results[8];
    int i, done = 0;
    forged.generation++;
    OUT(LULL_ERROR_STALE_ID, lull_npc_say(forged, "hello", LULL_TERMINATED, NULL));
    IN(LULL_OK, lull_npc_say(npc, "Tell me everything.", LULL_TERMINATED, NULL));
    for (i = 0; i < 8; i++) {
        if (pthread_create(&threads[i], NULL, destroyer, &results[i]) != 0) {
            exit(2);
        }
    }
    for (i = 0; i < 8; i++) {
        pthread_join(threads[i], NULL);
        done += results[i] == LULL_OK;
        wrong += results[i] != LULL_OK && results[i] != LULL_ERROR_STALE_ID;
    }
    if (done != 1) {
        expect(LULL_OK, -1, none, "of eight threads that destroy a world, one does");
    }
    OUT(LULL_ERROR_STALE_ID, lull_world_destroy(first));
    OUT(LULL_ERROR_STALE_ID, lull_npc_destroy(npc));
    OUT(LULL_ERROR_STALE_ID, lull_npc_say(npc, "hello", LULL_TERMINATED, NULL));
    OUT(LULL_ERROR_STALE_ID, lull_frame_begin(first, 1, 16666667, LULL_NOW));
    OUT(LULL_ERROR_STALE_ID, lull_world_destroy(none));
    OUT(LULL_OK, lull_world_create(&def, &again));
    if (again.index1 != first.index1 || lull_world_is_valid(first) || !lull_world_is_valid(again)) {
        expect(LULL_OK, -1, none, "a place is used again and the old id stays stale");
    }
    OUT(LULL_OK, lull_world_destroy(again));
}

static void limits(void) {
    lull_world_id many[LULL_MAX_WORLDS];
    lull_world_def def = good();
    int i;
    def.threads = 17;
    OUT(LULL_ERROR_INVALID_ARGUMENT, lull_world_create(&def, &many[0]));
    def = good();
    for (i = 1; i < LULL_MAX_WORLDS; i++) { /* one is open */
        OUT(LULL_OK, lull_world_create(&def, &many[i]));
    }
    OUT(LULL_ERROR_FULL, lull_world_create(&def, &many[0]));
    for (i = 1; i < LULL_MAX_WORLDS; i++) {
        OUT(LULL_OK, lull_world_destroy(many[i]));
    }
}

int main(void) {
    lull_world_def def = good();
    lull_npc_def who;
    OUT(LULL_OK, lull_world_create(&def, &world));
    OUT(LULL_OK, lull_default_npc_def(&who, sizeof who));
    who.persona_file = "blacksmith";
    IN(LULL_OK, lull_npc_create(world, &who, &npc));
    IN(LULL_ERROR_INVALID_ARGUMENT, lull_npc_create(world, &who, &npc)); /* the same name again */
    IN(LULL_ERROR_STALE_ID, lull_npc_destroy(npc));                      /* that call gave no NPC */
    who.name = "second";
    IN(LULL_OK, lull_npc_create(world, &who, &npc));
    IN(LULL_ERROR_NOT_READY, lull_npc_say(npc, "hello", LULL_TERMINATED, NULL));
    ready();
    sizes();
    older_host();
    pointers_and_text();
    limits();
    ends();
    printf("codes: %d answers, %d wrong\n", asked, wrong);
    return wrong != 0;
}
