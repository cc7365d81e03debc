package arch

// layerTypes returns config.json's layer_types, one name a layer,
// or nil if it has none.
func (c *Config) layerTypes() []string {
	list := c.Strings("layer_types")
	if list == nil {
		return nil
	}
	if n := c.Int("num_hidden_layers"); len(list) < n {
		c.fail("layer_types", "%d layers, want %d", len(list), n)
		return nil
	}
	for _, t := range list {
		if t != "full_attention" && t != "sliding_attention" {
			c.refuse("layer_types", t)
		}
	}
	return list
}

// window returns the windows of layers: sliding_window, by default def (0: none),
// for the layers that layer_types calls sliding_attention, or, without
// layer_types, those that local selects.
func (c *Config) window(def int, local func(layer int) bool) func(int) int {
	w, types := c.optional("sliding_window", float64(def)), c.layerTypes()
	if w <= 0 {
		return nil
	}
	if types != nil {
		local = func(l int) bool { return types[l] == "sliding_attention" }
	}
	return func(l int) int {
		if local(l) {
			return int(w)
		}
		return 0
	}
}

// headNorms normalizes queries and keys.
func (s *Spec) headNorms(over NormSpan, q, k string) {
	s.Attn.QKNorm.Over, s.Names.QNorm, s.Names.KNorm = over, q, k
}

// mlp reads a dense MLP of the given width.
func (c *Config) mlp(width string) MLP {
	m := MLP{Width: c.Int(width), Bias: c.Bool("mlp_bias", false)}
	m.Act, m.Squared = c.act("hidden_act", "silu")
	return m
}
