package arch

import (
	"encoding/json"
	"slices"
	"strconv"
)

// gpt2 has learned positions, LayerNorm, biases everywhere, and matrices stored
// [in, out] (models/gpt2/modeling_gpt2.py).
func gpt2(c *Config) Spec {
	s := gpt(c)
	c.must("scale_attn_by_inverse_layer_idx", false)
	c.ignore("reorder_and_upcast_attn")
	s.conv1D()
	bare := s.Names // the first files' spelling
	bare.Embed, bare.Positions, bare.Layers, bare.Final = "wte", "wpe", "h.*", "ln_f"
	s.Other = []Names{bare}
	return s
}

// gpt1 normalizes the stream behind each sublayer, and in front of nothing (models/openai/modeling_openai.py).
func gpt1(c *Config) Spec {
	c.rename("activation_function", "afn")
	c.defaults("activation_function", "gelu", "vocab_size", 40478, "n_positions", 512, "n_embd", 768, "n_layer", 12, "n_head", 12)
	switch c.String("activation_function") { // names that mean something else there
	case "gelu":
		c.replace("activation_function", "gelu_new")
	case "swish":
		c.replace("activation_function", "silu")
	}
	c.must("n_inner")
	s := gpt(c)
	c.ignore("predict_special_tokens", "summary_first_dropout")
	n := &s.Names
	s.NormSums, n.NormAttnOut, n.NormMLPOut, n.NormIn, n.NormMLPIn, n.Final = true, "ln_1", "ln_2", "", "", ""
	n.Embed, n.Positions = "transformer.tokens_embed", "transformer.positions_embed"
	s.conv1D()
	bare := s.Names // the first files' spelling
	bare.Embed, bare.Positions, bare.Layers = "tokens_embed", "positions_embed", "h.*"
	s.Other = []Names{bare}
	return s
}

// conv1D keeps matrices [in, out], and q, k and v in one tensor.
func (s *Spec) conv1D() {
	s.fusedQKV("attn", "c_attn", Blocks)
	for _, name := range []string{s.Names.O, s.Names.Up, s.Names.Down} {
		s.fused(name, Blocks, true, name)
	}
	for i := range s.Stored {
		s.Stored[i].Transposed = true
	}
}

// gptBigCode has one head of keys (models/gpt_bigcode/modeling_gpt_bigcode.py).
func gptBigCode(c *Config) Spec {
	c.defaults("activation_function", "gelu_pytorch_tanh")
	s := gpt(c)
	c.ignore("attention_softmax_in_fp32", "scale_attention_softmax_in_fp32", "num_key_value_heads",
		"inference_runner", "max_batch_size", "pad_key_length", "pre_allocate_kv_cache", "validate_runner_input")
	order := ByHead
	if c.Bool("multi_query", true) {
		order, s.Attn.KVHeads = Blocks, 1
	}
	s.fusedQKV("attn", "c_attn", order)
	return s
}

// fourfold says how wide MLPs are where the file does not: four times the stream.
func (c *Config) fourfold() {
	if !c.Has("intermediate_size") {
		c.replace("intermediate_size", 4*c.Int("hidden_size"))
	}
}

// gpt is what GPT-2 and its successors share.
func gpt(c *Config) Spec {
	c.rename("hidden_size", "n_embd", "num_hidden_layers", "n_layer", "num_attention_heads", "n_head",
		"max_position_embeddings", "n_positions", "intermediate_size", "n_inner")
	c.ignore("n_ctx")
	c.defaults("tie_word_embeddings", true, "activation_function", "gelu_new")
	c.fourfold()
	s := llama(c)
	s.layerNorm(c.Float("layer_norm_epsilon", 1e-5), true)
	s.biased(true)
	s.MLP.Act, s.MLP.Squared = c.act("activation_function", "")
	s.Rope, s.Learned = nil, s.MaxPositions
	s.Attn.KVHeads = s.Attn.Heads
	c.must("scale_attn_weights", true)
	c.must("add_cross_attention", false)
	n := &s.Names
	n.Embed, n.Positions, n.Layers, n.Final = "transformer.wte", "transformer.wpe", "transformer.h.*", "transformer.ln_f"
	n.NormIn, n.NormMLPIn, n.O = "ln_1", "ln_2", "attn.c_proj"
	s.ungated("mlp.c_fc", "mlp.c_proj")
	return s
}

// starcoder2 has LayerNorm, biases, and an MLP without a gate
// (models/starcoder2/modeling_starcoder2.py).
func starcoder2(c *Config) Spec {
	c.defaults("tie_word_embeddings", true, "hidden_act", "gelu_pytorch_tanh", "max_position_embeddings", 4096, "num_key_value_heads", 2)
	c.rename("norm_epsilon", "layer_norm_epsilon")
	s := llama(c)
	s.layerNorm(c.Float("norm_epsilon", 1e-5), true)
	s.biased(c.Bool("use_bias", true))
	s.Window = c.windowAt(everyLayer)
	s.ungated("mlp.c_fc", "mlp.c_proj")
	c.must("mlp_type", "default")
	c.must("norm_type", "layer_norm")
	c.ignore("activation_function")
	return s
}

// nemotron has LayerNorm with weights as differences from one, relu², and an MLP
// without a gate (models/nemotron/modeling_nemotron.py).
func nemotron(c *Config) Spec {
	c.defaults("hidden_act", "relu2", "max_position_embeddings", 4096)
	c.rename("partial_rotary_factor", "rope_percent", "head_dim", "kv_channels")
	s := llama(c)
	s.layerNorm(c.Float("norm_eps", 1e-5), true)
	s.Norm.Offset = 1
	s.partial(c, 0.5)
	s.ungated("mlp.up_proj", "mlp.down_proj")
	return s
}

// jais2 has LayerNorm, biases, relu², and an MLP without a gate (models/jais2/modeling_jais2.py).
func jais2(c *Config) Spec {
	c.defaults("hidden_act", "relu2", "attention_bias", true, "mlp_bias", true, "max_position_embeddings", 8192)
	s := llama(c)
	s.layerNorm(c.Float("layer_norm_eps", 1e-5), true)
	s.ungated("mlp.up_proj", "mlp.down_proj")
	return s
}

// nanoChat has norms without weights, of embeddings and, behind RoPE, which turns backward, of heads, too;
// relu², and an MLP without a gate (models/nanochat/modeling_nanochat.py).
func nanoChat(c *Config) Spec {
	c.defaults("hidden_act", "relu2", "final_logit_softcapping", 15)
	s := llama(c)
	s.NormPlain, s.EmbedNorm = true, true
	s.headNorms(EachHead, "self_attn.q_norm", "self_attn.k_norm")
	s.Attn.QKNorm.AfterRope, s.Attn.QKNorm.Plain = true, true
	s.eachRope(func(r Rope) Rope { r.Backward = true; return r })
	s.LogitCap = float32(c.optional("final_logit_softcapping", 0))
	s.ungated("mlp.fc1", "mlp.fc2")
	c.must("mlp_bias", false)
	return s
}

// gptNeo has learned positions, scores that are not scaled, and windows on every other
// layer (models/gpt_neo/modeling_gpt_neo.py).
func gptNeo(c *Config) Spec {
	c.rename("num_hidden_layers", "num_layers", "num_attention_heads", "num_heads")
	c.defaults("tie_word_embeddings", true, "activation_function", "gelu_new", "window_size", 256)
	c.fourfold()
	s := llama(c)
	s.layerNorm(c.Float("layer_norm_epsilon", 1e-5), true)
	s.Attn.BiasO, s.MLP.Bias = true, true
	s.MLP.Act, s.MLP.Squared = c.act("activation_function", "")
	s.Rope, s.Learned, s.Attn.Scale = nil, s.MaxPositions, 1
	kinds, span := c.attentionLayers(s.Layers), c.Int("window_size")
	if span < 1 {
		c.fail("window_size", "%d, want 1 or more", span)
	}
	s.Window = func(l int) int {
		if l < len(kinds) && kinds[l] == "local" {
			return span
		}
		return 0
	}
	n := &s.Names
	n.Embed, n.Positions, n.Layers, n.Final = "transformer.wte", "transformer.wpe", "transformer.h.*", "transformer.ln_f"
	n.NormIn, n.NormMLPIn = "ln_1", "ln_2"
	n.Q, n.K, n.V, n.O = "attn.attention.q_proj", "attn.attention.k_proj", "attn.attention.v_proj", "attn.attention.out_proj"
	s.ungated("mlp.c_fc", "mlp.c_proj")
	return s
}

// attentionLayers returns a word a layer, global or local: attention_types lists words and how
// often they come ([[["global", "local"], 12]]), and attention_layers is what that makes.
func (c *Config) attentionLayers(layers int) []string {
	c.defaults("attention_types", []any{[]any{[]any{"global", "local"}, json.Number(strconv.Itoa((layers + 1) / 2))}})
	var kinds []string
	for _, v := range list[[]any](c, "attention_types", "lists") {
		words, times, ok := repeated(v)
		if !ok || times > layers {
			c.fail("attention_types", "want lists of words with how often they come")
			return nil
		}
		for range times {
			kinds = append(kinds, words...)
		}
	}
	c.covers("attention_types", len(kinds), layers)
	for _, k := range kinds {
		if k != "global" && k != "local" {
			c.refuse("attention_types", k)
		}
	}
	if said := c.Strings("attention_layers"); said != nil && !slices.Equal(said, kinds[:min(layers, len(kinds))]) {
		c.fail("attention_layers", "other layers than attention_types says")
	}
	return kinds
}

// repeated reads words and how often they come.
func repeated(v []any) (words []string, times int, ok bool) {
	if len(v) != 2 {
		return nil, 0, false
	}
	names, _ := v[0].([]any)
	number, _ := v[1].(json.Number)
	for _, name := range names {
		word, _ := name.(string)
		words = append(words, word)
	}
	times, err := strconv.Atoi(number.String())
	return words, times, err == nil && times >= 0
}

// persimmon has LayerNorm, biases, norms of heads, relu², and an MLP without a gate
// (models/persimmon/modeling_persimmon.py).
func persimmon(c *Config) Spec {
	c.defaults("hidden_act", "relu2", "max_position_embeddings", 16384, "attention_bias", true, "mlp_bias", true)
	s := llama(c)
	c.must("num_key_value_heads", s.Attn.Heads)
	s.layerNorm(c.Float("layer_norm_eps", 1e-5), true)
	s.partial(c, 0.5)
	if c.Bool("qk_layernorm", true) {
		s.headNorms(EachHead, "self_attn.q_layernorm", "self_attn.k_layernorm")
		s.Attn.QKNorm.Bias = true
	}
	s.Names.O, s.Names.Final = "self_attn.dense", "model.final_layernorm"
	s.ungated("mlp.dense_h_to_4h", "mlp.dense_4h_to_h")
	s.fusedQKV("self_attn", "query_key_value", ByHead)
	return s
}
