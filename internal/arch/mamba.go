package arch

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// bamba has Mamba-2 in the place of attention but where attn_layer_indices says so, and rotates half of
// each head (models/bamba/modeling_bamba.py).
func bamba(c *Config) Spec {
	c.defaults("num_key_value_heads", 8, "rms_norm_eps", 1e-5, "max_position_embeddings", 262144, "intermediate_size", 14336)
	s := llama(c)
	s.partial(c, 0.5)
	if p := c.ropeObject(); p.Has("partial_rotary_factor") {
		p.must("partial_rotary_factor", 0.5)
	}
	c.must("partial_rotary_factor", 0.5)
	c.ignore("attn_rotary_emb") // that, in dimensions of published heads
	attends := c.Floats("attn_layer_indices")
	s.Linear = func(l int) bool { return !slices.Contains(attends, float64(l)) }
	c.kinds("layers_block_type")
	s.mamba(c.mambaOf(c.Int("mamba_expand", 2)*s.Hidden), "mamba")
	n := &s.Names
	n.Final, n.NormMLPIn = "model.final_layernorm", "pre_ff_layernorm"
	n.Gate, n.Up, n.Down = "feed_forward.gate_proj", "feed_forward.up_proj", "feed_forward.down_proj"
	c.must("hidden_act", "silu") // also behind the convolution
	c.ignore("num_logits_to_keep", "z_loss_coefficient", "mamba_chunk_size", "use_mamba_kernels")
	return s
}

// graniteHybrid is graniteMoEShared with Mamba-2 where layer_types says so; it may have no experts but the one that
// all tokens see (models/granitemoehybrid/modeling_granitemoehybrid.py).
func graniteHybrid(c *Config) Spec {
	var s Spec
	c.defaults("num_local_experts", 8, "num_experts_per_tok", 2, "shared_intermediate_size", 1024)
	if c.Int("num_local_experts") > 0 {
		s = graniteMoEShared(c)
	} else {
		c.ignore("num_experts_per_tok")
		c.replace("intermediate_size", c.Int("shared_intermediate_size"))
		s = granite(c)
		n := &s.Names
		n.Gate, n.Up, n.Down = "shared_mlp.gate_proj", "shared_mlp.up_proj", "shared_mlp.output_linear"
		s.fused("shared_mlp.input_linear", Blocks, false, n.Gate, n.Up)
	}
	if kind := c.String("position_embedding_type", ""); kind != "rope" {
		if kind != "" && kind != "nope" {
			c.refuse("position_embedding_type", kind)
		}
		s.Rope = nil
	}
	kinds := c.kinds("layer_types")
	s.Linear = func(l int) bool { return kinds == nil || kinds[l] == "linear_attention" }
	s.mamba(c.mambaOf(c.Int("mamba_expand", 2)*s.Hidden), "mamba")
	c.must("hidden_act", "silu") // also behind the convolution
	c.must("normalization_function", "rmsnorm")
	c.ignore("mamba_chunk_size", "init_method")
	return s
}

// A mamba2 is what configurations say of Mamba-2, by whatever names.
type mamba2 struct {
	heads, dim, state, groups, kernel int
	bias, convBias                    bool
	eps, least                        float64
}

// mambaOf reads Mamba-2 by the names that it has beside attention; all heads together are so wide.
func (c *Config) mambaOf(width int) mamba2 {
	m := mamba2{heads: c.Int("mamba_n_heads", 128), state: c.Int("mamba_d_state", 256), groups: c.Int("mamba_n_groups", 1), kernel: c.Int("mamba_d_conv", 4),
		bias: c.Bool("mamba_proj_bias", false), convBias: c.Bool("mamba_conv_bias", true), eps: c.Float("rms_norm_eps", 1e-6)}
	m.dim = width / max(m.heads, 1)
	if v, _, _ := c.field("mamba_d_head"); v != nil && v != "auto" {
		m.dim = c.Int("mamba_d_head")
	}
	if m.dim*m.heads != width {
		c.fail("mamba_n_heads", "%d heads of %d dimensions, want %d in all", m.heads, m.dim, width)
	}
	c.unlimited()
	return m
}

// unlimited refuses limits of steps of time, but for none, and those that no float32 reaches.
func (c *Config) unlimited() {
	var limits []string
	for _, v := range list[any](c, "time_step_limit", "numbers") {
		if tagged, ok := v.(map[string]any); ok { // as of ordered.Tagged
			v = tagged["__float__"]
		}
		if f, err := strconv.ParseFloat(fmt.Sprint(v), 64); err == nil && f > math.MaxFloat32 {
			v = "Infinity"
		}
		limits = append(limits, fmt.Sprint(v))
	}
	if text := strings.Join(limits, " to "); limits != nil && text != "0.0 to Infinity" && text != "0 to Infinity" {
		c.refuse("time_step_limit", text)
	}
}

// mamba has Mamba-2 where s.Linear says so, with the names prefix.in_proj and so on (models/mamba2/modeling_mamba2.py).
func (s *Spec) mamba(m mamba2, prefix string) {
	s.Delta = Delta{KeyHeads: m.groups, ValueHeads: m.heads, KeyDim: m.state, ValueDim: m.dim, Kernel: m.kernel, NormEps: float32(m.eps),
		Plain: true, Groups: m.groups, Least: float32(m.least), ConvBias: m.convBias, BiasIn: m.bias, BiasO: m.bias}
	n, in := &s.Names, prefix+".in_proj"
	n.DeltaZ, n.DeltaV, n.DeltaK, n.DeltaQ, n.DeltaA = in+"_z", in+"_x", in+"_b", in+"_c", in+"_dt"
	n.DeltaO, n.DeltaNorm, n.DeltaConv, n.DeltaConvBias = prefix+".out_proj", prefix+".norm", prefix+".conv1d.weight", prefix+".conv1d.bias"
	n.DeltaDecay, n.DeltaBias, n.DeltaSkip = prefix+".A_log", prefix+".dt_bias", prefix+".D"
	s.fused(in, Blocks, m.bias, n.DeltaZ, n.DeltaV, n.DeltaK, n.DeltaQ, n.DeltaA)
}

// spellings are what kinds of layers are called in files, and in transformers 5.
var spellings = map[string]string{
	"mamba": "linear_attention", "attention": "full_attention", "linear_attention": "linear_attention", "full_attention": "full_attention",
	"conv": "conv", "moe": "moe", "mlp": "mlp",
}

// kinds returns the kinds of layers that a field lists, nil if there is no such field.
func (c *Config) kinds(key string) []string {
	list := c.eachLayer(key)
	if list == nil {
		return nil
	}
	kinds := make([]string, len(list))
	for i, kind := range list {
		if kinds[i] = spellings[kind]; kinds[i] == "" {
			c.refuse(key, kind)
			return nil
		}
	}
	return kinds
}

// mamba2LM is Mamba-2 alone (models/mamba2/modeling_mamba2.py).
func mamba2LM(c *Config) Spec {
	c.defaults("vocab_size", 32768, "hidden_size", 4096, "num_hidden_layers", 64, "max_position_embeddings", 1<<20)
	m := mamba2{heads: c.Int("num_heads", 128), dim: c.Int("head_dim", 64), state: c.Int("state_size", 128), groups: c.Int("n_groups", 8), kernel: c.Int("conv_kernel", 4),
		bias: c.Bool("use_bias", false), convBias: c.Bool("use_conv_bias", true), eps: c.Float("layer_norm_epsilon", 1e-5)}
	for _, key := range []string{"num_attention_heads", "num_key_value_heads", "head_dim", "intermediate_size"} {
		c.replace(key, 1) // of what no layer has
	}
	s := llama(c)
	s.Norm.Eps, s.Rope = float32(m.eps), nil
	s.Linear, s.Widths = everyLayer, func(int) int { return 0 }
	s.mamba(m, "mixer")
	s.backbone("embeddings")
	c.unlimited()
	c.must("hidden_act", "silu")
	c.ignore("expand", "time_step_rank", "time_step_min", "time_step_max", "time_step_floor", "rescale_prenorm_residual", "residual_in_fp32", "chunk_size", "rms_norm", "norm_before_gate", "time_step_scale")
	return s
}

// backbone has the names that state space models have, with one norm a layer.
func (s *Spec) backbone(embed string) {
	n := &s.Names
	n.Embed, n.Layers, n.Final, n.NormIn, n.NormMLPIn = "backbone."+embed, "backbone.layers.*", "backbone.norm_f", "norm", "norm"
}

// nemotronH has layers of one sublayer each: Mamba-2, attention without positions, an MLP, or experts, both without a
// gate (models/nemotron_h/modeling_nemotron_h.py, configuration_nemotron_h.py).
func nemotronH(c *Config) Spec {
	c.defaults("vocab_size", 131072, "hidden_size", 4096, "intermediate_size", 21504, "num_attention_heads", 32, "num_key_value_heads", 8,
		"head_dim", 128, "max_position_embeddings", 4096, "rms_norm_eps", 1e-5, "hidden_act", "relu2")
	c.rename("hidden_act", "mlp_hidden_act", "rms_norm_eps", "layer_norm_epsilon", "rms_norm_eps", "norm_eps", "head_dim", "attention_head_dim",
		"n_groups", "mamba_n_groups", "conv_kernel", "mamba_d_conv", "time_step_min", "mamba_dt_min", "use_conv_bias", "mamba_conv_bias", "time_step_limit", "mamba_dt_limit")
	kinds := c.blockKinds()
	c.replace("num_hidden_layers", len(kinds))
	s := llama(c)
	s.Rope = nil
	is := func(kind string) func(l int) bool { return func(l int) bool { return kinds[l] == kind } }
	s.Linear, s.Unattended = is("linear_attention"), func(l int) bool { return kinds[l] == "mlp" || kinds[l] == "moe" }
	s.Widths = func(l int) int {
		if kinds[l] == "mlp" {
			return s.MLP.Width
		}
		return 0
	}
	s.ungated("mixer.up_proj", "mixer.down_proj")
	n := &s.Names
	n.Q, n.K, n.V, n.O = "mixer.q_proj", "mixer.k_proj", "mixer.v_proj", "mixer.o_proj"
	m := mamba2{heads: c.Int("mamba_num_heads", 128), dim: c.Int("mamba_head_dim", 64), state: c.Int("ssm_state_size", 128), groups: c.Int("n_groups", 8), kernel: c.Int("conv_kernel", 4),
		bias: c.Bool("use_bias", false), convBias: c.Bool("use_conv_bias", true), eps: float64(s.Norm.Eps), least: c.Float("time_step_min", 0.001)}
	s.mamba(m, "mixer")
	s.backbone("embeddings")
	c.unlimited()
	for _, kind := range kinds {
		if kind == "moe" && s.MoE.Experts == 0 {
			s.nemotronExperts(c)
			s.Dense = func(l int) bool { return kinds[l] != "moe" }
		}
	}
	other := *n
	other.Embed, other.Layers, other.Final = "model.embeddings", "model.layers.*", "model.norm_f"
	s.Other = []Names{other}
	c.must("mamba_hidden_act", "silu")
	c.must("sliding_window")
	c.ignore("expand", "mamba_expand", "chunk_size", "mamba_chunk_size", "mamba_proj_bias", "time_step_max", "mamba_dt_max", "time_step_floor", "mamba_dt_init_floor", "time_step_rank",
		"rescale_prenorm_residual", "residual_in_fp32", "num_logits_to_keep", "use_mamba_kernels", "mamba_ssm_cache_dtype", "moe_shared_expert_overlap",
		"mtp_layers_block_type", "mtp_hybrid_override_pattern", "mtp_layer_types", "num_query_groups", "is_hybrid_model", "partial_rotary_factor")
	for _, key := range []string{"n_routed_experts", "num_local_experts", "n_shared_experts", "moe_intermediate_size", "moe_shared_expert_intermediate_size", "num_experts_per_tok", "routed_scaling_factor", "n_group", "topk_group", "norm_topk_prob", "moe_latent_size"} {
		if s.MoE.Experts == 0 {
			c.ignore(key) // of layers that there are not
		}
	}
	return s
}

// nemotronExperts are chosen as deepseek3's, by groups, and have no gate.
func (s *Spec) nemotronExperts(c *Config) {
	c.rename("n_routed_experts", "num_local_experts")
	m := MoE{Experts: c.Int("n_routed_experts", 8), TopK: c.Int("num_experts_per_tok", 2), Width: c.Int("moe_intermediate_size", 7688)}
	m.Routing.Routing = c.grouped(true)
	s.experts(m, "mixer.gate", "", "mixer.experts.*.up_proj", "mixer.experts.*.down_proj")
	s.corrected("mixer.gate.e_score_correction_bias")
	n := &s.Names
	s.MoE.Shared = c.Int("moe_shared_expert_intermediate_size", 7688)
	n.SharedUp, n.SharedDown = "mixer.shared_experts.up_proj", "mixer.shared_experts.down_proj"
	c.must("n_shared_experts", 1)
	c.must("mlp_bias", false) // which experts would not have
	if s.MoE.Latent = c.count("moe_latent_size", 0); s.MoE.Latent > 0 {
		n.LatentIn, n.LatentOut = "mixer.fc1_latent_proj", "mixer.fc2_latent_proj"
	}
}

// blockKinds returns the kinds of Nemotron-H's layers, which a list has, or a pattern of letters.
func (c *Config) blockKinds() (kinds []string) {
	c.rename("layers_block_type", "layer_types")
	stated := c.Int("num_hidden_layers", 0)
	if kinds = c.kinds("layers_block_type"); kinds == nil {
		pattern := c.String("hybrid_override_pattern", "")
		words := map[rune]string{'M': "linear_attention", '*': "full_attention", '-': "mlp", 'E': "moe"}
		for _, r := range pattern {
			if words[r] == "" {
				c.refuse("hybrid_override_pattern", string(r))
			}
			kinds = append(kinds, words[r])
		}
		if pattern == "" {
			kinds = []string{"linear_attention", "moe", "full_attention", "mlp"}
		}
	}
	c.ignore("hybrid_override_pattern")
	if stated != 0 && stated != len(kinds) && c.Err() == nil {
		c.fail("num_hidden_layers", "%d, and there are %d kinds of layers: %s", stated, len(kinds), strings.Join(kinds, ", "))
	}
	if len(kinds) > maxLayers {
		c.fail("num_hidden_layers", "%d kinds of layers, want %d at most", len(kinds), maxLayers)
		return nil
	}
	return kinds
}
