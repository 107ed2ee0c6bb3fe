// Package meter watches the frames of the game and what the model did meanwhile,
// and makes of it the HUD's graph and a run as package harness reports it. The
// same meter serves the window and headless play, so that both say the same.
//
// # Whose doing
//
// A late frame has a cause: the game's own work when no layer of the model ran
// beside it; the model's where one did; lull's where our own calls took longer
// than the frame was late. Example: 16.7 ms are wanted, the work ends after 18.9
// ms, our calls took 0.2 ms, and layers ran: the model's. Each policy has a count of
// its own, which goes on when it is on again; while one is being opened nobody counts.
//
// Out of scope: time itself; each frame is told with its times.
package meter
