package llamacpp

import (
	"testing"

	"github.com/lull-npc/lull/runtime/llm"
	"github.com/lull-npc/lull/runtime/llmtest"
)

// TestModelTable runs the table that every llm.Model passes over the real one.
func TestModelTable(t *testing.T) {
	llmtest.Run(t, func(t *testing.T) llm.Model { return open(t, nil) }, llmtest.Options{})
}
