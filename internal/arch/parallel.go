package arch

// cohere adds attention and MLP of one norm, rotates neighbours, and may normalize
// heads (models/cohere/modeling_cohere.py).
func cohere(c *Config) Spec {
	c.defaults("tie_word_embeddings", true, "rope_theta", 500000, "max_position_embeddings", 8192)
	s := llama(c)
	s.layerNorm(c.Float("layer_norm_eps", 1e-5), false)
	s.Parallel, s.Names.NormMLPIn = true, ""
	s.LogitScale = float32(c.factor("logit_scale", 0.0625))
	s.interleaved()
	if c.Bool("use_qk_norm", false) {
		s.headNorms(EachHeadsOwn, "self_attn.q_norm", "self_attn.k_norm")
	}
	return s
}

// cohere2 has windows, and positions only where there is one
// (models/cohere2/modeling_cohere2.py).
func cohere2(c *Config) Spec {
	c.defaults("rope_theta", 10000, "sliding_window", 4096)
	s := cohere(c)
	s.Window = c.window(notEvery(c.Int("sliding_window_pattern", 4)))
	s.ropeWhere(func(l int) bool { return s.Window != nil && s.Window(l) > 0 })
	c.must("position_embedding_type", "rope_gptj")
	c.must("order_of_interleaved_layers", "local_attn_first")
	c.must("use_parallel_block", true)
	c.must("use_gated_activation", true)
	c.ignore("layer_switch", "use_embedding_sharing", "use_parallel_embedding", "rotary_pct")
	return s
}

// phi adds attention and MLP of one norm, with biases everywhere
// (models/phi/modeling_phi.py).
func phi(c *Config) Spec {
	c.defaults("hidden_act", "gelu_new")
	s := llama(c)
	s.layerNorm(c.Float("layer_norm_eps", 1e-5), true)
	s.Parallel, s.Names.NormMLPIn = true, ""
	s.biased(true)
	s.HeadBias = true
	s.partial(c, 0.5)
	c.must("rotary_dim", s.Rope(0).Dims)
	s.ungated("mlp.fc1", "mlp.fc2")
	s.Names.O, s.Names.Final = "self_attn.dense", "model.final_layernorm"
	if c.Bool("qk_layernorm", false) {
		s.headNorms(EachHead, "self_attn.q_layernorm", "self_attn.k_layernorm")
		s.Attn.QKNorm.Bias = true
	}
	return s
}

// gptNeoX adds attention and MLP, each of a norm of its own, where
// use_parallel_residual says so (models/gpt_neox/modeling_gpt_neox.py).
func gptNeoX(c *Config) Spec {
	c.defaults("hidden_act", "gelu", "attention_bias", true)
	c.rename("rope_theta", "rotary_emb_base", "partial_rotary_factor", "rotary_pct")
	s := llama(c)
	s.layerNorm(c.Float("layer_norm_eps", 1e-5), true)
	s.Parallel = c.Bool("use_parallel_residual", true)
	s.MLP.Bias = true
	s.partial(c, 0.25)
	n := &s.Names
	n.Embed, n.Layers, n.Final, n.Head = "gpt_neox.embed_in", "gpt_neox.layers.*", "gpt_neox.final_layer_norm", "embed_out"
	n.O = "attention.dense"
	s.ungated("mlp.dense_h_to_4h", "mlp.dense_4h_to_h")
	s.fusedQKV("attention", "query_key_value", ByHead)
	return s
}

// stableLM has LayerNorm, and may have parallel blocks and norms of heads
// (models/stablelm/modeling_stablelm.py).
func stableLM(c *Config) Spec {
	c.defaults("max_position_embeddings", 4096)
	c.rename("layer_norm_eps", "norm_eps", "partial_rotary_factor", "rope_pct", "num_attention_heads", "num_heads")
	c.must("rotary_scaling_factor", 1)
	s := llama(c)
	s.layerNorm(c.Float("layer_norm_eps", 1e-5), true)
	s.Attn.BiasQKV = c.Bool("use_qkv_bias", false)
	s.partial(c, 0.25)
	if s.Parallel = c.Bool("use_parallel_residual", false); s.Parallel {
		s.Names.NormMLPIn = ""
	}
	if c.Bool("qk_layernorm", false) {
		s.headNorms(EachHeadsOwn, "self_attn.q_layernorm.norms.*", "self_attn.k_layernorm.norms.*")
	}
	return s
}
