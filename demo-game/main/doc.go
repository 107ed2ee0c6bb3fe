// Command lull-demo is the demo game in a window: a village whose people speak
// with a language model on this machine, and a HUD (F1) that shows why no frame
// waits for it. `lull demo` starts it where a display is.
//
//	lull-demo                              play
//	lull-demo --script tour                watch the tour
//	lull-demo --lang ko                    in Korean
//	lull-demo --script tour --measure native,vanilla,lull --json run.json
//	                                       real frames of each policy, as a run object
//	lull-demo --script tour --scripted --screenshot DIR --shots 100,500
//	                                       pictures of the window at these ticks
package main
