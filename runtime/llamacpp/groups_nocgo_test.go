//go:build !cgo

package llamacpp

// prepare puts the hook where the case's question is asked.
func (h *hook) prepare(c *groupCase) {
	copy(h.table[predictRow(1, 1)*(h.layers+1):], c.predict)
	h.head.slicing, h.head.slice, h.head.count = c.slicing, c.slice, c.count
}

func (h *hook) lastOfGroup() int { return h.halt }
