package arch

import (
	"encoding/json"
	"math"

	"exl2/internal/device"
)

// llama is the architecture that the others are described against
// (transformers models/llama/modeling_llama.py).
func llama(c *Config) Spec {
	heads := c.Int("num_attention_heads")
	head := c.Int("head_dim", c.Int("hidden_size")/max(heads, 1))
	rope, bias := c.rope(head), c.Bool("attention_bias", false)
	s := Spec{
		Vocab:        c.Int("vocab_size"),
		Hidden:       c.Int("hidden_size"),
		Layers:       c.Int("num_hidden_layers"),
		MaxPositions: c.Int("max_position_embeddings", 2048),
		Tied:         c.Bool("tie_word_embeddings", false),
		Norm:         device.Norm{Kind: device.RMS, Eps: float32(c.Float("rms_norm_eps", 1e-6))},
		Attn:         Attn{Heads: heads, KVHeads: c.Int("num_key_value_heads", heads), HeadDim: head, BiasQKV: bias, BiasO: bias},
		MLP:          MLP{Width: c.Int("intermediate_size"), Bias: c.Bool("mlp_bias", false)},
		Rope:         func(int) Rope { return rope },
		Names: Names{
			Embed: "model.embed_tokens", Layers: "model.layers.*", Final: "model.norm", Head: "lm_head",
			Norms: Norms{NormIn: "input_layernorm", NormMLPIn: "post_attention_layernorm"},
			Q:     "self_attn.q_proj", K: "self_attn.k_proj", V: "self_attn.v_proj", O: "self_attn.o_proj",
			Gate: "mlp.gate_proj", Up: "mlp.up_proj", Down: "mlp.down_proj",
		},
	}
	s.scaleQuery(float64(max(head, 1)))
	s.MLP.Act, s.MLP.Squared = c.act("hidden_act", "silu")
	return s
}

// mistral sees a window of past positions (models/mistral/modeling_mistral.py).
func mistral(c *Config) Spec {
	c.defaults("num_key_value_heads", 8, "max_position_embeddings", 131072, "sliding_window", 4096)
	s := llama(c)
	s.Window = c.window(everyLayer)
	return s
}

// ministral may leave layers without a window (models/ministral/modeling_ministral.py).
func ministral(c *Config) Spec { return mistral(c) }

// ministral3 scales queries by position (models/ministral3/modeling_ministral3.py).
func ministral3(c *Config) Spec {
	c.defaults("max_position_embeddings", 262144, "rms_norm_eps", 1e-5, "head_dim", 128, "sliding_window", 0)
	s := mistral(c)
	s.scaledByPosition(c)
	return s
}

// scaledByPosition multiplies queries by a factor that grows with the position.
func (s *Spec) scaledByPosition(c *Config) {
	p := c.ropeObject()
	s.Attn.Temperature = float32(p.Float("llama_4_scaling_beta", 0))
	s.Attn.TemperatureSpan = p.Int("original_max_position_embeddings", s.Rope(0).Scaling.Original)
	if s.Attn.Temperature != 0 && s.Attn.TemperatureSpan < 1 {
		p.fail("original_max_position_embeddings", "%d, want 1 or more beside llama_4_scaling_beta", s.Attn.TemperatureSpan)
	}
	p.ignore("max_position_embeddings")
}

// arcee has an MLP without a gate and relu² (models/arcee/modeling_arcee.py).
func arcee(c *Config) Spec {
	c.defaults("hidden_act", "relu2", "rms_norm_eps", 1e-5, "max_position_embeddings", 4096)
	s := llama(c)
	s.ungated("mlp.up_proj", "mlp.down_proj")
	return s
}

// seedOSS has biases on q, k and v (models/seed_oss/modeling_seed_oss.py).
func seedOSS(c *Config) Spec {
	c.defaults("attention_bias", true, "head_dim", 128, "num_key_value_heads", 8, "max_position_embeddings", 524288)
	s := llama(c)
	s.Attn.BiasO = c.Bool("attention_out_bias", false)
	return s
}

// helium rotates neighbours; its attention has no bias behind it
// (models/helium/modeling_helium.py).
func helium(c *Config) Spec {
	c.defaults("head_dim", 128, "rms_norm_eps", 1e-8, "rope_theta", 100000, "max_position_embeddings", 4096)
	s := llama(c)
	s.Attn.BiasO = false
	s.interleaved()
	return s
}

// ernie45 rotates neighbours (models/ernie4_5/modeling_ernie4_5.py).
func ernie45(c *Config) Spec {
	c.defaults("head_dim", 128, "num_key_value_heads", 2, "rms_norm_eps", 1e-5, "rope_theta", 500000, "max_position_embeddings", 131072, "tie_word_embeddings", true)
	s := llama(c)
	s.biased(c.Bool("use_bias", false))
	s.interleaved()
	return s
}

// smolLM3 leaves every fourth layer without positions (models/smollm3/modeling_smollm3.py).
func smolLM3(c *Config) Spec {
	c.defaults("num_key_value_heads", 4, "max_position_embeddings", 32768, "rope_theta", 2000000, "tie_word_embeddings", true)
	s := llama(c)
	on := notEvery(c.Int("no_rope_layer_interval", 4))
	if list := c.Floats("no_rope_layers"); list != nil { // 1: with positions
		on = func(l int) bool { return l < len(list) && list[l] != 0 }
	}
	s.ropeWhere(on)
	if c.Bool("use_sliding_window", false) {
		s.Window = c.window(func(l int) bool { return !on(l) })
	}
	c.ignore("sliding_window", "layer_types")
	return s
}

// granite has multipliers (models/granite/modeling_granite.py).
func granite(c *Config) Spec {
	s := llama(c)
	s.EmbedScale, s.Residual = float32(c.factor("embedding_multiplier", 1)), float32(c.factor("residual_multiplier", 1))
	s.Attn.Scale, s.LogitScale = float32(c.Float("attention_multiplier", 1)), float32(1/c.factor("logits_scaling", 1))
	return s
}

// hyperCLOVAX may have norms behind the sublayers, and multiplies logits
// (models/hyperclovax/modeling_hyperclovax.py).
func hyperCLOVAX(c *Config) Spec {
	s := granite(c)
	if !c.Has("attention_multiplier") {
		s.scaleQuery(float64(max(s.Attn.HeadDim, 1)))
	}
	s.LogitScale = float32(c.factor("logits_scaling", 1))
	if c.Bool("use_post_norm", true) {
		s.Names.NormAttnOut, s.Names.NormMLPOut = "post_norm1", "post_norm2"
	}
	return s
}

// graniteSWA has sinks, windows, and a theta a layer (models/granite_swa/modeling_granite_swa.py).
func graniteSWA(c *Config) Spec {
	c.defaults("num_key_value_heads", 4, "rms_norm_eps", 1e-5, "max_position_embeddings", 8192, "tie_word_embeddings", true)
	s := granite(c)
	s.swa(c)
	return s
}

// swa is what both Granites with windows have. A layer whose theta is 0 has no positions.
func (s *Spec) swa(c *Config) {
	c.defaults("sliding_window", 128)
	s.Window = c.window(func(l int) bool { return l%4 != 0 })
	s.Attn.Sinks, s.Names.Sinks = true, "self_attn.sinks"
	thetas := c.Floats("layer_rope_theta")
	if thetas == nil {
		return
	}
	c.covers("layer_rope_theta", len(thetas), s.Layers)
	rope := s.Rope(0)
	s.Rope = func(l int) Rope {
		if l >= len(thetas) || thetas[l] == 0 {
			return Rope{}
		}
		r := rope
		r.Theta = thetas[l]
		return r
	}
}

// cwm has windows on all layers but every fourth, from the first on (models/cwm/modeling_cwm.py).
func cwm(c *Config) Spec {
	c.defaults("num_key_value_heads", 8, "head_dim", 128, "rms_norm_eps", 1e-5, "max_position_embeddings", 131072, "rope_theta", 1000000, "sliding_window", 8192,
		"rope_scaling", map[string]any{"rope_type": "llama3", "factor": json.Number("16"), "low_freq_factor": json.Number("1"),
			"high_freq_factor": json.Number("4"), "original_max_position_embeddings": json.Number("8192")})
	s := llama(c)
	s.Window = c.window(func(l int) bool { return l%4 != 0 })
	return s
}

// miniCPM has multipliers, too (openbmb/MiniCPM-2B modeling_minicpm.py).
func miniCPM(c *Config) Spec {
	c.defaults("tie_word_embeddings", true)
	s := llama(c)
	s.multiplied(c)
	return s
}

// multiplied reads MiniCPM's multipliers.
func (s *Spec) multiplied(c *Config) {
	s.EmbedScale = float32(c.factor("scale_emb", 1))
	depth := math.Sqrt(float64(max(s.Layers, 1)))
	if v, _, there := c.field("scale_depth"); v != nil || !there { // null: no multiplier
		s.Residual = float32(c.factor("scale_depth", 1) / depth)
	}
	s.LogitScale = float32(c.factor("dim_model_base", float64(s.Hidden)) / float64(max(s.Hidden, 1)))
}

// yi has norms of other names (01-ai/Yi-6B modeling_yi.py), in its first files.
func yi(c *Config) Spec {
	s := llama(c)
	s.Other = []Names{s.Names}
	s.Names.NormIn, s.Names.NormMLPIn = "ln1", "ln2"
	return s
}

// orion has LayerNorm (OrionStarAI/Orion-14B-Base modeling_orion.py).
func orion(c *Config) Spec {
	s := llama(c)
	s.layerNorm(c.Float("rms_norm_eps", 1e-5), true)
	return s
}

// index may normalize the rows of the head (IndexTeam/Index-1.9B modeling_index.py).
func index(c *Config) Spec {
	s := llama(c)
	s.HeadUnit = c.Float("norm_head", 0) != 0
	return s
}

// internLM2 keeps q, k and v in one tensor (internlm/internlm2-7b modeling_internlm2.py).
func internLM2(c *Config) Spec {
	c.defaults("max_position_embeddings", 2048)
	s := llama(c)
	s.Attn.BiasQKV, s.Attn.BiasO = c.Bool("bias", true), c.Bool("bias", true)
	n := &s.Names
	n.Embed, n.Head, n.NormIn, n.NormMLPIn = "model.tok_embeddings", "output", "attention_norm", "ffn_norm"
	n.O, n.Gate, n.Up, n.Down = "attention.wo", "feed_forward.w1", "feed_forward.w3", "feed_forward.w2"
	s.fusedQKV("attention", "wqkv", ByHead)
	return s
}

// internLM3 has biases by two switches (internlm/internlm3-8b-instruct modeling_internlm3.py).
func internLM3(c *Config) Spec {
	c.defaults("num_key_value_heads", 2, "rms_norm_eps", 1e-5, "head_dim", 128, "max_position_embeddings", 32768)
	c.rename("attention_bias", "qkv_bias", "mlp_bias", "bias")
	s := llama(c)
	s.Attn.BiasO = s.MLP.Bias
	return s
}

// iQuestCoder could clip and have windows, which no published model does
// (IQuestLab/IQuest-Coder-V1-40B-Base modeling_iquestcoder.py).
func iQuestCoder(c *Config) Spec {
	c.defaults("num_key_value_heads", 8, "rms_norm_eps", 1e-5, "head_dim", 128, "max_position_embeddings", 131072)
	s := llama(c)
	c.must("clip_qkv")
	c.must("use_sliding_window", false)
	c.ignore("sliding_window", "max_window_layers")
	return s
}

// exaone has other names (LGAI-EXAONE/EXAONE-3.0-7.8B-Instruct modeling_exaone.py).
func exaone(c *Config) Spec {
	c.defaults("num_key_value_heads", 8, "rms_norm_eps", 1e-5, "rope_theta", 500000, "max_position_embeddings", 4096)
	c.rename("num_hidden_layers", "num_layers", "rms_norm_eps", "layer_norm_epsilon", "hidden_act", "activation_function")
	s := llama(c)
	n := &s.Names
	n.Embed, n.Layers, n.Final = "transformer.wte", "transformer.h.*", "transformer.ln_f"
	n.NormIn, n.NormMLPIn = "ln_1", "ln_2"
	n.Q, n.K, n.V, n.O = "attn.attention.q_proj", "attn.attention.k_proj", "attn.attention.v_proj", "attn.attention.out_proj"
	n.Gate, n.Up, n.Down = "mlp.c_fc_0", "mlp.c_fc_1", "mlp.c_proj"
	return s
}

// baichuan keeps q, k and v in one tensor (baichuan-inc/Baichuan-7B modeling_baichuan.py). Those of
// 13 billion have ALiBi in the place of RoPE, and no max_position_embeddings.
func baichuan(c *Config) Spec {
	if !c.Has("max_position_embeddings") {
		c.Refuse("max_position_embeddings", "it is missing, as where positions are those of ALiBi, which is not known")
	}
	s := llama(c)
	s.fusedQKV("self_attn", "W_pack", Blocks)
	return s
}

// baichuan2 normalizes the rows of the head (baichuan-inc/Baichuan2-7B-Base modeling_baichuan.py). The
// first Baichuan, whose head is as it is, has the same name where it has 13 billion.
func baichuan2(c *Config) Spec {
	c.ignore("z_loss_weight") // of training
	s := baichuan(c)
	if s.Vocab == 64000 {
		c.Refuse("vocab_size", "64000, as of the first Baichuan, which of 7 billion is a BaiChuanForCausalLM; correct architectures")
	}
	s.HeadUnit = true
	return s
}

// miMo is qwen2 with layers that predict further tokens under a name of their own
// (XiaomiMiMo/MiMo-7B-Base modeling_mimo.py).
func miMo(c *Config) Spec {
	c.defaults("attention_bias", true)
	s := qwen2(c)
	s.Attn.BiasQKV = c.Bool("attention_bias", true)
	return s
}
