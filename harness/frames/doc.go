// Package frames reads frame captures: what a capture tool wrote down about
// each frame of a game. It knows PresentMon 1.x and 2.x CSV (and the tools that
// write the same columns: OCAT, FrameView, CapFrameX's CSV), MangoHud CSV and
// CapFrameX JSON, and finds out by itself which one it has.
//
// # Terms
//
// A row is one line of data of the file, or one element of CapFrameX's arrays.
// A stream is the rows of one swap chain of one process; a file may mix many.
// A segment is what stands between two headers (captures that were
// concatenated) or one run of CapFrameX; nothing is derived across its border.
// A Record is a row with a usable frame time. Its other values may be unknown.
//
// A value that can't be used has a Reason: it was NA, empty, not a number,
// negative, zero where zero can't be, an unsigned underflow (the -1.8e15 of
// PresentMon), absurd (more than an hour), or its frame was not displayed. Each
// is counted, none is guessed. A row that can't be used has a reason too, so
//
//	rows read = records + rows rejected, by reason
//
// holds for every file.
//
// # Where the times come from
//
//	PresentMon 2: frame time = MsBetweenAppStart (or FrameTime, or CPUBusy +
//	  CPUWait); CPU busy, CPU wait, GPU time, GPU busy as recorded.
//	PresentMon 1: frame time = MsBetweenPresents. CPU wait is MsInPresentAPI.
//	  CPU busy(i) = MsBetweenPresents(i) - MsInPresentAPI(i-1): from the end of
//	  one Present to the begin of the next. GPU busy only where the tool wrote
//	  msGPUActive: MsUntilRenderComplete says when the GPU ended, not when it
//	  began, so any GPU time made from it would be a guess.
//	MangoHud: frame time as recorded; GPU busy = frame time x gpu_load, a
//	  sensor slower than frames, so only averages of it mean something. CPU
//	  busy is unknown: cpu_load is a mean over all cores.
//	CapFrameX: as PresentMon 1 or 2, by the arrays that its file has.
//
// # One row, in numbers
//
// PresentMon 1 rows with MsBetweenPresents 10.0, 12.0 and MsInPresentAPI 1.5,
// 2.0: the second record has frame time 12 ms, CPU wait 2 ms and CPU busy
// 12 - 1.5 = 10.5 ms; the first one's CPU busy is unknown, for the reason
// no-previous-frame.
//
// # Out of scope
//
// Metrics (package metrics), drawing (package report), replaying a capture as
// load (package harness).
package frames
