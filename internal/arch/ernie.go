package arch

import "math"

// ernie45MoE has experts that are chosen by the softmax and a correction
// (models/ernie4_5_moe/modeling_ernie4_5_moe.py).
func ernie45MoE(c *Config) Spec {
	c.defaults("head_dim", nil, "num_key_value_heads", 4, "moe_num_experts", 64, "moe_k", 6, "moe_intermediate_size", 1536, "moe_num_shared_experts", 2)
	s := ernie45(c)
	s.HeadBias = s.MLP.Bias
	m := MoE{Experts: c.Int("moe_num_experts"), TopK: c.Int("moe_k"), Width: c.Int("moe_intermediate_size")}
	m.Routing.Renorm, m.Routing.Correction = true, true
	s.experts(m, "mlp.gate", "mlp.experts.*.gate_proj", "mlp.experts.*.up_proj", "mlp.experts.*.down_proj")
	s.Names.Correction = "mlp.moe_statics.e_score_correction_bias"
	if n := c.count("moe_num_shared_experts", 0); n > 0 {
		s.shared(n*m.Width, "mlp.shared_experts")
	}
	first, last, step := c.Int("moe_layer_start_index", 1), c.Int("moe_layer_end_index", -1), c.step("moe_layer_interval", 1)
	if last == -1 {
		last = s.Layers - 1
	}
	s.Dense = func(l int) bool { return l < first || l > last || (l+1)%step != 0 }
	c.must("moe_use_aux_free", true)
	c.must("moe_gate_act", "softmax")
	c.ignore("moe_norm_min", "moe_capacity", "moe_gate") // moe_gate names an implementation
	return s
}

// ernie45VLMoE is ernie45MoE with positions in three dimensions, which are the same for text, and experts of
// their own for pictures, whose numbers are behind those of text (models/ernie4_5_vl_moe/modeling_ernie4_5_vl_moe.py,
// conversion_mapping.py). Routers are stored [in, out].
func ernie45VLMoE(c *Config) Spec {
	if c.Has("text_config") {
		c = c.text()
	}
	c.defaults("vocab_size", 103424, "hidden_size", 2560, "intermediate_size", 12288, "num_hidden_layers", 28, "num_attention_heads", 20)
	c.rename("moe_num_experts", "num_experts", "moe_k", "num_experts_per_tok")
	pictures := c.pair("moe_num_experts", 64)
	c.pair("moe_intermediate_size", 1536)
	c.pair("moe_layer_start_index", 1)
	c.pair("moe_layer_end_index", -1)
	s := ernie45MoE(c)
	s.Dense = c.called("mlp_layer_types", "dense", "sparse", s.Dense)
	if pictures != 0 && pictures != s.MoE.Experts {
		c.Refuse("moe_num_experts", "%d for text and %d for pictures", s.MoE.Experts, pictures)
	}
	s.MoE.Pictures = pictures
	p := c.ropeObject()
	p.must("rope_type", "default")
	p.must("type", "default", "mrope")
	p.ignore("mrope_section")
	c.must("use_bias", false) // which experts would not have
	c.must("rope_3d", true)
	c.must("moe_norm_gate_logits", true)
	c.must("moe_use_hard_gate", true)
	c.must("moe_group_experts", false)
	c.ignore("freq_allocation", "moe_multimodal_dispatch_use_allgather") // of pictures; an implementation
	s.Stored = append(s.Stored, Stored{Weight: s.Names.Router + ".weight", Holds: []string{s.Names.Router}, Transposed: true})
	s.nested()
	return s
}

// pair reads a number, or one for text and one for pictures, leaves the first as the field, and
// returns the second.
func (c *Config) pair(key string, def int) int {
	v, name, _ := c.field(key)
	if _, ok := v.([]any); !ok {
		return c.Int(key, def)
	}
	values := c.Floats(key)
	if len(values) != 2 || values[0] != math.Trunc(values[0]) || values[1] != math.Trunc(values[1]) {
		c.fail(name, "want a whole number for text and one for pictures")
		return def
	}
	c.replace(key, values[0])
	return int(values[1])
}
