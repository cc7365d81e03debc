package arch

import "slices"

// cohereCompass is cohere2 behind a picture encoder, which rotates halves, by layers' kinds, with positions in three
// dimensions, which are the same for text (models/cohere_compass/modeling_cohere_compass.py).
func cohereCompass(c *Config) Spec {
	t := c.text()
	t.defaults("vocab_size", 256000, "hidden_size", 8192, "intermediate_size", 22528, "num_hidden_layers", 40, "num_attention_heads", 64, "max_position_embeddings", 8192, "sliding_window", 4096)
	s := llama(t)
	s.layerNorm(t.Float("layer_norm_eps", 1e-5), false)
	s.Parallel, s.Names.NormMLPIn = true, ""
	if t.Has("logit_scale") {
		s.LogitScale = float32(t.factor("logit_scale", 1))
	}
	local := t.slides(noLayer)
	s.Window = t.window(local)
	short, long := t.ropeOfKind("sliding_attention", s.Attn.HeadDim), t.ropeOfKind("full_attention", s.Attn.HeadDim)
	s.ropes(local, short, long)
	t.ignore("pooling") // of other heads
	s.Names.nest()
	return s
}

// ropeOfKind reads the RoPE of one kind of layers, none where it is null.
func (c *Config) ropeOfKind(kind string, dims int) Rope {
	p := c.ropeObject()
	if _, _, there := p.field(kind); !there && c.has(kind) {
		p.Refuse(kind, "it is missing, and there are such layers")
	}
	if !p.Has(kind) {
		return Rope{}
	}
	one := p.Object(kind)
	one.ignore("mrope_section", "mrope_interleaved")
	return c.ropeOf(one, dims)
}

// has reports whether layer_types has a kind; without it all are full_attention.
func (c *Config) has(kind string) bool {
	types := c.Strings("layer_types")
	return slices.Contains(types, kind) || types == nil && kind == "full_attention"
}
