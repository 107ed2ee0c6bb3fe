//go:build cgo && !linux

package llamacpp

/*
#include "gate.h"
*/
import "C"

import "github.com/lull-npc/lull/runtime/llm"

// Waking a sleeping model is another system's call here, which C makes, and which
// Woken does not know of.

func (g *gate) publish(w llm.Window) { C.lull_gate_publish(g.c, cWindow(w)) }

func (g *gate) activity() (running bool, groups uint64) {
	return bool(C.lull_gate_running(g.c)), uint64(C.lull_gate_groups(g.c))
}
