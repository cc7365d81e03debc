package infer

import (
	"path/filepath"
	"testing"

	"exl2/internal/synth"
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

// packedMixtures are mixtures of experts, in EXL2: without an expert that all rows see,
// and with one.
var packedMixtures = map[string]string{
	"qwen3_moe_packed": `{"architectures":["Qwen3MoeForCausalLM"],"hidden_size":256,"intermediate_size":384,"moe_intermediate_size":96,"num_hidden_layers":4,
		"num_attention_heads":4,"num_key_value_heads":2,"head_dim":64,"num_experts":16,"num_experts_per_tok":4,"norm_topk_prob":true,"decoder_sparse_step":1,"mlp_only_layers":[],
		"max_position_embeddings":256,"vocab_size":250,"rms_norm_eps":1e-6,"rope_theta":10000,"hidden_act":"silu","torch_dtype":"bfloat16","tie_word_embeddings":false}`,
	"qwen2_moe_packed": `{"architectures":["Qwen2MoeForCausalLM"],"hidden_size":256,"intermediate_size":384,"moe_intermediate_size":160,"shared_expert_intermediate_size":224,
		"num_hidden_layers":4,"num_attention_heads":4,"num_key_value_heads":2,"num_experts":12,"num_experts_per_tok":3,"norm_topk_prob":false,"decoder_sparse_step":1,"mlp_only_layers":[],
		"max_position_embeddings":256,"vocab_size":250,"rms_norm_eps":1e-6,"rope_theta":10000,"hidden_act":"silu","torch_dtype":"bfloat16","tie_word_embeddings":false}`,
}

// randomModels writes a random model of each shape.
func randomModels(t testing.TB) (dirs []string) {
	t.Helper()
	return append(writeRandom(t, clipped, 0), writeRandom(t, packedMixtures, 4)...)
}

func writeRandom(t testing.TB, shapes map[string]string, bits float64) (dirs []string) {
	t.Helper()
	for name, config := range shapes {
		shape, err := synth.FromConfig(name, []byte(config))
		if err != nil {
			t.Fatal(err)
		}
		m, err := synth.New(shape, 1, bits)
		if err != nil {
			t.Fatal(err)
		}
		dir := filepath.Join(t.TempDir(), name)
		if err := m.Write(t.Context(), dir, "", func(string) {}); err != nil {
			t.Fatal(err)
		}
		dirs = append(dirs, dir)
	}
	return dirs
}
