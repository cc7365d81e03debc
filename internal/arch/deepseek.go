package arch

import (
	"encoding/json"

	"exl2/internal/device"
)

// deepseek3 has latent attention and grouped experts
// (models/deepseek_v3/modeling_deepseek_v3.py).
func deepseek3(c *Config) Spec {
	c.defaults("kv_lora_rank", 512, "q_lora_rank", 1536, "qk_nope_head_dim", 128, "qk_rope_head_dim", 64, "v_head_dim", 128, "max_position_embeddings", 4096)
	s := latent(c)
	c.defaults("n_group", 8, "topk_group", 4, "routed_scaling_factor", 2.5, "first_k_dense_replace", 3, "norm_topk_prob", true, "n_shared_experts", 1)
	if c.Bool("rope_interleave", true) {
		s.interleaved()
	}
	s.sigmoidExperts(c)
	return s
}

// youtu is deepseek3 without experts (models/youtu/modeling_youtu.py).
func youtu(c *Config) Spec {
	c.defaults("kv_lora_rank", 512, "q_lora_rank", 1536, "qk_nope_head_dim", 128, "qk_rope_head_dim", 64, "v_head_dim", 128,
		"max_position_embeddings", 131072, "tie_word_embeddings", true)
	s := latent(c)
	if c.Bool("rope_interleave", true) {
		s.interleaved()
	}
	return s
}

// axK1 is deepseek3 with a norm behind mixtures of experts (models/axk1/modeling_axk1.py, conversion_mapping.py).
func axK1(c *Config) Spec {
	c.defaults("max_position_embeddings", 32768, "first_k_dense_replace", 1, "n_routed_experts", 192, "num_experts_per_tok", 8, "moe_intermediate_size", 2048)
	s := deepseek3(c)
	s.Dense = c.dense(c.Int("first_k_dense_replace", 1))
	s.MixtureNorm, s.Names.NormMLPOut = true, "post_mlp_layernorm"
	c.must("mlp_bias", false)
	return s
}

// glm4MoELite is deepseek3 with other defaults (models/glm4_moe_lite/modeling_glm4_moe_lite.py).
func glm4MoELite(c *Config) Spec {
	c.defaults("q_lora_rank", 768, "qk_nope_head_dim", 192, "v_head_dim", 256, "rms_norm_eps", 1e-5, "max_position_embeddings", 202752,
		"n_group", 1, "topk_group", 1, "routed_scaling_factor", 1.8, "n_routed_experts", 64, "num_experts_per_tok", 4, "moe_intermediate_size", 1536)
	s := deepseek3(c)
	s.Dense = c.dense(c.Int("first_k_dense_replace", 1))
	return s
}

// miniCPM3 is miniCPM with latent attention, which rotates halves (models/minicpm3/modeling_minicpm3.py).
func miniCPM3(c *Config) Spec {
	c.defaults("kv_lora_rank", 256, "q_lora_rank", 768, "qk_nope_head_dim", 64, "qk_rope_head_dim", 32, "max_position_embeddings", 32768, "rms_norm_eps", 1e-5,
		"tie_word_embeddings", true, "scale_emb", 12, "scale_depth", 1.4, "dim_model_base", 256)
	if !c.Has("v_head_dim") {
		c.replace("v_head_dim", c.Int("hidden_size")/max(c.Int("num_attention_heads"), 1))
	}
	s := latent(c)
	s.multiplied(c)
	return s
}

// mistral4 is deepseek3 with softmax scores and no correction, and queries scaled by position
// (models/mistral4/modeling_mistral4.py).
func mistral4(c *Config) Spec {
	c.defaults("kv_lora_rank", 256, "q_lora_rank", 1024, "qk_nope_head_dim", 64, "qk_rope_head_dim", 64, "v_head_dim", 128, "max_position_embeddings", 1048576,
		"n_group", 1, "topk_group", 1, "norm_topk_prob", true, "n_shared_experts", 1, "first_k_dense_replace", 0,
		"rope_scaling", map[string]any{"rope_type": "yarn", "rope_theta": json.Number("10000"), "factor": json.Number("128"), "beta_fast": json.Number("32"), "beta_slow": json.Number("1"),
			"mscale": json.Number("1"), "mscale_all_dim": json.Number("1"), "llama_4_scaling_beta": json.Number("0.1"), "original_max_position_embeddings": json.Number("8192")})
	s := latent(c)
	if c.Bool("rope_interleave", true) {
		s.interleaved()
	}
	s.scaledByPosition(c)
	rope, share := s.Latent.Rope, c.Float("partial_rotary_factor", float64(s.Latent.Rope)/float64(max(s.Attn.HeadDim, 1)))
	if share = c.ropeObject().Float("partial_rotary_factor", share); int(share*float64(s.Attn.HeadDim)) != rope {
		c.fail("partial_rotary_factor", "%v of %d dimensions, want qk_rope_head_dim, %d", share, s.Attn.HeadDim, rope)
	}
	c.rename("n_routed_experts", "num_local_experts")
	s.routedExperts(c)
	s.stacked()
	return s
}

// sarvamMLA is deepseek3 with other defaults (models/sarvam_mla/configuration_sarvam_mla.py).
func sarvamMLA(c *Config) Spec {
	c.defaults("q_lora_rank", 0, "n_group", 1, "topk_group", 1, "first_k_dense_replace", 1)
	c.sarvam()
	c.ignore("q_head_dim")
	return deepseek3(c)
}

// sarvam reads what the published files of both Sarvams call otherwise.
func (c *Config) sarvam() {
	c.defaults("n_shared_experts", 1, "routed_scaling_factor", 2.5)
	c.rename("n_routed_experts", "num_experts", "n_shared_experts", "num_shared_experts", "attention_bias", "use_qkv_bias")
	c.must("score_function", "sigmoid")
}

// deepseek is Llama with experts and softmax scores (deepseek-ai/deepseek-moe-16b-base modeling_deepseek.py).
func deepseek(c *Config) Spec {
	s := llama(c)
	s.routedExperts(c)
	c.must("routed_scaling_factor", 1)
	c.must("n_group", 1)
	c.must("scoring_func", "softmax")
	c.must("topk_method", "greedy")
	return s
}

// bailingMoE is sarvamMoE with other defaults (inclusionAI/Ling-mini-2.0 modeling_bailing_moe_v2.py).
func bailingMoE(c *Config) Spec {
	c.defaults("head_dim", nil, "rope_theta", 600000, "max_position_embeddings", 32768, "n_group", 8, "topk_group", 4, "routed_scaling_factor", 1)
	c.must("moe_router_enable_expert_bias", true)
	c.must("use_bias", false)
	c.must("use_rmsnorm", true)
	c.ignore("router_dtype", "mtp_loss_scaling_factor", "max_window_layers")
	s := sarvamMoE(c)
	c.must("moe_shared_expert_intermediate_size", s.MoE.Width)
	return s
}

// deepseek2 chooses groups by their best expert, among softmax scores
// (models/deepseek_v2/modeling_deepseek_v2.py).
func deepseek2(c *Config) Spec {
	c.defaults("kv_lora_rank", 512, "q_lora_rank", 1536, "qk_nope_head_dim", 128, "qk_rope_head_dim", 64, "v_head_dim", 128, "n_shared_experts", 2)
	s := latent(c)
	s.interleaved()
	s.routedExperts(c)
	r := &s.MoE.Routing
	switch method := c.String("topk_method", "greedy"); method {
	case "greedy":
		r.Groups, r.TopGroups = 0, 0
	case "group_limited_greedy":
		r.GroupMax = true
	default:
		c.refuse("topk_method", method)
	}
	c.must("scoring_func", "softmax")
	c.must("norm_topk_prob", false)
	r.Renorm = false
	return s
}

// dots1 has norms of heads, and experts as deepseek3 (models/dots1/modeling_dots1.py).
func dots1(c *Config) Spec {
	c.defaults("sliding_window", 4096)
	s := llama(c)
	s.headNorms(EachHead, "self_attn.q_norm", "self_attn.k_norm")
	first := c.Int("max_window_layers", 62)
	s.Window = c.window(func(l int) bool { return l >= first })
	s.sigmoidExperts(c)
	return s
}

// glm4MoE may have norms of heads, and experts as deepseek3
// (models/glm4_moe/modeling_glm4_moe.py).
func glm4MoE(c *Config) Spec {
	c.defaults("rms_norm_eps", 1e-5, "num_key_value_heads", 8, "max_position_embeddings", 131072, "first_k_dense_replace", 1, "norm_topk_prob", true, "n_shared_experts", 1)
	s := llama(c)
	s.Attn.BiasO = false
	s.partial(c, 0.5)
	if c.Bool("use_qk_norm", false) {
		s.headNorms(EachHead, "self_attn.q_norm", "self_attn.k_norm")
	}
	s.sigmoidExperts(c)
	return s
}

// solarOpen has experts on every layer, and rotates whole heads (models/solar_open/modeling_solar_open.py).
func solarOpen(c *Config) Spec {
	c.defaults("num_attention_heads", 64, "head_dim", 128, "rope_theta", 1000000, "partial_rotary_factor", 1, "first_k_dense_replace", 0,
		"n_routed_experts", 128, "num_experts_per_tok", 8, "moe_intermediate_size", 1280)
	c.must("first_k_dense_replace", 0)
	c.must("use_qk_norm", false)
	c.replace("intermediate_size", 1) // of MLPs, which no layer has
	return glm4MoE(c)
}

// hyV3 has norms of heads, and experts as deepseek3 by other names, which are weighed and scaled
// (models/hy_v3/modeling_hy_v3.py, conversion_mapping.py).
func hyV3(c *Config) Spec {
	c.defaults("head_dim", 128, "num_key_value_heads", 8, "rms_norm_eps", 1e-5, "rope_theta", 11158840, "max_position_embeddings", 131072,
		"n_routed_experts", 192, "n_shared_experts", 1, "num_experts_per_tok", 8, "moe_intermediate_size", 1536, "routed_scaling_factor", 2.826, "norm_topk_prob", true)
	c.rename("n_routed_experts", "num_experts", "n_routed_experts", "num_local_experts", "n_shared_experts", "num_shared_experts", "routed_scaling_factor", "router_scaling_factor")
	s := llama(c)
	s.headNorms(EachHead, "self_attn.q_norm", "self_attn.k_norm")
	s.sigmoidExperts(c)
	s.Dense = c.dense(c.Int("first_k_dense_replace", 1))
	c.must("norm_topk_prob", true)
	c.must("n_group", 1)
	for _, key := range []string{"qk_norm", "route_norm", "moe_router_use_sigmoid", "moe_router_enable_expert_bias"} {
		c.must(key, true)
	}
	c.must("expert_hidden_dim", s.MoE.Width)
	c.must("mlp_bias", false)           // which experts would not have
	c.ignore("enable_moe_fp32_combine") // of rounding
	n := &s.Names
	n.Router, n.Correction = "mlp.router.gate", "mlp.expert_bias"
	n.SharedGate, n.SharedUp, n.SharedDown = "mlp.shared_mlp.gate_proj", "mlp.shared_mlp.up_proj", "mlp.shared_mlp.down_proj"
	return s
}

// sarvamMoE is glm4MoE with other names, and rotates whole heads
// (sarvamai/sarvam-30b modeling_sarvam_moe.py, models/sarvam_moe/configuration_sarvam_moe.py).
func sarvamMoE(c *Config) Spec {
	c.defaults("num_key_value_heads", 4, "head_dim", 64, "rms_norm_eps", 1e-6, "rope_theta", 8000000, "partial_rotary_factor", 1, "use_qk_norm", true)
	c.sarvam()
	s := glm4MoE(c)
	n := &s.Names
	n.Embed, n.O, n.Correction = "model.word_embeddings", "attention.dense", "mlp.gate.expert_bias"
	if n.QNorm != "" {
		n.QNorm, n.KNorm = "attention.query_layernorm", "attention.key_layernorm"
	}
	s.fusedQKV("attention", "query_key_value", Blocks)
	return s
}

// latent is Llama with latent attention. Where RoPE is scaled, so are scores.
func latent(c *Config) Spec {
	nope, rope := c.Int("qk_nope_head_dim"), c.Int("qk_rope_head_dim")
	l := Latent{QRank: c.count("q_lora_rank", 0), KVRank: c.Int("kv_lora_rank"), Nope: nope, Rope: rope, Value: c.Int("v_head_dim"), NormEps: 1e-6}
	c.replace("head_dim", nope+rope)
	s := llama(c)
	c.ignore("qk_head_dim", "num_key_value_heads")
	s.Attn.KVHeads, s.Latent = s.Attn.Heads, l
	s.eachRope(func(r Rope) Rope { r.Dims = rope; return r })
	if p := c.ropeObject(); s.Rope(0).Scaling.Kind != Unscaled {
		if all := p.Float("mscale_all_dim", 0); all != 0 {
			m := yarnTerm(s.Rope(0).Scaling.Factor, all)
			s.Attn.Scale *= float32(m * m)
		}
	}
	n := &s.Names
	n.Q1, n.Q2, n.KV1, n.KV2 = "self_attn.q_a_proj", "self_attn.q_b_proj", "self_attn.kv_a_proj_with_mqa", "self_attn.kv_b_proj"
	n.QLatentNorm, n.KVLatentNorm, n.K, n.V = "self_attn.q_a_layernorm", "self_attn.kv_a_layernorm", "", ""
	if l.QRank > 0 {
		n.Q = ""
	} else {
		n.Q1, n.Q2, n.QLatentNorm = "", "", ""
	}
	return s
}

// sigmoidExperts are routedExperts with sigmoid scores and a correction to choose by.
func (s *Spec) sigmoidExperts(c *Config) {
	s.routedExperts(c)
	s.corrected("mlp.gate.e_score_correction_bias")
	c.must("scoring_func", "sigmoid", "noaux_tc") // the second is dots1's word for both
	c.must("topk_method", "noaux_tc")
}

// routedExperts reads the experts of DeepSeek and those after it. The first
// layers have an MLP.
func (s *Spec) routedExperts(c *Config) {
	m := MoE{Experts: c.Int("n_routed_experts"), TopK: c.Int("num_experts_per_tok"), Width: c.Int("moe_intermediate_size")}
	m.Routing.Routing = c.grouped(false)
	s.experts(m, "mlp.gate", "mlp.experts.*.gate_proj", "mlp.experts.*.up_proj", "mlp.experts.*.down_proj")
	if n := c.count("n_shared_experts", 0); n > 0 {
		s.shared(n*m.Width, "mlp.shared_experts")
	}
	if first := c.Int("first_k_dense_replace", 0); first > 0 {
		s.Dense = func(l int) bool { return l < first }
	}
	c.must("moe_layer_freq", 1)
}

// grouped reads how experts are chosen by groups; renorm is whether weights add up to Scale where the file does not say.
func (c *Config) grouped(renorm bool) device.Routing {
	return device.Routing{
		Groups: c.count("n_group", 1), TopGroups: c.count("topk_group", 1),
		Renorm: c.Bool("norm_topk_prob", renorm), RenormEps: 1e-20, Scale: float32(c.factor("routed_scaling_factor", 1)),
	}
}

// corrected has experts chosen by sigmoids with a correction of that name.
func (s *Spec) corrected(name string) {
	s.MoE.Routing.Score, s.MoE.Routing.Correction, s.Names.Correction = device.Sigmoid, true, name
}

// dense returns which layers have an MLP, and no experts: those that mlp_layer_types calls
// dense, or, without it, the first.
func (c *Config) dense(first int) func(layer int) bool {
	return c.called("mlp_layer_types", "dense", "sparse", func(l int) bool { return l < first })
}
