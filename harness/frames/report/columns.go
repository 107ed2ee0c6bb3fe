package report

import "time"

// column sums up the frames of one stretch of time.
type column struct {
	first, end    int     // frames
	at            float64 // seconds, middle
	min, mean     float64 // ms
	max           float64
	cpu, gpu      float64 // mean ms of the frames that know it
	cpuOK, gpuOK  bool
	late          bool // the slowest frame missed the target
	slowestSecond float64
}

// columns cuts the capture into at most n stretches of about equal time, each
// with a frame at least. Time is the sum of frame times, so that gaps between
// segments take no room.
func (a *Analysis) columns(n int) []column {
	var total time.Duration
	for _, f := range a.Capture.All {
		total += f.FrameTime
	}
	width := max(1, total/time.Duration(n))
	var out []column
	var now time.Duration
	for i := 0; i < a.Capture.Len(); {
		end := min(total, width*time.Duration(len(out)+1))
		if len(out) == n-1 {
			end = total
		}
		c := column{first: i, min: 1e300}
		begin := now
		for i < a.Capture.Len() && (now < end || i == c.first) {
			f := a.Capture.At(i)
			v := ms(f.FrameTime)
			if v > c.max {
				c.slowestSecond = now.Seconds()
			}
			c.min, c.max = min(c.min, v), max(c.max, v)
			now += f.FrameTime
			i++
		}
		c.end = i
		c.mean = ms(now-begin) / float64(c.end-c.first)
		c.at = (begin + now).Seconds() / 2
		c.late = c.max > ms(a.Target)
		a.busy(&c)
		out = append(out, c)
	}
	return out
}

func (a *Analysis) busy(c *column) {
	var cpu, gpu time.Duration
	var nCPU, nGPU int
	for i := c.first; i < c.end; i++ {
		f := a.Capture.At(i)
		if f.CPUBusy > 0 {
			cpu += f.CPUBusy
			nCPU++
		}
		if f.GPUBusy > 0 {
			gpu += f.GPUBusy
			nGPU++
		}
	}
	if nCPU > 0 {
		c.cpu, c.cpuOK = ms(cpu)/float64(nCPU), true
	}
	if nGPU > 0 {
		c.gpu, c.gpuOK = ms(gpu)/float64(nGPU), true
	}
}
