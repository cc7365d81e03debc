package arch

import (
	"encoding/json"
	"math"
	"slices"

	"exl2/internal/device"
)

// llama4 has no positions, and no norms of heads, on every fourth layer, and experts, of which a token sees one, times
// its weight, and one that all see. Other layers attend in chunks, so that sequences are limited to
// the first, and the layers without positions scale queries beyond floor_scale
// (models/llama4/modeling_llama4.py).
func llama4(c *Config) Spec {
	c.defaults("head_dim", 128, "num_key_value_heads", 8, "rms_norm_eps", 1e-5, "rope_theta", 500000, "max_position_embeddings", 131072,
		"vocab_size", 202048, "hidden_size", 5120, "intermediate_size", 8192, "num_hidden_layers", 48, "num_attention_heads", 40,
		"num_local_experts", 16, "num_experts_per_tok", 1)
	s := llama(c)
	s.interleaved()
	s.MLP.Width = c.Int("intermediate_size_mlp", 16384)
	c.must("mlp_bias", false)
	on := notEvery(c.Int("no_rope_layer_interval", 4))
	if list := c.Floats("no_rope_layers"); len(list) > 0 { // 1: with positions
		on = func(l int) bool { return l < len(list) && list[l] != 0 }
	}
	s.ropeWhere(on)
	if c.Bool("use_qk_norm", true) {
		s.headNorms(EachHead, "", "")
		q := &s.Attn.QKNorm
		q.AfterRope, q.Plain, q.Roped = true, true, true
	}
	s.llama4Experts(c)
	s.chunks(c, on)
	return s
}

// llama4Experts reads the experts, which are on every interleave_moe_layer_step-th layer.
func (s *Spec) llama4Experts(c *Config) {
	m := c.localExperts()
	m.Early, m.Routing.Score = true, device.Sigmoid
	s.experts(m, "feed_forward.router", "feed_forward.experts.*.gate_proj", "feed_forward.experts.*.up_proj", "feed_forward.experts.*.down_proj")
	s.shared(m.Width, "feed_forward.shared_expert")
	s.Dense = notEvery(c.step("interleave_moe_layer_step", 1))
	if v, _, _ := c.field("moe_layers"); v != nil {
		sparse := c.Floats("moe_layers")
		s.Dense = func(l int) bool { return !slices.Contains(sparse, float64(l)) }
	}
	n := &s.Names
	n.Gate, n.Up, n.Down = "feed_forward.gate_proj", "feed_forward.up_proj", "feed_forward.down_proj"
	s.Stored = append(s.Stored,
		Stored{Weight: "feed_forward.experts.gate_up_proj", Holds: []string{n.ExpertGate, n.ExpertUp}, Transposed: true, Stacked: true},
		Stored{Weight: "feed_forward.experts.down_proj", Holds: []string{n.ExpertDown}, Transposed: true, Stacked: true})
}

// chunks limits sequences to what a layer with positions, which on selects, has in a chunk, and to what one without
// scales nothing of: the query at position p by a factor of ⌊(p+1)/floor_scale⌋.
func (s *Spec) chunks(c *Config, on func(int) bool) {
	size := c.count("attention_chunk_size", 8192)
	local := c.called("layer_types", "chunked_attention", "full_attention", func(l int) bool { return on(l) && size > 0 })
	span := c.Int("floor_scale", 8192)
	tuned, _, _ := c.field("attn_temperature_tuning") // of the first files a number
	c.ignore("attn_scale")
	most := math.MaxInt
	for l := range s.Layers {
		if local(l) {
			most = min(most, size)
		}
		if !on(l) && !(tuned == false || tuned == json.Number("0")) {
			most = min(most, span-1)
		}
	}
	if most < 1 {
		c.fail("attention_chunk_size", "%d, and floor_scale %d, want 1 or more, and 2 or more", size, span)
	}
	if most < math.MaxInt {
		s.bound(most)
	}
}

// llama4Vision is llama4 behind a picture encoder.
func llama4Vision(c *Config) Spec {
	s := llama4(c.text())
	s.prefixed()
	return s
}
