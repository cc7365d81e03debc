package infer

import (
	"slices"
	"testing"

	"exl2/internal/synth/synthtest"
)

// clipped are shapes without a golden whose queries, keys and values are clipped.
var clipped = map[string]string{
	"dbrx": `{"architectures":["DbrxForCausalLM"],"d_model":64,"n_heads":4,"n_layers":3,"max_seq_len":256,"vocab_size":250,"torch_dtype":"float16",
		"attn_config":{"clip_qkv":0.5,"kv_n_heads":2,"rope_theta":500000},
		"ffn_config":{"ffn_hidden_size":96,"moe_num_experts":8,"moe_top_k":3,"moe_normalize_expert_weights":1,"ffn_act_fn":{"name":"silu"}}}`,
	"olmo": `{"architectures":["OlmoForCausalLM"],"hidden_size":64,"intermediate_size":96,"num_hidden_layers":3,"num_attention_heads":4,"num_key_value_heads":4,
		"max_position_embeddings":256,"vocab_size":250,"clip_qkv":0.5,"rope_theta":10000,"hidden_act":"silu","torch_dtype":"float16","tie_word_embeddings":false}`,
}

// reaching are shapes whose attention of a row changes its kernel at the second limit of
// positions, and that of two at the first; or, where a window is smaller than that, does not.
var reaching = map[string]string{
	"llama_reaching": `{"architectures":["LlamaForCausalLM"],"hidden_size":256,"intermediate_size":384,"num_hidden_layers":3,"num_attention_heads":16,"num_key_value_heads":16,
		"head_dim":64,"max_position_embeddings":4096,"vocab_size":250,"rms_norm_eps":1e-6,"rope_theta":10000,"hidden_act":"silu","torch_dtype":"float16","tie_word_embeddings":false}`,
	"mistral_reaching": `{"architectures":["MistralForCausalLM"],"hidden_size":256,"intermediate_size":384,"num_hidden_layers":3,"num_attention_heads":16,"num_key_value_heads":16,
		"head_dim":128,"sliding_window":500,"max_position_embeddings":4096,"vocab_size":250,"rms_norm_eps":1e-6,"rope_theta":10000,"hidden_act":"silu","torch_dtype":"float16","tie_word_embeddings":false}`,
}

// randomModels writes a random model of each shape.
func randomModels(t testing.TB) (dirs []string) {
	t.Helper()
	return slices.Concat(synthtest.Write(t, clipped, 0), synthtest.Write(t, synthtest.Mixtures, 4), synthtest.Write(t, synthtest.Linears, 4), synthtest.Write(t, synthtest.ManyExperts, 4))
}
