package arch

import (
	"encoding/json"
	"strings"
)

// Language models of checkpoints with pictures or sound that come with code of their own.

// flat is a language model whose fields are beside those about pictures and sound.
func flat(c *Config, build func(*Config) Spec) Spec {
	c.ignore("tokenizer_model_max_length", "tokenizer_padding_side")
	s := build(c)
	for key := range c.raw {
		for _, word := range []string{"mm_", "image", "img_", "vision", "visual", "audio", "tts", "slice_", "im_"} {
			if strings.Contains(key, word) {
				c.ignore(key)
			}
		}
	}
	return s
}

// The first LLaVAs, and what was made after them, are llama, mistral or qwen2 beside a picture encoder (haotian-liu/LLaVA
// llava_llama.py, llava_mistral.py, LLaVA-VL/LLaVA-NeXT llava_qwen.py, apple/ml-fastvlm llava_qwen.py, stepfun-ai/GOT-OCR2_0
// modeling_GOT.py, DAMO-NLP-SG/VideoLLaMA3-7B modeling_videollama3.py).
func llavaLlama(c *Config) Spec   { return flat(c, llama) }
func llavaMistral(c *Config) Spec { return flat(c, mistral) }
func llavaQwen(c *Config) Spec    { return flat(c, qwen2) }

// keye is qwen3 beside a picture encoder, with positions in three dimensions, which are the same for text
// (Kwai-Keye/Keye-VL-8B-Preview modeling_keye.py).
func keye(c *Config) Spec {
	s := flat(c, qwen3)
	c.ropeObject().ignore("mrope_section")
	return s
}

// emu3Text is llama that also writes pictures (models/emu3/modeling_emu3.py, BAAI/Emu3-Chat modeling_emu3.py).
func emu3Text(c *Config) Spec {
	c.emu3Defaults()
	c.ignore("boi_token_id", "eof_token_id", "eol_token_id", "img_token_id")
	return flat(c, llama)
}

// phi3V is phi3 beside a picture encoder (microsoft/Phi-3.5-vision-instruct modeling_phi3_v.py).
func phi3V(c *Config) Spec {
	c.ignore("embd_layer")
	return flat(c, phi3)
}

// miniCPMV is qwen2, or qwen3, by its version (openbmb/MiniCPM-V-2_6 modeling_minicpmv.py, MiniCPM-V-4_5, MiniCPM-o-2_6
// modeling_minicpmo.py, MiniCPM-o-4_5). Those before have others inside, which the file does not name.
func miniCPMV(c *Config) Spec {
	build := qwen2
	switch c.version() {
	case "2.6":
	case "4.5":
		build = qwen3
	default:
		c.Refuse("version", "%q, want 2.6 or 4.5", c.version())
		return Spec{}
	}
	c.ignore("query_num", "batch_3d_resampler", "batch_vision_input", "drop_vision_last_layer", "patch_size", "stream_input", "listen_speak_type", "treat_others")
	s := flat(c, build)
	s.Names.begin("llm.")
	return s
}

// version reads a version, a number or a text.
func (c *Config) version() string {
	v, _, _ := c.field("version")
	if n, ok := v.(json.Number); ok {
		return n.String()
	}
	return c.String("version", "")
}

// multiModality is llama behind picture encoders (deepseek-ai/Janus-Pro-7B, deepseek-ai/deepseek-vl-7b-chat: deepseek-ai/Janus
// modeling_vlm.py).
func multiModality(c *Config) Spec {
	c.rename("text_config", "language_config")
	return behind(c, "llama")
}

// ovis is a language model with pictures as tokens of their own (AIDC-AI/Ovis2-8B modeling_ovis.py,
// Ovis2.5-9B modeling_ovis2_5.py).
func ovis(c *Config) Spec {
	c.rename("text_config", "llm_config")
	kind := c.Object("text_config").String("model_type", "")
	s, ok := c.text().byKind(kind)
	if ok {
		s.Names.begin("llm.")
	}
	return s
}

// deepseekVL2 is deepseek3, deepseek2 or, without latent attention, deepseek (deepseek-ai/DeepSeek-VL2
// modeling_deepseek.py, modeling_deepseek_vl_v2.py).
func deepseekVL2(c *Config) Spec {
	c.rename("text_config", "language_config")
	t := c.text()
	t.must("lm_head", true)
	t.defaults("first_k_dense_replace", 0, "norm_topk_prob", false, "routed_scaling_factor", 1, "n_group", 1, "topk_group", 1, "n_shared_experts", 0)
	build := deepseek2
	switch {
	case t.String("topk_method", "greedy") == "noaux_tc":
		build = deepseek3
		t.must("use_mla", true)
	case !t.Bool("use_mla", true):
		build = deepseek
		t.must("norm_topk_prob", false)
	}
	s := build(t)
	s.Names.begin("language.")
	return s
}
