/*
 * lull: characters that talk through a language model on the player's device,
 * without costing the game a frame.
 *
 * This file is the whole interface, in plain C99, and its only source: what
 * other languages need is generated from it. bindings/README.md has a program
 * of fifty lines and short articles on threads, ownership, strings, errors,
 * versions, shutdown, signals and shipping.
 *
 * One world, one frame:
 *
 *     lull_world_def def;
 *     lull_default_world_def(&def, sizeof def);
 *     lull_world_create(&def, &world);             loads in the background
 *     each frame:
 *         lull_frame_begin(world, frame, 16666667, LULL_NOW);
 *         the game's own work
 *         lull_frame_end(world, frame, 0, LULL_NOW, NULL);
 *         lull_poll_events(world, events, sizeof events[0], 16, &count);
 *         present, wait for vsync                  here the model runs
 *     lull_world_destroy(world);                   every thread has ended
 *
 * Rules that hold everywhere
 *
 * Results. Functions return an int32_t: LULL_OK, or a negative number of enum
 *   lull_result, whose numbers never change. lull_last_error has the text.
 * Ids. A world and an NPC are named by small values. An id of something that
 *   was destroyed is stale and gives LULL_ERROR_STALE_ID, also when its place
 *   is used again. An id of zeros is no id.
 * Structs. Every struct that may grow begins with struct_size. Fill one with
 *   its lull_default_ function, or set struct_size to sizeof. Fields are only
 *   ever added at the end. Fields whose name begins with reserved must be 0.
 * Text. UTF-8 with a length in bytes; LULL_TERMINATED as the length means that
 *   a NUL ends it. Text that comes out is copied into the caller's buffer,
 *   always ends with a NUL, and is never cut inside a character. The length
 *   that comes back is that of the whole text, without the NUL.
 * Ownership. Nothing that is passed in is kept, and no pointer into lull ever
 *   comes out: everything is copied.
 * Callbacks. There are none. lull never calls the host: ask with
 *   lull_poll_events and lull_poll_log.
 * Paths. Relative ones are taken from where the process is during the call.
 * Time. Nanoseconds of the monotonic clock that lull_time_ns reads.
 * Threads. Each function says it in its \threadsafety line. Only three answers
 *   occur: "Any thread."; "One thread at a time for each world.", where a
 *   second thread waits for the first; and "Any thread, waits.", for the few
 *   that take long. No function waits for the model, unless it says so.
 */
#ifndef LULL_H
#define LULL_H

#include <stddef.h>
#include <stdint.h>

#if defined(_WIN32) && defined(LULL_BUILD)
#define LULL_API __declspec(dllexport)
#elif defined(_WIN32)
#define LULL_API __declspec(dllimport)
#elif defined(LULL_BUILD)
#define LULL_API __attribute__((visibility("default")))
#else
#define LULL_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* ------------------------------------------------------------------------
 * Constants
 */

/* Raised when something is changed or removed, never when something is added. */
#define LULL_ABI_VERSION 1

/* A length in bytes: the text ends with a NUL. */
#define LULL_TERMINATED (-1)

/* An instant in nanoseconds: now. */
#define LULL_NOW 0

/* Bytes of text in one event, the NUL included. Longer text comes as several. */
#define LULL_EVENT_TEXT_BYTES 256

/* A line that a player says has at most so many bytes; 500 characters are used. */
#define LULL_MAX_LINE_BYTES 65536

/* A persona, a path or a name has at most so many bytes. */
#define LULL_MAX_PERSONA_BYTES 65536
#define LULL_MAX_PATH_BYTES 4096

/* What a world's NPCs lived through has at most so many bytes when saved; 200,000 are usual. */
#define LULL_MAX_SAVE_BYTES 67108864

/* Bytes of a name in lull_action_value, the NUL included. */
#define LULL_NAME_BYTES 72

/* Worlds in a process, and NPCs in a world, at one time. An idle NPC costs about a kilobyte. */
#define LULL_MAX_WORLDS 16
#define LULL_MAX_NPCS 4096

/* lull_world_destroy returns within this time, whatever the world is at. */
#define LULL_DESTROY_MS_MAX 2000

/* What a function answers. The numbers never change. */
enum lull_result {
    LULL_OK = 0,
    LULL_ERROR_INVALID_ARGUMENT = -1, /* a number out of its range, an unknown enum, a reserved field that is not 0 */
    LULL_ERROR_NULL_POINTER = -2,     /* a pointer that must be given is null */
    LULL_ERROR_STRUCT_SIZE = -3,      /* struct_size is none that this library knows */
    LULL_ERROR_STALE_ID = -4,         /* the world or NPC is not there, or no more */
    LULL_ERROR_UTF8 = -5,             /* text is no valid UTF-8 */
    LULL_ERROR_TOO_LONG = -6,         /* text or data beyond its limit */
    LULL_ERROR_BUFFER_TOO_SMALL = -7, /* nothing was lost: ask again with the length that came back */
    LULL_ERROR_NOT_READY = -8,        /* the model is not loaded yet */
    LULL_ERROR_BUSY = -9,             /* that is under way already: wait for its end */
    LULL_ERROR_FULL = -10,            /* a stated limit: worlds, NPCs, waiting lines */
    LULL_ERROR_NOTHING = -11,         /* there is nothing to do that with */
    LULL_ERROR_PERSONA = -12,         /* the persona cannot be used; the text points at the place */
    LULL_ERROR_SAVE = -13,            /* what was saved cannot be used */
    LULL_ERROR_FILE = -14,            /* a file cannot be read or written */
    LULL_ERROR_LOAD = -15,            /* library or model cannot be loaded */
    LULL_ERROR_CANCELLED = -16,       /* somebody asked for it */
    LULL_ERROR_MODEL = -17,           /* the model failed in the middle of a reply */
    LULL_ERROR_ABI = -18,             /* header and library do not fit together */
    LULL_ERROR_TIMEOUT = -19,         /* something did not end in its stated time */
    LULL_ERROR_INTERNAL = -20,        /* a bug of lull, caught at the boundary: please report the text */
    LULL_ERROR_FORKED = -21           /* this process was forked from one with lull: only its parent can use it */
};

/* Where a world is in its life. */
enum lull_world_state {
    LULL_WORLD_LOADING = 1,
    LULL_WORLD_READY = 2,
    LULL_WORLD_FAILED = 3 /* lull_last_error says why; destroy it and make another */
};

/* What runs the words. */
enum lull_model_kind {
    LULL_MODEL_LLAMA = 0,   /* a GGUF file through llama.cpp */
    LULL_MODEL_SCRIPTED = 1 /* for tests, without files: repeats what the player said */
};

/* How much the model yields; see the scheduler's presets. */
enum lull_preset {
    LULL_PRESET_BALANCED = 0,
    LULL_PRESET_UI_FIRST = 1,
    LULL_PRESET_LLM_FIRST = 2
};

/* What the game does now. */
enum lull_phase {
    LULL_PHASE_EXPLORE = 0,   /* the player plays */
    LULL_PHASE_DIALOGUE = 1,  /* the player talks and waits for an answer */
    LULL_PHASE_COMBAT = 2,    /* every frame counts */
    LULL_PHASE_CUTSCENE = 3,  /* every frame counts, nobody acts */
    LULL_PHASE_MENU = 4,      /* the world stands still: the model has everything */
    LULL_PHASE_LOADING = 5,   /* nobody looks at frames */
    LULL_PHASE_BACKGROUND = 6 /* the game is not in front */
};

/* How hot the device says it is, in Android's order. */
enum lull_thermal {
    LULL_THERMAL_UNKNOWN = 0,
    LULL_THERMAL_NONE = 1,
    LULL_THERMAL_LIGHT = 2,
    LULL_THERMAL_MODERATE = 3,
    LULL_THERMAL_SEVERE = 4,
    LULL_THERMAL_CRITICAL = 5,
    LULL_THERMAL_SHUTDOWN = 6
};

/* Where the energy comes from. */
enum lull_power {
    LULL_POWER_UNKNOWN = 0,
    LULL_POWER_MAINS = 1,
    LULL_POWER_BATTERY = 2,
    LULL_POWER_SAVER = 3
};

/* When layers of the model may run. */
enum lull_gate_mode {
    LULL_GATE_FREE = 0,
    LULL_GATE_PACED = 1,  /* with pause_ns between groups of layers */
    LULL_GATE_WINDOW = 2, /* in the idle time of the frame */
    LULL_GATE_CLOSED = 3
};

/* What the game's frame waits for. */
enum lull_bottleneck {
    LULL_BOTTLENECK_UNKNOWN = 0,
    LULL_BOTTLENECK_NONE = 1,
    LULL_BOTTLENECK_CPU = 2,
    LULL_BOTTLENECK_GPU = 3,
    LULL_BOTTLENECK_MEMORY = 4,
    LULL_BOTTLENECK_THERMAL = 5,
    LULL_BOTTLENECK_PRESENT = 6 /* a frame cap or the display: that time is free */
};

/* What an event tells. New kinds may come: skip those you do not know. */
enum lull_event_kind {
    LULL_EVENT_WORLD_READY = 1,   /* the model is loaded */
    LULL_EVENT_WORLD_FAILED = 2,  /* result and text say why */
    LULL_EVENT_THINKING = 3,      /* the NPC was spoken to: let it turn its head */
    LULL_EVENT_BARK = 4,          /* text, written beforehand, is said at once */
    LULL_EVENT_TEXT = 5,          /* what is said goes on with text: whole characters */
    LULL_EVENT_SENTENCE = 6,      /* text is a whole sentence of it, for a voice */
    LULL_EVENT_THOUGHT = 7,       /* what is thought goes on with text: not said aloud */
    LULL_EVENT_EMOTION = 8,       /* text is one of the persona's emotions */
    LULL_EVENT_DONE = 9,          /* the reply is complete: reason and the figures */
    LULL_EVENT_INTERRUPTED = 10,  /* the reply was cut short: lull_npc_interrupt, or another line */
    LULL_EVENT_REPLY_FAILED = 11, /* result and text say why */
    LULL_EVENT_ACTION = 12,       /* the NPC wants to do what text names: accept or refuse it */
    LULL_EVENT_ACTION_LAPSED = 13, /* nobody did in time, or it is not possible any more */
    LULL_EVENT_QUEST = 14,        /* text is the id of a quest that was offered */
    LULL_EVENT_OVERFLOW = 15,     /* so many tokens of the conversation are dropped before this reply */
    LULL_EVENT_SUMMARISED = 16,   /* old lines were replaced by a summary */
    LULL_EVENT_MEMORY_DURABLE = 17, /* all that was remembered until now is on the disk */
    LULL_EVENT_MEMORY_FAILED = 18,  /* memories cannot be written: text says why. Nothing is lost yet */
    LULL_EVENT_MEMORY_SAVED = 19,   /* lull_world_save_memories is done; text is the whole path */
    LULL_EVENT_BLOCKED = 20,        /* a sentence was not said: a blocked word, or the host; text is said instead,
                                       or nothing */
    LULL_EVENT_JUDGE = 21           /* text is a sentence that nobody heard yet: lull_sentence_judge says whether it
                                       may be; def.content_hook asks for it */
};

/* What becomes of a sentence that the host judged. */
enum lull_verdict {
    LULL_VERDICT_ALLOW = 0,   /* it is said */
    LULL_VERDICT_REPLACE = 1, /* another is said instead */
    LULL_VERDICT_BLOCK = 2    /* it is not said */
};

/* Why a reply ended. */
enum lull_reason {
    LULL_REASON_NONE = 0,
    LULL_REASON_END = 1,      /* the model ended it */
    LULL_REASON_STOP = 2,     /* a stop string */
    LULL_REASON_LENGTH = 3,   /* the limit of the persona */
    LULL_REASON_CONTEXT = 4,  /* the context is full */
    LULL_REASON_SENTENCE = 5, /* a whole sentence, near the limit of the persona */
    LULL_REASON_REPEATS = 6,  /* it began to say the same again */
    LULL_REASON_VOICE = 7,    /* it began to speak for somebody else */
    LULL_REASON_OTHER = 8
};

/* What a line of a conversation is. */
enum lull_line_kind {
    LULL_LINE_HEARD = 0, /* somebody else said it: the player or another NPC */
    LULL_LINE_OWN = 1,   /* the NPC said it */
    LULL_LINE_NOTE = 2   /* nobody said it: a memory, a fact, what happened */
};

/* The type of an action's parameter. */
enum lull_parameter_kind {
    LULL_PARAMETER_INTEGER = 0, /* min ... max */
    LULL_PARAMETER_REAL = 1,    /* min ... max, with so many decimals */
    LULL_PARAMETER_BOOL = 2,
    LULL_PARAMETER_ENUM = 3,    /* one of values */
    LULL_PARAMETER_TEXT = 4,    /* one line of at most so many characters */
    LULL_PARAMETER_TARGET = 5   /* one of the targets of a kind that exist now */
};

/* Where a quest stands. */
enum lull_quest_state {
    LULL_QUEST_AVAILABLE = 0, /* its giver may offer it */
    LULL_QUEST_OFFERED = 1,   /* it did, and waits for the answer */
    LULL_QUEST_ACTIVE = 2,    /* the player is at it */
    LULL_QUEST_DONE = 3,
    LULL_QUEST_FAILED = 4
};

/* Where memories are kept. */
enum lull_memory_mode {
    LULL_MEMORY_NONE = 0,
    LULL_MEMORY_VOLATILE = 1, /* as long as the world lives */
    LULL_MEMORY_FOLDER = 2    /* in memory_folder, written in the background */
};

/* How grave a line of the log is. */
enum lull_log_level {
    LULL_LOG_INFO = 1,
    LULL_LOG_WARNING = 2,
    LULL_LOG_ERROR = 3
};

/* ------------------------------------------------------------------------
 * Ids. Compare with memcmp or field by field; zeros are no id.
 */

/* A world. */
typedef struct lull_world_id {
    uint32_t index1;     /* from 1 */
    uint32_t generation; /* never the same twice in a process */
} lull_world_id;

/* An NPC; it names its world too. */
typedef struct lull_npc_id {
    uint16_t index1;     /* from 1 */
    uint16_t world1;     /* index1 of its world */
    uint32_t generation; /* never the same twice in a process */
} lull_npc_id;

/* ------------------------------------------------------------------------
 * Structs
 */

/* What a world runs. lull_default_world_def fills it in. */
typedef struct lull_world_def {
    uint32_t struct_size;
    int32_t model_kind;        /* enum lull_model_kind; default LULL_MODEL_LLAMA */
    const char *model;         /* a GGUF file, or a name of lull's catalogue; null: the default one in the cache */
    const char *library;       /* the folder of llama.cpp's libraries; null: the one in the cache */
    const char *cache;         /* where lull keeps files; null: LULL_CACHE, or the user's cache folder */
    const char *device;        /* where the model runs: a device of ggml's; "prefill=A,decode=B"; "offload=A"; "auto":
                                  as lull calibrate found best here; null: the CPU */
    int32_t model_bytes;       /* of model; default LULL_TERMINATED */
    int32_t library_bytes;     /* of library; default LULL_TERMINATED */
    int32_t cache_bytes;       /* of cache; default LULL_TERMINATED */
    int32_t device_bytes;      /* of device; default LULL_TERMINATED */
    int32_t context_tokens;    /* of one conversation, 64 ... 1048576; 0, the default: 2048 */
    int32_t sequences_max;     /* conversations kept in the cache, 1 ... 64; 0, the default: 4 */
    int32_t batch_tokens_max;  /* 1 ... 4096; 0, the default: 256 */
    int32_t requests_max;      /* replies waiting or running, 1 ... 4096; 0, the default: 64 */
    int32_t threads;           /* of the model, 1 ... 16; 0, the default: one a core */
    int32_t preset;            /* enum lull_preset */
    int32_t low_priority;      /* 1, the default: the model's threads run only where nobody else wants the core */
    int32_t fetch_missing;     /* 1: fetch missing files through npm and pip, for development; default 0 */
    int64_t scripted_token_ns; /* LULL_MODEL_SCRIPTED: how long a token takes; default 0 */
    const char *player;        /* how the player is called; null: "Player" */
    const char *lore;          /* what every NPC knows, one fact a line, the most important first; null: nothing */
    const char *rules;         /* what holds for every NPC, one rule a line; null: nothing */
    const char *memory_folder; /* LULL_MEMORY_FOLDER: a folder that only this world uses */
    int32_t player_bytes;      /* of player; default LULL_TERMINATED */
    int32_t lore_bytes;        /* of lore; default LULL_TERMINATED */
    int32_t rules_bytes;       /* of rules; default LULL_TERMINATED */
    int32_t memory_folder_bytes; /* of memory_folder; default LULL_TERMINATED */
    int32_t memory_mode;       /* enum lull_memory_mode; default LULL_MEMORY_NONE */
    uint32_t seed;             /* varies every reply; default 0 */
    int64_t game_time_ns;      /* the story's time now, which then runs with the clock; default 0 */
    int64_t bark_quiet_ns;     /* no bark is said again within; 0, the default: one minute */
    int64_t action_timeout_ns; /* to accept or refuse an action; 0, the default: five seconds */
    const char *blocked;       /* what no NPC may say, a word or phrase a line; * at its end: any ending; null: none */
    const char *embedder;      /* a GGUF file, or a name of lull's catalogue: memories are also found by what they
                                  mean; LULL_MODEL_LLAMA only; null: by their words */
    int32_t blocked_bytes;     /* of blocked; default LULL_TERMINATED */
    int32_t embedder_bytes;    /* of embedder; default LULL_TERMINATED */
    int64_t content_timeout_ns; /* to judge a sentence, which is else not said; 0, the default: two seconds */
    int32_t content_hook;      /* 1: a sentence is heard only after lull_sentence_judge, a frame later; default 0 */
    int32_t reserved0;
} lull_world_def;

/* Where a world is. */
typedef struct lull_world_status {
    uint32_t struct_size;
    int32_t state;    /* enum lull_world_state */
    int32_t result;   /* LULL_OK, or why it failed */
    float progress;   /* of loading, 0 ... 1 */
    int32_t npcs;     /* there are now */
    int32_t requests; /* replies waiting or running */
} lull_world_status;

/* Who an NPC is. lull_default_npc_def fills it in. */
typedef struct lull_npc_def {
    uint32_t struct_size;
    int32_t persona_bytes;      /* of persona; default LULL_TERMINATED */
    const char *persona;        /* the YAML text of a persona; or null, with persona_file */
    const char *persona_file;   /* a YAML file, or the name of a persona that lull ships ("blacksmith") */
    const char *name;           /* what saves and memories call it: "smith-3"; null: the persona's name */
    int32_t persona_file_bytes; /* of persona_file; default LULL_TERMINATED */
    int32_t name_bytes;         /* of name; default LULL_TERMINATED */
    float distance;             /* from the player, in what the game counts in; who is nearest is answered first */
    uint32_t seed;              /* of the words; 0, the default: the persona's */
    int32_t greedy;             /* 1: always the most probable word, the same reply each time; default 0 */
    int32_t reply_tokens_max;   /* 1 ... 1024; 0, the default: the persona's */
} lull_npc_def;

/* A parameter of an action. lull_default_parameter_def fills it in. */
typedef struct lull_parameter_def {
    uint32_t struct_size;
    int32_t kind;              /* enum lull_parameter_kind */
    const char *name;          /* small letters, digits and single _ */
    const char *description;   /* for the model; may be null */
    const char *values;        /* LULL_PARAMETER_ENUM: one a line */
    const char *target;        /* LULL_PARAMETER_TARGET: a kind of lull_npc_set_targets */
    int32_t name_bytes;        /* of name; default LULL_TERMINATED */
    int32_t description_bytes; /* of description; default LULL_TERMINATED */
    int32_t values_bytes;      /* of values; default LULL_TERMINATED */
    int32_t target_bytes;      /* of target; default LULL_TERMINATED */
    double min;                /* both ends are allowed */
    double max;
    int32_t decimals;          /* LULL_PARAMETER_REAL: 1 ... 6 */
    int32_t characters_max;    /* LULL_PARAMETER_TEXT: 1 ... 200 */
} lull_parameter_def;

/* A value that an NPC chose for a parameter. */
typedef struct lull_action_value {
    uint32_t struct_size;
    int32_t kind;    /* enum lull_parameter_kind */
    int64_t integer; /* INTEGER; BOOL: 0 or 1 */
    double real;     /* REAL */
    char name[72];   /* of the parameter; LULL_NAME_BYTES */
} lull_action_value;

/* A task that an NPC gives. lull_default_quest_def fills it in. */
typedef struct lull_quest_def {
    uint32_t struct_size;
    int32_t state;    /* enum lull_quest_state */
    const char *id;   /* as a parameter's name: "find_wenna" */
    const char *text; /* one line: "find my daughter Wenna in the city" */
    int32_t id_bytes;   /* of id; default LULL_TERMINATED */
    int32_t text_bytes; /* of text; default LULL_TERMINATED */
    int64_t from_ns;  /* of lull_time_ns: the time in which it can be offered and answered; 0: from now */
    int64_t until_ns; /* 0: for ever */
} lull_quest_def;

/* Something that an NPC is to remember. lull_default_memory_def fills it in. */
typedef struct lull_memory_def {
    uint32_t struct_size;
    int32_t importance;  /* 1, mundane ... 10, life-changing; 0, the default: 5 */
    const char *text;    /* what was said or seen */
    const char *speaker; /* who said it; null: nobody */
    int32_t text_bytes;    /* of text; default LULL_TERMINATED */
    int32_t speaker_bytes; /* of speaker; default LULL_TERMINATED */
} lull_memory_def;

/* Late facts of a frame. A time of 0 is not measured. */
typedef struct lull_frame_timings {
    uint32_t struct_size;
    int32_t present_wait_known; /* 1: present_wait_ns was measured, 0 included */
    int64_t main_busy_ns;       /* the game thread worked */
    int64_t render_busy_ns;     /* the render thread worked */
    int64_t gpu_busy_ns;        /* the GPU worked */
    int64_t present_wait_ns;    /* blocked in present */
} lull_frame_timings;

/* One frame, for engines that know it only when it is over. */
typedef struct lull_frame_sample {
    uint32_t struct_size;
    int32_t present_wait_known; /* 1: present_wait_ns was measured, 0 included */
    uint64_t frame;             /* its number, rising */
    int64_t begin_ns;           /* of lull_time_ns */
    int64_t end_ns;             /* of lull_time_ns */
    int64_t target_ns;          /* the frame period wanted now */
    int64_t main_busy_ns;
    int64_t render_busy_ns;
    int64_t gpu_busy_ns;
    int64_t present_wait_ns;
} lull_frame_sample;

/* Facts of the whole device, about once a second. */
typedef struct lull_host_signals {
    uint32_t struct_size;
    int32_t thermal;         /* enum lull_thermal */
    float thermal_headroom;  /* 0 cold, 1 where severe throttling begins, more beyond; 0 is unknown */
    float memory_pressure;   /* share of time in which a task waited for memory, 0 ... 1; 0 is unknown */
    int32_t power;           /* enum lull_power */
    int32_t reserved0;
} lull_host_signals;

/* What the model may do until the next frame. */
typedef struct lull_decision {
    uint32_t struct_size;
    int32_t bottleneck;           /* enum lull_bottleneck */
    float confidence;             /* of bottleneck, 0 ... 1 */
    float openness;               /* 0 yields all, 0.5 takes the idle time, 1 takes all */
    int32_t gate;                 /* enum lull_gate_mode */
    int32_t threads;              /* of the model */
    int32_t layers_per_stop;      /* between two looks at the gate; 0: all */
    int32_t prefill_chunk_tokens; /* in one batch */
    int64_t margin_ns;            /* the window closes this long before the deadline */
    int64_t pause_ns;             /* LULL_GATE_PACED: after each group of layers */
    int64_t reference_ns;         /* what a frame is measured by */
    int32_t reason;               /* the rule that decided; lull_decision_reason_name has its name */
    int32_t reserved0;
} lull_decision;

/* What happened. Which fields are set depends on kind; the others are 0. */
typedef struct lull_event {
    int32_t kind;          /* enum lull_event_kind */
    int32_t result;        /* enum lull_result, of what failed */
    lull_npc_id npc;       /* zeros where it is about the world */
    uint64_t reply;        /* which of lull_npc_say, cue or resume; 0: of none */
    int32_t reason;        /* DONE: enum lull_reason */
    int32_t tokens;        /* DONE: of the reply; OVERFLOW: dropped */
    int32_t prompt_tokens; /* DONE: read by the model */
    int32_t reused_tokens; /* DONE: of these, already in its cache */
    int64_t first_ns;      /* DONE: from when the model got it to the first token */
    int64_t total_ns;      /* DONE: from when the model got it to the end */
    int32_t more;          /* 1: the next event goes on with this text */
    int32_t text_bytes;    /* of text, without the NUL */
    char text[256];        /* LULL_EVENT_TEXT_BYTES */
    uint64_t sentence;     /* JUDGE: its number, for lull_sentence_judge */
} lull_event;

/* What a world did since it was created. */
typedef struct lull_statistics {
    uint32_t struct_size;
    int32_t model_layers;
    int32_t model_context_tokens;
    int32_t reserved0;
    uint64_t model_bytes;      /* of the weights */
    uint64_t frames;           /* ended or given as samples */
    uint64_t replies;          /* that were complete */
    uint64_t replies_broken;   /* interrupted or failed */
    uint64_t tokens_generated;
    uint64_t tokens_prefilled;
    uint64_t tokens_reused;    /* of prompts, that were in the cache */
    int64_t computing_ns;      /* the model computed */
    int64_t waiting_ns;        /* the model waited at the gate */
    int64_t last_first_ns;     /* of the last reply, as in lull_event */
    int64_t last_total_ns;     /* of the last reply, as in lull_event */
    uint64_t memories;         /* that are kept */
    uint64_t heap_bytes;       /* of the process, in lull's own heap: without the model and its cache */
    uint64_t heap_allocations; /* of the process, since the library was loaded; frames make none */
} lull_statistics;

/* ------------------------------------------------------------------------
 * Library
 */

/**
 * The LULL_ABI_VERSION that the library was built with.
 * \threadsafety Any thread.
 */
LULL_API int32_t lull_abi_version(void);

/**
 * Checks whether a header and the library fit. Call it first, with the
 * constants of your header: lull_abi_check(LULL_ABI_VERSION, sizeof(lull_event)).
 * \returns LULL_OK or LULL_ERROR_ABI.
 * \threadsafety Any thread.
 */
LULL_API int32_t lull_abi_check(int32_t abi_version, int32_t event_size_bytes);

/**
 * Copies the version of the library, such as "v0.3.0".
 * \threadsafety Any thread.
 */
LULL_API int32_t lull_version(char *buffer, int32_t capacity_bytes, int32_t *length_bytes);

/**
 * Copies the name of a result, such as "LULL_ERROR_STALE_ID: the world ...".
 * \returns LULL_OK, or LULL_ERROR_INVALID_ARGUMENT for a number that is none.
 * \threadsafety Any thread.
 */
LULL_API int32_t lull_result_text(int32_t result, char *buffer, int32_t capacity_bytes, int32_t *length_bytes);

/**
 * Copies the text of the last failure in a world. With a world of zeros: of the
 * last failure, of any thread, that named no world, such as lull_world_create's.
 * \returns LULL_OK with an empty text where nothing failed yet.
 * \threadsafety Any thread.
 */
LULL_API int32_t lull_last_error(lull_world_id world, char *buffer, int32_t capacity_bytes, int32_t *length_bytes);

/**
 * The monotonic clock, in nanoseconds, that every time here is given in. In the
 * child of a fork it is LULL_ERROR_FORKED.
 * \threadsafety Any thread.
 */
LULL_API int64_t lull_time_ns(void);

/* ------------------------------------------------------------------------
 * World
 */

/**
 * Fills in the defaults. struct_size is sizeof *def.
 * \threadsafety Any thread.
 */
LULL_API int32_t lull_default_world_def(lull_world_def *def, uint32_t struct_size);

/**
 * Makes a world and begins to load in the background; it takes seconds.
 * LULL_EVENT_WORLD_READY or LULL_EVENT_WORLD_FAILED tells the end. NPCs and
 * what they may do can be set up at once; before the end nobody speaks.
 * \returns LULL_OK, LULL_ERROR_FULL beyond LULL_MAX_WORLDS, or what is wrong with def.
 * \threadsafety Any thread.
 */
LULL_API int32_t lull_world_create(const lull_world_def *def, lull_world_id *world);

/**
 * Ends loading, replies and every thread of a world, and forgets its NPCs. The
 * id is stale at once; the function returns when all has ended, after
 * LULL_DESTROY_MS_MAX at most. The wait is in C, where a host's garbage
 * collector can stop the thread.
 * \returns LULL_OK, LULL_ERROR_STALE_ID, or LULL_ERROR_TIMEOUT if something goes on in the background.
 * \threadsafety Any thread, waits.
 */
LULL_API int32_t lull_world_destroy(lull_world_id world);

/**
 * 1 if the world is there, else 0.
 * \threadsafety Any thread.
 */
LULL_API int32_t lull_world_is_valid(lull_world_id world);

/**
 * Where the world is. Set status->struct_size.
 * \threadsafety One thread at a time for each world.
 */
LULL_API int32_t lull_world_get_status(lull_world_id world, lull_world_status *status);

/**
 * Gives up loading: LULL_EVENT_WORLD_FAILED follows, with LULL_ERROR_CANCELLED.
 * \returns LULL_ERROR_NOTHING where nothing is loading.
 * \threadsafety One thread at a time for each world.
 */
LULL_API int32_t lull_world_cancel_load(lull_world_id world);

/**
 * Copies the name of the loaded model.
 * \returns LULL_ERROR_NOT_READY before it is loaded.
 * \threadsafety One thread at a time for each world.
 */
LULL_API int32_t lull_world_model_name(lull_world_id world, char *buffer, int32_t capacity_bytes,
                                       int32_t *length_bytes);

/**
 * What the world did so far. Set statistics->struct_size.
 * \threadsafety One thread at a time for each world.
 */
LULL_API int32_t lull_world_get_statistics(lull_world_id world, lull_statistics *statistics);

/* ------------------------------------------------------------------------
 * Frames. Before the model is loaded they do nothing, and return LULL_OK.
 */

/**
 * The frame begins: from now on the game works, and the model does not.
 * frame rises by one each time; target_ns is the period wanted, now_ns an
 * instant of lull_time_ns or LULL_NOW.
 * \threadsafety One thread at a time for each world.
 */
LULL_API int32_t lull_frame_begin(lull_world_id world, uint64_t frame, int64_t target_ns, int64_t now_ns);

/**
 * The game's own work of the frame is done; it is to be shown at deadline_ns
 * (0: begin + target). Until then the model may run. decision may be null; else
 * set its struct_size.
 * \threadsafety One thread at a time for each world.
 */
LULL_API int32_t lull_frame_end(lull_world_id world, uint64_t frame, int64_t deadline_ns, int64_t now_ns,
                                lull_decision *decision);

/**
 * Late facts of a frame, such as the GPU's time, which comes frames later.
 * \threadsafety One thread at a time for each world.
 */
LULL_API int32_t lull_frame_set_timings(lull_world_id world, uint64_t frame, const lull_frame_timings *timings);

/**
 * Instead of begin and end, for engines that know a frame only when it is over:
 * the model then paces itself. decision may be null.
 * \threadsafety One thread at a time for each world.
 */
LULL_API int32_t lull_frame_add_sample(lull_world_id world, const lull_frame_sample *sample, lull_decision *decision);

/**
 * The last decision. Set decision->struct_size.
 * \returns LULL_ERROR_NOT_READY before the model is loaded.
 * \threadsafety One thread at a time for each world.
 */
LULL_API int32_t lull_world_get_decision(lull_world_id world, lull_decision *decision);

/**
 * Copies the name of lull_decision.reason, such as "headroom".
 * \threadsafety Any thread.
 */
LULL_API int32_t lull_decision_reason_name(int32_t reason, char *buffer, int32_t capacity_bytes,
                                           int32_t *length_bytes);

/**
 * What the game does now: enum lull_phase.
 * \threadsafety One thread at a time for each world.
 */
LULL_API int32_t lull_world_set_phase(lull_world_id world, int32_t phase);

/**
 * Facts of the device that the game knows better, about once a second. What is unknown here is read from the machine
 * where that is possible.
 * \threadsafety One thread at a time for each world.
 */
LULL_API int32_t lull_world_set_host_signals(lull_world_id world, const lull_host_signals *signals);

/* ------------------------------------------------------------------------
 * Events
 */

/**
 * Copies what happened since the last call, oldest first, capacity at most; the
 * rest comes next time. event_size_bytes is sizeof(lull_event). Never waits.
 * \threadsafety One thread at a time for each world.
 */
LULL_API int32_t lull_poll_events(lull_world_id world, lull_event *events, int32_t event_size_bytes,
                                  int32_t capacity, int32_t *count);

/**
 * Copies the oldest line of the world's log and its enum lull_log_level. The
 * last 256 lines are kept. Nothing that a player or an NPC said is in it.
 * \returns LULL_ERROR_NOTHING where there is none; LULL_ERROR_BUFFER_TOO_SMALL keeps the line.
 * \threadsafety One thread at a time for each world.
 */
LULL_API int32_t lull_poll_log(lull_world_id world, int32_t *level, char *buffer, int32_t capacity_bytes,
                               int32_t *length_bytes);

/* ------------------------------------------------------------------------
 * NPCs
 */

/**
 * Fills in the defaults. struct_size is sizeof *def.
 * \threadsafety Any thread.
 */
LULL_API int32_t lull_default_npc_def(lull_npc_def *def, uint32_t struct_size);

/**
 * Makes an NPC. Reads persona_file, if one is given.
 * \returns LULL_OK, LULL_ERROR_PERSONA, LULL_ERROR_FILE, LULL_ERROR_FULL beyond LULL_MAX_NPCS, or what is wrong.
 * \threadsafety One thread at a time for each world.
 */
LULL_API int32_t lull_npc_create(lull_world_id world, const lull_npc_def *def, lull_npc_id *npc);

/**
 * Forgets an NPC. A reply under way ends; no event of it follows.
 * \threadsafety One thread at a time for each world.
 */
LULL_API int32_t lull_npc_destroy(lull_npc_id npc);

/**
 * 1 if the NPC is there, else 0.
 * \threadsafety Any thread.
 */
LULL_API int32_t lull_npc_is_valid(lull_npc_id npc);

/**
 * Copies the name of the persona.
 * \threadsafety One thread at a time for each world.
 */
LULL_API int32_t lull_npc_name(lull_npc_id npc, char *buffer, int32_t capacity_bytes, int32_t *length_bytes);

/**
 * Copies what the persona says first; may be empty.
 * \threadsafety One thread at a time for each world.
 */
LULL_API int32_t lull_npc_greeting(lull_npc_id npc, char *buffer, int32_t capacity_bytes, int32_t *length_bytes);

/**
 * How far it is from the player, 0 or more: who is nearest is answered first.
 * \threadsafety One thread at a time for each world.
 */
LULL_API int32_t lull_npc_set_distance(lull_npc_id npc, float distance);

/* ------------------------------------------------------------------------
 * Speech. LULL_ERROR_NOT_READY before the model is loaded.
 */

/**
 * The player says a line, which all in the NPC's conversation hear and it
 * answers. What it said until now is interrupted. The answer comes as events
 * with the number in *reply: THINKING or BARK at once, TEXT and SENTENCE, and
 * one of DONE, INTERRUPTED and REPLY_FAILED at its end. reply may be null.
 * \returns LULL_OK, LULL_ERROR_FULL, LULL_ERROR_UTF8, LULL_ERROR_INVALID_ARGUMENT for a line of which nothing
 *   can be read.
 * \threadsafety One thread at a time for each world.
 */
LULL_API int32_t lull_npc_say(lull_npc_id npc, const char *text, int32_t text_bytes, uint64_t *reply);

/**
 * Has the NPC speak of its own accord: text tells it why, as a note that only
 * it reads ("You see the player draw a sword").
 * \threadsafety One thread at a time for each world.
 */
LULL_API int32_t lull_npc_cue(lull_npc_id npc, const char *text, int32_t text_bytes, uint64_t *reply);

/**
 * Lets the NPC hear somebody without answering: a line of a cutscene.
 * \threadsafety One thread at a time for each world.
 */
LULL_API int32_t lull_npc_tell(lull_npc_id npc, const char *speaker, int32_t speaker_bytes, const char *text,
                               int32_t text_bytes);

/**
 * Stops what the NPC says or is about to say: LULL_EVENT_INTERRUPTED follows.
 * What was said stays in the conversation.
 * \returns LULL_ERROR_NOTHING where it says nothing.
 * \threadsafety One thread at a time for each world.
 */
LULL_API int32_t lull_npc_interrupt(lull_npc_id npc);

/**
 * Has the NPC go on with what it said when it was interrupted.
 * \returns LULL_ERROR_NOTHING where nothing was interrupted.
 * \threadsafety One thread at a time for each world.
 */
LULL_API int32_t lull_npc_resume(lull_npc_id npc, uint64_t *reply);

/**
 * Has the NPC say a line of its persona for a situation ("greeting", "hurt"),
 * without the model: LULL_EVENT_BARK follows.
 * \returns LULL_ERROR_NOTHING where it has none that was not said lately, or is speaking.
 * \threadsafety One thread at a time for each world.
 */
LULL_API int32_t lull_npc_bark(lull_npc_id npc, const char *situation, int32_t situation_bytes);

/**
 * 1 while a reply is awaited or under way, else 0, or an error.
 * \threadsafety One thread at a time for each world.
 */
LULL_API int32_t lull_npc_is_busy(lull_npc_id npc);

/**
 * Lets the model read the persona in the background before anyone speaks, so
 * that the first reply comes sooner. For loading screens and menus.
 * \returns LULL_OK, LULL_ERROR_FULL.
 * \threadsafety One thread at a time for each world.
 */
LULL_API int32_t lull_npc_warm_up(lull_npc_id npc);

/**
 * Brings up to 8 NPCs of one world into one conversation: from now on each
 * hears what the others say and what is said to them.
 * \threadsafety One thread at a time for each world.
 */
LULL_API int32_t lull_npcs_gather(const lull_npc_id *npcs, int32_t count);

/**
 * Has the NPC leave its conversation. It keeps what it heard.
 * \threadsafety One thread at a time for each world.
 */
LULL_API int32_t lull_npc_part(lull_npc_id npc);

/**
 * How many lines of the conversation the NPC has in mind.
 * \threadsafety One thread at a time for each world.
 */
LULL_API int32_t lull_npc_line_count(lull_npc_id npc, int32_t *count);

/**
 * Copies a line, oldest first from 0. *kind is enum lull_line_kind, and may be null.
 * \returns LULL_ERROR_INVALID_ARGUMENT for an index that is none.
 * \threadsafety One thread at a time for each world.
 */
LULL_API int32_t lull_npc_line(lull_npc_id npc, int32_t index, int32_t *kind, char *buffer,
                               int32_t capacity_bytes, int32_t *length_bytes);

/**
 * Copies who said a line; empty for the NPC's own and for notes.
 * \threadsafety One thread at a time for each world.
 */
LULL_API int32_t lull_npc_line_speaker(lull_npc_id npc, int32_t index, char *buffer, int32_t capacity_bytes,
                                       int32_t *length_bytes);

/**
 * Copies why the NPC said what it said last, for people to read: the parts of
 * the prompt, memories, sampling, decisions. It holds what was said: do not log it.
 * \returns LULL_ERROR_NOTHING where it said nothing yet.
 * \threadsafety One thread at a time for each world.
 */
LULL_API int32_t lull_npc_explain(lull_npc_id npc, char *buffer, int32_t capacity_bytes, int32_t *length_bytes);

/**
 * Answers LULL_EVENT_JUDGE, whose sentence it names: whether it is said. verdict
 * is enum lull_verdict. text is what LULL_VERDICT_REPLACE says instead, in one
 * line, and null otherwise. What is not answered in def.content_timeout_ns is
 * not said. Sentences come one after the other: answer soon, from a list of your
 * own or, frames later, with what a classifier on another thread found.
 * \returns LULL_ERROR_NOTHING where nobody waits for it: it was answered, is late, or its reply was cut short.
 * \threadsafety One thread at a time for each world.
 */
LULL_API int32_t lull_sentence_judge(lull_world_id world, uint64_t sentence, int32_t verdict, const char *text,
                                     int32_t text_bytes);

/* ------------------------------------------------------------------------
 * Actions. After a reply an NPC may choose one of the actions that it has now;
 * an invalid choice is impossible. The game has the final word.
 */

/**
 * Takes every action and target from the NPC.
 * \threadsafety One thread at a time for each world.
 */
LULL_API int32_t lull_npc_clear_actions(lull_npc_id npc);

/**
 * Gives the NPC an action: a name of small letters, digits and single _, and
 * what it does, for the model ("gives something from your shop").
 * \threadsafety One thread at a time for each world.
 */
LULL_API int32_t lull_npc_add_action(lull_npc_id npc, const char *name, int32_t name_bytes, const char *description,
                                     int32_t description_bytes);

/**
 * Fills in the defaults. struct_size is sizeof *def.
 * \threadsafety Any thread.
 */
LULL_API int32_t lull_default_parameter_def(lull_parameter_def *def, uint32_t struct_size);

/**
 * Gives an action of the NPC one more parameter.
 * \threadsafety One thread at a time for each world.
 */
LULL_API int32_t lull_npc_add_parameter(lull_npc_id npc, const char *action, int32_t action_bytes,
                                        const lull_parameter_def *def);

/**
 * Which targets of a kind exist now, one a line, nearest first. An action that
 * needs a kind of which there is none cannot be chosen.
 * \threadsafety One thread at a time for each world.
 */
LULL_API int32_t lull_npc_set_targets(lull_npc_id npc, const char *kind, int32_t kind_bytes, const char *targets,
                                      int32_t targets_bytes);

/**
 * How many values the action has that LULL_EVENT_ACTION named with this reply.
 * It can be read until it is accepted, refused or lapsed.
 * \returns LULL_ERROR_NOTHING where no action of that reply waits.
 * \threadsafety One thread at a time for each world.
 */
LULL_API int32_t lull_action_value_count(lull_world_id world, uint64_t reply, int32_t *count);

/**
 * Copies a value, from index 0, in the order of the parameters. Set value->struct_size.
 * \threadsafety One thread at a time for each world.
 */
LULL_API int32_t lull_action_get_value(lull_world_id world, uint64_t reply, int32_t index, lull_action_value *value);

/**
 * Copies the text of a value of the kinds ENUM, TEXT and TARGET.
 * \threadsafety One thread at a time for each world.
 */
LULL_API int32_t lull_action_value_text(lull_world_id world, uint64_t reply, int32_t index, char *buffer,
                                        int32_t capacity_bytes, int32_t *length_bytes);

/**
 * The action is done: the NPC knows it, and who is in its conversation saw it.
 * \threadsafety One thread at a time for each world.
 */
LULL_API int32_t lull_action_accept(lull_world_id world, uint64_t reply);

/**
 * The action cannot be, and why ("the gate is locked"): the NPC knows it.
 * \threadsafety One thread at a time for each world.
 */
LULL_API int32_t lull_action_refuse(lull_world_id world, uint64_t reply, const char *reason, int32_t reason_bytes);

/* ------------------------------------------------------------------------
 * Facts and quests
 */

/**
 * Tells the NPC something that is true from from_ns (0: now) until until_ns
 * (0: for ever), instants of lull_time_ns. A fact with the key of another
 * replaces it; an empty text takes it away.
 * \threadsafety One thread at a time for each world.
 */
LULL_API int32_t lull_npc_set_fact(lull_npc_id npc, const char *key, int32_t key_bytes, const char *text,
                                   int32_t text_bytes, int64_t from_ns, int64_t until_ns);

/**
 * The same for every NPC of the world.
 * \threadsafety One thread at a time for each world.
 */
LULL_API int32_t lull_world_set_fact(lull_world_id world, const char *key, int32_t key_bytes, const char *text,
                                     int32_t text_bytes, int64_t from_ns, int64_t until_ns);

/**
 * Fills in the defaults. struct_size is sizeof *def.
 * \threadsafety Any thread.
 */
LULL_API int32_t lull_default_quest_def(lull_quest_def *def, uint32_t struct_size);

/**
 * Gives the NPC a quest to offer, or tells it where one stands.
 * \threadsafety One thread at a time for each world.
 */
LULL_API int32_t lull_npc_set_quest(lull_npc_id npc, const lull_quest_def *def);

/**
 * Where a quest of the NPC stands: enum lull_quest_state.
 * \returns LULL_ERROR_NOTHING where it gives no such quest.
 * \threadsafety One thread at a time for each world.
 */
LULL_API int32_t lull_npc_quest_state(lull_npc_id npc, const char *id, int32_t id_bytes, int32_t *state);

/* ------------------------------------------------------------------------
 * Memories. What an NPC hears and says it remembers by itself; this is for what
 * it saw. They are found by their words.
 */

/**
 * Fills in the defaults. struct_size is sizeof *def.
 * \threadsafety Any thread.
 */
LULL_API int32_t lull_default_memory_def(lull_memory_def *def, uint32_t struct_size);

/**
 * The NPC remembers something, from now on. It is on the disk when
 * LULL_EVENT_MEMORY_DURABLE comes.
 * \returns LULL_OK, LULL_ERROR_NOTHING in a world without memories, LULL_ERROR_FULL.
 * \threadsafety One thread at a time for each world.
 */
LULL_API int32_t lull_npc_remember(lull_npc_id npc, const lull_memory_def *def);

/**
 * The story's time now, in nanoseconds since it began: after a load, or a leap.
 * It then runs with the clock.
 * \threadsafety One thread at a time for each world.
 */
LULL_API int32_t lull_world_set_game_time(lull_world_id world, int64_t game_time_ns);

/**
 * Begins to write all memories, as they are now, into one file, to be copied
 * with the game's save. LULL_EVENT_MEMORY_SAVED or LULL_EVENT_MEMORY_FAILED follows.
 * \threadsafety One thread at a time for each world.
 */
LULL_API int32_t lull_world_save_memories(lull_world_id world, const char *path, int32_t path_bytes);

/**
 * Goes back to memories that were saved. On error nothing has changed.
 * \threadsafety One thread at a time for each world. Reads: call it where a frame may be late.
 */
LULL_API int32_t lull_world_load_memories(lull_world_id world, const char *path, int32_t path_bytes);

/* ------------------------------------------------------------------------
 * Saves: what the NPCs lived through, by their names. Memories are apart.
 */

/**
 * Copies conversations, facts and quests of all NPCs as one block, to be stored
 * with the game's save. A reply under way is not in it. With a capacity of 0
 * only the length comes back.
 * \returns LULL_OK, LULL_ERROR_BUFFER_TOO_SMALL, LULL_ERROR_NOT_READY.
 * \threadsafety One thread at a time for each world.
 */
LULL_API int32_t lull_world_save(lull_world_id world, void *buffer, int64_t capacity_bytes, int64_t *length_bytes);

/**
 * Replaces what the NPCs lived through by what is saved. Replies under way are
 * abandoned. An NPC that is created later gets its past then. On error nothing
 * has changed.
 * \returns LULL_OK, LULL_ERROR_SAVE, LULL_ERROR_TOO_LONG beyond LULL_MAX_SAVE_BYTES, LULL_ERROR_NOT_READY.
 * \threadsafety One thread at a time for each world.
 */
LULL_API int32_t lull_world_load(lull_world_id world, const void *data, int64_t data_bytes);

/**
 * lull_world_save into a file, which is replaced as a whole or not at all.
 * \threadsafety One thread at a time for each world. Writes: call it where a frame may be late.
 */
LULL_API int32_t lull_world_save_file(lull_world_id world, const char *path, int32_t path_bytes);

/**
 * lull_world_load from a file.
 * \threadsafety One thread at a time for each world. Reads: call it where a frame may be late.
 */
LULL_API int32_t lull_world_load_file(lull_world_id world, const char *path, int32_t path_bytes);

#ifdef __cplusplus
}
#endif

#endif
