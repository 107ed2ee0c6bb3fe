// Package report says in words, JSON and pictures what a frame capture shows:
// the metrics of package metrics, what limited the game over time, and what of
// the capture could not be used.
//
// The target is what the caller gives, else the median frame time. Half of all
// frames are above a median, so without a target jank_rate says how the other
// half is spread rather than how smooth the game was; the report says so.
//
// The bottleneck of a frame is a Classifier's answer at that frame; the frames
// before its first full window take that window's answer, as a capture can be
// read backwards too. Shares are shares of frames.
//
// Example: 4,000 frames, of which 3,100 stand in windows where the GPU is busy
// for more than 80 % of the frame and the CPU is not, give bottleneck_share
// {"gpu": 0.775, …}.
//
// Out of scope: reading (package frames), objectives and baselines (package
// harness).
package report
