package arch

import "slices"

// molmo2 is qwen3 or olmo2 by other names, whose table has rows for tokens of pictures, in the published files apart
// (models/molmo2/modeling_molmo2.py, conversion_mapping.py).
func molmo2(c *Config) Spec {
	t := c.text()
	t.rename("rms_norm_eps", "layer_norm_eps", "attention_bias", "qkv_bias")
	t.defaults("vocab_size", 151936, "hidden_size", 4096, "intermediate_size", 12288, "num_hidden_layers", 36, "num_attention_heads", 32, "num_key_value_heads", 8,
		"head_dim", 128, "max_position_embeddings", 36864)
	s := llama(t)
	s.Attn.BiasO = false
	t.must("use_qk_norm", true)
	t.must("tie_word_embeddings", false) // the head has no rows for pictures
	s.Beyond = t.count("additional_vocab_size", 128)
	s.scaledWhere(t)
	over, kind := EachHead, t.String("qk_norm_type", "qwen3")
	if kind == "olmo" {
		over = AllHeads
	} else {
		t.must("qk_norm_type", "qwen3")
	}
	s.headNorms(over, "self_attn.q_norm", "self_attn.k_norm")
	now, after := s.Names, t.Bool("norm_after", false)
	now.nest()
	n := &s.Names
	n.O, n.Down = "self_attn.attn_out", "mlp.ff_out"
	s.fusedQKV("self_attn", "att_proj", Blocks)
	s.fused("mlp.ff_proj", Blocks, false, n.Up, n.Gate)
	s.transformerNames()
	for _, n := range []*Names{n, &now} {
		n.behind(after)
	}
	s.Other = append(s.Other, now)
	return s
}

// transformerNames are those of what surrounds the matrices of a Molmo.
func (s *Spec) transformerNames() {
	n := &s.Names
	n.Embed, n.Layers, n.Final, s.Table = "model.transformer.wte", "model.transformer.blocks.*", "model.transformer.ln_f", "model.transformer.wte.embedding"
	n.NormIn, n.NormMLPIn = "attn_norm", "ff_norm"
}

// behind moves the norms from in front of the sublayers to behind them, under their names.
func (n *Names) behind(after bool) {
	if after {
		n.NormIn, n.NormAttnOut, n.NormMLPIn, n.NormMLPOut = "", n.NormIn, "", n.NormMLPIn
	}
}

// molmo is qwen2 or olmo2 by other names, whose table has rows for tokens of pictures, apart, and whose intermediate_size
// counts gate and up (allenai/Molmo-7B-D-0924 modeling_molmo.py).
func molmo(c *Config) Spec {
	c.rename("rms_norm_eps", "layer_norm_eps", "attention_bias", "qkv_bias")
	c.replace("intermediate_size", c.Int("intermediate_size")/2)
	if c.Has("embedding_size") {
		c.replace("vocab_size", c.Int("embedding_size"))
	}
	s := llama(c)
	s.Attn.BiasO, s.Beyond = false, 128
	c.must("layer_norm_type", "rms")
	c.must("clip_qkv")
	c.must("weight_tying", false)
	c.must("tie_word_embeddings", false)
	c.ignore("use_position_ids")
	if c.Bool("attention_layer_norm", false) {
		s.headNorms(AllHeads, "q_norm", "k_norm")
	}
	n := &s.Names
	n.Q, n.K, n.V, n.O, n.Head = "q_proj", "k_proj", "v_proj", "attn_out", "model.transformer.ff_out"
	n.Gate, n.Up, n.Down = "gate_proj", "up_proj", "ff_out"
	s.fused("att_proj", Blocks, s.Attn.BiasQKV, n.Q, n.K, n.V)
	s.fused("ff_proj", Blocks, false, n.Up, n.Gate)
	s.transformerNames()
	n.behind(c.Bool("norm_after", false))
	return s
}

// scaledWhere leaves the RoPE of layers that rope_scaling_layers does not list as it would be without scaling.
func (s *Spec) scaledWhere(c *Config) {
	if !c.Has("rope_scaling_layers") {
		return
	}
	layers, rope := c.Floats("rope_scaling_layers"), s.Rope
	s.Rope = func(l int) Rope {
		r := rope(l)
		if !slices.Contains(layers, float64(l)) {
			r.Scaling = Scaling{}
		}
		return r
	}
}
