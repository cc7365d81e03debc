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

// language returns the part of the configuration that is about the language model.
func (c *Config) language() *Config {
	if t := c.subs["thinker_config"]; t != nil {
		return t.language()
	}
	if t := c.subs[c.fileName("text_config")]; t != nil {
		return t
	}
	return c
}

// prefixed puts the published checkpoints' prefix in front of all names, and
// knows the one that transformers writes since version 4.52.
func (s *Spec) prefixed() {
	now := s.Names
	s.Names.begin("language_model.")
	now.nest()
	s.Other = append(s.Other, now)
}

// begin puts a prefix in front of all names.
func (n *Names) begin(prefix string) {
	for _, name := range []*string{&n.Embed, &n.Positions, &n.Layers, &n.Final, &n.Head} {
		if *name != "" {
			*name = prefix + *name
		}
	}
}

// nest turns model.x into model.language_model.x.
func (n *Names) nest() {
	n.under("model.language_model.")
}

// under puts another prefix in the place of model.
func (n *Names) under(prefix string) {
	for _, name := range []*string{&n.Embed, &n.Positions, &n.Layers, &n.Final, &n.PerLayerTable, &n.PerLayerModel, &n.PerLayerNorm} {
		*name = strings.Replace(*name, "model.", prefix, 1)
	}
}

// inside are the language models that LLaVA's successors have been published
// with, by model_type.
var inside = map[string]func(*Config) Spec{
	"cohere": cohere, "cohere2": cohere2, "deepseek_v3": deepseek3, "exaone4": exaone4, "exaone4_5_text": exaone4, "gemma": gemma, "gemma2": gemma2, "gpt_oss": gptOSS,
	"granite": granite, "granite4_vision_text": granite, "hyperclovax": hyperCLOVAX, "internlm2": internLM2, "kimi_k2": deepseek3,
	"llama": llama, "ministral3": ministral3, "mistral": mistral, "mistral4": mistral4, "opt": opt, "persimmon": persimmon, "phi3": phi3, "qwen2": qwen2, "qwen3": qwen3, "qwen3_moe": qwen3MoE,
}

// behind is llava whose language model has a model_type, and sizes, where the file leaves them out.
func behind(c *Config, kind string, sizes ...any) Spec {
	c.Object("text_config").defaults(append([]any{"model_type", kind}, sizes...)...)
	return llava(c)
}

// cohereVision is cohere2, or cohere, behind a picture encoder (models/aya_vision/modeling_aya_vision.py,
// models/cohere2_vision/modeling_cohere2_vision.py, which since transformers 4.52 leave out the language
// model's logit_scale).
func cohereVision(c *Config) Spec {
	return behind(c, "cohere2", "vocab_size", 256000, "hidden_size", 8192, "intermediate_size", 22528, "num_hidden_layers", 40, "num_attention_heads", 64)
}

// exaone45 is exaone4 behind a picture encoder (models/exaone4_5/modeling_exaone4_5.py).
func exaone45(c *Config) Spec {
	return behind(c, "exaone4", "vocab_size", 102400, "intermediate_size", 16384)
}

// gotOCR2 is qwen2 behind a picture encoder (models/got_ocr2/modeling_got_ocr2.py).
func gotOCR2(c *Config) Spec {
	return behind(c, "qwen2", "vocab_size", 151860, "hidden_size", 1024, "intermediate_size", 2816, "num_hidden_layers", 24, "num_attention_heads", 16,
		"rope_theta", 1e6, "tie_word_embeddings", true)
}

// lightOnOCR is qwen3 behind a picture encoder (models/lighton_ocr/modeling_lighton_ocr.py).
func lightOnOCR(c *Config) Spec {
	return behind(c, "qwen3", "vocab_size", 151936, "hidden_size", 1024, "intermediate_size", 3072, "num_hidden_layers", 28, "num_attention_heads", 16,
		"num_key_value_heads", 8, "max_position_embeddings", 40960, "rope_theta", 1e6, "tie_word_embeddings", true)
}

// internVLChat is InternVL before transformers had it, which calls text_config llm_config
// (OpenGVLab/InternVL3-8B modeling_internvl_chat.py).
func internVLChat(c *Config) Spec {
	c.rename("text_config", "llm_config")
	c.must("use_llm_lora", 0)
	t := c.Object("text_config")
	if !t.Has("model_type") {
		t.fail("model_type", "missing")
	}
	tied := t.Bool("tie_word_embeddings", false)
	s := llava(c)
	s.Tied = s.Tied || tied
	return s
}

// dotsOCR is qwen2 beside a picture encoder (rednote-hilab/dots.ocr modeling_dots_ocr.py).
func dotsOCR(c *Config) Spec {
	s := qwen2(c)
	c.must("attention_bias", true)
	return s
}

// deepseekVL is llama behind picture encoders (models/deepseek_vl/modeling_deepseek_vl.py, models/deepseek_vl_hybrid,
// models/janus).
func deepseekVL(c *Config) Spec { return behind(c, "llama", "tie_word_embeddings", true) }

// qianfanOCR is qwen3 behind a picture encoder (models/qianfan_ocr/modeling_qianfan_ocr.py).
func qianfanOCR(c *Config) Spec {
	return behind(c, "qwen3", "vocab_size", 151936, "intermediate_size", 22016)
}

// kimiVL is deepseek3 behind a picture encoder (moonshotai/Kimi-VL-A3B-Instruct modeling_kimi_vl.py,
// models/kimi_k25/modeling_kimi_k25.py).
func kimiVL(c *Config) Spec {
	c.Object("text_config").must("model_type", "deepseek_v3", "kimi_k2")
	return behind(c, "deepseek_v3")
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
	s, ok := t.byKind(kind)
	if ok {
		s.prefixed()
	}
	return s
}

// byKind is the language model of a model_type, of those that are known inside others.
func (c *Config) byKind(kind string) (Spec, bool) {
	build := inside[kind]
	if build == nil {
		c.refuse("model_type", kind)
		return Spec{}, false
	}
	return build(c), true
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
	s.nested()
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
	s := glm4Text(c)
	c.Object("text_config").must("head_dim", s.Hidden/max(s.Attn.Heads, 1))
	return s
}

func glm4Text(c *Config) Spec {
	t := c.text()
	t.defaults("head_dim", nil, "rms_norm_eps", 1e-5, "partial_rotary_factor", 1, "max_position_embeddings", 32768, "vocab_size", 151552, "hidden_size", 4096,
		"intermediate_size", 13696, "num_hidden_layers", 40, "num_attention_heads", 32)
	s := glm4(t)
	t.ropeObject().ignore("mrope_section")
	s.Names.nest()
	return s
}

// glm46V is glm4V, or, by its model_type, glm4VMoE (models/glm46v/modeling_glm46v.py).
func glm46V(c *Config) Spec {
	switch kind := c.Object("text_config").String("model_type", "glm4v_text"); kind {
	case "glm4v_text":
		return glm4V(c)
	case "glm4v_moe_text":
		return glm4VMoE(c)
	default:
		c.refuse("text_config.model_type", kind)
		return Spec{}
	}
}

// glmOCR is glm4V without biases (models/glm_ocr/modeling_glm_ocr.py).
func glmOCR(c *Config) Spec {
	t := c.Object("text_config")
	t.defaults("attention_bias", false, "num_key_value_heads", 8, "max_position_embeddings", 131072,
		"vocab_size", 59392, "hidden_size", 1024, "intermediate_size", 4096, "num_hidden_layers", 16, "num_attention_heads", 16)
	s := glm4Text(c)
	t.must("attention_bias", false)
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

// paddleOCRVL is ernie45 whose RoPE rotates halves, with positions in three dimensions, which are the
// same for text (models/paddleocr_vl/modeling_paddleocr_vl.py).
func paddleOCRVL(c *Config) Spec {
	if c.Has("text_config") {
		c = c.text()
	}
	c.defaults("head_dim", 128, "num_key_value_heads", 2, "rms_norm_eps", 1e-5, "rope_theta", 500000, "max_position_embeddings", 131072, "tie_word_embeddings", true,
		"vocab_size", 103424, "hidden_size", 1024, "intermediate_size", 3072, "num_hidden_layers", 18, "num_attention_heads", 16)
	s := llama(c)
	s.biased(c.Bool("use_bias", false))
	c.ropeObject().ignore("mrope_section")
	c.must("rope_is_neox_style", true)
	c.must("compression_ratio", 1)
	c.ignore("use_3d_rope", "weight_share_add_bias", "ignored_index")
	s.nested()
	return s
}

// hunyuanVL is hunyuan with positions in several dimensions, which are the same for text
// (models/hunyuan_vl/modeling_hunyuan_vl.py).
func hunyuanVL(c *Config) Spec {
	if c.Has("text_config") {
		c = c.text()
	}
	c.defaults("tie_word_embeddings", true, "vocab_size", 290943, "hidden_size", 4096, "intermediate_size", 11008, "num_hidden_layers", 32, "num_attention_heads", 32)
	p := c.ropeObject()
	if p.String("rope_type", p.String("type", "")) == "xdrope" {
		p.replace("rope_type", "dynamic")
	}
	c.must("position_embedding_xdrope", true)
	c.replace("position_embedding_xdrope", false)
	s := hunyuan(c)
	p.ignore("mrope_section", "xdrope_section")
	s.nested()
	return s
}

// nested knows the names that transformers writes, beside those of the published files.
func (s *Spec) nested() {
	now := s.Names
	now.nest()
	s.Other = append(s.Other, now)
}
