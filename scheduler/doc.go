// Package scheduler decides, frame by frame, what the language model may do.
package scheduler
