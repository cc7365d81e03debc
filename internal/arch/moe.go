package arch

import (
	"cmp"
	"encoding/json"
	"math"
	"slices"

	"exl2/internal/device"
)

// mixtral has experts in the place of the MLP (models/mixtral/modeling_mixtral.py).
func mixtral(c *Config) Spec {
	c.defaults("rms_norm_eps", 1e-5, "rope_theta", 1e6, "sliding_window", 0)
	s := mistral(c)
	s.Window = c.windowAt(everyLayer)
	s.experts(c.localExperts(), "block_sparse_moe.gate", "block_sparse_moe.experts.*.w1", "block_sparse_moe.experts.*.w3", "block_sparse_moe.experts.*.w2")
	s.MoE.Routing.Renorm = true
	return s
}

// localExperts reads experts that are as wide as an MLP would be.
func (c *Config) localExperts() MoE {
	return MoE{Experts: c.Int("num_local_experts"), TopK: c.Int("num_experts_per_tok"), Width: c.Int("intermediate_size")}
}

// phiMoE has LayerNorm, biases in attention and head, and sparse mixing
// (models/phimoe/modeling_phimoe.py).
func phiMoE(c *Config) Spec {
	s := mixtral(c)
	s.layerNorm(c.Float("rms_norm_eps", 1e-5), true)
	s.HeadBias = c.Bool("lm_head_bias", false)
	s.MoE.Routing.Routing = device.Routing{Score: device.SparseMixer, Jitter: float32(c.Float("router_jitter_noise", 0.01))}
	c.ignore("input_jitter_noise") // of training
	return s
}

// graniteMoE has stacked experts, weighed by the softmax of the chosen
// (models/granitemoe/modeling_granitemoe.py).
func graniteMoE(c *Config) Spec {
	s := granite(c)
	const in = "block_sparse_moe.experts.*."
	s.experts(c.localExperts(), "block_sparse_moe.router.layer", in+"gate_proj", in+"up_proj", in+"down_proj")
	s.MoE.Routing.Score = device.SoftmaxTop
	s.Stored = append(s.Stored,
		Stored{Weight: "block_sparse_moe.input_linear.weight", Holds: []string{s.Names.ExpertGate, s.Names.ExpertUp}, Stacked: true},
		Stored{Weight: "block_sparse_moe.output_linear.weight", Holds: []string{s.Names.ExpertDown}, Stacked: true})
	return s
}

// graniteMoEShared has an expert that all tokens see
// (models/granitemoeshared/modeling_granitemoeshared.py).
func graniteMoEShared(c *Config) Spec {
	s := graniteMoE(c)
	if s.MoE.Shared = c.Int("shared_intermediate_size", 0); s.MoE.Shared > 0 {
		n := &s.Names
		n.SharedGate, n.SharedUp, n.SharedDown = "shared_mlp.gate_proj", "shared_mlp.up_proj", "shared_mlp.output_linear"
		s.fused("shared_mlp.input_linear", Blocks, false, n.SharedGate, n.SharedUp)
	}
	return s
}

// graniteMoESWA is graniteMoEShared with sinks, windows, and a theta a layer
// (models/granitemoe_swa/modeling_granitemoe_swa.py).
func graniteMoESWA(c *Config) Spec {
	s := graniteMoEShared(c)
	s.Names.Router = "block_sparse_moe.router"
	others := map[string]string{"block_sparse_moe.input_linear.weight": "block_sparse_moe.experts.gate_up_proj", "block_sparse_moe.output_linear.weight": "block_sparse_moe.experts.down_proj"}
	for i, t := range s.Stored {
		s.Stored[i].Weight = cmp.Or(others[t.Weight], t.Weight)
	}
	s.swa(c)
	return s
}

// miniMaxM2 has sigmoid experts with a correction to choose by, norms over all heads, and rotates
// a part of each head (models/minimax_m2/modeling_minimax_m2.py).
func miniMaxM2(c *Config) Spec {
	c.defaults("head_dim", 128, "num_key_value_heads", 8, "rms_norm_eps", 1e-6, "rope_theta", 5000000, "max_position_embeddings", 196608)
	s := mixtral(c)
	s.headNorms(AllHeads, "self_attn.q_norm", "self_attn.k_norm")
	s.partial(c, float64(c.Int("rotary_dim", s.Attn.HeadDim))/float64(max(s.Attn.HeadDim, 1)))
	s.corrected("block_sparse_moe.e_score_correction_bias")
	c.must("scoring_func", "sigmoid")
	c.must("use_routing_bias", true)
	c.must("use_qk_norm", true)
	c.must("qk_norm_type", "per_layer")
	if types := c.Floats("attn_type_list"); slices.ContainsFunc(types, func(t float64) bool { return t != 1 }) {
		c.refuse("attn_type_list", "layers without softmax")
	}
	c.ignore("use_mtp", "num_mtp_modules", "mtp_transformer_layers") // of further tokens
	return s
}

// gptOSS has sinks, biases, a clamped unit, and stacked experts stored [in, out]
// (models/gpt_oss/modeling_gpt_oss.py).
func gptOSS(c *Config) Spec {
	c.defaults("head_dim", 64, "num_key_value_heads", 8, "attention_bias", true, "rms_norm_eps", 1e-5,
		"max_position_embeddings", 131072, "rope_theta", 150000, "sliding_window", 128,
		"rope_scaling", map[string]any{"rope_type": "yarn", "factor": json.Number("32"), "beta_fast": json.Number("32"), "beta_slow": json.Number("1"),
			"truncate": false, "original_max_position_embeddings": json.Number("4096")})
	c.rename("num_experts_per_tok", "experts_per_token")
	c.ignore("initial_context_length")
	s := llama(c)
	s.Window = c.window(notEvery(2))
	s.Attn.Sinks, s.Names.Sinks = true, "self_attn.sinks"
	s.MLP.Bias = true
	s.MLP.Clamp = c.clamp()
	s.experts(c.localExperts(), "mlp.router", "mlp.experts.*.gate_proj", "mlp.experts.*.up_proj", "mlp.experts.*.down_proj")
	s.MoE.Routing.Score, s.MoE.Routing.Bias = device.SoftmaxTop, true
	up := Stored{Weight: "mlp.experts.gate_up_proj", Bias: "mlp.experts.gate_up_proj_bias", Order: Alternating, Transposed: true, Stacked: true}
	down := Stored{Weight: "mlp.experts.down_proj", Bias: "mlp.experts.down_proj_bias", Transposed: true, Stacked: true}
	up.Holds, down.Holds = []string{s.Names.ExpertGate, s.Names.ExpertUp}, []string{s.Names.ExpertDown}
	s.Stored = append(s.Stored, up, down)
	return s
}

// olmoe has norms over all heads, and experts (models/olmoe/modeling_olmoe.py).
func olmoe(c *Config) Spec {
	c.defaults("rms_norm_eps", 1e-5, "max_position_embeddings", 4096)
	s := llama(c)
	c.must("clip_qkv") // would clip behind the norms, Attn.Clip does in front of them
	s.headNorms(AllHeads, "self_attn.q_norm", "self_attn.k_norm")
	c.defaults("moe_intermediate_size", s.MLP.Width)
	s.qwenExperts(c)
	return s
}

// flexOlmo is olmo2 with experts (models/flex_olmo/modeling_flex_olmo.py).
func flexOlmo(c *Config) Spec {
	c.defaults("rms_norm_eps", 1e-6, "max_position_embeddings", 4096)
	s := olmo2(c)
	c.defaults("moe_intermediate_size", s.MLP.Width)
	s.qwenExperts(c)
	return s
}

// hunyuanMoE has experts and one that all tokens see
// (models/hunyuan_v1_moe/modeling_hunyuan_v1_moe.py).
func hunyuanMoE(c *Config) Spec {
	s := hunyuan(c)
	c.rename("num_experts_per_tok", "moe_topk")
	m := MoE{Experts: c.same("num_experts", 1), TopK: c.same("num_experts_per_tok", 1), Width: c.same("moe_intermediate_size", s.MLP.Width)}
	m.Routing.Renorm = true
	s.experts(m, "mlp.gate.wg", "mlp.experts.*.gate_proj", "mlp.experts.*.up_proj", "mlp.experts.*.down_proj")
	s.shared(s.MLP.Width*c.same("num_shared_expert", 1), "mlp.shared_mlp")
	c.must("moe_layer_num_skipped", 0)
	c.must("use_mixed_mlp_moe", true)
	c.must("norm_topk_prob", true)
	c.must("group_limited_greedy", false)
	c.ignore("capacity_factor", "expert_hidden_dim", "moe_drop_tokens", "moe_random_routing_dropped_token")
	return s
}

// same reads a number that may be a list of the same number for every layer.
func (c *Config) same(key string, def int) int {
	v, name, _ := c.field(key)
	if _, ok := v.([]any); !ok {
		return c.Int(key, def)
	}
	values := c.Floats(key)
	for _, v := range values {
		if v != values[0] {
			c.refuse(name, "layers of different sizes")
		}
	}
	if len(values) == 0 {
		return def
	}
	return int(values[0])
}

// dbrx has LayerNorm without bias, clipped q, k and v, and experts whose rows
// follow one another (models/dbrx/modeling_dbrx.py).
func dbrx(c *Config) Spec {
	c.rename("hidden_size", "d_model", "num_attention_heads", "n_heads", "num_hidden_layers", "n_layers", "max_position_embeddings", "max_seq_len")
	attn, ffn := c.Object("attn_config"), c.Object("ffn_config")
	c.replace("num_key_value_heads", attn.Int("kv_n_heads", 1))
	c.replace("intermediate_size", ffn.Int("ffn_hidden_size", 3584))
	c.replace("hidden_act", ffn.Object("ffn_act_fn").String("name", "silu"))
	if attn.Has("rope_theta") {
		c.defaults("rope_theta", attn.Float("rope_theta"))
	}
	s := llama(c)
	s.layerNorm(1e-5, false)
	s.Attn.Clip = float32(attn.optional("clip_qkv", 0))
	ffn.must("moe_normalize_expert_weights", 1)
	m := MoE{Experts: ffn.Int("moe_num_experts", 4), TopK: ffn.Int("moe_top_k", 1), Width: s.MLP.Width}
	m.Routing.Renorm = ffn.Has("moe_normalize_expert_weights")
	ffn.ignore("moe_loss_weight", "moe_jitter_eps", "uniform_expert_assignment", "hidden_size", "tie_word_embeddings")
	attn.ignore("tie_word_embeddings")
	n := &s.Names
	n.Embed, n.Layers, n.Final = "transformer.wte", "transformer.blocks.*", "transformer.norm_f"
	n.NormIn, n.NormMLPIn, n.O = "norm_attn_norm.norm_1", "norm_attn_norm.norm_2", "norm_attn_norm.attn.out_proj"
	s.fusedQKV("norm_attn_norm.attn", "Wqkv", Blocks)
	const mlp = "ffn.experts.mlp."
	s.experts(m, "ffn.router.layer", mlp+"*.w1", mlp+"*.v1", mlp+"*.w2")
	for _, t := range []Stored{
		{Weight: mlp + "w1", Holds: []string{n.ExpertGate}}, {Weight: mlp + "v1", Holds: []string{n.ExpertUp}},
		{Weight: mlp + "w2", Holds: []string{n.ExpertDown}, Transposed: true},
	} {
		t.Flat = true
		s.Stored = append(s.Stored, t)
	}
	return s
}

// afMoE has gated attention, which rotates heads only where it has a window, norms on both sides of
// sublayers, and experts as deepseek3 (models/afmoe/modeling_afmoe.py).
func afMoE(c *Config) Spec {
	c.defaults("head_dim", 128, "rms_norm_eps", 1e-5, "max_position_embeddings", 16384, "sliding_window", 1024, "moe_intermediate_size", 1408,
		"num_experts", 64, "num_experts_per_tok", 6)
	s := llama(c)
	if c.Bool("mup_enabled", false) {
		s.EmbedScale = float32(math.Sqrt(float64(s.Hidden)))
	}
	n := &s.Names
	n.NormAttnOut, n.NormMLPIn, n.NormMLPOut = "post_attention_layernorm", "pre_mlp_layernorm", "post_mlp_layernorm"
	s.headNorms(EachHead, "self_attn.q_norm", "self_attn.k_norm")
	c.must("attention_bias", false) // gates have none
	s.gate(EachColumn, device.Logistic, "self_attn.gate_proj")
	local := c.slides(notEvery(c.step("global_attn_every_n_layers", 4)))
	s.Window = c.window(local)
	s.ropeWhere(local)
	m := MoE{Experts: c.Int("num_experts"), TopK: c.Int("num_experts_per_tok"), Width: c.Int("moe_intermediate_size")}
	m.Routing.Routing = device.Routing{Renorm: true, RenormEps: 1e-20, Scale: float32(c.factor("route_scale", 1))}
	s.experts(m, "mlp.router.gate", "mlp.experts.*.gate_proj", "mlp.experts.*.up_proj", "mlp.experts.*.down_proj")
	s.corrected("mlp.expert_bias")
	if shared := c.count("num_shared_experts", 2); shared > 0 {
		s.shared(shared*m.Width, "mlp.shared_experts")
	}
	dense := c.count("num_dense_layers", 1)
	s.Dense = func(l int) bool { return l < dense }
	c.must("route_norm", true)
	c.must("score_func", "sigmoid")
	for _, key := range []string{"n_group", "topk_group", "num_expert_groups", "num_limited_groups"} {
		c.must(key, 1)
	}
	c.ignore("load_balance_coeff", "use_grouped_mm")
	return s
}

// flint has sinks, sigmoid experts beside one that all tokens see, and positions only where it has a
// window (models/flint/modeling_flint.py, conversion_mapping.py).
func flint(c *Config) Spec {
	c.defaults("head_dim", 128, "num_key_value_heads", 4, "max_position_embeddings", 262144, "sliding_window", 513,
		"norm_topk_prob", true, "num_experts", 256, "num_experts_per_tok", 6, "moe_intermediate_size", 512)
	if !c.Has("mlp_only_layers") {
		c.replace("mlp_only_layers", []any{json.Number("0"), json.Number("1")})
	}
	s := llama(c)
	c.must("mlp_bias", false)
	s.headNorms(EachHead, "self_attn.q_norm", "self_attn.k_norm")
	s.Attn.Sinks, s.Names.Sinks = true, "self_attn.softmax_offset"
	local := c.slides(func(l int) bool { return l > 1 && l%4 != 1 && l != s.Layers-1 })
	s.Window = c.window(local)
	s.ropeWhere(local)
	s.qwenExperts(c)
	s.MoE.Routing.Score = device.Sigmoid
	s.shared(c.Int("shared_expert_intermediate_size", 1024), "mlp.shared_expert")
	return s
}
