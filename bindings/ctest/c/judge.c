/* A host that judges sentences before anybody hears them: it allows one, has
 * another said instead of one, blocks one, and forgets to answer for one. Prints
 * what happened.
 *
 *     judge
 */
#include "lull.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static lull_world_id world;
static lull_npc_id npc;
static uint64_t frame;

static void want(int32_t expected, int32_t result, const char *what) {
    char text[512] = "";
    if (result != expected) {
        lull_last_error(world, text, sizeof text, NULL);
        fprintf(stderr, "%s: %d, want %d: %s\n", what, (int)result, (int)expected, text);
        exit(1);
    }
}

static int32_t judge(uint64_t sentence, int32_t verdict, const char *text) {
    return lull_sentence_judge(world, sentence, verdict, text, text == NULL ? 0 : LULL_TERMINATED);
}

/* What this host thinks of a sentence; it does not make up its mind about farewells. */
static void rule(const lull_event *e) {
    printf("judge: %s\n", e->text);
    want(LULL_ERROR_NOTHING, judge(e->sentence + 1, LULL_VERDICT_ALLOW, NULL), "a sentence that is not asked");
    want(LULL_ERROR_INVALID_ARGUMENT, judge(e->sentence, 3, NULL), "an unknown verdict");
    want(LULL_ERROR_INVALID_ARGUMENT, judge(e->sentence, LULL_VERDICT_REPLACE, NULL), "replaced by nothing");
    want(LULL_ERROR_INVALID_ARGUMENT, judge(e->sentence, LULL_VERDICT_BLOCK, "text"), "blocked, with a text");
    want(LULL_ERROR_UTF8, judge(e->sentence, LULL_VERDICT_REPLACE, "\xff"), "replaced by broken text");
    if (strstr(e->text, "dragon") != NULL) {
        want(LULL_OK, judge(e->sentence, LULL_VERDICT_REPLACE, "The cat sleeps."), "replace");
    } else if (strstr(e->text, "secret") != NULL) {
        want(LULL_OK, judge(e->sentence, LULL_VERDICT_BLOCK, NULL), "block");
    } else if (strstr(e->text, "Farewell") == NULL) {
        want(LULL_OK, judge(e->sentence, LULL_VERDICT_ALLOW, NULL), "allow");
        want(LULL_ERROR_NOTHING, judge(e->sentence, LULL_VERDICT_ALLOW, NULL), "a second verdict");
    }
}

/* Plays frames until an event of that kind comes, which it returns. */
static lull_event until(int32_t kind, int ruling) {
    for (;;) {
        lull_event e;
        int64_t begin = lull_time_ns();
        int32_t n = 0;
        want(LULL_OK, lull_frame_begin(world, ++frame, 2000000, begin), "frame begin");
        want(LULL_OK, lull_frame_end(world, frame, 0, LULL_NOW, NULL), "frame end");
        do {
            want(LULL_OK, lull_poll_events(world, &e, (int32_t)sizeof e, 1, &n), "poll");
            if (n == 1 && e.kind == LULL_EVENT_JUDGE && ruling) {
                rule(&e);
            } else if (n == 1 && e.kind == LULL_EVENT_SENTENCE) {
                printf("said: %s\n", e.text);
            } else if (n == 1 && e.kind == LULL_EVENT_BLOCKED) {
                printf("not said; instead: \"%s\"\n", e.text);
            }
            if (n == 1 && e.kind == kind) {
                return e;
            }
        } while (n == 1);
        while (lull_time_ns() < begin + 2000000) {
        }
    }
}

static void say(const char *line) { want(LULL_OK, lull_npc_say(npc, line, LULL_TERMINATED, NULL), "say"); }

int main(void) {
    lull_world_id none = {0, 0};
    lull_world_def def;
    lull_npc_def who;
    lull_event e;
    want(LULL_OK, lull_default_world_def(&def, sizeof def), "world def");
    def.model_kind = LULL_MODEL_SCRIPTED;
    def.content_hook = 1;
    def.content_timeout_ns = 1000000000;
    want(LULL_OK, lull_world_create(&def, &world), "world");
    want(LULL_OK, lull_default_npc_def(&who, sizeof who), "npc def");
    who.persona_file = "blacksmith";
    who.greedy = 1;
    want(LULL_OK, lull_npc_create(world, &who, &npc), "npc");
    until(LULL_EVENT_WORLD_READY, 1);

    say("Good day. The dragon sleeps. This is a secret. Farewell, friend.");
    until(LULL_EVENT_DONE, 1);

    say("Again?"); /* the reply is cut short while its sentence waits */
    e = until(LULL_EVENT_JUDGE, 0);
    want(LULL_OK, lull_npc_interrupt(npc), "interrupt");
    want(LULL_ERROR_NOTHING, judge(e.sentence, LULL_VERDICT_ALLOW, NULL), "a sentence of a reply that is over");
    until(LULL_EVENT_INTERRUPTED, 0);
    printf("interrupted\n");

    say("It goes on."); /* and the next reply is judged again */
    until(LULL_EVENT_DONE, 1);

    say("The world ends."); /* while a sentence waits */
    until(LULL_EVENT_JUDGE, 0);
    want(LULL_OK, lull_world_destroy(world), "destroy");
    want(LULL_ERROR_STALE_ID, judge(e.sentence, LULL_VERDICT_ALLOW, NULL), "a sentence of a world that is gone");
    world = none;
    printf("ended\n");
    return 0;
}
