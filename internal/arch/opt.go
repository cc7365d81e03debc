package arch

import (
	"math"
	"strings"
)

// opt has learned positions, of which the first two rows are not used, and biases
// (models/opt/modeling_opt.py). That of 350M is otherwise: optEnds.
func opt(c *Config) Spec {
	c.rename("intermediate_size", "ffn_dim", "hidden_act", "activation_function", "attention_bias", "enable_bias", "mlp_bias", "enable_bias")
	c.defaults("tie_word_embeddings", true, "hidden_act", "relu", "attention_bias", true, "mlp_bias", true)
	s := llama(c)
	s.layerNorm(1e-5, true)
	s.Rope, s.Learned, s.LearnedFrom = nil, s.MaxPositions, 2
	if !c.Bool("layer_norm_elementwise_affine", true) {
		s.NormBias, s.NormPlain = false, true
	}
	c.ignore("init_std", "layerdrop")
	n := &s.Names
	n.Embed, n.Positions, n.Layers, n.Final = "model.decoder.embed_tokens", "model.decoder.embed_positions", "model.decoder.layers.*", "model.decoder.final_layer_norm"
	n.NormIn, n.NormMLPIn, n.O = "self_attn_layer_norm", "final_layer_norm", "self_attn.out_proj"
	s.ungated("fc1", "fc2")
	s.optEnds(c)
	bare := s.Names // the first files' spelling
	for _, name := range []*string{&bare.Embed, &bare.Positions, &bare.Layers, &bare.Final, &bare.EmbedIn, &bare.HeadDense} {
		*name = strings.TrimPrefix(*name, "model.")
	}
	s.Other = []Names{bare}
	return s
}

// optEnds reads what OPT of 350M has otherwise: norms of the stream behind sublayers, and none in front of the
// head, and a narrow table.
func (s *Spec) optEnds(c *Config) {
	n, first := &s.Names, c.Bool("do_layer_norm_before", true)
	if !first {
		s.NormSums, n.NormAttnOut, n.NormMLPOut, n.NormIn, n.NormMLPIn = true, n.NormIn, n.NormMLPIn, "", ""
	}
	if c.Bool("_remove_final_layer_norm", false) || !first {
		n.Final = ""
	}
	if width := c.Int("word_embed_proj_dim", s.Hidden); width != s.Hidden {
		s.EmbedWidth, n.EmbedIn, n.HeadDense = width, "model.decoder.project_in", "model.decoder.project_out"
	}
}

// bioGPT is opt with scaled embeddings (models/biogpt/modeling_biogpt.py, whose norms do not
// know layer_norm_eps).
func bioGPT(c *Config) Spec {
	c.defaults("tie_word_embeddings", true, "hidden_act", "gelu", "max_position_embeddings", 1024,
		"vocab_size", 42384, "hidden_size", 1024, "num_hidden_layers", 24, "num_attention_heads", 16, "intermediate_size", 4096)
	s := scaledOPT(c)
	c.ignore("layer_norm_eps")
	n := &s.Names
	n.Embed, n.Positions, n.Layers, n.Final, n.Head = "biogpt.embed_tokens", "biogpt.embed_positions", "biogpt.layers.*", "biogpt.layer_norm", "output_projection"
	return s
}

// xglm is bioGPT whose positions are sines and cosines (models/xglm/modeling_xglm.py).
func xglm(c *Config) Spec {
	c.rename("hidden_size", "d_model", "num_hidden_layers", "num_layers", "num_attention_heads", "attention_heads",
		"intermediate_size", "ffn_dim", "hidden_act", "activation_function")
	c.defaults("tie_word_embeddings", true, "hidden_act", "gelu", "max_position_embeddings", 2048,
		"vocab_size", 256008, "hidden_size", 1024, "num_hidden_layers", 24, "num_attention_heads", 16, "intermediate_size", 4096)
	s := scaledOPT(c)
	s.Sinusoids = true
	c.must("add_cross_attention", false)
	c.ignore("init_std")
	if s.Hidden%2 != 0 {
		c.fail("d_model", "%d, want an even number", s.Hidden)
	}
	n := &s.Names
	n.Embed, n.Positions, n.Layers, n.Final = "model.embed_tokens", "", "model.layers.*", "model.layer_norm"
	return s
}

// scaledOPT is what these have in common.
func scaledOPT(c *Config) Spec {
	c.replace("num_key_value_heads", c.Int("num_attention_heads"))
	s := llama(c)
	s.layerNorm(1e-5, true)
	s.biased(true)
	s.Rope, s.Learned, s.LearnedFrom = nil, s.MaxPositions, 2
	if c.Bool("scale_embedding", true) {
		s.EmbedScale = float32(math.Sqrt(float64(s.Hidden)))
	}
	c.ignore("layerdrop")
	n := &s.Names
	n.NormIn, n.NormMLPIn, n.O = "self_attn_layer_norm", "final_layer_norm", "self_attn.out_proj"
	s.ungated("fc1", "fc2")
	return s
}
