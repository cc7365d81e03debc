package arch

import "encoding/json"

// apertus has norms of heads and an MLP without a gate, whose activation function has numbers of each layer
// (models/apertus/modeling_apertus.py).
func apertus(c *Config) Spec {
	c.defaults("vocab_size", 131072, "hidden_size", 4096, "intermediate_size", 14336, "num_hidden_layers", 32, "num_attention_heads", 32, "max_position_embeddings", 65536,
		"rms_norm_eps", 1e-5, "rope_theta", 12000000, "hidden_act", "xielu",
		"rope_scaling", map[string]any{"rope_type": "llama3", "factor": json.Number("8"), "low_freq_factor": json.Number("1"),
			"high_freq_factor": json.Number("4"), "original_max_position_embeddings": json.Number("8192")})
	own := c.String("hidden_act") == "xielu"
	if own {
		c.replace("hidden_act", "silu")
	}
	s := llama(c)
	s.headNorms(EachHead, "self_attn.q_norm", "self_attn.k_norm")
	s.ungated("mlp.up_proj", "mlp.down_proj")
	n := &s.Names
	n.NormIn, n.NormMLPIn = "attention_layernorm", "feedforward_layernorm"
	if s.MLP.XIELU = own; own {
		n.XIELUPositive, n.XIELUNegative, n.XIELUBeta, n.XIELULeast = "mlp.act_fn.alpha_p", "mlp.act_fn.alpha_n", "mlp.act_fn.beta", "mlp.act_fn.eps"
	}
	c.must("mlp_bias", false)
	c.must("qk_norm", true)
	c.must("post_norm", false)
	return s
}
