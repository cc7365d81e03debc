package arch

import "strings"

// olmo has LayerNorm without weights, and may clip q, k and v
// (models/olmo/modeling_olmo.py).
func olmo(c *Config) Spec {
	s := llama(c)
	s.layerNorm(1e-5, false)
	s.NormPlain = true
	s.Attn.Clip = float32(c.optional("clip_qkv", 0))
	return s
}

// olmo2 has norms behind the sublayers, and norms over all heads
// (models/olmo2/modeling_olmo2.py).
func olmo2(c *Config) Spec {
	c.defaults("rms_norm_eps", 1e-5)
	s := llama(c)
	s.normsBehind()
	s.headNorms(AllHeads, "self_attn.q_norm", "self_attn.k_norm")
	return s
}

// olmo3 has windows, and scaled RoPE only where there is none
// (models/olmo3/modeling_olmo3.py).
func olmo3(c *Config) Spec {
	c.defaults("rope_theta", 500000, "sliding_window", 4096)
	s := olmo2(c)
	local := c.slides(notEvery(4))
	s.Window = c.window(local)
	s.ropeByType(c, local, Rope{Theta: s.Rope(0).Theta, Dims: s.Attn.HeadDim})
	return s
}

// olmoHybrid has linear attention on all layers but every fourth, with norms in front of its sublayers, and may have no
// positions where it has attention (models/olmo_hybrid/modeling_olmo_hybrid.py, configuration_olmo_hybrid.py).
func olmoHybrid(c *Config) Spec {
	c.defaults("vocab_size", 100352, "hidden_size", 3840, "intermediate_size", 11008, "num_hidden_layers", 32, "num_attention_heads", 30, "max_position_embeddings", 65536,
		"rms_norm_eps", 1e-6)
	s := olmo2(c)
	if v, _, there := c.ropeObject().field("rope_theta"); there && v == nil {
		s.Rope = nil
	}
	c.must("hidden_act", "silu") // also behind the convolution
	heads := c.Int("linear_num_key_heads", s.Attn.Heads)
	dim := c.Int("linear_key_head_dim", s.Hidden*3/4/max(heads, 1))
	s.Delta = Delta{KeyHeads: heads, ValueHeads: c.Int("linear_num_value_heads", s.Attn.Heads), KeyDim: dim, ValueDim: c.Int("linear_value_head_dim", 2*dim),
		Kernel: c.Int("linear_conv_kernel_dim", 4), NormEps: 1e-5, ConvsApart: true}
	if c.Bool("linear_allow_neg_eigval", true) {
		s.Delta.Most = 2
	}
	s.Linear = c.called("layer_types", "linear_attention", "full_attention", func(l int) bool { return l%4 != 3 && (s.Layers > 3 || l != s.Layers-1) })
	s.LinearNorms = &Norms{NormIn: "attention_layer_norm", NormMLPIn: "feedforward_layer_norm"}
	n := &s.Names
	n.DeltaQ, n.DeltaK, n.DeltaV, n.DeltaZ = "linear_attn.q_proj", "linear_attn.k_proj", "linear_attn.v_proj", "linear_attn.g_proj"
	n.DeltaA, n.DeltaB, n.DeltaO, n.DeltaNorm = "linear_attn.a_proj", "linear_attn.b_proj", "linear_attn.o_proj", "linear_attn.o_norm"
	n.DeltaConvs = [3]string{"linear_attn.q_conv1d.weight", "linear_attn.k_conv1d.weight", "linear_attn.v_conv1d.weight"}
	n.DeltaDecay, n.DeltaBias = "linear_attn.A_log", "linear_attn.dt_bias"
	saved := *n // as transformers writes it
	saved.NormAttnOut = "feedforward_layer_norm"
	s.Other = []Names{saved}
	c.ignore("linear_a_log_min", "linear_a_log_max", "linear_dt_min", "linear_dt_max", "linear_dt_init_floor")
	return s
}

// exaone4 has norms behind the sublayers, norms of heads, windows, and, if there
// are windows, positions only there (models/exaone4/modeling_exaone4.py).
func exaone4(c *Config) Spec {
	c.defaults("rms_norm_eps", 1e-5, "sliding_window", 4096, "num_key_value_heads", 32)
	s := llama(c)
	s.normsBehind()
	s.exaoneAttention(c)
	return s
}

// exaoneMoE has norms in front of the sublayers, and experts as deepseek3
// (models/exaone_moe/modeling_exaone_moe.py).
func exaoneMoE(c *Config) Spec {
	c.defaults("rms_norm_eps", 1e-5, "sliding_window", 4096, "num_key_value_heads", 32, "n_routed_experts", 64, "num_experts_per_tok", 8,
		"moe_intermediate_size", 1024, "n_shared_experts", 1, "norm_topk_prob", true, "routed_scaling_factor", 2.5)
	c.rename("n_routed_experts", "num_experts", "n_shared_experts", "num_shared_experts")
	s := llama(c)
	s.exaoneAttention(c)
	s.sigmoidExperts(c)
	s.Names.Correction = "mlp.e_score_correction_bias"
	s.Dense = c.dense(c.Int("first_k_dense_replace", 1))
	return s
}

// exaoneAttention has norms of heads, windows, and, if there are windows, positions only there.
func (s *Spec) exaoneAttention(c *Config) {
	s.headNorms(EachHead, "self_attn.q_norm", "self_attn.k_norm")
	local := c.slides(notEvery(c.exaonePattern()))
	if s.Window = c.window(local); s.Window != nil {
		s.ropeWhere(local)
	}
}

// exaonePattern is the number of layers after which one has no window: a number,
// or the letters of so many layers, "LLLG".
func (c *Config) exaonePattern() int {
	if v, _, _ := c.field("sliding_window_pattern"); v != nil {
		if letters, ok := v.(string); ok {
			return len(letters)
		}
	}
	return c.Int("sliding_window_pattern", 4)
}

// glm has gate and up in one tensor, and rotates half of each head, in pairs
// (models/glm/modeling_glm.py).
func glm(c *Config) Spec {
	c.defaults("head_dim", 128, "attention_bias", true, "num_key_value_heads", 2, "rms_norm_eps", 1.5625e-7, "max_position_embeddings", 131072)
	s := llama(c)
	s.Attn.BiasO = false
	s.partial(c, 0.5)
	s.interleaved()
	s.fused("mlp.gate_up_proj", Blocks, false, s.Names.Gate, s.Names.Up)
	return s
}

// chatGLM is glm with other names (THUDM/chatglm3-6b, THUDM/glm-4-9b-chat modeling_chatglm.py).
func chatGLM(c *Config) Spec {
	c.rename("num_hidden_layers", "num_layers", "vocab_size", "padded_vocab_size", "intermediate_size", "ffn_hidden_size", "head_dim", "kv_channels",
		"num_key_value_heads", "multi_query_group_num", "max_position_embeddings", "seq_length", "rms_norm_eps", "layernorm_epsilon", "attention_bias", "add_qkv_bias")
	c.defaults("rms_norm_eps", 1e-5, "attention_bias", false)
	s := glm(c)
	ratio := c.factor("rope_ratio", 1)
	s.eachRope(func(r Rope) Rope { r.Theta *= ratio; return r })
	for _, key := range []string{"multi_query_attention", "rmsnorm", "post_layer_norm", "original_rope"} {
		c.must(key, true)
	}
	for _, key := range []string{"add_bias_linear", "apply_residual_connection_post_layernorm", "interleaved_qkv"} {
		c.must(key, false)
	}
	c.must("quantization_bit", 0)
	c.must("pre_seq_len", 0)
	c.ignore("apply_query_key_layer_scaling", "attention_softmax_in_fp32", "bias_dropout_fusion", "fp32_residual_connection", "prefix_projection")
	n := &s.Names
	n.Embed, n.Layers, n.Final, n.Head = "transformer.embedding.word_embeddings", "transformer.encoder.layers.*", "transformer.encoder.final_layernorm", "transformer.output_layer"
	n.O, n.Down = "self_attention.dense", "mlp.dense_4h_to_h"
	s.Stored = nil
	s.fused("mlp.dense_h_to_4h", Blocks, false, n.Gate, n.Up)
	s.fusedQKV("self_attention", "query_key_value", Blocks)
	return s
}

// glm4 adds norms behind the sublayers (models/glm4/modeling_glm4.py).
func glm4(c *Config) Spec {
	s := glm(c)
	s.Names.NormAttnOut, s.Names.NormMLPOut = "post_self_attn_layernorm", "post_mlp_layernorm"
	return s
}

// hunyuan normalizes heads behind RoPE (models/hunyuan_v1_dense/modeling_hunyuan_v1_dense.py).
func hunyuan(c *Config) Spec {
	c.defaults("rms_norm_eps", 1e-5)
	c.rename("head_dim", "attention_head_dim")
	s := llama(c)
	s.headNorms(EachHead, "self_attn.query_layernorm", "self_attn.key_layernorm")
	s.Attn.QKNorm.AfterRope = true
	c.must("use_qk_norm", true)
	c.must("use_cla", false)
	c.must("norm_type", "rms")
	c.must("position_embedding_xdrope", false)
	c.must("use_rotary_pos_emb", true)
	c.ignore("cla_share_factor", "dense_list", "class_num", "pool_type", "org_vocab_size", "pad_id",
		"im_start_id", "im_end_id", "im_newline_id", "mask_init_id", "text_start_id", "text_end_id", "add_classification_head")
	return s
}

// phi4Multimodal is phi3 beside pictures and sound (models/phi4_multimodal/modeling_phi4_multimodal.py).
func phi4Multimodal(c *Config) Spec {
	c.defaults("max_position_embeddings", 131072, "num_key_value_heads", 8)
	s := phi3(c)
	for _, key := range []string{"full_attn_mod", "interpolate_factor"} {
		c.must(key, 1)
	}
	c.must("attention_bias", false)
	c.must("mlp_bias", false)
	c.must("lm_head_bias", false)
	c.ignore("audio_processor", "embd_layer", "img_processor", "speech_lora", "vision_lora")
	return s
}

// phi4MM is phi4Multimodal whose matrices have adapters beside them, which tokens of text do not go through
// (microsoft/Phi-4-multimodal-instruct modeling_phi4mm.py).
func phi4MM(c *Config) Spec {
	s := phi4Multimodal(c)
	s.Names.O, s.Names.Down = s.Names.O+".base_layer", s.Names.Down+".base_layer"
	for i, t := range s.Stored {
		s.Stored[i].Weight = strings.TrimSuffix(t.Weight, "weight") + "base_layer.weight"
	}
	s.Adapters = true
	return s
}

// phi3 has fused tensors, windows and longrope (models/phi3/modeling_phi3.py).
func phi3(c *Config) Spec {
	c.defaults("rms_norm_eps", 1e-5, "max_position_embeddings", 4096, "original_max_position_embeddings", 4096)
	s := llama(c)
	s.Window = c.windowAt(everyLayer)
	s.partial(c, 1)
	s.fusedQKV("self_attn", "qkv_proj", Blocks)
	s.fused("mlp.gate_up_proj", Blocks, false, s.Names.Gate, s.Names.Up)
	return s
}
