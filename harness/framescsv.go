package harness

import (
	"bufio"
	"fmt"
	"io"
	"time"
)

// frameColumns are PresentMon 2's names, those that a run can fill in. A frame
// of the grid is one of PresentMon: it begins at a line, is busy until its work
// is done, and waits for the line that it takes.
const frameColumns = "Application,ProcessID,SwapChainAddress,PresentRuntime,SyncInterval,PresentFlags,AllowsTearing," +
	"PresentMode,FrameType,CPUStartTime,MsBetweenAppStart,MsCPUBusy,MsCPUWait,MsGPUTime,MsGPUBusy,MsGPUWait," +
	"MsBetweenPresents,MsInPresentAPI,DisplayedTime,MsAnimationError"

// frameWriter writes the frames of runs as a capture that `lull frames` reads.
type frameWriter struct {
	w *bufio.Writer // nil: nobody wants them
}

func newFrameWriter(w io.Writer) (*frameWriter, error) {
	if w == nil {
		return &frameWriter{}, nil
	}
	f := &frameWriter{bufio.NewWriter(w)}
	_, err := fmt.Fprintln(f.w, frameColumns)
	return f, err
}

// run writes one run as a process of its own: POLICY-REPEAT. Times have all
// their nanoseconds, so that a frame that was in time stays so.
func (f *frameWriter) run(policy string, repeat int, frames []frameRecord) error {
	if f.w == nil || len(frames) == 0 {
		return nil
	}
	first := frames[0].Start
	for i := range frames {
		r := &frames[i]
		wait := max(r.Interval-r.Work, 0)
		gpu, gpuWait := "NA", "NA"
		if r.GPU > 0 {
			gpu, gpuWait = exact(r.GPU), exact(0)
		}
		if _, err := fmt.Fprintf(f.w, "%s-%d,%d,0x1,Other,1,0,0,Other,Application,%s,%s,%s,%s,%s,%s,%s,%s,%s,%s,NA\n",
			policy, repeat, repeat, exact(r.Start-first), exact(r.Interval), exact(r.Interval-wait), exact(wait),
			gpu, gpu, gpuWait, exact(r.Interval), exact(wait), exact(r.Interval)); err != nil {
			return fmt.Errorf("harness: write the frames: %w", err)
		}
	}
	if err := f.w.Flush(); err != nil {
		return fmt.Errorf("harness: write the frames: %w", err)
	}
	return nil
}

// exact is a duration in milliseconds with six places: whole nanoseconds.
func exact(d time.Duration) string {
	sign := ""
	if d < 0 {
		sign, d = "-", -d
	}
	return fmt.Sprintf("%s%d.%06d", sign, d/time.Millisecond, d%time.Millisecond)
}
