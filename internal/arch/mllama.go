package arch

import "slices"

// mllama is llama with layers between its own that only see pictures, and a table with rows for them
// (models/mllama/modeling_mllama.py).
func mllama(c *Config) Spec {
	t := c.text()
	t.defaults("vocab_size", 128256, "hidden_size", 4096, "intermediate_size", 14336, "num_hidden_layers", 40, "num_attention_heads", 32, "num_key_value_heads", 8,
		"rms_norm_eps", 1e-5, "max_position_embeddings", 131072, "rope_theta", 500000)
	s := llama(t)
	seeing := t.Floats("cross_attention_layers")
	if !t.Has("cross_attention_layers") {
		seeing = []float64{3, 8, 13, 18, 23, 28, 33, 38}
	}
	sees := func(l int) bool { return slices.Contains(seeing, float64(l)) }
	width := s.MLP.Width
	s.Unattended = sees
	s.Widths = func(l int) int {
		if sees(l) {
			return 0
		}
		return width
	}
	s.Beyond = 8
	t.must("tie_word_embeddings", false) // the head has no rows for pictures
	s.prefixed()
	return s
}
