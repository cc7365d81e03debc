package arch

import (
	"math"

	"exl2/internal/device"
)

// falconH1 has Mamba-2 beside attention in each layer, and multipliers of what matrices read and give
// (models/falcon_h1/modeling_falcon_h1.py).
func falconH1(c *Config) Spec {
	c.defaults("vocab_size", 128000, "hidden_size", 4096, "intermediate_size", 14336, "num_hidden_layers", 32, "num_attention_heads", 32, "num_key_value_heads", 8,
		"rms_norm_eps", 1e-5, "max_position_embeddings", 8192, "mamba_d_ssm", 1024)
	s := llama(c)
	s.Linear, s.Beside = everyLayer, true
	width := c.count("mamba_d_ssm", 1024)
	if width == 0 { // null
		width = c.Int("mamba_expand", 2) * s.Hidden
	}
	c.ignore("mamba_expand")
	s.mamba(c.mambaOf(width), "mamba")
	n := &s.Names
	n.Final, n.NormMLPIn = "model.final_layernorm", "pre_ff_layernorm"
	n.Gate, n.Up, n.Down = "feed_forward.gate_proj", "feed_forward.up_proj", "feed_forward.down_proj"
	if s.Delta.Bare = !c.Bool("mamba_rms_norm", false); !s.Delta.Bare && c.Bool("mamba_norm_before_gate", true) {
		c.Refuse("mamba_norm_before_gate", "a norm of groups in front of the gate")
	}
	c.ignore("mamba_norm_before_gate")
	s.falconScales(c)
	for _, key := range []string{"attention_bias", "mlp_bias", "projectors_bias", "mamba_proj_bias", "attn_layer_indices"} {
		c.must(key, false)
	}
	c.must("hidden_act", "silu") // also behind the convolution
	c.ignore("num_logits_to_keep", "mamba_chunk_size", "mamba_use_mlp", "mlp_expansion_factor", "layers_block_type", "layer_types",
		"time_step_floor", "time_step_max", "time_step_min", "time_step_rank", "use_mamba_kernels")
	return s
}

// falconScales reads the multipliers. Those of what attention reads and gives are one of its scores and one of its values, as all
// between is linear; that of the MLP's gate, which silu is not, is one of the sigmoid and one of what the MLP gives.
func (s *Spec) falconScales(c *Config) {
	f := func(key string) float64 { return c.factor(key, 1) }
	s.EmbedScale, s.LogitScale = float32(f("embedding_multiplier")), float32(f("lm_head_multiplier"))
	in := f("attention_in_multiplier")
	s.Attn.Scale *= float32(in * in * f("key_multiplier"))
	s.Attn.ValueScale = float32(in * f("attention_out_multiplier"))
	mlp, each := c.multipliers("mlp_multipliers", 2), c.multipliers("ssm_multipliers", 5)
	if gate := mlp[0]; gate != 1 {
		s.MLP.Clamp = device.Clamp{Limit: math.MaxFloat32, Up: math.MaxFloat32, Alpha: float32(gate)}
	}
	s.MLP.Scale = float32(mlp[0] * mlp[1])
	in = f("ssm_in_multiplier")
	scale := func(i int) float32 { return float32(in * each[i]) }
	s.Delta.Scales = DeltaScales{Z: scale(0), V: scale(1), K: scale(2), Q: scale(3), A: scale(4), O: float32(f("ssm_out_multiplier"))}
}

// multipliers returns a list of so many positive numbers, ones where there is none.
func (c *Config) multipliers(key string, n int) []float64 {
	list := c.Floats(key)
	if list == nil {
		for range n {
			list = append(list, 1)
		}
	}
	for _, v := range list {
		if len(list) != n || !(v > 0) || math.IsInf(v, 1) {
			c.fail(key, "%v, want %d positive numbers", list, n)
			return make([]float64, n)
		}
	}
	return list
}
