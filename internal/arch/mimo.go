package arch

// miMoV2 has values narrower than keys, and windows, with more heads of keys, sinks, and a RoPE of their own, on
// all layers but the first and every sixth; experts as deepseek3, but none that all tokens see
// (models/mimo_v2_flash/modeling_mimo_v2_flash.py, configuration_mimo_v2_flash.py, conversion_mapping.py).
func miMoV2(c *Config) Spec {
	c.rename("rms_norm_eps", "layernorm_epsilon", "n_routed_experts", "num_local_experts")
	c.defaults("head_dim", 192, "v_head_dim", 128, "num_key_value_heads", 4, "rms_norm_eps", 1e-5, "rope_theta", 5000000, "max_position_embeddings", 131072,
		"vocab_size", 152576, "hidden_size", 4096, "intermediate_size", 16384, "num_hidden_layers", 48, "num_attention_heads", 64)
	s := llama(c)
	local := c.slides(c.hybrid(func(l int) bool { return l > 0 && (l+1)%6 != 0 }))
	if size := c.count("sliding_window_size", 0); size > 0 { // behind the position itself
		c.replace("sliding_window", size+1)
	}
	c.defaults("sliding_window", 129)
	s.Window = c.window(local)
	s.miMoAttention(c, local)
	s.miMoExperts(c)
	return s
}

// hybrid returns which layers have a window by a list of ones and zeros, or, without it, those that local selects.
func (c *Config) hybrid(local func(layer int) bool) func(layer int) bool {
	if v, _, _ := c.field("hybrid_layer_pattern"); v != nil {
		return c.listed("hybrid_layer_pattern", 1)
	}
	return local
}

// miMoAttention reads what layers with a window, which local selects, have otherwise.
func (s *Spec) miMoAttention(c *Config, local func(int) bool) {
	a := &s.Attn
	a.BiasO = false
	a.ValueDim, a.ValueScale = c.Int("v_head_dim"), float32(c.optional("attention_value_scale", 0.707))
	a.Sinks, a.SinksInWindows, s.Names.Sinks = true, true, "self_attn.attention_sink_bias"
	full, windowed := *a, *a
	windowed.KVHeads = c.Int("swa_num_key_value_heads", 2*full.KVHeads)
	s.Attention = func(l int) Attn {
		if local(l) {
			return windowed
		}
		return full
	}
	part := c.Float("partial_rotary_factor", 0.334)
	s.ropeByKind(c, local, turned{c.Float("rope_theta"), part}, turned{c.Float("swa_rope_theta", 10000), part})
	c.must("swa_num_attention_heads", a.Heads)
	c.must("swa_head_dim", a.HeadDim)
	c.must("swa_v_head_dim", a.ValueDim)
	c.must("add_swa_attention_sink_bias", true)
	c.must("add_full_attention_sink_bias", false)
	c.must("hybrid_block_size")
	c.ignore("attention_chunk_size") // of kernels
}

// miMoExperts reads the experts.
func (s *Spec) miMoExperts(c *Config) {
	m := MoE{Experts: c.Int("n_routed_experts", 256), TopK: c.Int("num_experts_per_tok", 8), Width: c.Int("moe_intermediate_size", 2048)}
	m.Routing.Routing = c.grouped(true)
	s.experts(m, "mlp.gate", "mlp.experts.*.gate_proj", "mlp.experts.*.up_proj", "mlp.experts.*.down_proj")
	s.corrected("mlp.gate.e_score_correction_bias")
	dense := func(l int) bool { return l == 0 }
	if v, _, _ := c.field("moe_layer_freq"); v != nil {
		dense = c.listed("moe_layer_freq", 0)
	}
	s.Dense = c.called("mlp_layer_types", "dense", "sparse", dense)
	c.must("n_shared_experts", 0)
	c.must("scoring_func", "sigmoid")
	c.must("topk_method", "noaux_tc")
	c.must("mlp_bias", false)
}
