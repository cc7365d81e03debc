package arch

// gpt2 has learned positions, LayerNorm, biases everywhere, and matrices stored
// [in, out] (models/gpt2/modeling_gpt2.py).
func gpt2(c *Config) Spec {
	s := gpt(c)
	c.must("scale_attn_by_inverse_layer_idx", false)
	c.ignore("reorder_and_upcast_attn")
	s.fusedQKV("attn", "c_attn", Blocks)
	for _, name := range []string{s.Names.O, s.Names.Up, s.Names.Down} {
		s.fused(name, Blocks, true, name)
	}
	for i := range s.Stored {
		s.Stored[i].Transposed = true
	}
	bare := s.Names // the first files' spelling
	bare.Embed, bare.Positions, bare.Layers, bare.Final = "wte", "wpe", "h.*", "ln_f"
	s.Other = []Names{bare}
	return s
}

// gptBigCode has one head of keys (models/gpt_bigcode/modeling_gpt_bigcode.py).
func gptBigCode(c *Config) Spec {
	c.defaults("activation_function", "gelu_pytorch_tanh")
	s := gpt(c)
	c.ignore("attention_softmax_in_fp32", "scale_attention_softmax_in_fp32", "num_key_value_heads",
		"inference_runner", "max_batch_size", "pad_key_length", "pre_allocate_kv_cache", "validate_runner_input")
	order := ByHead
	if c.Bool("multi_query", true) {
		order, s.Attn.KVHeads = Blocks, 1
	}
	s.fusedQKV("attn", "c_attn", order)
	return s
}

// gpt is what GPT-2 and its successors share.
func gpt(c *Config) Spec {
	c.rename("hidden_size", "n_embd", "num_hidden_layers", "n_layer", "num_attention_heads", "n_head",
		"max_position_embeddings", "n_positions", "intermediate_size", "n_inner")
	c.ignore("n_ctx")
	c.defaults("tie_word_embeddings", true, "activation_function", "gelu_new")
	if !c.Has("intermediate_size") {
		c.replace("intermediate_size", 4*c.Int("hidden_size"))
	}
	s := llama(c)
	s.layerNorm(c.Float("layer_norm_epsilon", 1e-5), true)
	s.biased(true)
	s.MLP.Act, s.MLP.Squared = c.act("activation_function", "")
	s.Rope, s.Learned = nil, s.MaxPositions
	s.Attn.KVHeads = s.Attn.Heads
	c.must("scale_attn_weights", true)
	c.must("add_cross_attention", false)
	n := &s.Names
	n.Embed, n.Positions, n.Layers, n.Final = "transformer.wte", "transformer.wpe", "transformer.h.*", "transformer.ln_f"
	n.NormIn, n.NormMLPIn, n.O = "ln_1", "ln_2", "attn.c_proj"
	s.ungated("mlp.c_fc", "mlp.c_proj")
	return s
}

// starcoder2 has LayerNorm, biases, and an MLP without a gate
// (models/starcoder2/modeling_starcoder2.py).
func starcoder2(c *Config) Spec {
	c.defaults("tie_word_embeddings", true, "hidden_act", "gelu_pytorch_tanh", "max_position_embeddings", 4096, "num_key_value_heads", 2)
	c.rename("norm_epsilon", "layer_norm_epsilon")
	s := llama(c)
	s.layerNorm(c.Float("norm_epsilon", 1e-5), true)
	s.biased(c.Bool("use_bias", true))
	s.Window = c.windowAt(everyLayer)
	s.ungated("mlp.c_fc", "mlp.c_proj")
	c.must("mlp_type", "default")
	c.must("norm_type", "layer_norm")
	c.ignore("activation_function")
	return s
}

// nemotron has LayerNorm with weights as differences from one, relu², and an MLP
// without a gate (models/nemotron/modeling_nemotron.py).
func nemotron(c *Config) Spec {
	c.defaults("hidden_act", "relu2", "max_position_embeddings", 4096)
	c.rename("partial_rotary_factor", "rope_percent", "head_dim", "kv_channels")
	s := llama(c)
	s.layerNorm(c.Float("norm_eps", 1e-5), true)
	s.Norm.Offset = 1
	s.partial(c, 0.5)
	s.ungated("mlp.up_proj", "mlp.down_proj")
	return s
}

// jais2 has LayerNorm, biases, relu², and an MLP without a gate (models/jais2/modeling_jais2.py).
func jais2(c *Config) Spec {
	c.defaults("hidden_act", "relu2", "attention_bias", true, "mlp_bias", true, "max_position_embeddings", 8192)
	s := llama(c)
	s.layerNorm(c.Float("layer_norm_eps", 1e-5), true)
	s.ungated("mlp.up_proj", "mlp.down_proj")
	return s
}
