package arch

import "exl2/internal/device"

// museGlimmer begins as nanoChat does, with a norm, and has norms of heads without weights, gated attention, windows, and
// positions only where there is one; norms behind sublayers have an epsilon of their own, and the weights of the last are
// not differences from one (models/muse_glimmer/modeling_muse_glimmer.py).
func museGlimmer(c *Config) Spec {
	t := c.text()
	t.rename("hidden_act", "hidden_activation")
	t.defaults("vocab_size", 202048, "hidden_size", 6656, "intermediate_size", 19968, "num_hidden_layers", 52, "num_attention_heads", 32, "num_key_value_heads", 2,
		"head_dim", 128, "max_position_embeddings", 131072, "rms_norm_eps", 1e-5, "sliding_window", 2048)
	s := llama(t)
	last, out := s.Norm, s.Norm
	out.Eps, out.Offset, s.Norm.Offset = float32(t.Float("post_norm_eps", 1e-8)), 1, 1
	s.EmbedNorm, s.NormOut, s.NormLast = true, &out, &last
	n := &s.Names
	n.nest()
	n.NormAttnOut, n.NormMLPIn, n.NormMLPOut = "post_attention_layernorm", "pre_feedforward_layernorm", "post_feedforward_layernorm"
	s.headNorms(EachHead, "self_attn.q_norm", "self_attn.k_norm")
	s.Attn.QKNorm.Plain = true
	s.Attn.Scale *= float32(t.factor("qk_scale_factor", 3.87))
	t.must("attention_bias", false) // gates have none
	s.gate(EachColumn, device.Logistic, "self_attn.gate_proj")
	s.LogitScale, s.LogitCap = float32(t.factor("output_multiplier", 0.19611613513818404)), float32(t.factor("final_logit_softcapping", 20))
	local := t.slides(func(l int) bool { return (s.Layers-1-l)%4 != 0 })
	s.Window = t.window(local)
	s.rotatesBy(t, func(l int) bool { return (s.Layers-1-l)%4 != 0 })
	return s
}

// rotatesBy leaves layers without positions whose layer_rope_theta is 0, or, without it, those that on does not select.
func (s *Spec) rotatesBy(c *Config, on func(layer int) bool) {
	if c.Has("layer_rope_theta") {
		thetas := c.Floats("layer_rope_theta")
		c.covers("layer_rope_theta", len(thetas), s.Layers)
		for _, theta := range thetas {
			if theta != 0 && theta != s.Rope(0).Theta {
				c.Refuse("layer_rope_theta", "%v, and rope_theta is %v", theta, s.Rope(0).Theta)
			}
		}
		on = func(l int) bool { return l < len(thetas) && thetas[l] != 0 }
	}
	s.ropeWhere(on)
}
