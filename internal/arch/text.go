package arch

import (
	"maps"
	"slices"
	"strings"
)

// text returns the configuration of a checkpoint's language model, which, in a
// nested one, leaves out what is as the class of its model_type has it.
func (c *Config) text() *Config {
	t := c.Object("text_config")
	t.ignore("model_type", "architectures")
	c.ignore(slices.Collect(maps.Keys(c.raw))...) // the rest is about pictures
	if c.Has("tie_word_embeddings") {
		t.replace("tie_word_embeddings", c.Bool("tie_word_embeddings", false))
	}
	return t
}

// prefixed puts the published checkpoints' prefix in front of all names, and
// knows the one that transformers writes since version 4.52.
func (s *Spec) prefixed() {
	now := s.Names
	for _, name := range []*string{&s.Names.Embed, &s.Names.Layers, &s.Names.Final, &s.Names.Head} {
		*name = "language_model." + *name
	}
	now.nest()
	s.Other = append(s.Other, now)
}

// nest turns model.x into model.language_model.x.
func (n *Names) nest() {
	for _, name := range []*string{&n.Embed, &n.Layers, &n.Final} {
		*name = strings.Replace(*name, "model.", "model.language_model.", 1)
	}
}

// inside are the language models that LLaVA's successors have been published
// with, by model_type.
var inside = map[string]func(*Config) Spec{
	"deepseek_v3": deepseek3, "gemma": gemma, "gemma2": gemma2, "gpt_oss": gptOSS, "kimi_k2": deepseek3, "llama": llama, "ministral3": ministral3, "mistral": mistral, "mistral4": mistral4, "phi3": phi3, "qwen2": qwen2, "qwen3": qwen3, "qwen3_moe": qwen3MoE,
}

// kimiVL is deepseek3 behind a picture encoder (moonshotai/Kimi-VL-A3B-Instruct modeling_kimi_vl.py).
func kimiVL(c *Config) Spec {
	c.Object("text_config").must("model_type", "deepseek_v3", "kimi_k2")
	return llava(c)
}

// llava is any of these with pictures in front
// (models/llava/modeling_llava.py, models/mistral3/modeling_mistral3.py).
func llava(c *Config) Spec {
	t := c.text()
	t.defaults("model_type", "llama", "vocab_size", 32000, "hidden_size", 4096, "num_hidden_layers", 32, "num_attention_heads", 32)
	kind := t.String("model_type")
	if kind == "llama" {
		t.defaults("intermediate_size", 11008)
	} else if strings.HasPrefix(kind, "minis") || kind == "mistral" {
		t.defaults("intermediate_size", 14336)
	}
	build := inside[kind]
	if build == nil {
		t.refuse("model_type", kind)
		return Spec{}
	}
	s := build(t)
	s.prefixed()
	return s
}

// gemma3Vision is gemma3 behind a picture encoder (models/gemma3/modeling_gemma3.py).
func gemma3Vision(c *Config) Spec {
	t := c.text()
	t.defaults("vocab_size", 262208, "hidden_size", 2304, "intermediate_size", 9216, "num_hidden_layers", 26,
		"num_attention_heads", 8, "num_key_value_heads", 4)
	s := gemma3(t)
	s.prefixed()
	return s
}

// qwen2VL is qwen2 with positions in three dimensions, which are the same for
// text (models/qwen2_vl/modeling_qwen2_vl.py, models/qwen2_5_vl).
func qwen2VL(c *Config) Spec {
	if c.Has("text_config") {
		c = c.text()
	}
	c.defaults("max_window_layers", 80, "rms_norm_eps", 1e-5, "rope_theta", 1e6, "vocab_size", 152064, "hidden_size", 8192,
		"intermediate_size", 29568, "num_hidden_layers", 80, "num_attention_heads", 64, "num_key_value_heads", 8)
	s := qwen2(c)
	c.ropeObject().ignore("mrope_section")
	now := s.Names
	now.nest()
	s.Other = append(s.Other, now)
	return s
}

// qwen3VL is qwen3 behind a picture encoder (models/qwen3_vl/modeling_qwen3_vl.py).
func qwen3VL(c *Config) Spec {
	t := c.text()
	t.defaults("rope_theta", 500000, "max_position_embeddings", 128000, "vocab_size", 151936, "hidden_size", 4096,
		"intermediate_size", 22016, "num_hidden_layers", 32, "num_attention_heads", 32)
	s := qwen3(t)
	t.ropeObject().ignore("mrope_section", "mrope_interleaved")
	s.Names.nest()
	return s
}

// qwen3VLMoE is qwen3MoE behind a picture encoder, with stacked experts, [in, out] in published
// files, and [out, in] in those of transformers 5 (models/qwen3_vl_moe/modeling_qwen3_vl_moe.py,
// conversion_mapping.py).
func qwen3VLMoE(c *Config) Spec {
	t := c.text()
	t.defaults("head_dim", nil, "rope_theta", 500000, "max_position_embeddings", 128000, "num_key_value_heads", 16, "norm_topk_prob", true, "tie_word_embeddings", true,
		"vocab_size", 151936, "hidden_size", 2048, "intermediate_size", 5632, "num_hidden_layers", 24, "num_attention_heads", 16,
		"moe_intermediate_size", 1408, "num_experts", 60, "num_experts_per_tok", 4)
	s := qwen3MoE(t)
	t.ropeObject().ignore("mrope_section", "mrope_interleaved")
	t.must("norm_topk_prob", true)
	s.Names.nest()
	n := s.Names
	s.Stored = append(s.Stored,
		Stored{Weight: "mlp.experts.gate_up_proj", Holds: []string{n.ExpertGate, n.ExpertUp}, Stacked: true, EitherWay: true},
		Stored{Weight: "mlp.experts.down_proj", Holds: []string{n.ExpertDown}, Stacked: true, EitherWay: true})
	return s
}

// glm4V is glm4 behind a picture encoder (models/glm4v/modeling_glm4v.py).
func glm4V(c *Config) Spec {
	t := c.text()
	t.defaults("head_dim", nil, "rms_norm_eps", 1e-5, "max_position_embeddings", 32768, "vocab_size", 151552, "hidden_size", 4096,
		"intermediate_size", 13696, "num_hidden_layers", 40, "num_attention_heads", 32)
	s := glm4(t)
	t.ropeObject().ignore("mrope_section")
	s.Names.nest()
	return s
}

// glm4VMoE is glm4MoE behind a picture encoder (models/glm4v_moe/modeling_glm4v_moe.py).
func glm4VMoE(c *Config) Spec {
	t := c.text()
	t.defaults("attention_bias", true, "max_position_embeddings", 65536, "vocab_size", 151424, "hidden_size", 4096, "intermediate_size", 10944,
		"num_hidden_layers", 46, "num_attention_heads", 96, "n_routed_experts", 128, "num_experts_per_tok", 8, "moe_intermediate_size", 1408)
	s := glm4MoE(t)
	t.ropeObject().ignore("mrope_section")
	s.Names.nest()
	return s
}
