package arch

import (
	"math"

	"exl2/internal/device"
)

// laguna has a gate for each head, heads of queries and a RoPE by layer, and experts as deepseek3, but one group
// (models/laguna/modeling_laguna.py).
func laguna(c *Config) Spec {
	c.defaults("vocab_size", 100352, "hidden_size", 2048, "intermediate_size", 8192, "num_hidden_layers", 40, "num_attention_heads", 48, "num_key_value_heads", 8,
		"head_dim", 128, "max_position_embeddings", 131072, "sliding_window", 512)
	s := llama(c)
	s.headNorms(EachHead, "self_attn.q_norm", "self_attn.k_norm")
	local := c.slides(noLayer)
	s.Window = c.window(local)
	s.ropeByKind(c, local, turned{500000, 0.5}, turned{10000, 1})
	of := EachHeadOne
	if v, _, _ := c.field("gating"); v != nil && v != true && v != "per-head" {
		of = EachColumn
		c.must("gating", "per-element")
	}
	s.gate(of, device.Softplus, "self_attn.g_proj")
	c.must("attention_bias", false) // gates have none

	for _, kind := range c.Strings("gating_types") {
		if perHead := kind == "per_head" || kind == "per-head"; perHead != (of == EachHeadOne) {
			c.refuse("gating_types", kind)
		}
	}
	s.lagunaExperts(c)
	if heads := c.Floats("num_attention_heads_per_layer"); heads != nil {
		for _, n := range heads {
			if n != math.Trunc(n) {
				c.fail("num_attention_heads_per_layer", "%v, want whole numbers", n)
			}
		}
		if c.covers("num_attention_heads_per_layer", len(heads), s.Layers) {
			s.headsOf(func(l int) int { return int(heads[l]) })
		}
	}
	return s
}

// lagunaExperts reads the experts.
func (s *Spec) lagunaExperts(c *Config) {
	m := MoE{Experts: c.Int("num_experts", 256), TopK: c.Int("num_experts_per_tok", 8), Width: c.Int("moe_intermediate_size", 512)}
	m.Routing.Routing = device.Routing{Renorm: true, Scale: float32(c.factor("moe_routed_scaling_factor", 1))}
	s.experts(m, "mlp.gate", "mlp.experts.*.gate_proj", "mlp.experts.*.up_proj", "mlp.experts.*.down_proj")
	s.corrected("mlp.experts.e_score_correction_bias")
	s.shared(c.Int("shared_expert_intermediate_size", 512), "mlp.shared_expert")
	s.Dense = c.dense(1)
	c.must("moe_apply_router_weight_on_input", false)
	c.must("moe_router_logit_softcapping", 0)
	c.must("norm_topk_prob", true)
	c.must("decoder_sparse_step", 1)
	for i, l := range c.Floats("mlp_only_layers") {
		if layer := int(l); layer < 0 || layer >= s.Layers || !s.Dense(layer) {
			c.fail("mlp_only_layers", "layer %v, the %d. of the list, has experts by mlp_layer_types", l, i+1)
		}
	}
}

// headsOf has layers differ in heads of queries. All else of attention is known by then.
func (s *Spec) headsOf(heads func(layer int) int) {
	like := s.Attn
	s.Attention = func(l int) Attn {
		a := like
		a.Heads = heads(l)
		return a
	}
}
