package frames

import (
	"testing"
	"time"

	"github.com/lull-npc/lull/scheduler"
)

func TestWindowClassifier(t *testing.T) {
	us := time.Microsecond
	frame := 10_000 * us
	sample := func(cpu, gpu, wait time.Duration) Sample {
		return Sample{FrameTime: frame, CPUBusy: cpu, GPUBusy: gpu, PresentWait: wait, PresentWaitKnown: true}
	}
	unmeasured := Sample{FrameTime: frame}
	for _, c := range []struct {
		name string
		runs []Sample // each for 100 frames
		want []scheduler.Bottleneck
	}{
		{"GPU", []Sample{sample(5000*us, 9900*us, 5000*us)}, []scheduler.Bottleneck{scheduler.BoundGPU}},
		{"CPU", []Sample{sample(9500*us, 3000*us, 500*us)}, []scheduler.Bottleneck{scheduler.BoundCPU}},
		{"CPU, no GPU time", []Sample{sample(9500*us, 0, 500*us)}, []scheduler.Bottleneck{scheduler.BoundCPU}},
		{"waits for the screen", []Sample{sample(4000*us, 4000*us, 6000*us)},
			[]scheduler.Bottleneck{scheduler.BoundPresent}},
		{"nothing measured", []Sample{unmeasured}, []scheduler.Bottleneck{scheduler.BoundUnknown}},
		{"79 % is below the mark, but stays from above it",
			[]Sample{sample(7900*us, 3000*us, 100*us), sample(8500*us, 3000*us, 100*us),
				sample(7900*us, 3000*us, 100*us), sample(7700*us, 3000*us, 100*us)},
			[]scheduler.Bottleneck{scheduler.BoundNone, scheduler.BoundCPU, scheduler.BoundCPU, scheduler.BoundNone}},
		{"no frames", []Sample{{}}, []scheduler.Bottleneck{scheduler.BoundUnknown}},
	} {
		k := &WindowClassifier{}
		for i, s := range c.runs {
			var got scheduler.Bottleneck
			for n := range 100 {
				got = k.Classify(s)
				if i == 0 && n < WindowFrames-1 && got != scheduler.BoundUnknown {
					t.Errorf("%s: %v after %d frames", c.name, got, n+1)
				}
			}
			if got != c.want[i] {
				t.Errorf("%s: run %d is %v, want %v", c.name, i, got, c.want[i])
			}
		}
	}
	k := &WindowClassifier{}
	for range 100 {
		k.Classify(sample(9500*us, 0, 0))
	}
	k.Reset()
	if got := k.Classify(sample(9500*us, 0, 0)); got != scheduler.BoundUnknown {
		t.Errorf("after Reset: %v", got)
	}
}
