package metrics

// Definition says what a metric is. Name is its JSON key.
type Definition struct {
	Name   string `json:"name"`
	Unit   string `json:"unit"`
	Text   string `json:"text"`
	Source string `json:"source"`
}

// Definitions returns all metrics in the order in which reports show them.
// Safe for concurrent use.
func Definitions() []Definition {
	return append([]Definition(nil), definitions...)
}

const empirical = "Quantiles are gonum stat.Empirical: the smallest observed value with at least that share of " +
	"frames at or below it."

var definitions = []Definition{
	{
		"overrun_ms", "ms",
		"End of a frame's work minus its deadline; positive is late. On a grid, deadline k lies at start + k·target " +
			"and a late frame takes the next free line. In a capture, frame time minus target. " + empirical,
		"Perfetto android_frames_overrun; Macrobenchmark frameOverrunMs",
	}, {
		"jank_rate", "fraction of frames",
		"Frames whose overrun is above 0 (with a multiplier m: above (m-1) targets; m = 0 makes every frame janky), " +
			"of all frames.",
		"Perfetto; JankStats for the multiplier",
	}, {
		"jank_rate_2pct", "fraction of frames",
		"Frames whose overrun is above 2 % of the target: without the jitter of a screen's lock.",
		"Unity Adaptive Performance's tolerance",
	}, {
		"hitch_ms_per_s", "ms/s", "Sum of the positive overruns per second of animation.",
		"Apple hitch time ratio: up to 5 is good (2020); later 10 good, 25 warning, 50 critical",
	}, {
		"frame_ms", "ms",
		"Time from the start of a frame to the end of its work; in a capture, its frame time. " + empirical,
		"lull",
	}, {
		"avg_fps", "1/s", "Frames divided by the sum of their intervals (harmonic; never a mean of fps).",
		"PresentMon, CapFrameX",
	}, {
		"low1_fps", "1/s", "1 % low average: 1000 / mean of the intervals at or above their 99 % quantile.",
		"CapFrameX",
	}, {
		"low1_p1_fps", "1/s", "1 % quantile of fps: 1000 / the interval that only 1 % of the frames reach.",
		"CapFrameX P1",
	}, {
		"low1_integral_fps", "1/s",
		"1 % low integral: intervals from the longest down until they fill 1 % of the time; 1000 / the last of them.",
		"MSI Afterburner, CapFrameX",
	}, {
		"big_jank", "frames",
		"Interval above twice the mean of the three before and above three film frames (125 ms).",
		"PerfDog BigJank",
	}, {
		"perfdog_jank", "frames",
		"Interval above twice the mean of the three before and above two film frames (83.3 ms). A steady 10 fps has " +
			"none: read it together with jank_rate.",
		"PerfDog Jank",
	}, {
		"stutter_share", "fraction of time", "Sum of the intervals of perfdog_jank, of all time.", "PerfDog Stutter",
	}, {
		"ue_hitches", "frames",
		"Interval of 60 ms or more, above 1.5 times the one before, and 200 ms or more after the last hitch. Frames " +
			"of any length count: none is discarded.",
		"Unreal t.HitchFrameTimeThreshold, t.HitchDeadTimeWindow, t.HitchVersusNonHitchRatio",
	}, {
		"ue_hitches_per_min", "1/min", "ue_hitches per minute of animation.", "Unreal FPSChart",
	}, {
		"ue_missed_vsync_share", "fraction of frames",
		"max(0, frames that the target wants in the time - frames), of those wanted.",
		"Unreal GetPercentMissedVSync",
	}, {
		"android_slow_20fps_share", "fraction of frames",
		"Intervals above 50 ms after the first minute; none when shorter.", "Android vitals for games",
	}, {
		"android_slow_30fps_share", "fraction of frames",
		"Intervals above 34 ms after the first minute; none when shorter.", "Android vitals for games",
	}, {
		"android_slow_session", "yes or no", "Whether android_slow_20fps_share is above 25 %.",
		"Android vitals for games",
	}, {
		"chrome_windows", "per 64 frames",
		"Full windows of 64 frames: share of late frames, and refresh periods missed (overrun in targets, rounded " +
			"up): mean, worst window, worst frame.",
		"Chrome *.FixedWindow",
	}, {
		"loading_frames", "frames",
		"Frames of the phase loading: counted here and in phases, in no other number.", "lull",
	},
}
