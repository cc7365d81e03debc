package arch

import (
	"slices"

	"exl2/internal/device"
)

// lfm2 has gated convolutions in the place of attention but where layer_types says so, and norms of heads
// (models/lfm2/modeling_lfm2.py).
func lfm2(c *Config) Spec {
	c.defaults("intermediate_size", 12288)
	s := liquid(c, c.convolves())
	if c.Bool("block_auto_adjust_ff_dim", true) {
		width := float64(2 * s.MLP.Width / 3)
		if m := c.optional("block_ffn_dim_multiplier", 1); m != 0 {
			width = float64(int(m * width))
			multiple := max(c.Int("block_multiple_of", 256), 1)
			width = float64((int(width) + multiple - 1) / multiple * multiple)
		}
		s.MLP.Width = int(width)
	}
	c.ignore("block_multiple_of", "block_ffn_dim_multiplier")
	return s
}

// lfm2MoE is that with experts on all layers but the first (models/lfm2_moe/modeling_lfm2_moe.py).
func lfm2MoE(c *Config) Spec {
	c.defaults("intermediate_size", 7168, "hidden_size", 2048)
	s := liquid(c, c.convolves())
	m := MoE{Experts: c.Int("num_experts", 32), TopK: c.Int("num_experts_per_tok", 4), Width: c.Int("moe_intermediate_size", 1792)}
	m.Routing.Routing = device.Routing{Score: device.Sigmoid, Renorm: c.Bool("norm_topk_prob", true), RenormEps: 1e-6, Scale: float32(c.factor("routed_scaling_factor", 1))}
	if c.Bool("use_expert_bias", true) {
		m.Routing.Correction, s.Names.Correction = true, "feed_forward.expert_bias"
	}
	s.experts(m, "feed_forward.gate", "feed_forward.experts.*.w1", "feed_forward.experts.*.w3", "feed_forward.experts.*.w2")
	if dense := c.count("num_dense_layers", 2); dense > 0 {
		s.Dense = func(l int) bool { return l < dense }
	}
	return s
}

// lfm3 has convolutions of more positions, windows on some of the layers with attention, a RoPE by kinds of layers, norms behind
// sublayers, and a gate for each head (models/lfm3/modeling_lfm3.py).
func lfm3(c *Config) Spec {
	c.defaults("vocab_size", 128000, "hidden_size", 2048, "intermediate_size", 7680, "num_hidden_layers", 24, "num_attention_heads", 16, "num_key_value_heads", 4,
		"head_dim", 128, "conv_L_cache", 7, "sliding_window", 256)
	kinds := c.eachLayer("layer_types")
	kind := func(l int) string {
		switch {
		case kinds != nil:
			return kinds[l]
		case l%4 == 2:
			return "full_attention"
		case l%4 == 0 && l > 0:
			return "sliding_attention"
		}
		return "conv"
	}
	for _, k := range kinds {
		if k != "conv" && k != "full_attention" && k != "sliding_attention" {
			c.refuse("layer_types", k)
		}
	}
	s := liquid(c, func(l int) bool { return kind(l) == "conv" })
	local := func(l int) bool { return kind(l) == "sliding_attention" }
	s.Window = c.windowAt(local)
	long := Rope{Theta: 1000000, Dims: s.Attn.HeadDim, Turning: s.Attn.HeadDim / 4}
	s.Rope = func(int) Rope { return long }
	s.ropeByType(c, local, Rope{Theta: 10000, Dims: s.Attn.HeadDim})
	s.headNorms(EachHead, "self_attn.q_norm", "self_attn.k_norm")
	n := &s.Names
	n.O = "self_attn.o_proj"
	if c.Bool("use_sandwich_norm", true) {
		n.NormAttnOut, n.NormMLPOut = "post_operator_norm", "post_ffn_norm"
	}
	if c.Bool("use_attention_gate", true) {
		s.gate(EachHeadOne, device.Logistic, "self_attn.gate_proj")
	}
	return s
}

// lfm2Vision is lfm2 behind a picture encoder (models/lfm2_vl/modeling_lfm2_vl.py).
func lfm2Vision(c *Config) Spec { return pictured(c, lfm2) }

// convolves returns which layers have convolutions.
func (c *Config) convolves() func(layer int) bool {
	c.defaults("num_hidden_layers", 32)
	kinds, attends := c.kinds("layer_types"), c.Floats("full_attn_idxs")
	return func(l int) bool {
		return kinds != nil && kinds[l] == "conv" || kinds == nil && len(attends) > 0 && !slices.Contains(attends, float64(l))
	}
}

// liquid is what these have in common.
func liquid(c *Config, convolves func(layer int) bool) Spec {
	c.defaults("vocab_size", 65536, "hidden_size", 2560, "num_hidden_layers", 32, "num_attention_heads", 32, "num_key_value_heads", 8, "max_position_embeddings", 128000,
		"rms_norm_eps", 1e-5, "rope_theta", 1000000, "tie_word_embeddings", true)
	c.rename("rms_norm_eps", "norm_eps", "tie_word_embeddings", "tie_embedding", "intermediate_size", "block_ff_dim")
	s := llama(c)
	s.Linear = convolves
	s.Short = Short{Kernel: c.Int("conv_L_cache", 3), Bias: c.Bool("conv_bias", false)}
	s.headNorms(EachHead, "self_attn.q_layernorm", "self_attn.k_layernorm")
	n := &s.Names
	n.Final, n.NormIn, n.NormMLPIn, n.O = "model.embedding_norm", "operator_norm", "ffn_norm", "self_attn.out_proj"
	n.Gate, n.Up, n.Down = "feed_forward.w1", "feed_forward.w3", "feed_forward.w2"
	n.ShortB, n.ShortC, n.ShortX, n.ShortO = "conv.in_proj_b", "conv.in_proj_c", "conv.in_proj_x", "conv.out_proj"
	n.ShortConv, n.ShortBias = "conv.conv.weight", "conv.conv.bias"
	s.fused("conv.in_proj", Blocks, s.Short.Bias, n.ShortB, n.ShortC, n.ShortX)
	c.must("attention_bias", false)
	c.must("hidden_act", "silu")
	c.ignore("conv_dim", "conv_dim_out", "conv_use_xavier_init", "block_dim", "block_mlp_init_scale", "block_out_init_scale", "block_norm_eps", "block_use_swiglu", "block_use_xavier_init", "num_heads", "use_pos_enc")
	return s
}
