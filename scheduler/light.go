package scheduler

const (
	// lightShare is the part of a frame below which a menu's own work leaves the
	// cores to whoever wants them; heavyShare is where it no longer does.
	lightShare, heavyShare = 0.25, 0.5

	// lightFrames is how many such frames in a row are believed.
	lightFrames = 30
)

// light tells when the LLM may have the priority of the game's own threads. The
// lowest one saves frames where the game wants its cores, and costs tokens
// everywhere: whatever else runs on the machine comes first.
type light struct {
	frames int
	on     bool
}

// next takes a frame. Nothing is lost by a frame too many at the lowest
// priority, so doubt counts as heavy: unknown work, a late frame, heat.
func (l *light) next(s *FrameSample, late, hot bool) bool {
	busy := max(s.MainBusy, s.RenderBusy)
	switch share := float64(busy) / float64(s.Target); {
	case s.Phase != PhaseMenu || late || hot || !(share > 0) || share > heavyShare:
		*l = light{}
	case share <= lightShare:
		l.frames = min(l.frames+1, lightFrames)
		l.on = l.on || l.frames == lightFrames
	default:
		l.frames = 0
	}
	return l.on
}
