package model_test

import (
	"fmt"
	"path/filepath"
	"testing"

	"exl2/internal/device"
	"exl2/internal/device/devtest"
	"exl2/internal/model"
	"exl2/internal/synth"
)

// packedMixtures are mixtures of experts whose matrices are codes: by themselves, with an expert that all rows see, and, beside other
// mixers, of experts without a gate, which is as one that is up itself.
var packedMixtures = map[string]string{
	"qwen3_moe": `{"architectures":["Qwen3MoeForCausalLM"],"hidden_size":64,"intermediate_size":96,"moe_intermediate_size":64,"num_hidden_layers":3,
		"num_attention_heads":2,"num_key_value_heads":1,"head_dim":32,"num_experts":8,"num_experts_per_tok":3,"norm_topk_prob":true,"decoder_sparse_step":1,"mlp_only_layers":[],
		"max_position_embeddings":64,"vocab_size":90,"rms_norm_eps":1e-6,"rope_theta":10000,"hidden_act":"silu","torch_dtype":"bfloat16","tie_word_embeddings":false}`,
	"qwen2_moe": `{"architectures":["Qwen2MoeForCausalLM"],"hidden_size":64,"intermediate_size":96,"moe_intermediate_size":64,"shared_expert_intermediate_size":96,
		"num_hidden_layers":3,"num_attention_heads":2,"num_key_value_heads":1,"num_experts":6,"num_experts_per_tok":2,"norm_topk_prob":false,"decoder_sparse_step":1,"mlp_only_layers":[],
		"max_position_embeddings":64,"vocab_size":90,"rms_norm_eps":1e-6,"rope_theta":10000,"hidden_act":"silu","torch_dtype":"bfloat16","tie_word_embeddings":false}`,
	"nemotron_h": `{"architectures":["NemotronHForCausalLM"],"model_type":"nemotron_h","hidden_size":64,"intermediate_size":96,
		"layers_block_type":["mamba","moe","attention","moe","mamba"],"num_hidden_layers":5,"mamba_num_heads":4,"mamba_head_dim":16,"ssm_state_size":32,"n_groups":2,
		"conv_kernel":4,"num_attention_heads":2,"num_key_value_heads":1,"head_dim":32,"max_position_embeddings":64,"vocab_size":90,"layer_norm_epsilon":1e-5,
		"n_routed_experts":8,"num_experts_per_tok":3,"moe_intermediate_size":64,"moe_shared_expert_intermediate_size":96,"n_shared_experts":1,"n_group":1,"topk_group":1,
		"norm_topk_prob":true,"routed_scaling_factor":2.5,"mlp_hidden_act":"relu2","mamba_hidden_act":"silu","dtype":"bfloat16","tie_word_embeddings":false}`,
}

// Mixtures of decode steps are the same whether a device makes them together with the norm and the router in front, or behind these; and what
// they leave for the module behind is the stream's norm.
func TestFusedMixtures(t *testing.T) {
	ids := []int32{3, 17, 40, 8, 61, 29}
	for name, config := range packedMixtures {
		shape, err := synth.FromConfig(name, []byte(config))
		if err != nil {
			t.Fatal(err)
		}
		m, err := synth.New(shape, 1, 4)
		if err != nil {
			t.Fatal(err)
		}
		dir := filepath.Join(t.TempDir(), name)
		if err := m.Write(t.Context(), dir, "", func(string) {}); err != nil {
			t.Fatal(err)
		}
		for _, apart := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s apart=%v", name, apart), func(t *testing.T) {
				l, files, err := model.Open(dir)
				if err != nil {
					t.Fatal(err)
				}
				defer files.Close()
				f := &fusing{Device: devtest.CPU(t), refuses: func(device.Products) bool { return false }, apart: apart}
				want, got := steps(t, l, devtest.CPU(t), ids), steps(t, l, f, ids)
				if _, most := difference(got, want); !(most <= 1e-4) {
					t.Errorf("logits differ by %.2g, want at most 1e-4", most)
				}
				if f.read < len(ids)*2 {
					t.Errorf("what was left was read %d times, want at least twice a token", f.read)
				}
			})
		}
	}
}
