package scheduler

// newPlace makes the placer, if there is something to choose.
func (c *Controller) newPlace(now Instant) error {
	p := c.cfg.Devices.Profile
	if p == nil {
		return nil
	}
	start := Placement{Prefill: c.cfg.Devices.Default, Decode: c.cfg.Devices.Default}
	place, err := NewPlacer(*p, start, now)
	if err == nil && len(place.options) > 1 {
		c.place = place
	}
	return err
}

// choosePlace asks the placer with what this frame told.
func (c *Controller) choosePlace(s *FrameSample) {
	d := &c.last
	if c.place == nil {
		d.Prefill, d.Decode = c.cfg.Devices.place()
		return
	}
	stage := StageIdle
	if c.pending {
		stage = c.act.stage
	}
	to, why := c.place.Choose(s.End, &PlaceInput{Stage: stage, Bottleneck: d.Bottleneck, Phase: s.Phase, Host: s.Host,
		Floor: c.cfg.FloorTokensPerSecond})
	d.Prefill, d.Decode, d.Offload, d.Place = to.Prefill, to.Decode, to.Offload, why
}

// LoseDevice tells that a device failed. The next decision is without it. It
// reports false where nothing else can run the model. Call like Step.
func (c *Controller) LoseDevice(id DeviceID, now Instant) bool {
	return c.place != nil && c.place.Lose(id, now)
}

// Placer is what chooses the devices, nil where there is one. Call like Step.
func (c *Controller) Placer() *Placer { return c.place }
