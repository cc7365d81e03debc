package arch

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"exl2/internal/device"
)

// step35 has norms whose weights are differences from one, a gate for each head, heads of queries, a RoPE and limits
// of units by layer, and experts as deepseek3, but one group (models/step3p7/modeling_step3p7.py, configuration_step3p7.py;
// stepfun-ai/Step-3.5-Flash).
func step35(c *Config) Spec {
	c.rename("num_key_value_heads", "num_attention_groups", "n_routed_experts", "moe_num_experts", "n_routed_experts", "num_local_experts",
		"num_experts_per_tok", "moe_top_k", "share_expert_dim", "share_expert_dims")
	c.defaults("vocab_size", 128815, "hidden_size", 4096, "intermediate_size", 11264, "num_hidden_layers", 45, "num_attention_heads", 64, "num_key_value_heads", 8,
		"head_dim", 128, "max_position_embeddings", 128000, "rms_norm_eps", 1e-5)
	thetas := c.eachTheta()
	s := llama(c)
	s.Norm.Offset = 1
	c.must("zero_centered", true)
	s.headNorms(EachHead, "self_attn.q_norm", "self_attn.k_norm")
	local := c.slides(noLayer)
	s.Window = c.window(local)
	s.stepRope(c, local, thetas)
	s.gate(EachHeadOne, device.Logistic, "self_attn.g_proj")
	c.must("gating", true, "per-head")
	c.must("use_head_wise_attn_gate", true)
	c.must("use_qk_norm", true)
	c.must("sink", false)
	c.must("attention_bias", false)
	c.must("use_bidirectional_attention", false)
	if c.Has("query_pre_attn_scalar") {
		s.scaleQuery(c.factor("query_pre_attn_scalar", 1))
	}
	s.stepExperts(c)
	s.stepClamps(c)
	s.stepHeads(c, local)
	c.ignore("att_impl_type", "max_seq_len", "use_moe", "need_fp32_gate", "mtp_layer_types", "mtp_mlp_layer_types", "moe_every_n_layer", "moe_layer_offset", "residual_in_fp32")
	return s
}

// stepVision is step35 behind a picture encoder.
func stepVision(c *Config) Spec {
	s := step35(c.text())
	nested := s.Names
	nested.nest()
	s.Other = append(s.Other, nested)
	return s
}

// eachTheta returns the bases of layers' RoPE, nil if there is one for all, and leaves the first for those that want one.
func (c *Config) eachTheta() []float64 {
	if v, _, _ := c.field("rope_theta"); v == nil {
		return nil
	} else if _, many := v.([]any); !many {
		return nil
	}
	thetas := c.Floats("rope_theta")
	if !c.covers("rope_theta", len(thetas), max(1, c.Int("num_hidden_layers", 1))) {
		return nil
	}
	c.replace("rope_theta", json.Number(strconv.FormatFloat(thetas[0], 'g', -1, 64)))
	return thetas
}

// stepRope reads bases and how much of each head turns by layer, or by kinds of layers; only layers without a window are scaled.
func (s *Spec) stepRope(c *Config, local func(int) bool, thetas []float64) {
	factors := c.Floats("partial_rotary_factors")
	for _, kind := range c.Strings("yarn_only_types") {
		if kind != "full_attention" {
			c.refuse("yarn_only_types", kind)
		}
	}
	if slices.ContainsFunc(list[any](c, "use_rope_layers", "layers"), func(v any) bool { return fmt.Sprint(v) == "false" || fmt.Sprint(v) == "0" }) {
		c.Refuse("use_rope_layers", "layers without positions")
	}
	if c.Has("rope_parameters") {
		s.ropeByKind(c, local, turned{10000, 1}, turned{10000, 1})
		return
	}
	if factors != nil && !c.covers("partial_rotary_factors", len(factors), s.Layers) {
		return
	}
	scaled := s.Rope(0)
	s.Rope = func(l int) Rope {
		r := scaled
		if thetas != nil {
			r.Theta = thetas[l]
		}
		if factors != nil {
			r.Dims = int(float64(r.Dims) * factors[l])
		}
		if local(l) {
			r.Scaling = Scaling{}
		}
		return r
	}
}

// stepExperts reads the experts.
func (s *Spec) stepExperts(c *Config) {
	m := MoE{Experts: c.Int("n_routed_experts", 288), TopK: c.Int("num_experts_per_tok", 8), Width: c.Int("moe_intermediate_size", 1280)}
	m.Routing.Routing = device.Routing{Renorm: true, Scale: float32(c.factor("moe_router_scaling_factor", 1))}
	s.experts(m, "moe.gate", "moe.experts.*.gate_proj", "moe.experts.*.up_proj", "moe.experts.*.down_proj")
	s.corrected("moe.router_bias")
	s.shared(c.Int("share_expert_dim", 1280), "share_expert")
	n := &s.Names
	for _, part := range []struct{ name, holds string }{{"gate_proj", n.ExpertGate}, {"up_proj", n.ExpertUp}, {"down_proj", n.ExpertDown}} {
		s.Stored = append(s.Stored, Stored{Weight: "moe." + part.name + ".weight", Holds: []string{part.holds}, Stacked: true})
	}
	s.Dense = c.called("mlp_layer_types", "dense", "sparse", c.notListed("moe_layers_enum", func(l int) bool { return l < 3 }))
	c.must("norm_expert_weight", true)
	c.must("moe_router_activation", "sigmoid")
	c.must("use_moe_router_bias", true)
	c.must("mlp_bias", false)
}

// notListed returns which layers a field does not number, a list or its members behind commas, or, without it, those that def selects.
func (c *Config) notListed(key string, def func(int) bool) func(int) bool {
	v, _, _ := c.field(key)
	var words []string
	switch v := v.(type) {
	case nil:
		return def
	case string:
		words = strings.FieldsFunc(v, func(r rune) bool { return r == ',' || r == ' ' })
	default:
		for _, n := range list[json.Number](c, key, "numbers") {
			words = append(words, n.String())
		}
	}
	listed := map[int]bool{}
	for _, w := range words {
		n, err := strconv.Atoi(w)
		if err != nil {
			c.fail(key, "%q, want numbers of layers", w)
		}
		listed[n] = true
	}
	return func(l int) bool { return !listed[l] }
}

// stepClamps reads the limits of units; a limit of 0 is none.
func (s *Spec) stepClamps(c *Config) {
	mlp, experts := c.limits("swiglu_limits_shared", s.Layers), c.limits("swiglu_limits", s.Layers)
	if mlp == nil && experts == nil {
		return
	}
	at := func(limits []float64, l int) device.Clamp {
		if limits == nil || limits[l] == 0 {
			return device.Clamp{}
		}
		return device.Clamp{Limit: float32(siluAt(limits[l])), Up: float32(limits[l]), Alpha: 1}
	}
	s.Clamps = func(l int) (device.Clamp, device.Clamp) { return at(mlp, l), at(experts, l) }
}

// limits returns the numbers of layers that a field lists, nil if there are none but zeros and nulls.
func (c *Config) limits(key string, layers int) []float64 {
	var out []float64
	some := false
	field, _, _ := c.field(key)
	values, ok := field.([]any)
	if field != nil && !ok {
		c.fail(key, "want a list of numbers")
	}
	for _, v := range values {
		f := 0.0
		if n, ok := v.(json.Number); ok {
			f, _ = n.Float64()
		} else if v != nil {
			c.fail(key, "%v is not a number", v)
		}
		if !(f >= 0) || f > 1e4 {
			c.fail(key, "%v, want 0 to 10000", f)
		}
		out, some = append(out, f), some || f != 0
	}
	if !some {
		return nil
	}
	if !c.covers(key, len(out), layers) {
		return nil
	}
	return out
}

// siluAt returns where silu, x·σ(x), has a positive value: min(silu(x), y) is silu(min(x, siluAt(y))).
func siluAt(y float64) float64 {
	x := y + 1
	for range 100 {
		sigma := 1 / (1 + math.Exp(-x))
		x -= (x*sigma - y) / (sigma * (1 + x*(1-sigma)))
	}
	return x
}

// stepHeads reads how many heads of queries layers with a window have.
func (s *Spec) stepHeads(c *Config, local func(int) bool) {
	other := c.Object("attention_other_setting")
	heads := c.Int("num_sliding_attention_heads", other.Int("num_attention_heads", s.Attn.Heads))
	other.must("num_attention_groups", s.Attn.KVHeads)
	other.must("head_dim", s.Attn.HeadDim)
	other.must("true_head_dim", s.Attn.HeadDim)
	other.must("attention_type", "sliding_attention")
	full := s.Attn.Heads
	s.headsOf(func(l int) int {
		if local(l) {
			return heads
		}
		return full
	})
	each, _, _ := c.field("per_layer_config")
	layers, ok := each.(map[string]any)
	if each != nil && !ok {
		c.fail("per_layer_config", "%v is not an object", each)
	}
	for layer, v := range layers {
		l, err := strconv.Atoi(layer)
		fields, ok := v.(map[string]any)
		if err != nil || !ok || l < 0 || l >= s.Layers || len(fields) != 1 || fmt.Sprint(fields["num_attention_heads"]) != fmt.Sprint(s.Attention(l).Heads) {
			c.Refuse("per_layer_config", "layer %s: %v, want heads as by the other fields", layer, v)
		}
	}
}
