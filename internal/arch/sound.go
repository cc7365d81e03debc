package arch

import (
	"maps"
	"slices"
)

// Language models behind encoders of sound.

// videoLlama3 is qwen2 behind an encoder (models/video_llama_3/modeling_video_llama_3.py, models/qwen2_audio,
// models/audioflamingo3, models/musicflamingo, models/vibevoice_asr).
func videoLlama3(c *Config) Spec {
	return behind(c, "qwen2", "vocab_size", 151936, "intermediate_size", 22016)
}

// voxtral is llama behind an encoder of sound (models/voxtral/modeling_voxtral.py).
func voxtral(c *Config) Spec {
	return behind(c, "llama", "vocab_size", 131072, "hidden_size", 3072, "intermediate_size", 8192, "num_hidden_layers", 30, "num_key_value_heads", 8,
		"max_position_embeddings", 131072, "rms_norm_eps", 1e-5, "rope_theta", 1e8, "head_dim", 128)
}

// glmASR is llama behind an encoder of sound (models/glmasr/modeling_glmasr.py).
func glmASR(c *Config) Spec {
	return behind(c, "llama", "vocab_size", 59264, "hidden_size", 2048, "intermediate_size", 6144, "num_hidden_layers", 28, "num_attention_heads", 16,
		"num_key_value_heads", 4, "max_position_embeddings", 8192, "rms_norm_eps", 1e-5, "tie_word_embeddings", true)
}

// omniASR is llama behind an encoder of sound (models/omniasr/modeling_omniasr.py).
func omniASR(c *Config) Spec {
	return behind(c, "llama", "vocab_size", 11984, "intermediate_size", 2816, "num_hidden_layers", 12, "num_attention_heads", 8, "num_key_value_heads", 8,
		"max_position_embeddings", 8192, "rms_norm_eps", 1e-5)
}

// funASRNano is qwen3 behind an encoder of sound (models/fun_asr_nano/modeling_fun_asr_nano.py).
func funASRNano(c *Config) Spec {
	return behind(c, "qwen3", "vocab_size", 151936, "hidden_size", 1024, "intermediate_size", 3072, "num_hidden_layers", 28, "num_attention_heads", 16,
		"num_key_value_heads", 8, "max_position_embeddings", 40960, "tie_word_embeddings", true)
}

// mossTranscribe is funASRNano with other defaults (models/moss_transcribe_diarize/modeling_moss_transcribe_diarize.py).
func mossTranscribe(c *Config) Spec {
	c.Object("text_config").defaults("max_position_embeddings", 131072, "rope_theta", 1e6)
	return funASRNano(c)
}

// qwen3ASR is qwen3 behind an encoder of sound (models/qwen3_asr/modeling_qwen3_asr.py), in its first files inside a
// thinker, with positions in three dimensions, which are the same for text.
func qwen3ASR(c *Config) Spec {
	t := c.thinker()
	t.Object("text_config").defaults("vocab_size", 151936, "hidden_size", 2048, "intermediate_size", 6144, "num_hidden_layers", 28, "num_attention_heads", 16,
		"num_key_value_heads", 8, "head_dim", 128, "max_position_embeddings", 65536, "tie_word_embeddings", true)
	return t.thinks(qwen3)
}

// graniteSpeech is granite behind an encoder of sound, whose adapter, in a file of its own, text does not go through
// (models/granite_speech/modeling_granite_speech.py, models/granite_speech_plus, which in transformers 5 leave out
// the language model's logits_scaling).
func graniteSpeech(c *Config) Spec {
	return behind(c, "granite", "intermediate_size", 11008, "tie_word_embeddings", true)
}

// qwen25Omni is the language model of what hears, sees and speaks: qwen2, with positions in three dimensions, which are
// the same for text (models/qwen2_5_omni/modeling_qwen2_5_omni.py).
func qwen25Omni(c *Config) Spec {
	t := c.thinker()
	t.Object("text_config").defaults("vocab_size", 152064, "hidden_size", 3584, "intermediate_size", 18944, "num_hidden_layers", 28, "num_attention_heads", 28,
		"num_key_value_heads", 4, "sliding_window", 32768, "rope_theta", 1e6, "tie_word_embeddings", t.Bool("tie_word_embeddings", false))
	return t.thinks(qwen2)
}

// qwen3Omni is qwen3MoE in the same place (models/qwen3_omni_moe/modeling_qwen3_omni_moe.py).
func qwen3Omni(c *Config) Spec {
	t := c.thinker()
	x := t.Object("text_config")
	x.defaults("vocab_size", 3584, "hidden_size", 2048, "intermediate_size", 18944, "num_hidden_layers", 28, "num_attention_heads", 28, "num_key_value_heads", 4,
		"head_dim", nil, "max_position_embeddings", 32768, "rope_theta", 1e6, "num_experts", 128, "num_experts_per_tok", 8, "moe_intermediate_size", 768,
		"norm_topk_prob", true, "tie_word_embeddings", t.Bool("tie_word_embeddings", false))
	x.must("use_qk_norm", true)
	return t.thinks(qwen3MoE)
}

// thinker returns the configuration of the part that computes text, of what also speaks, or c.
func (c *Config) thinker() *Config {
	if !c.Has("thinker_config") {
		return c
	}
	c.ignore(slices.Collect(maps.Keys(c.raw))...) // the rest is about speaking
	return c.Object("thinker_config")
}

// thinks is the language model of a thinker, which may be all that the files have.
func (c *Config) thinks(build func(*Config) Spec) Spec {
	t := c.text()
	s := build(t)
	t.ropeObject().ignore("mrope_section", "mrope_interleaved", "interleaved")
	alone, nested, both := s.Names, s.Names, s.Names
	nested.nest()
	both.nest()
	both.begin("thinker.")
	s.Names.begin("thinker.")
	s.Other = append(s.Other, alone, nested, both)
	return s
}
