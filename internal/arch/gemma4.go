package arch

import (
	"encoding/json"
	"maps"
	"math"
	"slices"
	"strconv"

	"exl2/internal/device"
)

// gemma4 has layers with a window and others whose heads are larger and fewer, norms of queries, keys
// and values in the place of a scale of scores, norms on both sides of sublayers, layers that scale the
// stream, and, where it has experts, an MLP beside them (models/gemma4/modeling_gemma4.py).
func gemma4(c *Config) Spec {
	c.defaults("hidden_size_per_layer_input", 256, "max_position_embeddings", 131072, "sliding_window", 512)
	s := gemma4Text(c)
	s.PerLayer = PerLayer{Size: c.count("hidden_size_per_layer_input", 0), Rows: c.Int("vocab_size_per_layer_input", 262144)}
	if s.PerLayer.Size == 0 {
		s.PerLayer.Rows = 0
		return s
	}
	switch {
	case s.MoE.Experts > 0:
		c.Refuse("hidden_size_per_layer_input", "%d, inputs of each layer beside experts", s.PerLayer.Size)
	case s.MLP.Squared:
		c.Refuse("hidden_activation", "relu2 of inputs of each layer")
	}
	n := &s.Names
	n.PerLayerTable, n.PerLayerModel, n.PerLayerNorm = "model.embed_tokens_per_layer", "model.per_layer_model_projection", "model.per_layer_projection_norm"
	n.PerLayerGate, n.PerLayerOut, n.NormPerLayer = "per_layer_input_gate", "per_layer_projection", "post_per_layer_input_norm"
	return s
}

// gemma4Unified has no inputs of each layer (models/gemma4_unified/modeling_gemma4_unified.py).
func gemma4Unified(c *Config) Spec {
	c.defaults("max_position_embeddings", 262144, "sliding_window", 1024, "use_bidirectional_attention", "vision")
	c.must("hidden_size_per_layer_input", 0)
	c.must("enable_moe_block", false)
	c.ignore("vocab_size_per_layer_input")
	return gemma4Text(c)
}

// gemma4Vision and gemma4UnifiedVision are these behind encoders of pictures and sound.
func gemma4Vision(c *Config) Spec { return pictured(c, gemma4) }

func gemma4UnifiedVision(c *Config) Spec { return pictured(c, gemma4Unified) }

func gemma4Text(c *Config) Spec {
	number := func(s string) any { return json.Number(s) }
	c.defaults("vocab_size", 262144, "hidden_size", 2304, "intermediate_size", 9216, "num_hidden_layers", 30, "num_attention_heads", 8, "num_key_value_heads", 4,
		"head_dim", 256, "tie_word_embeddings", true, "rope_scaling", map[string]any{
			"sliding_attention": map[string]any{"rope_theta": number("10000")},
			"full_attention":    map[string]any{"rope_type": "proportional", "partial_rotary_factor": number("0.25"), "rope_theta": number("1e6")}})
	c.must("hidden_act")
	s := llama(c)
	s.EmbedScale = float32(math.Sqrt(float64(s.Hidden)))
	s.LogitCap = float32(c.optional("final_logit_softcapping", 0))
	s.MLP.Act, s.MLP.Squared = c.act("hidden_activation", "gelu_pytorch_tanh")
	n := &s.Names
	n.NormAttnOut, n.NormMLPIn, n.NormMLPOut = "post_attention_layernorm", "pre_feedforward_layernorm", "post_feedforward_layernorm"
	s.LayerScale, n.LayerScale = true, "layer_scalar"
	s.headNorms(EachHead, "self_attn.q_norm", "self_attn.k_norm")
	s.Attn.Scale, s.Attn.ValueNorm = 1, true
	c.must("use_bidirectional_attention", false, "vision") // pictures see all of themselves
	local := s.gemma4Windows(c)
	s.Window = c.window(local)
	s.gemma4Heads(c, local)
	s.borrowing(c, local)
	s.gemma4Rope(c, local)
	if c.Bool("enable_moe_block", false) {
		s.gemma4Experts(c)
	}
	c.ignore("num_experts", "top_k_experts", "moe_intermediate_size")
	return s
}

// gemma4Windows returns which layers have a window, which the last has not.
func (s *Spec) gemma4Windows(c *Config) func(layer int) bool {
	every, last := notEvery(6), s.Layers-1
	local := c.slides(func(l int) bool { return every(l) && l != last })
	if last >= 0 && local(last) {
		c.Refuse("layer_types", "sliding_attention of the last layer, which transformers gives no window")
	}
	return local
}

// gemma4Heads reads heads' dimensions and the number of heads of keys of layers without a window.
func (s *Spec) gemma4Heads(c *Config, local func(layer int) bool) {
	shared := c.Bool("attention_k_eq_v", false)
	own, wide := s.Attn, s.Attn
	wide.KeyValues = shared
	if wide.HeadDim = c.Int("global_head_dim", 512); shared {
		wide.KVHeads = c.Int("num_global_key_value_heads", wide.KVHeads)
	}
	c.ignore("num_global_key_value_heads")
	list := make([]Attn, max(0, min(s.Layers, maxLayers)))
	for l := range list {
		list[l] = wide
		if local(l) {
			list[l] = own
		}
	}
	c.layerHeads(list)
	dims := map[bool]int{}
	for l, a := range list {
		if before, there := dims[local(l)]; there && before != a.HeadDim {
			c.Refuse("per_layer_config", "heads of %d dimensions in layer %d, and of %d in an earlier one of its kind", a.HeadDim, l, before)
		}
		dims[local(l)] = a.HeadDim
	}
	s.Attention = func(l int) Attn { return list[l] }
}

// borrowing has the last layers attend to the keys and values of the last one of their kind in front of them, and may
// double the width of their MLPs.
func (s *Spec) borrowing(c *Config, local func(layer int) bool) {
	wide, first := c.Bool("use_double_wide_mlp", false), s.Layers-c.count("num_kv_shared_layers", 0)
	if first == s.Layers {
		return
	}
	lender := map[bool]int{}
	for l := range min(first, maxLayers) {
		lender[local(l)] = l
	}
	for l := max(first, 0); l < min(s.Layers, maxLayers); l++ {
		if _, ok := lender[local(l)]; !ok {
			c.fail("num_kv_shared_layers", "%d, and no layer in front of these is of the kind of layer %d", s.Layers-first, l)
			return
		}
	}
	s.KeysOf = func(l int) int {
		if l < first {
			return l
		}
		return lender[local(l)]
	}
	if !wide {
		return
	}
	if c.Bool("enable_moe_block", false) {
		c.Refuse("use_double_wide_mlp", "true beside experts")
	}
	width := s.MLP.Width
	s.MLP.Width = 2 * width
	s.Widths = func(l int) int {
		if l < first {
			return width
		}
		return 2 * width
	}
}

// layerHeads reads per_layer_config, as transformers 5 writes what differs by layer.
func (c *Config) layerHeads(list []Attn) {
	if !c.Has("per_layer_config") {
		return
	}
	p := c.Object("per_layer_config")
	for _, key := range slices.Sorted(maps.Keys(p.raw)) {
		l, err := strconv.Atoi(key)
		if err != nil || l < 0 || l >= len(list) {
			p.Refuse(key, "not the number of a layer")
			return
		}
		o := p.Object(key)
		dim, heads := o.Int("head_dim", list[l].HeadDim), o.Int("num_key_value_heads", list[l].KVHeads)
		if c.Has("global_head_dim") && dim != list[l].HeadDim || c.Has("num_global_key_value_heads") && heads != list[l].KVHeads {
			o.fail("head_dim", "%d, %d heads of keys; and %d, %d by global_head_dim and num_global_key_value_heads", dim, heads, list[l].HeadDim, list[l].KVHeads)
		}
		list[l].HeadDim, list[l].KVHeads = dim, heads
		o.nothingElse()
	}
}

// gemma4Rope reads a RoPE for each kind of layer.
func (s *Spec) gemma4Rope(c *Config, local func(layer int) bool) {
	p := c.ropeObject()
	at := func(kind string) func(dims int) Rope {
		o := p.Object(kind)
		if !o.Any() {
			p.fail(kind, "missing")
		}
		return func(dims int) Rope { return c.ropeOf(o, dims) }
	}
	sliding, full := at("sliding_attention"), at("full_attention")
	list := make([]Rope, max(0, min(s.Layers, maxLayers)))
	for l := range list {
		if local(l) {
			list[l] = sliding(s.Attention(l).HeadDim)
		} else {
			list[l] = full(s.Attention(l).HeadDim)
		}
	}
	s.Rope = func(l int) Rope { return list[l] }
}

// gemma4Experts has experts beside the MLP, with norms of their own.
func (s *Spec) gemma4Experts(c *Config) {
	m := MoE{Experts: c.Int("num_experts"), TopK: c.Int("top_k_experts"), Width: c.Int("moe_intermediate_size"), Apart: true}
	m.Routing.Routing = device.Routing{Renorm: true}
	s.experts(m, "router.proj", "experts.*.gate_proj", "experts.*.up_proj", "experts.*.down_proj")
	s.shared(s.MLP.Width, "mlp")
	n := &s.Names
	n.NormShared, n.NormExpertIn, n.NormExpertOut = "post_feedforward_layernorm_1", "pre_feedforward_layernorm_2", "post_feedforward_layernorm_2"
	n.RouterScale, n.ExpertScales = "router.scale", "router.per_expert_scale"
	s.Stored = append(s.Stored, Stored{Weight: "experts.gate_up_proj", Holds: []string{n.ExpertGate, n.ExpertUp}, Stacked: true},
		Stored{Weight: "experts.down_proj", Holds: []string{n.ExpertDown}, Stacked: true})
}
