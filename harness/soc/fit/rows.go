package fit

import (
	"math"

	"github.com/lull-npc/lull/scheduler"
)

func parseFeatures(list string) (scheduler.Features, error) { return scheduler.ParseFeatures(list) }

// row is a fact, or a pair of facts, with the experiment that is compared with it.
type row struct {
	name     string // of the fact; a pair's without _lo and _hi
	pair     bool
	unitless bool   // the simulated number is a fraction, the fact a percentage
	how      string // the experiment, for people
	get      func(l *lab) float64
}

// ui are the apps of the UI at 120 Hz, all those over which late frames are summed.
var (
	ui  = []string{"social", "tools", "video"}
	all = []string{"social", "tools", "video", "gaming-a", "gaming-b", "light-app"}
)

const (
	noControl   = "sereno without contention"
	onlyPreempt = "sereno without batching,sleep"
	noFill      = "sereno without ngram"
	plain       = "vanilla-spec" // the uncontrolled model beside a foreground
	bench       = "benchmark"
)

// jank is the mean share of late frames over apps.
func (l *lab) jank(apps []string, policy string) float64 {
	sum := 0.0
	for _, app := range apps {
		sum += l.run(app, policy).JankRate
	}
	return sum / float64(len(apps))
}

// score is the foreground's, against native, the mean of CPU and GPU.
func (l *lab) score(policy string) float64 {
	r, native := l.run(bench, policy), l.run(bench, "native")
	return (r.CPUScore/native.CPUScore + r.GPUScore/native.GPUScore) / 2
}

// batch is the time of a batch, ns, of a chip and a place.
func (l *lab) batch(chip, model, where string, width int) (ns, bytes float64) {
	ns, bytes, err := l.chips[chip].BatchTime(l.models[model], where, width)
	if err != nil {
		return math.NaN(), math.NaN()
	}
	return ns, bytes
}

func (l *lab) demand(width int) float64 {
	ns, bytes := l.batch("8-elite", "llama-3.1-8b", "npu", width)
	one, oneBytes := l.batch("8-elite", "llama-3.1-8b", "npu", 1)
	return bytes / ns / (oneBytes / one)
}

func decoding(l *lab, app, policy string) float64 { return l.run(app, policy).DecodeTPS }

// rows are what is scored.
func rows() []row { return append(foreground(), engine()...) }

// foreground are the rows of what the game suffers.
func foreground() []row {
	return []row{
		{"aggregate_jank_multiplier", false, false, "six apps, vanilla-spec by native", func(l *lab) float64 {
			return l.jank(all, plain) / l.jank(all, "native")
		}},
		{"fg_cpu_gpu_score_norm", true, false, "benchmark beside vanilla-spec", func(l *lab) float64 {
			return l.score(plain)
		}},
		{"llm_prefill_throughput_loss", false, true, "vanilla, social against no game", func(l *lab) float64 {
			return 1 - l.run("social", "vanilla").PrefillTPS/l.run(idle, "vanilla").PrefillTPS
		}},
		{"mem_stall_worsening", true, false, "benchmark beside vanilla-spec", func(l *lab) float64 {
			return l.run(bench, plain).Stall / l.run(bench, "native").Stall
		}},
		{"bw_demand_b8", false, false, "bytes by time of a batch", func(l *lab) float64 { return l.demand(8) }},
		{"bw_demand_b32", false, false, "bytes by time of a batch", func(l *lab) float64 { return l.demand(32) }},
		{"vanilla_sd_throughput_social", false, false, "social, decode", func(l *lab) float64 {
			return decoding(l, "social", plain)
		}},
		{"vanilla_sd_jank_social", false, true, "social", func(l *lab) float64 {
			return l.run("social", plain).JankRate
		}},
		{"freqlimit_throughput_social", false, false, "social, decode", func(l *lab) float64 {
			return decoding(l, "social", "freq-limit")
		}},
		{"gaming_fg_score_uncontrolled", false, true, "benchmark beside vanilla-spec", func(l *lab) float64 {
			return l.score(plain)
		}},
		{"gaming_fg_score_sereno_balanced", false, true, "benchmark beside sereno", func(l *lab) float64 {
			return l.score("sereno")
		}},
		{"gaming_throughput_sereno_balanced", false, false, "benchmark, decode", func(l *lab) float64 {
			return decoding(l, bench, "sereno")
		}},
		{"gaming_throughput_mnn", false, false, "benchmark, mnn, all tokens by its computing", func(l *lab) float64 {
			ns, _ := l.batch("8-elite", "llama-3.1-8b", "little", 1)
			return 1e9 / ns
		}},
	}
}

// engine are the rows of what the model does, and what it costs.
func engine() []row {
	return []row{
		{"latency_powerserve", false, false, "vanilla without a game", func(l *lab) float64 {
			return l.run(idle, "vanilla").Latency
		}},
		{"sporadic_jank_powerserve", true, true, "sporadic questions, vanilla", func(l *lab) float64 {
			return l.run("sporadic", "vanilla").JankRate
		}},
		{"draft_time_share_normal", true, true, "tools beside sereno", func(l *lab) float64 {
			s := l.run("tools", "sereno").Shares
			return s.Draft / (s.Draft + s.Verify + s.Decode + s.Sleep)
		}},
		{"large_batch_verify_share_normal", false, true, "tools beside sereno, more than 8 tokens", wide},
		{"micro_sleep_share_normal", false, true, "tools beside sereno", func(l *lab) float64 {
			return l.run("tools", "sereno").Shares.Sleep
		}},
		{"acceptance_vanilla_sd", false, true, "social", func(l *lab) float64 {
			return l.run("social", plain).Accepted
		}},
		{"ablation_jank_before_preemption", false, true, "three UI apps, no control", func(l *lab) float64 {
			return l.jank(ui, noControl)
		}},
		{"ablation_jank_with_preemption", false, true, "three UI apps, preemption alone", func(l *lab) float64 {
			return l.jank(ui, onlyPreempt)
		}},
		{"ablation_jank_native", false, true, "three UI apps", func(l *lab) float64 { return l.jank(ui, "native") }},
		{"ablation_throughput_before_fill", false, false, "three UI apps, decode", func(l *lab) float64 {
			return (decoding(l, "social", noFill) + decoding(l, "tools", noFill) + decoding(l, "video", noFill)) / 3
		}},
		{"energy_eff_cpu", false, false, "cpu-only without a game", func(l *lab) float64 {
			return l.run(idle, "cpu-only").PerJoule
		}},
		{"energy_eff_vanilla_sd", false, false, "vanilla-spec without a game", func(l *lab) float64 {
			return l.run(idle, "vanilla-spec").PerJoule
		}},
		{"overhead_memory", false, false, "draft model, its cache, 70 MB of graphs", extraGB},
		{"cpu_prefill_adv", true, false, "8-gen-3, Llama-3.2-3B, 128 tokens", func(l *lab) float64 {
			npu, _ := l.batch("8-gen-3", "llama-3.2-3b", "npu", 128)
			cpu, _ := l.batch("8-gen-3", "llama-3.2-3b", "cpu", 128)
			return npu / cpu
		}},
		{"npu_mulmat_gemv_adv", true, false, "8-gen-3, Llama-3.2-3B, a token", func(l *lab) float64 {
			npu, _ := l.batch("8-gen-3", "llama-3.2-3b", "npu", 1)
			cpu, _ := l.batch("8-gen-3", "llama-3.2-3b", "cpu", 1)
			return cpu / npu
		}},
		{"comm_share_prefill_max", false, true, "8-gen-3, dispatch of 128 tokens", func(l *lab) float64 {
			ns, _ := l.batch("8-gen-3", "llama-3.2-3b", "npu", 128)
			c := l.chips["8-gen-3"]
			return float64(l.models["llama-3.2-3b"].Layers) * c.NPU.DispatchUS.Value * 1e3 / ns
		}},
	}
}

func extraGB(l *lab) float64 {
	n := l.models["llama-3.2-1b"]
	return n.Weights.Value + n.CacheBytes.Value*2048*1e-6 + 0.07
}

// wide is the share of computing that batches of more than 8 tokens take.
func wide(l *lab) float64 {
	sum := 0.0
	for width, share := range l.run("tools", "sereno").Widths {
		if len(width) > 1 || width == "9" {
			sum += share
		}
	}
	return sum
}

// order is something that has to be larger than something else.
type order struct {
	name string
	how  string
	own  bool // it follows from rows of outcomes, and is no row itself
	ok   func(l *lab) bool
}

func orders() []order {
	return []order{
		{"order_prefill_slower_decode_faster", "light-app, sereno against vanilla", false, func(l *lab) bool {
			s, v := l.run("light-app", "sereno"), l.run("light-app", "vanilla")
			return s.PrefillTPS < v.PrefillTPS && s.DecodeTPS > v.DecodeTPS
		}},
		{"order_prefill_cpu_wins", "8-gen-3, 128 tokens", false, func(l *lab) bool {
			npu, _ := l.batch("8-gen-3", "llama-3.2-3b", "npu", 128)
			cpu, _ := l.batch("8-gen-3", "llama-3.2-3b", "cpu", 128)
			return cpu < npu
		}},
		{"ablation order", "late frames: native < preemption < no control", true, func(l *lab) bool {
			n, p, b := l.jank(ui, "native"), l.jank(ui, onlyPreempt), l.jank(ui, noControl)
			return n < p && p < b
		}},
		{"energy order", "tokens/J: CPU < vanilla speculation on the NPU", true, func(l *lab) bool {
			return l.run(idle, "cpu-only").PerJoule < l.run(idle, "vanilla-spec").PerJoule
		}},
		{"protection order", "foreground score: vanilla < sereno", true, func(l *lab) bool {
			return l.score(plain) < l.score("sereno")
		}},
	}
}

// unscored says why outcomes of the facts are not scored.
var unscored = map[string]string{
	"aggregate_jank_increase":            "aggregate_jank_multiplier again",
	"norm_ipc_under_llm":                 "1 whatever is simulated",
	"norm_cpu_util_under_llm":            "1 whatever is simulated",
	"norm_gpu_util_under_llm":            "1 whatever is simulated",
	"norm_llc_miss_under_llm":            "1 whatever is simulated",
	"norm_l2_miss_under_llm":             "1 whatever is simulated",
	"norm_tlb_miss_under_llm":            "1 whatever is simulated",
	"norm_core_freq_under_llm":           "1 whatever is simulated",
	"ngram_ablation_throughput_base":     "its base is not stated",
	"ablation_preemption_jank_reduction": "two other rows again",
	"overhead_cpu":                       "the controller's own CPU time is not simulated",
	"overhead_memory_rel":                "overhead_memory again; it gave the size of the target",
	"static_graph_memory_max":            "a bound that is taken as it is",
	"related_cpu_prefill_adv_lo":         "cpu_prefill_adv again",
	"related_cpu_prefill_adv_hi":         "cpu_prefill_adv again",
	"call_over_op_lo":                    "single operators are not simulated",
	"call_over_op_hi":                    "single operators are not simulated",
	"fallback_penalty":                   "operators that fall back are not simulated",
	"order_sampling_cpu":                 "where sampling runs is not simulated",
}
