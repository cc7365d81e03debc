package arch

// modernBERT normalizes embeddings, and not in front of the first layer, has windows with a RoPE of their own on all
// layers but every third, and a matrix in front of the head (models/modernbert_decoder/modeling_modernbert_decoder.py).
func modernBERT(c *Config) Spec {
	c.rename("hidden_act", "hidden_activation")
	c.defaults("hidden_act", "gelu", "max_position_embeddings", 8192, "tie_word_embeddings", true, "rope_theta", c.Float("global_rope_theta", 160000),
		"vocab_size", 50368, "hidden_size", 768, "intermediate_size", 1152, "num_hidden_layers", 22, "num_attention_heads", 12)
	if c.Has("rope_scaling") {
		c.Refuse("rope_scaling", "of windows, too; write rope_parameters by layer_types")
	}
	s := llama(c)
	s.layerNorm(c.Float("norm_eps", 1e-5), c.Bool("norm_bias", false))
	every := c.step("global_attn_every_n_layers", 3)
	local := c.slides(func(l int) bool { return l%every != 0 })
	c.replace("sliding_window", c.Int("local_attention", 128)/2)
	s.Window = c.window(local)
	s.ropeByType(c, local, Rope{Theta: c.Float("local_rope_theta", 10000), Dims: s.Attn.HeadDim})
	n := &s.Names
	n.Embed, n.EmbedNorm, n.Final = "model.embeddings.tok_embeddings", "model.embeddings.norm", "model.final_norm"
	n.NormIn, n.NormMLPIn = "attn_norm", "mlp_norm"
	n.Q, n.K, n.V, n.O = "attn.q_proj", "attn.k_proj", "attn.v_proj", "attn.Wo"
	n.Down = "mlp.Wo"
	s.fused("mlp.Wi", Blocks, s.MLP.Bias, n.Gate, n.Up)
	s.EmbedNorm, s.FirstBare = true, true
	s.bertHead(c)
	c.ignore("layer_norm_eps", "initializer_cutoff_factor", "classifier_pooling", "deterministic_flash_attn", "reference_compile", "repad_logits_with_grad",
		"sparse_prediction", "sparse_pred_ignore_index")
	for _, key := range []string{"is_causal", "causal_mask"} {
		c.must(key, true)
	}
	c.must("position_embedding_type", "sans_pos", "absolute") // neither is read
	return s
}

// bertHead has a matrix in front of the head, whose name is the decoder's.
func (s *Spec) bertHead(c *Config) {
	n := &s.Names
	n.Head, n.HeadDense, n.HeadNorm = "decoder", "lm_head.dense", "lm_head.norm"
	s.HeadBias = c.Bool("decoder_bias", true)
	c.must("classifier_bias", false)
	squared := false
	if s.HeadAct, squared = c.act("classifier_activation", "gelu"); squared {
		c.refuse("classifier_activation", "relu2")
	}
}
