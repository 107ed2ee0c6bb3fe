package harness

import "github.com/lull-npc/lull/harness/metrics"

// Definitions says what each number of a run means: those of the frames
// (package metrics), then those of the model.
func Definitions() []metrics.Definition {
	return append(metrics.Definitions(), definitions...)
}

var definitions = []metrics.Definition{
	{
		Name: "tokens_per_s", Unit: "1/s", Source: "lull",
		Text: "Tokens chosen for replies (end tokens included) per second of measured time, loading left out.",
	}, {
		Name: "ttft_ms", Unit: "ms", Source: "lull",
		Text: "From Submit to the first chosen token, waiting in the queue included, of all replies that ended " +
			"in the measured time or were cut off by its end after their first token.",
	}, {
		Name: "replying", Unit: "s, 1/s", Source: "lull",
		Text: "seconds of the measured time, loading left out, in which a request waited or ran, and tokens_per_s " +
			"in them: how fast replies come where people speak only now and then.",
	}, {
		Name: "game_thread_us", Unit: "µs a frame", Source: "lull",
		Text: "Time that lull's calls take on the game thread: SetPhase, FrameBegin, FrameTimings, FrameEnd, " +
			"Poll and Submit. It is part of the frame's work. Null where there is no model.",
	}, {
		Name: "game_thread_cpu_us", Unit: "µs a frame", Source: "lull",
		Text: "Of game_thread_us, the time in which the game thread had a core: the rest is another thread's " +
			"doing.",
	}, {
		Name: "game_thread_parts_us", Unit: "µs a frame", Source: "lull",
		Text: "game_thread_us taken apart. marks: SetPhase, FrameBegin, FrameTimings and FrameEnd, without wake: of " +
			"the frames that have one, the system call that wakes the model's sleeping thread for its window, which " +
			"is the kernel's cost of waking a core. poll: Poll and what the harness does about the events. " +
			"submit: of the frames in which somebody was asked.",
	}, {
		Name: "embeddings", Unit: "count by phase", Source: "lull",
		Text: "Vectors made, of memories and of questions, by the phase in which each was done. Empty where nobody " +
			"remembers: scenarios without memories, and policies without a controller, which nobody grants time.",
	}, {
		Name: "memory", Unit: "as the key says, else count", Source: "lull",
		Text: "remembered memories, those of them acknowledged as durable by the end, those indexed, which have " +
			"their vector. pending: how many waited for it at the end of each phase. recalls: before each request, " +
			"whose prompt gets what was found; dense_share by vectors too, found_share found something; recall_ms " +
			"from the request until the prompt is ready. remember_us: on the game thread. embed_ms: computing, of " +
			"one vector. stopped: begun, and ended by a phase that allows none.",
	}, {
		Name: "idle_tokens_per_s", Unit: "1/s", Source: "lull",
		Text: "Best of llama.cpp with one thread and with all, as it comes and on a pool that does not poll, " +
			"without a game, for idle_seconds each, in the same run.",
	}, {
		Name: "idle_share", Unit: "fraction of all cores", Source: "lull",
		Text: "1 - CPU time of this process / (wall time · cores) in the native runs: what the game leaves.",
	}, {
		Name: "limit_tokens_per_s", Unit: "1/s", Source: "lull",
		Text: "idle_tokens_per_s · idle_share: what the idle time is worth.",
	}, {
		Name: "limit_share", Unit: "fraction", Source: "lull",
		Text: "tokens_per_s of limit_tokens_per_s. Where limit_of is replying (the demo game, in which people speak " +
			"now and then) it is replying's tokens_per_s, and idle_tokens_per_s what the same people reached without " +
			"a game.",
	}, {
		Name: "idle_rate_share", Unit: "fraction", Source: "lull", Text: "tokens_per_s of idle_tokens_per_s.",
	}, {
		Name: "shares", Unit: "fraction of time", Source: "lull",
		Text: "What the model did: computing (prefill, decode, verify, draft), pausing between layers (sleep), " +
			"waiting for a frame's idle time (window_wait), standing before a closed gate (closed). A wait " +
			"during which the gate changed is split by how long each mode stood. The rest is time without " +
			"work.",
	}, {
		Name: "acceptance", Unit: "fraction by source", Source: "lull",
		Text: "Of the candidates judged in the measured time, those that the model chose too: from patterns in " +
			"the reply and its predecessors, in the prompt, in rejected drafts, and from a draft model.",
	}, {
		Name: "contention", Unit: "ratio", Source: "SERENO",
		Text: "(T - T0)/T0 of groups of layers, T0 being what the same layers take at rest, for the same width, " +
			"threads and length of the conversation (else the fastest twentieth of the run). Layers that were " +
			"preempted and the output head do not count. Null where the policy has no layer gate.",
	}, {
		Name: "score_over_time", Unit: "ratio by time", Source: "lull",
		Text: "The same for each second or more of the run: the mean of the middle half, with n groups; and what " +
			"the contention loop decided then, how much memory the load read and how many frames were late.",
	}, {
		Name: "preemptions", Unit: "count", Source: "SERENO",
		Text: "How often the contention loop dropped the draft model, and how many drafts were stopped in the " +
			"middle; share is that of the frames without the draft model.",
	}, {
		Name: "memory_reasons", Unit: "fraction of frames", Source: "lull",
		Text: "Which rule of the contention loop decided. Empty for policies without it.",
	}, {
		Name: "reasons", Unit: "fraction of frames", Source: "lull",
		Text: "Which rule of the scheduler decided. Empty for policies without it.",
	}, {
		Name: "wake_up_us", Unit: "µs", Source: "lull",
		Text: "From a line of the grid to the first instruction of the game thread, of frames that slept before. " +
			"It is part of the frame's work.",
	}, {
		Name: "process_cpu_share", Unit: "fraction of all cores", Source: "getrusage",
		Text: "CPU time of game and model together.",
	}, {
		Name: "other_cpu_share", Unit: "fraction of all cores", Source: "/proc/stat",
		Text: "CPU time of everything else on the machine. Above 5 % the numbers are doubtful.",
	},
}
