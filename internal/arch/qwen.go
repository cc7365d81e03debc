package arch

import "slices"

// qwen is the first Qwen (Qwen/Qwen-7B modeling_qwen.py): q, k and v in one
// tensor with a bias, and half of intermediate_size for gate and up. What it
// does beyond seq_length, dynamic NTK scaling and the logarithm of the length,
// is left out: MaxPositions is seq_length.
func qwen(c *Config) Spec {
	c.rename("rope_theta", "rotary_emb_base", "head_dim", "kv_channels", "rms_norm_eps", "layer_norm_epsilon")
	c.rename("hidden_size", "n_embd", "num_hidden_layers", "n_layer", "num_attention_heads", "n_head", "intermediate_size", "ffn_hidden_size")
	c.replace("max_position_embeddings", c.Int("seq_length", 2048))
	s := llama(c)
	c.must("rotary_pct", 1)
	c.must("no_bias", true)
	c.must("scale_attn_weights", true)
	c.ignore("use_dynamic_ntk", "use_logn_attn", "n_positions", "padded_vocab_size", "params_dtype", "pos_emb", "bias_dropout_fusion")
	c.must("pos_emb", "rotary")
	c.must("activation", "swiglu")
	s.MLP.Width /= 2
	s.Attn.BiasQKV = true
	n := &s.Names
	n.Embed, n.Layers, n.Final = "transformer.wte", "transformer.h.*", "transformer.ln_f"
	n.NormIn, n.NormMLPIn, n.O = "ln_1", "ln_2", "attn.c_proj"
	n.Gate, n.Up, n.Down = "mlp.w2", "mlp.w1", "mlp.c_proj"
	s.fusedQKV("attn", "c_attn", Blocks)
	return s
}

// qwen2 has biases on q, k and v only, and a window where use_sliding_window
// says so (models/qwen2/modeling_qwen2.py).
func qwen2(c *Config) Spec {
	c.defaults("max_position_embeddings", 32768, "sliding_window", 4096)
	s := llama(c)
	s.Attn.BiasQKV, s.Attn.BiasO = true, false
	if first := c.Int("max_window_layers", 28); c.Bool("use_sliding_window", false) {
		s.Window = c.window(func(l int) bool { return l >= first })
	}
	c.ignore("sliding_window", "layer_types")
	return s
}

// qwen3 normalizes heads (models/qwen3/modeling_qwen3.py).
func qwen3(c *Config) Spec {
	c.defaults("head_dim", 128)
	s := qwen2(c)
	s.Attn.BiasQKV = c.Bool("attention_bias", false)
	s.Attn.BiasO = s.Attn.BiasQKV
	s.headNorms(EachHead, "self_attn.q_norm", "self_attn.k_norm")
	c.must("use_qk_norm", true) // as Qwen3-Coder's say
	return s
}

// qwen2MoE has experts, and one that all see, behind a gate
// (models/qwen2_moe/modeling_qwen2_moe.py).
func qwen2MoE(c *Config) Spec {
	s := qwen2(c)
	s.Attn.BiasQKV = c.Bool("qkv_bias", true)
	s.sharingExperts(c)
	return s
}

// sharingExperts reads the experts of Qwen, and the one that all see, behind a gate.
func (s *Spec) sharingExperts(c *Config) {
	s.qwenExperts(c)
	if n := c.Int("shared_expert_intermediate_size"); n != 0 { // the gate of nothing is left where it is
		s.shared(n, "mlp.shared_expert")
		s.MoE.SharedGated, s.Names.SharedRouter = true, "mlp.shared_expert_gate"
	}
}

// qwen3MoE has experts (models/qwen3_moe/modeling_qwen3_moe.py).
func qwen3MoE(c *Config) Spec {
	c.defaults("num_key_value_heads", 4)
	s := qwen3(c)
	s.Window = nil
	if c.Bool("use_sliding_window", false) {
		c.defaults("sliding_window", 4096)
		s.Window = c.windowAt(everyLayer)
	}
	c.rename("num_experts", "num_local_experts")
	s.qwenExperts(c)
	return s
}

// mellum is qwen3MoE with windows by layer_types, and RoPE by them
// (models/mellum/modeling_mellum.py).
func mellum(c *Config) Spec {
	c.defaults("head_dim", 128, "num_key_value_heads", 4, "max_position_embeddings", 131072, "sliding_window", 1024, "norm_topk_prob", true,
		"rope_theta", 500000, "num_experts", 64, "num_experts_per_tok", 8, "moe_intermediate_size", 896)
	s := llama(c)
	s.headNorms(EachHead, "self_attn.q_norm", "self_attn.k_norm")
	local := c.slides(noLayer)
	s.Window = c.window(local)
	s.ropeByType(c, local, Rope{Theta: 10000, Dims: s.Attn.HeadDim})
	c.rename("num_experts", "num_local_experts")
	s.qwenExperts(c)
	s.Dense = c.dense(0)
	return s
}

// qwenExperts reads the experts of Qwen. Layers that mlp_only_layers lists, and
// those that decoder_sparse_step skips, have an MLP.
func (s *Spec) qwenExperts(c *Config) {
	m := MoE{Experts: c.Int("num_experts"), TopK: c.Int("num_experts_per_tok"), Width: c.Int("moe_intermediate_size")}
	m.Routing.Renorm = c.Bool("norm_topk_prob", false)
	s.experts(m, "mlp.gate", "mlp.experts.*.gate_proj", "mlp.experts.*.up_proj", "mlp.experts.*.down_proj")
	step, dense := c.step("decoder_sparse_step", 1), c.Floats("mlp_only_layers")
	if step > 1 || len(dense) > 0 {
		s.Dense = func(l int) bool { return (l+1)%step != 0 || slices.Contains(dense, float64(l)) }
	}
}
