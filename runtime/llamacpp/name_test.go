package llamacpp

import "testing"

func TestDisplayName(t *testing.T) {
	for _, c := range []struct {
		n    named
		want string
	}{
		{named{"a/SmolLM2-135M-Instruct.Q4_0.gguf", "Smollm2 135M 8k Lc100K Mix1 Ep2", "smollm2", "135M", "Q4_0"},
			"SmolLM2 135M Instruct Q4_0"},
		{named{"holiday photo.jpg", "Smollm2 135M 8k Lc100K Mix1 Ep2", "smollm2", "135M", "Q4_0"}, "smollm2 135M Q4_0"},
		{named{"gemma-3-270m-q4_k_m.gguf", "Gemma 3 270m It", "gemma-3", "270M", "Q4_K - Medium"},
			"gemma 3 270m Q4_K - Medium"},
		{named{"m.gguf", "Our Innkeeper", "", "", "Q8_0"}, "Our Innkeeper Q8_0"},
		{named{"/models/npc_v2-IQ4_XS.gguf", "", "", "", "IQ4_XS"}, "npc v2 IQ4_XS"},
		{named{"m.gguf", "", "qwen2.5-0.5B", "0.5B", "F16"}, "qwen2.5 0.5B F16"},
	} {
		if got := c.n.display(); got != c.want {
			t.Errorf("%+v: %q, want %q", c.n, got, c.want)
		}
	}
}
