package harness

import (
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/lull-npc/lull/harness/load"
	"github.com/lull-npc/lull/runtime/llm"
)

// floorWork is as long as lull's calls of a frame take in the median, about.
const floorWork = 10 * time.Microsecond

// BenchmarkCallFloor computes for 10 µs after the work of each frame of
// cpu-bound-60, with no model and no call of lull's: what the machine's interrupts
// make of that. No call of such a length has a smaller 99th percentile. Run it with
//
//	go test ./harness -run xxx -bench CallFloor -benchtime 1200x
func BenchmarkCallFloor(b *testing.B) {
	const period, burn = 16_666_667, 11 * time.Millisecond
	took := make([]time.Duration, 0, b.N)
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // and never unlock: the timer changed the thread
		timer, err := load.NewTimer(llm.NewClock())
		if err != nil {
			done <- err
			return
		}
		defer timer.Close()
		team, err := load.NewTeam(load.Needs{Workers: 2}, timer)
		if err != nil {
			done <- err
			return
		}
		defer team.Close()
		rounds := roundsIn(floorWork)
		for line := timer.Now(); len(took) < cap(took); line = max(line+period, timer.Now()) {
			timer.SleepUntil(line)
			team.Run(&load.Job{Workers: 2, CPU: burn}, line)
			begin := timer.Now()
			compute(rounds)
			took = append(took, time.Duration(timer.Now()-begin))
		}
		done <- nil
	}()
	if err := <-done; err != nil {
		b.Fatal(err)
	}
	slices.Sort(took)
	for name, at := range map[string]int{"p50-µs": 50, "p99-µs": 99} {
		b.ReportMetric(float64(took[len(took)*at/100])/1e3, name)
	}
}

var computed uint64

// compute is arithmetic that touches no memory.
func compute(rounds int) {
	x := computed | 1
	for range rounds {
		x = x*6364136223846793005 + 1442695040888963407
	}
	computed = x
}

// roundsIn is how many rounds of compute fill that time, undisturbed.
func roundsIn(d time.Duration) int {
	const rounds = 100_000
	least := time.Hour
	for range 50 {
		begin := time.Now()
		compute(rounds)
		least = min(least, time.Since(begin))
	}
	return int(rounds * d / max(least, 1))
}
