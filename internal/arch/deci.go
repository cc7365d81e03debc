package arch

import "fmt"

// deciLM is llama whose layers differ: some have no attention, some no MLP, and MLPs are of different
// widths (nvidia/Llama-3_3-Nemotron-Super-49B-v1 modeling_decilm.py, block_config.py).
func deciLM(c *Config) Spec {
	c.defaults("rms_norm_eps", 1e-6, "num_key_value_heads", nil)
	layers, heads := c.Int("num_hidden_layers"), c.Int("num_attention_heads")
	kv, widths, lacks := 0, make([]int, max(0, min(layers, maxLayers))), map[int]bool{}
	for l, b := range c.blocks(len(widths)) {
		group := b.attention()
		lacks[l] = group == 0
		switch {
		case group == 0:
		case heads%group != 0:
			b.fail("attention.n_heads_in_group", "%d of %d heads", group, heads)
		case kv == 0:
			kv = heads / group
		case kv != heads/group:
			b.Refuse("attention.n_heads_in_group", "%d, and other layers have %d heads of keys", group, kv)
		}
		widths[l] = b.mlp(c.Int("hidden_size"))
		b.nothingElse()
	}
	c.replace("num_key_value_heads", max(kv, 1))
	c.replace("intermediate_size", maxOf(widths))
	s := llama(c)
	s.Widths = func(l int) int { return widths[l] }
	s.Unattended = func(l int) bool { return lacks[l] }
	return s
}

// blocks reads block_configs, one object a layer.
func (c *Config) blocks(layers int) []*Config {
	if !c.Has("block_configs") {
		c.Refuse("block_configs", "it is missing, as of the first DeciLM, whose numbers of heads of keys differ, which is not known")
		return nil
	}
	values := list[map[string]any](c, "block_configs", "objects")
	if len(values) != layers {
		c.fail("block_configs", "%d layers, want %d", len(values), layers)
		return nil
	}
	var blocks []*Config
	for l, v := range values {
		b := newConfig(c.file, fmt.Sprintf("%sblock_configs.%d.", c.path, l), c.first)
		b.raw = v
		blocks = append(blocks, b)
	}
	return blocks
}

// attention returns how many heads share keys, 0 if the block has no attention.
func (c *Config) attention() int {
	a := c.Object("attention")
	defer a.nothingElse()
	a.must("replace_with_linear", false)
	if a.Bool("no_op", false) {
		a.ignore("n_heads_in_group")
		return 0
	}
	group := a.Int("n_heads_in_group")
	if group < 1 {
		a.fail("n_heads_in_group", "%d, want 1 or more", group)
		return 1
	}
	return group
}

// mlp returns how wide the block's MLP is, 0 if it has none: two thirds of a multiple of the stream's
// width, rounded up to 256.
func (c *Config) mlp(hidden int) int {
	f := c.Object("ffn")
	defer f.nothingElse()
	f.must("replace_with_linear", false)
	f.must("gated", true)
	f.must("hidden_act", "silu")
	if f.Bool("no_op", false) {
		f.ignore("ffn_mult", "intermediate_size")
		return 0
	}
	width := f.Int("intermediate_size", 0)
	if !f.Has("intermediate_size") {
		width = (int(2*f.Float("ffn_mult")*float64(hidden)/3) + 255) / 256 * 256
	}
	if width < 1 || width > maxSize {
		f.fail("ffn_mult", "an MLP of %d, want 1 to %d", width, maxSize)
	}
	return width
}

// nothingElse refuses what nobody has read of an object and turns something on.
func (c *Config) nothingElse() {
	for key, v := range c.raw {
		if !c.seen[key] && !empty(v) {
			c.unread(key, v)
		}
	}
}

func maxOf(v []int) int {
	most := 0
	for _, x := range v {
		most = max(most, x)
	}
	return most
}
