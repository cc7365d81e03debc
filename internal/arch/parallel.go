package arch

import "exl2/internal/device"

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

// cohere2MoE is cohere2 with experts, and may have RMS norms (models/cohere2_moe/modeling_cohere2_moe.py,
// conversion_mapping.py).
func cohere2MoE(c *Config) Spec {
	c.defaults("head_dim", 128, "rms_norm_eps", nil, "rope_theta", 10000, "sliding_window", 4096,
		"vocab_size", 256000, "hidden_size", 8192, "intermediate_size", 22528, "num_hidden_layers", 40, "num_attention_heads", 64, "num_experts", 8, "num_experts_per_tok", 2)
	s := cohere(c)
	if c.Has("rms_norm_eps") {
		s.Norm = device.Norm{Kind: device.RMS, Eps: float32(c.Float("rms_norm_eps"))}
	}
	first, prefix, every := c.count("first_k_dense_replace", 0), c.Int("prefix_dense_sliding_window_pattern", 1), c.Int("sliding_window_pattern", 4)
	if prefix < 1 || every < 1 {
		c.fail("sliding_window_pattern", "%d, and %d of the first layers, want 1 or more", every, prefix)
	}
	s.Window = c.window(func(l int) bool {
		if l < first {
			return notEvery(prefix)(l)
		}
		return notEvery(every)(l - first)
	})
	s.Dense = c.dense(first)
	s.ropeWhere(func(l int) bool { return s.Window != nil && s.Window(l) > 0 || s.Dense(l) && prefix == 1 })
	c.must("mlp_bias", false)
	s.cohereExperts(c)
	return s
}

// cohereExperts reads experts, which are as wide as an MLP would be, and MLPs of another width.
func (s *Spec) cohereExperts(c *Config) {
	m := MoE{Experts: c.Int("num_experts"), TopK: c.Int("num_experts_per_tok"), Width: s.MLP.Width}
	switch kind := c.String("expert_selection_fn", "softmax"); kind {
	case "softmax":
		m.Routing.Score = device.SoftmaxTop
		c.ignore("norm_topk_prob")
	case "sigmoid":
		m.Routing.Score, m.Routing.Renorm = device.Sigmoid, c.Bool("norm_topk_prob", true)
	default:
		c.refuse("expert_selection_fn", kind)
	}
	s.experts(m, "mlp.gate", "mlp.experts.*.gate_proj", "mlp.experts.*.up_proj", "mlp.experts.*.down_proj")
	if n := c.count("num_shared_experts", 0); n > 0 {
		s.shared(n*m.Width, "mlp.shared_experts")
		c.must("shared_expert_combination_strategy", "average", "sum")
		if c.String("shared_expert_combination_strategy", "average") == "average" {
			s.MoE.Scale = 0.5
		}
	}
	c.ignore("shared_expert_combination_strategy")
	if c.Has("prefix_dense_intermediate_size") {
		s.MLP.Width = c.Int("prefix_dense_intermediate_size")
	}
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

// falcon adds attention and MLP of one norm, or, with new_decoder_architecture, each of a norm
// of its own (models/falcon/modeling_falcon.py). The first files call fields otherwise, and say
// the new architecture by its heads of keys.
func falcon(c *Config) Spec {
	c.rename("hidden_size", "n_embed", "num_hidden_layers", "n_layer", "num_attention_heads", "n_head", "num_kv_heads", "n_head_kv",
		"attention_bias", "bias", "mlp_bias", "bias", "intermediate_size", "ffn_hidden_size", "hidden_act", "activation")
	c.defaults("tie_word_embeddings", true, "hidden_act", "gelu", "intermediate_size", 4*c.Int("hidden_size"))
	s := llama(c)
	c.ignore("num_key_value_heads")
	s.layerNorm(c.Float("layer_norm_epsilon", 1e-5), true)
	modern := c.Bool("new_decoder_architecture", c.alias["num_kv_heads"] != "")
	s.Parallel = c.Bool("parallel_attn", true)
	n := &s.Names
	n.Embed, n.Layers, n.Final = "transformer.word_embeddings", "transformer.h.*", "transformer.ln_f"
	n.O = "self_attention.dense"
	order := ByHead
	switch {
	case modern:
		c.must("parallel_attn", true)
		s.Attn.KVHeads = c.Int("num_kv_heads", s.Attn.Heads)
		if c.count("num_ln_in_parallel_attn", 2) != 1 {
			n.NormIn, n.NormMLPIn = "ln_attn", "ln_mlp"
		} else {
			n.NormMLPIn = ""
		}
	case s.Parallel:
		n.NormMLPIn = ""
	}
	if multi := c.Bool("multi_query", true); !modern {
		c.ignore("num_kv_heads")
		c.must("num_ln_in_parallel_attn", 1)
		if s.Attn.KVHeads = s.Attn.Heads; multi {
			s.Attn.KVHeads, order = 1, Blocks
		}
	}
	c.must("alibi", false)
	c.must("apply_residual_connection_post_layernorm", false)
	s.ungated("mlp.dense_h_to_4h", "mlp.dense_4h_to_h")
	s.fusedQKV("self_attention", "query_key_value", order)
	return s
}

// codeGen is gptJ with queries, values and keys in one tensor, by quarters
// (models/codegen/modeling_codegen.py).
func codeGen(c *Config) Spec {
	s := gptJ(c)
	n := &s.Names
	if s.Attn.Heads%4 != 0 {
		c.fail("n_head", "%d, want a multiple of 4", s.Attn.Heads)
	}
	s.Stored = append(s.Stored, Stored{Weight: "attn.qkv_proj.weight", Holds: []string{n.Q, n.V, n.K}, Order: ByGroup, Groups: 4})
	return s
}

// gptJ adds attention and MLP of one norm, and rotates neighbours of a part of each head
// (models/gptj/modeling_gptj.py).
func gptJ(c *Config) Spec {
	c.rename("hidden_size", "n_embd", "num_hidden_layers", "n_layer", "num_attention_heads", "n_head",
		"max_position_embeddings", "n_positions", "intermediate_size", "n_inner", "hidden_act", "activation_function")
	c.ignore("n_ctx", "rotary")
	c.defaults("hidden_act", "gelu_new")
	c.fourfold()
	s := llama(c)
	s.layerNorm(c.Float("layer_norm_epsilon", 1e-5), true)
	s.Parallel, s.MLP.Bias, s.HeadBias = true, true, true
	if dims := c.count("rotary_dim", 64); dims > 0 { // null: all of them
		s.eachRope(func(r Rope) Rope { r.Dims = dims; return r })
	}
	s.interleaved()
	c.must("scale_attn_weights", true)
	n := &s.Names
	n.Embed, n.Layers, n.Final = "transformer.wte", "transformer.h.*", "transformer.ln_f"
	n.NormIn, n.NormMLPIn = "ln_1", ""
	n.Q, n.K, n.V, n.O = "attn.q_proj", "attn.k_proj", "attn.v_proj", "attn.out_proj"
	s.ungated("mlp.fc_in", "mlp.fc_out")
	return s
}
