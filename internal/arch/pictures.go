package arch

import "exl2/internal/device"

// Further language models behind encoders of pictures.

// ovis2 is qwen2 (models/ovis2/modeling_ovis2.py).
func ovis2(c *Config) Spec {
	c.Object("text_config").defaults("tie_word_embeddings", true)
	return videoLlama3(c)
}

// fastVLM is qwen2, whose own tie_word_embeddings counts, too (models/fast_vlm/modeling_fast_vlm.py).
func fastVLM(c *Config) Spec {
	tied := c.Object("text_config").Bool("tie_word_embeddings", false)
	s := behind(c, "qwen2", "vocab_size", 152128, "hidden_size", 3584, "intermediate_size", 18944, "num_hidden_layers", 28, "num_attention_heads", 28, "num_key_value_heads", 4)
	s.Tied = s.Tied || tied
	return s
}

// granite4Vision is granite, which is told of pictures in several layers (models/granite4_vision/modeling_granite4_vision.py).
func granite4Vision(c *Config) Spec {
	return behind(c, "granite4_vision_text", "intermediate_size", 11008)
}

// hyperCLOVAXVision is hyperCLOVAX (models/hyperclovax_vision_v2/modeling_hyperclovax_vision_v2.py, conversion_mapping.py).
func hyperCLOVAXVision(c *Config) Spec {
	s := behind(c, "hyperclovax", "vocab_size", 32000, "intermediate_size", 11008, "tie_word_embeddings", true)
	published := s.Names
	published.begin("model.")
	s.Other = append(s.Other, published)
	return s
}

// blip2 is opt or llama, behind what asks a picture (models/blip_2/modeling_blip_2.py, models/instructblip).
func blip2(c *Config) Spec {
	return behind(c, "opt", "ffn_dim", 3072, "vocab_size", 50272, "hidden_size", 768, "num_hidden_layers", 12, "num_attention_heads", 12)
}

// fuyu is persimmon (models/fuyu/modeling_fuyu.py), whose fields may be among the others.
func fuyu(c *Config) Spec {
	sizes := []any{"vocab_size", 262144, "hidden_size", 4096, "intermediate_size", 16384, "num_hidden_layers", 36, "num_attention_heads", 64}
	if c.Has("text_config") {
		return behind(c, "persimmon", sizes...)
	}
	c.defaults(sizes...)
	s := persimmon(c)
	c.ignore("image_size", "patch_size", "num_channels")
	s.prefixed()
	return s
}

// textModel is the language model of a checkpoint that calls it text_model.
func (c *Config) textModel(build func(*Config) Spec, kinds ...any) Spec {
	t := c.text()
	t.must("model_type", kinds...)
	s := build(t)
	s.Names.under("model.text_model.")
	return s
}

// idefics3 is llama (models/idefics3/modeling_idefics3.py, models/smolvlm/modeling_smolvlm.py).
func idefics3(c *Config) Spec {
	t := c.Object("text_config")
	t.defaults("rms_norm_eps", 1e-5, "vocab_size", 32000, "hidden_size", 4096, "intermediate_size", 11008, "num_hidden_layers", 32, "num_attention_heads", 32)
	t.must("qk_layer_norms", false)
	t.ignore("perceiver_config", "pixel_shuffle_factor", "use_resampler", "neftune_noise_alpha")
	return c.textModel(llama, "llama")
}

// idefics2 is mistral (models/idefics2/modeling_idefics2.py).
func idefics2(c *Config) Spec {
	t := c.Object("text_config")
	t.defaults("max_position_embeddings", 32768, "rms_norm_eps", 1e-5, "vocab_size", 32000, "hidden_size", 4096, "intermediate_size", 14336, "num_hidden_layers", 32, "num_attention_heads", 32)
	t.must("qk_layer_norms", false)
	t.ignore("perceiver_config", "use_resampler", "neftune_noise_alpha")
	return c.textModel(mistral, "mistral")
}

// graniteDocling is granite, which is told of pictures in several layers (models/granite_docling/modeling_granite_docling.py).
func graniteDocling(c *Config) Spec {
	c.Object("text_config").defaults("vocab_size", 133800, "hidden_size", 1024, "intermediate_size", 2048, "num_hidden_layers", 28, "num_attention_heads", 16, "num_key_value_heads", 4,
		"max_position_embeddings", 32768, "rms_norm_eps", 1e-5, "tie_word_embeddings", true,
		"embedding_multiplier", 12, "logits_scaling", 4, "residual_multiplier", 0.263, "attention_multiplier", 0.015625)
	return c.textModel(granite, "granite_docling_text", "granite")
}

// emu3 is llama, which also writes pictures (models/emu3/modeling_emu3.py, conversion_mapping.py).
func emu3(c *Config) Spec {
	c.Object("text_config").emu3Defaults()
	s := c.textModel(llama, "emu3_text_model")
	first := s.Names
	first.Embed, first.Layers, first.Final = "text_model.model.embed_tokens", "text_model.model.layers.*", "text_model.model.norm"
	first.Head = "text_model.lm_head"
	s.Other = append(s.Other, first)
	return s
}

func (c *Config) emu3Defaults() {
	c.defaults("vocab_size", 184622, "hidden_size", 4096, "intermediate_size", 14336, "num_hidden_layers", 32, "num_attention_heads", 32, "num_key_value_heads", 8,
		"max_position_embeddings", 9216, "rms_norm_eps", 1e-5, "rope_theta", 1e6)
}

// cosmos3 is qwen3VL by other names (models/cosmos3_omni/modeling_cosmos3_omni.py, conversion_mapping.py).
func cosmos3(c *Config) Spec {
	s := qwen3VL(c)
	s.bare()
	s.Names.QNorm, s.Names.KNorm = "self_attn.norm_q", "self_attn.norm_k"
	return s
}

// bare has the names of Cosmos, which leave out what the language model is in.
func (s *Spec) bare() {
	s.Other = append(s.Other, s.Names)
	n := &s.Names
	n.Embed, n.Layers, n.Final = "embed_tokens", "layers.*", "norm"
	n.Q, n.K, n.V, n.O = "self_attn.to_q", "self_attn.to_k", "self_attn.to_v", "self_attn.to_out"
}

// cosmos3Edge is llama with an MLP without a gate and relu² (models/cosmos3_edge/modeling_cosmos3_edge.py,
// conversion_mapping.py).
func cosmos3Edge(c *Config) Spec {
	t := c.text()
	t.defaults("vocab_size", 131072, "hidden_size", 2048, "intermediate_size", 9216, "num_hidden_layers", 28, "num_attention_heads", 16, "num_key_value_heads", 8, "head_dim", 128,
		"hidden_act", "relu2", "max_position_embeddings", 131072, "rms_norm_eps", 1e-5, "rope_theta", 1e8)
	s := llama(t)
	t.ropeObject().ignore("mrope_section")
	s.Names.nest()
	s.ungated("mlp.fc1", "mlp.fc2")
	s.bare()
	s.Names.Up, s.Names.Down = "mlp.up_proj", "mlp.down_proj"
	return s
}

// deepseekOCR2 is deepseek behind picture encoders (models/deepseek_ocr2/modeling_deepseek_ocr2.py), and so is the first
// of its name (deepseek-ai/DeepSeek-OCR modeling_deepseekocr.py); both call text_config language_config.
func deepseekOCR2(c *Config) Spec {
	c.rename("text_config", "language_config")
	t := c.text()
	t.defaults("vocab_size", 102400, "hidden_size", 4096, "intermediate_size", 11008, "num_hidden_layers", 32, "num_attention_heads", 32,
		"n_routed_experts", 64, "n_shared_experts", 2, "moe_intermediate_size", 1407)
	t.must("use_mla", false)
	t.must("lm_head", true)
	t.must("norm_topk_prob", false)
	t.must("scoring_func", "softmax")
	t.must("topk_method", "greedy")
	t.must("mlp_bias", false) // which experts would not have
	s := llama(t)
	s.routedExperts(t)
	s.MoE.Routing.Groups, s.MoE.Routing.TopGroups = 0, 0
	s.Dense = t.dense(t.Int("first_k_dense_replace", 0))
	s.stacked()
	s.nested()
	return s
}

// aria is llama whose experts, [in, out], are weighed by the softmax of the chosen, and as wide as the MLP would be
// (models/aria/modeling_aria.py, conversion_mapping.py).
func aria(c *Config) Spec {
	t := c.text()
	t.defaults("vocab_size", 32000, "hidden_size", 4096, "intermediate_size", 4096, "num_hidden_layers", 32, "num_attention_heads", 32)
	s := llama(t)
	t.must("mlp_bias", false) // which experts would not have
	t.must("hidden_act", "silu")
	t.must("moe_intermediate_size", s.MLP.Width)
	s.experts(MoE{Experts: t.Int("moe_num_experts", 8), TopK: t.Int("moe_topk", 2), Width: s.MLP.Width}, "mlp.router", "mlp.experts.*.gate_proj", "mlp.experts.*.up_proj", "mlp.experts.*.down_proj")
	s.MoE.Routing.Score = device.SoftmaxTop
	if n := t.count("moe_num_shared_experts", 2); n > 0 {
		s.shared(n*s.MLP.Width, "mlp.shared_experts")
	}
	both, down := []string{s.Names.ExpertGate, s.Names.ExpertUp}, []string{s.Names.ExpertDown}
	for _, t := range []Stored{{Weight: "mlp.experts.fc1.weight", Holds: both}, {Weight: "mlp.experts.fc2.weight", Holds: down}, {Weight: "mlp.experts.gate_up_proj", Holds: both}, {Weight: "mlp.experts.down_proj", Holds: down}} {
		t.Stacked, t.Transposed = true, true
		s.Stored = append(s.Stored, t)
	}
	s.prefixed()
	return s
}
