package arch

import (
	"math"

	"exl2/internal/device"
)

// gemma scales its embeddings and stores norm weights as differences from one
// (models/gemma/modeling_gemma.py).
func gemma(c *Config) Spec {
	c.defaults("head_dim", 256, "tie_word_embeddings", true, "hidden_act", "gelu_pytorch_tanh", "max_position_embeddings", 8192)
	s := llama(c)
	s.Norm.Offset = 1
	s.EmbedScale = float32(math.Sqrt(float64(s.Hidden)))
	if s.MLP.Act == device.GELU { // the first files say gelu and mean this
		s.MLP.Act = device.GELUTanh
	}
	if c.Has("hidden_activation") { // which transformers 4 reads, and 5 does not
		act, squared := c.act("hidden_activation", "")
		if gelu := act == device.GELU || act == device.GELUTanh; c.Has("hidden_act") && (act != s.MLP.Act || squared != s.MLP.Squared) && !(gelu && s.MLP.Act == device.GELUTanh) {
			c.refuse("hidden_activation", c.String("hidden_activation")+" beside another hidden_act; remove one")
		}
		s.MLP.Act, s.MLP.Squared = act, squared
	}
	c.must("use_bidirectional_attention", false)
	return s
}

// gemma2 has norms on both sides of each sublayer, soft caps, and a window on
// every other layer (models/gemma2/modeling_gemma2.py).
func gemma2(c *Config) Spec {
	c.defaults("attn_logit_softcapping", 50, "final_logit_softcapping", 30, "sliding_window", 4096, "num_key_value_heads", 4)
	s := gemma(c)
	s.scaleQuery(c.Float("query_pre_attn_scalar", 256))
	s.Attn.Softcap = float32(c.optional("attn_logit_softcapping", 0))
	s.LogitCap = float32(c.optional("final_logit_softcapping", 0))
	s.Window = c.window(notEvery(2))
	c.ignore("sliding_window_size") // the first files' second name for it
	n := &s.Names
	n.NormAttnOut, n.NormMLPIn, n.NormMLPOut = "post_attention_layernorm", "pre_feedforward_layernorm", "post_feedforward_layernorm"
	return s
}

// vaultGemma has no norms behind its sublayers (models/vaultgemma/modeling_vaultgemma.py).
func vaultGemma(c *Config) Spec {
	s := gemma2(c)
	s.Names.NormAttnOut, s.Names.NormMLPOut = "", ""
	return s
}

// gemma3 has norms of heads in the place of caps, and another RoPE where there
// is a window (models/gemma3/modeling_gemma3.py).
func gemma3(c *Config) Spec {
	c.defaults("attn_logit_softcapping", 0, "final_logit_softcapping", 0, "max_position_embeddings", 131072, "rope_theta", 1e6)
	s := gemma2(c)
	s.Attn.Softcap = 0 // transformers keeps the field and never uses it
	s.headNorms(EachHead, "self_attn.q_norm", "self_attn.k_norm")
	local := c.slides(notEvery(c.Int("sliding_window_pattern", c.Int("_sliding_window_pattern", 6))))
	s.Window = c.window(local)
	s.ropeByType(c, local, Rope{Theta: c.Float("rope_local_base_freq", 10000), Dims: s.Attn.HeadDim})
	return s
}

// ropeByType gives the layers that local selects a RoPE of their own: of
// rope_parameters, where those are by layer_types, or short.
func (s *Spec) ropeByType(c *Config, local func(int) bool, short Rope) {
	long := s.Rope(0)
	if p := c.ropeObject(); p.Has("full_attention") || p.Has("sliding_attention") {
		long = c.ropeOf(p.Object("full_attention"), s.Attn.HeadDim)
		sub := p.Object("sliding_attention")
		sub.defaults("rope_theta", short.Theta)
		short = c.ropeOf(sub, s.Attn.HeadDim)
	}
	s.ropes(local, short, long)
}
