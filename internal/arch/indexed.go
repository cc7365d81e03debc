package arch

import (
	"exl2/internal/device"
)

// deepseekV32 is deepseek3 whose attention sees what an indexer chooses, which is everything up to index_topk
// positions (models/deepseek_v32/modeling_deepseek_v32.py).
func deepseekV32(c *Config) Spec {
	c.defaults("max_position_embeddings", 163840)
	return indexed(c)
}

// glmMoEDsa is deepseekV32 whose layers may take the choice of the one in front
// (models/glm_moe_dsa/modeling_glm_moe_dsa.py).
func glmMoEDsa(c *Config) Spec {
	c.defaults("q_lora_rank", 2048, "qk_nope_head_dim", 192, "v_head_dim", 256, "rms_norm_eps", 1e-5, "max_position_embeddings", 202752,
		"n_group", 1, "topk_group", 1)
	c.ignore("indexer_types", "index_topk_freq", "index_topk_pattern", "index_skip_topk_offset", "indexer_rope_interleave", "index_share_for_mtp_iteration")
	return indexed(c)
}

// indexed is what these have in common.
func indexed(c *Config) Spec {
	c.rename("n_routed_experts", "num_experts")
	s := deepseek3(c)
	c.must("rope_interleave", true)
	c.must("mlp_bias", false) // which nothing has
	s.Dense = c.dense(c.Int("first_k_dense_replace", 3))
	c.called("layer_types", "indexed_attention", "deepseek_sparse_attention", everyLayer) // names of the same
	s.indexer(c, "index_topk", c.Int("index_topk", 2048), "self_attn.indexer.")
	return s
}

// indexer has attention see the positions that an indexer chooses, of which a field says how many.
func (s *Spec) indexer(c *Config, field string, positions int, names string) {
	if positions < 1 {
		c.fail(field, "%d, want 1 or more", positions)
	}
	s.Indexer = names
	s.bound(positions)
	c.ignore("index_n_heads", "index_head_dim")
}

// miniMaxM3 is miniMaxM2 behind a picture encoder, with norms whose weights are differences from one, clamped units,
// and an indexer that chooses blocks (models/minimax_m3_vl/modeling_minimax_m3_vl.py, conversion_mapping.py).
func miniMaxM3(c *Config) Spec {
	t := c.text()
	t.defaults("head_dim", 128, "num_key_value_heads", 4, "rope_theta", 5000000, "max_position_embeddings", 524288,
		"vocab_size", 200064, "hidden_size", 6144, "intermediate_size", 3072, "num_hidden_layers", 60, "num_attention_heads", 64,
		"num_local_experts", 128, "num_experts_per_tok", 4)
	t.must("hidden_act", "silu", "swigluoai") // the second is the unit's name
	t.replace("hidden_act", "silu")
	s := llama(t)
	s.Norm.Offset = 1
	s.headNorms(EachHead, "self_attn.q_norm", "self_attn.k_norm")
	s.partial(t, 1)
	if t.Has("rotary_dim") {
		t.must("rotary_dim", s.Rope(0).Dims)
	}
	t.must("attention_bias", false)
	t.must("mlp_bias", false)
	s.MLP.Clamp = t.clamp()
	const experts = "block_sparse_moe.experts.*."
	s.experts(t.localExperts(), "block_sparse_moe.gate", experts+"w1", experts+"w3", experts+"w2")
	s.MoE.Routing.Routing = device.Routing{Renorm: true, Scale: float32(t.factor("routed_scaling_factor", 2))}
	s.corrected("block_sparse_moe.e_score_correction_bias")
	s.MLP.Width = t.Int("dense_intermediate_size", 12288)
	s.shared(t.Int("shared_intermediate_size", 3072), "block_sparse_moe.shared_experts")
	s.chosenBlocks(t)
	s.prefixed()
	return s
}

// chosenBlocks reads which layers have an MLP, and which choose blocks of positions.
func (s *Spec) chosenBlocks(c *Config) {
	sparse := c.Object("sparse_attention_config")
	s.Dense = c.called("mlp_layer_types", "dense", "sparse", c.listed("moe_layer_freq", 0))
	block := c.Int("index_block_size", sparse.Int("sparse_block_size", 128))
	blocks := c.Int("index_topk_blocks", sparse.Int("sparse_topk_blocks", 16))
	c.ignore("index_local_blocks")
	sparse.ignore("sparse_num_index_heads", "sparse_index_dim", "sparse_local_block")
	chooses := c.called("layer_types", "minimax_m3_sparse", "full_attention", sparse.listed("sparse_attention_freq", 1))
	for l := range s.Layers {
		if chooses(l) {
			s.indexer(c, "index_topk_blocks", block*blocks, "self_attn.index_")
			return
		}
	}
	c.ignore("index_n_heads", "index_head_dim")
}

// listed returns the layers for which a list of numbers has a given one; none without the list.
func (c *Config) listed(key string, number float64) func(layer int) bool {
	list := c.Floats(key)
	return func(l int) bool { return l < len(list) && list[l] == number }
}
