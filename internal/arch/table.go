package arch

import (
	"fmt"
	"maps"
	"math"
	"slices"

	"exl2/internal/device"
)

// table holds one function per architecture. Each is an earlier one with
// differences; docs/architecture.md says how to add one.
var table = map[string]func(*Config) Spec{
	"Gemma2ForCausalLM":  gemma2,
	"GemmaForCausalLM":   gemma,
	"LlamaForCausalLM":   llama,
	"MistralForCausalLM": mistral,
	"Qwen2ForCausalLM":   qwen2,
	"Qwen3ForCausalLM":   qwen3,
}

// Known lists the supported architectures.
func Known() []string { return slices.Sorted(maps.Keys(table)) }

// llama is the architecture that the others are described against
// (transformers models/llama/modeling_llama.py).
func llama(c *Config) Spec {
	heads := c.Int("num_attention_heads")
	head := c.Int("head_dim", c.Int("hidden_size")/max(heads, 1))
	rope := c.rope(head)
	return Spec{
		Vocab:        c.Int("vocab_size"),
		Hidden:       c.Int("hidden_size"),
		Layers:       c.Int("num_hidden_layers"),
		MaxPositions: c.Int("max_position_embeddings", 2048),
		Tied:         c.Bool("tie_word_embeddings", false),
		Norm:         device.Norm{Kind: device.RMS, Eps: float32(c.Float("rms_norm_eps", 1e-6))},
		Attn: Attn{
			Heads:   heads,
			KVHeads: c.Int("num_key_value_heads", heads),
			HeadDim: head,
			Scale:   invSqrt(float64(max(head, 1))),
			BiasQKV: c.Bool("attention_bias", false),
			BiasO:   c.Bool("attention_bias", false),
		},
		MLP:  c.mlp("intermediate_size"),
		Rope: func(int) Rope { return rope },
		Names: Names{
			Embed: "model.embed_tokens", Layers: "model.layers.*", Final: "model.norm", Head: "lm_head",
			NormIn: "input_layernorm", NormMLPIn: "post_attention_layernorm",
			Q: "self_attn.q_proj", K: "self_attn.k_proj", V: "self_attn.v_proj", O: "self_attn.o_proj",
			Gate: "mlp.gate_proj", Up: "mlp.up_proj", Down: "mlp.down_proj",
		},
	}
}

// mistral sees a window of past positions (models/mistral/modeling_mistral.py).
func mistral(c *Config) Spec {
	s := llama(c)
	s.Window = c.window(4096, func(int) bool { return true })
	return s
}

// qwen2 has biases on q, k and v only (models/qwen2/modeling_qwen2.py).
func qwen2(c *Config) Spec {
	s := llama(c)
	s.Attn.BiasQKV, s.Attn.BiasO = true, false
	if c.Bool("use_sliding_window", false) {
		first := c.Int("max_window_layers", 28)
		s.Window = c.window(4096, func(l int) bool { return l >= first })
	}
	return s
}

// qwen3 normalizes heads (models/qwen3/modeling_qwen3.py).
func qwen3(c *Config) Spec {
	bias := c.Bool("attention_bias", false)
	s := qwen2(c)
	s.Attn.BiasQKV, s.Attn.BiasO = bias, bias
	s.headNorms(EachHead, "self_attn.q_norm", "self_attn.k_norm")
	return s
}

// gemma scales its embeddings and stores norm weights as differences from one
// (models/gemma/modeling_gemma.py).
func gemma(c *Config) Spec {
	s := llama(c)
	s.Tied = c.Bool("tie_word_embeddings", true)
	s.Norm.Offset = 1
	s.MLP.Act = device.GELUTanh // whatever hidden_act says: the first files said "gelu"
	if c.Has("hidden_activation") {
		s.MLP.Act, s.MLP.Squared = c.act("hidden_activation", "")
	}
	s.EmbedScale = float32(math.Sqrt(float64(s.Hidden)))
	return s
}

// gemma2 has norms on both sides of each sublayer, soft caps, and a window on
// every other layer (models/gemma2/modeling_gemma2.py).
func gemma2(c *Config) Spec {
	s := gemma(c)
	s.Attn.Scale = invSqrt(c.Float("query_pre_attn_scalar", 256))
	s.Attn.Softcap = float32(c.optional("attn_logit_softcapping", 50))
	s.LogitCap = float32(c.optional("final_logit_softcapping", 30))
	s.Window = c.window(4096, func(l int) bool { return l%2 == 0 })
	s.Names.NormAttnOut, s.Names.NormMLPIn, s.Names.NormMLPOut = "post_attention_layernorm", "pre_feedforward_layernorm", "post_feedforward_layernorm"
	return s
}
func invSqrt(x float64) float32 { return float32(1 / math.Sqrt(x)) }

// Limits on the sizes in a config: far above every model known, far below what
// would exhaust memory by the number alone.
const (
	maxLayers = 4096
	maxSize   = 1 << 24
)

// check refuses sizes that cannot be.
func (s Spec) check() error {
	sizes := []struct {
		name   string
		n, max int
	}{
		{"num_hidden_layers", s.Layers, maxLayers}, {"hidden_size", s.Hidden, maxSize}, {"vocab_size", s.Vocab, maxSize},
		{"num_attention_heads", s.Attn.Heads, maxSize}, {"num_key_value_heads", s.Attn.KVHeads, maxSize},
		{"head_dim", s.Attn.HeadDim, maxSize}, {"intermediate_size", s.MLP.Width, maxSize},
		{"max_position_embeddings", s.MaxPositions, 1 << 30}, {"width of all heads", s.Attn.Heads * s.Attn.HeadDim, maxSize},
	}
	for _, v := range sizes {
		if v.n < 1 || v.n > v.max {
			return fmt.Errorf("config.json: %s: %d, want 1 to %d", v.name, v.n, v.max)
		}
	}
	if s.Attn.Heads%s.Attn.KVHeads != 0 {
		return fmt.Errorf("config.json: num_attention_heads: %d, want a multiple of num_key_value_heads, %d", s.Attn.Heads, s.Attn.KVHeads)
	}
	if s.Rope == nil {
		return nil
	}
	if r := s.Rope(0); r.Dims%2 != 0 {
		return fmt.Errorf("config.json: head_dim: %d rotated dimensions, want an even number", r.Dims)
	}
	return nil
}
