package arch

import "exl2/internal/device"

// qwen3Next has linear attention on all layers but every fourth, whose attention is gated, and
// experts (models/qwen3_next/modeling_qwen3_next.py).
func qwen3Next(c *Config) Spec {
	s := qwenHybrid(c)
	s.heads("in_proj_qkvz", "in_proj_ba")
	c.defaults("shared_expert_intermediate_size", 512, "moe_intermediate_size", 512, "num_experts_per_tok", 10, "num_experts", 512, "norm_topk_prob", true)
	s.sharingExperts(c)
	return s
}

// qwen35 keeps the matrices of linear attention otherwise, and has an MLP
// (models/qwen3_5/modeling_qwen3_5.py).
func qwen35(c *Config) Spec {
	c.defaults("vocab_size", 248320, "hidden_size", 4096, "intermediate_size", 12288, "num_hidden_layers", 32, "num_key_value_heads", 4)
	s := qwenHybrid(c)
	s.blocks()
	return s
}

// qwen35MoE is qwen35 with experts on every layer, stacked (models/qwen3_5_moe/modeling_qwen3_5_moe.py).
func qwen35MoE(c *Config) Spec {
	c.defaults("vocab_size", 248320, "num_hidden_layers", 40, "num_experts_per_tok", 8, "num_experts", 256,
		"shared_expert_intermediate_size", 512, "moe_intermediate_size", 512, "norm_topk_prob", true)
	c.must("norm_topk_prob", true)
	c.must("decoder_sparse_step", 1)
	c.replace("intermediate_size", 1) // of MLPs, which no layer has
	s := qwenHybrid(c)
	s.blocks()
	s.sharingExperts(c)
	n := s.Names
	s.Stored = append(s.Stored,
		Stored{Weight: "mlp.experts.gate_up_proj", Holds: []string{n.ExpertGate, n.ExpertUp}, Stacked: true},
		Stored{Weight: "mlp.experts.down_proj", Holds: []string{n.ExpertDown}, Stacked: true})
	return s
}

// qwen35Vision and qwen35MoEVision are these behind a picture encoder.
func qwen35Vision(c *Config) Spec { return pictured(c, qwen35) }

func qwen35MoEVision(c *Config) Spec { return pictured(c, qwen35MoE) }

// pictured is the language model of a checkpoint that nests its names.
func pictured(c *Config, build func(*Config) Spec) Spec {
	s := build(c.text())
	s.Names.nest()
	return s
}

// qwenHybrid is what these have in common: norms whose weights are differences from one, heads
// normalized and rotated by a quarter, and linear attention where layer_types says so.
func qwenHybrid(c *Config) Spec {
	c.defaults("head_dim", 256, "hidden_size", 2048, "num_hidden_layers", 48, "num_attention_heads", 16, "num_key_value_heads", 2, "max_position_embeddings", 32768,
		"intermediate_size", 5632, "vocab_size", 151936, "linear_conv_kernel_dim", 4, "linear_key_head_dim", 128, "linear_value_head_dim", 128,
		"linear_num_key_heads", 16, "linear_num_value_heads", 32)
	s := llama(c)
	s.Norm.Offset = 1
	s.headNorms(EachHead, "self_attn.q_norm", "self_attn.k_norm")
	s.partial(c, 0.25)
	c.ropeObject().ignore("mrope_section", "mrope_interleaved")
	s.gated(c)
	s.delta(c)
	c.must("hidden_act", "silu") // also behind the convolution
	c.must("use_sliding_window", false)
	c.ignore("mamba_ssm_dtype", "mtp_num_hidden_layers", "mtp_use_dedicated_embeddings", "language_model_only")
	return s
}

// gated has the query's matrix hold, head by head, a gate of what attention gives.
func (s *Spec) gated(c *Config) {
	c.must("attn_output_gate", true)
	n := &s.Names
	n.Q = "self_attn.query_proj"
	s.gate(EachColumn, device.Logistic, "self_attn.gate_proj")
	t := Stored{Weight: "self_attn.q_proj.weight", Holds: []string{n.Q, n.AttnGate}, Order: ByGroup, Groups: s.Attn.Heads}
	if s.Attn.BiasQKV {
		t.Bias = "self_attn.q_proj.bias"
	}
	s.Stored = append(s.Stored, t)
}

// delta reads linear attention.
func (s *Spec) delta(c *Config) {
	s.Delta = Delta{
		KeyHeads: c.Int("linear_num_key_heads"), ValueHeads: c.Int("linear_num_value_heads"), KeyDim: c.Int("linear_key_head_dim"), ValueDim: c.Int("linear_value_head_dim"),
		Kernel: c.Int("linear_conv_kernel_dim"), NormEps: s.Norm.Eps,
	}
	c.must("output_gate_type", "swish")
	s.Linear = c.called("layer_types", "linear_attention", "full_attention", notEvery(c.step("full_attention_interval", 4)))
	n := &s.Names
	n.DeltaQ, n.DeltaK, n.DeltaV, n.DeltaZ = "linear_attn.in_proj_q", "linear_attn.in_proj_k", "linear_attn.in_proj_v", "linear_attn.in_proj_z"
	n.DeltaA, n.DeltaB, n.DeltaO, n.DeltaNorm = "linear_attn.in_proj_a", "linear_attn.in_proj_b", "linear_attn.out_proj", "linear_attn.norm"
	n.DeltaConv, n.DeltaDecay, n.DeltaBias = "linear_attn.conv1d.weight", "linear_attn.A_log", "linear_attn.dt_bias"
}

// heads has linear attention's matrices in two tensors, by heads of keys.
func (s *Spec) heads(qkvz, ba string) {
	n := s.Names
	s.Stored = append(s.Stored,
		Stored{Weight: "linear_attn." + qkvz + ".weight", Holds: []string{n.DeltaQ, n.DeltaK, n.DeltaV, n.DeltaZ}, Order: ByGroup, Groups: s.Delta.KeyHeads},
		Stored{Weight: "linear_attn." + ba + ".weight", Holds: []string{n.DeltaB, n.DeltaA}, Order: ByGroup, Groups: s.Delta.KeyHeads})
}

// blocks has queries, keys and values of linear attention in one tensor.
func (s *Spec) blocks() {
	n := s.Names
	s.fused("linear_attn.in_proj_qkv", Blocks, false, n.DeltaQ, n.DeltaK, n.DeltaV)
}
