//go:build cgo

package llamacpp

import "unsafe"

// prepare puts the hook where the case's question is asked.
func (h *hook) prepare(c *groupCase) {
	table := unsafe.Slice((*int64)(unsafe.Pointer(h.table)), widthRows*maxThreads*(h.layers+1))
	copy(table[predictRow(1, 1)*(h.layers+1):], c.predict)
	h.c.head.count = 0
	h.c.slicing = 0
	if c.slicing {
		h.c.slicing, h.c.slice = 1, _Ctype_int32_t(c.slice)
		h.c.head.count = _Ctype_int32_t(c.count)
	}
}

func (h *hook) lastOfGroup() int { return int(h.c.halt) }
