// Package synthtest writes random models for tests.
package synthtest

import (
	"path/filepath"
	"testing"

	"exl2/internal/synth"
)

// Mixtures are mixtures of experts, by config.json: without an expert that all rows see, with one, with limited units, and with one beside other
// mixers, none of whose experts has a gate.
var Mixtures = map[string]string{
	"qwen3_moe_packed": `{"architectures":["Qwen3MoeForCausalLM"],"hidden_size":256,"intermediate_size":384,"moe_intermediate_size":96,"num_hidden_layers":4,
		"num_attention_heads":4,"num_key_value_heads":2,"head_dim":64,"num_experts":16,"num_experts_per_tok":4,"norm_topk_prob":true,"decoder_sparse_step":1,"mlp_only_layers":[],
		"max_position_embeddings":256,"vocab_size":250,"rms_norm_eps":1e-6,"rope_theta":10000,"hidden_act":"silu","torch_dtype":"bfloat16","tie_word_embeddings":false}`,
	"qwen2_moe_packed": `{"architectures":["Qwen2MoeForCausalLM"],"hidden_size":256,"intermediate_size":384,"moe_intermediate_size":160,"shared_expert_intermediate_size":224,
		"num_hidden_layers":4,"num_attention_heads":4,"num_key_value_heads":2,"num_experts":12,"num_experts_per_tok":3,"norm_topk_prob":false,"decoder_sparse_step":1,"mlp_only_layers":[],
		"max_position_embeddings":256,"vocab_size":250,"rms_norm_eps":1e-6,"rope_theta":10000,"hidden_act":"silu","torch_dtype":"bfloat16","tie_word_embeddings":false}`,
	"gpt_oss_packed": `{"architectures":["GptOssForCausalLM"],"model_type":"gpt_oss","hidden_size":256,"intermediate_size":96,"num_hidden_layers":3,
		"layer_types":["sliding_attention","full_attention","sliding_attention"],
		"sliding_window":128,"num_attention_heads":4,"num_key_value_heads":2,"head_dim":64,"num_local_experts":8,"num_experts_per_tok":3,"swiglu_limit":7.0,"attention_bias":true,
		"max_position_embeddings":256,"vocab_size":250,"rms_norm_eps":1e-5,"rope_theta":10000,"rope_scaling":null,"hidden_act":"silu","torch_dtype":"bfloat16","tie_word_embeddings":false}`,
	"nemotron_moe_packed": `{"architectures":["NemotronHForCausalLM"],"model_type":"nemotron_h","hidden_size":256,"intermediate_size":384,
		"layers_block_type":["mamba","moe","attention","moe","mamba"],"num_hidden_layers":5,"mamba_num_heads":8,"mamba_head_dim":64,"ssm_state_size":128,"n_groups":2,
		"conv_kernel":4,"num_attention_heads":4,"num_key_value_heads":2,"head_dim":64,"max_position_embeddings":256,"vocab_size":250,"layer_norm_epsilon":1e-5,
		"n_routed_experts":8,"num_experts_per_tok":3,"moe_intermediate_size":96,"moe_shared_expert_intermediate_size":192,"n_shared_experts":1,"n_group":1,"topk_group":1,
		"norm_topk_prob":true,"routed_scaling_factor":2.5,"mlp_hidden_act":"relu2","mamba_hidden_act":"silu","dtype":"bfloat16","tie_word_embeddings":false}`,
}

// Linears have linear attention whose heads the kernels of decode steps take (cuda/kernels/delta_step.cu): by the delta rule, beside
// attention with gates, and by that of Mamba-2, beside MLPs without.
var Linears = map[string]string{
	"qwen3_5_packed": `{"architectures":["Qwen3_5ForCausalLM"],"model_type":"qwen3_5_text","hidden_size":256,"intermediate_size":384,"num_hidden_layers":5,
		"layer_types":["linear_attention","linear_attention","full_attention","linear_attention","linear_attention"],"linear_conv_kernel_dim":4,"linear_key_head_dim":128,
		"linear_num_key_heads":2,"linear_num_value_heads":4,"linear_value_head_dim":128,"num_attention_heads":4,"num_key_value_heads":2,"head_dim":64,"attention_bias":false,
		"max_position_embeddings":256,"vocab_size":250,"rms_norm_eps":1e-6,"rope_parameters":{"partial_rotary_factor":0.25,"rope_theta":10000,"rope_type":"default"},
		"hidden_act":"silu","dtype":"bfloat16","tie_word_embeddings":false}`,
	"nemotron_h_packed": `{"architectures":["NemotronHForCausalLM"],"model_type":"nemotron_h","hidden_size":256,"intermediate_size":384,
		"layers_block_type":["mamba","mlp","mamba","attention","mlp","mamba"],"num_hidden_layers":6,"mamba_num_heads":8,"mamba_head_dim":64,"ssm_state_size":128,"n_groups":2,
		"conv_kernel":4,"num_attention_heads":4,"num_key_value_heads":2,"head_dim":64,"max_position_embeddings":256,"vocab_size":250,"layer_norm_epsilon":1e-5,
		"mlp_hidden_act":"relu2","mamba_hidden_act":"silu","dtype":"bfloat16","tie_word_embeddings":false}`,
}

// ManyExperts has more of them than a warp ranks at once (cuda/kernels/choice.cuh), and one of their size that all rows see.
var ManyExperts = map[string]string{
	"qwen3_5_moe_packed": `{"architectures":["Qwen3_5MoeForCausalLM"],"model_type":"qwen3_5_moe_text","hidden_size":256,"num_hidden_layers":2,
		"layer_types":["linear_attention","full_attention"],"linear_conv_kernel_dim":4,"linear_key_head_dim":128,
		"linear_num_key_heads":2,"linear_num_value_heads":4,"linear_value_head_dim":128,"num_attention_heads":4,"num_key_value_heads":2,"head_dim":64,"attention_bias":false,
		"num_experts":140,"num_experts_per_tok":6,"moe_intermediate_size":96,"shared_expert_intermediate_size":96,"norm_topk_prob":true,
		"max_position_embeddings":256,"vocab_size":250,"rms_norm_eps":1e-6,"rope_parameters":{"partial_rotary_factor":0.25,"rope_theta":10000,"rope_type":"default"},
		"hidden_act":"silu","dtype":"bfloat16","tie_word_embeddings":false}`,
}

// Sums are models of which what sublayers give is normalized, or multiplied, before it joins the stream: with a norm in front of the sublayers, too
// (Gemma 2, Gemma 4, GLM 4, Granite), and without (OLMo 2). The one that lends keys is of another width than others: with theirs two scores of a head, which Gemma 4
// divides by nothing, are so near each other that fp16 decides.
var Sums = map[string]string{
	"gemma2_packed": `{"architectures":["Gemma2ForCausalLM"],"model_type":"gemma2","hidden_size":256,"intermediate_size":384,"num_hidden_layers":3,"num_attention_heads":4,"num_key_value_heads":2,
		"head_dim":64,"attn_logit_softcapping":20.0,"final_logit_softcapping":10.0,"query_pre_attn_scalar":24,"sliding_window":16,"max_position_embeddings":256,"vocab_size":250,
		"rms_norm_eps":1e-6,"rope_theta":10000.0,"hidden_activation":"gelu_pytorch_tanh","torch_dtype":"float16","tie_word_embeddings":true,"attention_bias":false}`,
	"gemma4_packed": `{"architectures":["Gemma4ForCausalLM"],"model_type":"gemma4_text","hidden_size":256,"intermediate_size":384,"num_hidden_layers":3,
		"layer_types":["sliding_attention","sliding_attention","full_attention"],"num_attention_heads":4,"num_key_value_heads":2,"num_global_key_value_heads":1,"attention_k_eq_v":true,
		"head_dim":64,"global_head_dim":128,"final_logit_softcapping":10.0,"sliding_window":16,"max_position_embeddings":256,"vocab_size":250,"vocab_size_per_layer_input":250,
		"hidden_size_per_layer_input":0,"num_kv_shared_layers":0,"enable_moe_block":false,"use_double_wide_mlp":false,
		"rope_parameters":{"sliding_attention":{"rope_theta":10000.0,"rope_type":"default"},"full_attention":{"partial_rotary_factor":0.25,"rope_theta":1000000.0,"rope_type":"proportional"}},
		"rms_norm_eps":1e-6,"hidden_activation":"gelu_pytorch_tanh","torch_dtype":"float16","tie_word_embeddings":true,"attention_bias":false}`,
	"gemma4_moe_packed": `{"architectures":["Gemma4ForCausalLM"],"model_type":"gemma4_text","hidden_size":256,"intermediate_size":384,"num_hidden_layers":2,
		"layer_types":["sliding_attention","full_attention"],"num_attention_heads":4,"num_key_value_heads":2,"num_global_key_value_heads":1,"attention_k_eq_v":true,
		"head_dim":64,"global_head_dim":128,"final_logit_softcapping":10.0,"sliding_window":16,"max_position_embeddings":256,"vocab_size":250,"vocab_size_per_layer_input":250,
		"hidden_size_per_layer_input":0,"num_kv_shared_layers":0,"enable_moe_block":true,"num_experts":16,"top_k_experts":3,"moe_intermediate_size":96,"use_double_wide_mlp":false,
		"rope_parameters":{"sliding_attention":{"rope_theta":10000.0,"rope_type":"default"},"full_attention":{"partial_rotary_factor":0.25,"rope_theta":1000000.0,"rope_type":"proportional"}},
		"rms_norm_eps":1e-6,"hidden_activation":"gelu_pytorch_tanh","torch_dtype":"float16","tie_word_embeddings":true,"attention_bias":false}`,
	"gemma4_e_packed": `{"architectures":["Gemma4ForCausalLM"],"model_type":"gemma4_text","hidden_size":256,"intermediate_size":384,"num_hidden_layers":3,
		"layer_types":["sliding_attention","sliding_attention","full_attention"],"num_attention_heads":4,"num_key_value_heads":2,"num_global_key_value_heads":null,"attention_k_eq_v":false,
		"head_dim":64,"global_head_dim":128,"final_logit_softcapping":10.0,"sliding_window":16,"max_position_embeddings":256,"vocab_size":250,"vocab_size_per_layer_input":250,
		"hidden_size_per_layer_input":32,"num_kv_shared_layers":0,"enable_moe_block":false,"use_double_wide_mlp":false,
		"rope_parameters":{"sliding_attention":{"rope_theta":10000.0,"rope_type":"default"},"full_attention":{"partial_rotary_factor":0.25,"rope_theta":1000000.0,"rope_type":"proportional"}},
		"rms_norm_eps":1e-6,"hidden_activation":"gelu_pytorch_tanh","torch_dtype":"float16","tie_word_embeddings":true,"attention_bias":false}`,
	"gemma4_lent_packed": `{"architectures":["Gemma4ForCausalLM"],"model_type":"gemma4_text","hidden_size":256,"intermediate_size":320,"num_hidden_layers":4,
		"layer_types":["sliding_attention","full_attention","sliding_attention","full_attention"],"num_attention_heads":4,"num_key_value_heads":2,"num_global_key_value_heads":null,
		"attention_k_eq_v":false,"head_dim":64,"global_head_dim":128,"final_logit_softcapping":10.0,"sliding_window":16,"max_position_embeddings":256,"vocab_size":250,
		"vocab_size_per_layer_input":250,"hidden_size_per_layer_input":32,"num_kv_shared_layers":2,"enable_moe_block":false,"use_double_wide_mlp":false,
		"rope_parameters":{"sliding_attention":{"rope_theta":10000.0,"rope_type":"default"},"full_attention":{"partial_rotary_factor":0.25,"rope_theta":1000000.0,"rope_type":"proportional"}},
		"rms_norm_eps":1e-6,"hidden_activation":"gelu_pytorch_tanh","torch_dtype":"float16","tie_word_embeddings":true,"attention_bias":false}`,
	"glm4_packed": `{"architectures":["Glm4ForCausalLM"],"model_type":"glm4","hidden_size":256,"intermediate_size":384,"num_hidden_layers":3,"num_attention_heads":4,"num_key_value_heads":2,
		"head_dim":64,"partial_rotary_factor":0.5,"max_position_embeddings":256,"vocab_size":250,"rms_norm_eps":1e-5,"rope_theta":10000.0,"hidden_act":"silu","torch_dtype":"bfloat16",
		"tie_word_embeddings":false,"attention_bias":true}`,
	"granite_packed": `{"architectures":["GraniteForCausalLM"],"model_type":"granite","hidden_size":256,"intermediate_size":384,"num_hidden_layers":3,"num_attention_heads":4,"num_key_value_heads":2,
		"attention_multiplier":0.0625,"embedding_multiplier":12.0,"logits_scaling":4.0,"residual_multiplier":0.22,"max_position_embeddings":256,"vocab_size":250,"rms_norm_eps":1e-5,
		"rope_theta":10000.0,"hidden_act":"silu","torch_dtype":"bfloat16","tie_word_embeddings":true,"attention_bias":false,"mlp_bias":false}`,
	"olmo2_packed": `{"architectures":["Olmo2ForCausalLM"],"model_type":"olmo2","hidden_size":256,"intermediate_size":384,"num_hidden_layers":3,"num_attention_heads":4,"num_key_value_heads":2,
		"max_position_embeddings":256,"vocab_size":250,"rms_norm_eps":1e-5,"rope_theta":10000.0,"hidden_act":"silu","torch_dtype":"float16","tie_word_embeddings":false,"attention_bias":false}`,
}

// Others are models whose sums are those of their products (of one the norms of heads follow the rotation), one whose heads have norms with weights of each head's own, one with latent attention, two of
// which more than four matrices read one norm: attention's and an MLP's, and attention's and those of Mamba-2, whose gates are scaled, beside it, and three whose MLPs have
// no gates: behind attention, beside it, and activated by a square.
var Others = map[string]string{
	"llama_packed": `{"architectures":["LlamaForCausalLM"],"hidden_size":256,"intermediate_size":384,"num_hidden_layers":3,"num_attention_heads":4,"num_key_value_heads":2,
		"max_position_embeddings":256,"vocab_size":250,"rms_norm_eps":1e-5,"rope_theta":10000.0,"hidden_act":"silu","torch_dtype":"float16","tie_word_embeddings":false}`,
	"hunyuan_packed": `{"architectures":["HunYuanDenseV1ForCausalLM"],"model_type":"hunyuan_v1_dense","hidden_size":256,"intermediate_size":384,"num_hidden_layers":3,"num_attention_heads":4,
		"num_key_value_heads":2,"head_dim":64,"max_position_embeddings":256,"vocab_size":250,"rms_norm_eps":1e-5,"rope_theta":10000.0,"use_qk_norm":true,"hidden_act":"silu",
		"torch_dtype":"bfloat16","tie_word_embeddings":true,"attention_bias":false,"mlp_bias":false}`,
	"stablelm_packed": `{"architectures":["StableLmForCausalLM"],"model_type":"stablelm","hidden_size":256,"intermediate_size":384,"num_hidden_layers":3,"num_attention_heads":4,
		"num_key_value_heads":2,"max_position_embeddings":256,"vocab_size":250,"layer_norm_eps":1e-5,"partial_rotary_factor":0.25,"qk_layernorm":true,"rope_theta":10000,
		"use_parallel_residual":true,"use_qkv_bias":false,"hidden_act":"silu","torch_dtype":"bfloat16","tie_word_embeddings":false}`,
	"cohere_packed": `{"architectures":["CohereForCausalLM"],"model_type":"cohere","hidden_size":256,"intermediate_size":384,"num_hidden_layers":3,"num_attention_heads":4,
		"num_key_value_heads":2,"max_position_embeddings":256,"vocab_size":250,"layer_norm_eps":1e-5,"rope_theta":10000,"hidden_act":"silu","attention_bias":false,"logit_scale":0.5,
		"use_qk_norm":false,"torch_dtype":"float16","tie_word_embeddings":true}`,
	"starcoder2_packed": `{"architectures":["Starcoder2ForCausalLM"],"model_type":"starcoder2","hidden_size":256,"intermediate_size":384,"num_hidden_layers":3,"num_attention_heads":4,
		"num_key_value_heads":2,"max_position_embeddings":256,"vocab_size":250,"norm_epsilon":1e-5,"rope_theta":10000.0,"hidden_act":"gelu_pytorch_tanh","use_bias":true,"mlp_type":"default",
		"norm_type":"layer_norm","torch_dtype":"bfloat16"}`,
	"gptj_packed": `{"architectures":["GPTJForCausalLM"],"model_type":"gptj","n_embd":256,"n_inner":null,"n_layer":3,"n_head":4,"rotary_dim":32,"n_positions":256,"vocab_size":250,
		"layer_norm_epsilon":1e-5,"activation_function":"gelu_new","torch_dtype":"float16","tie_word_embeddings":false}`,
	"nemotron_packed": `{"architectures":["NemotronForCausalLM"],"model_type":"nemotron","hidden_size":256,"intermediate_size":384,"num_hidden_layers":3,"num_attention_heads":4,
		"num_key_value_heads":2,"head_dim":64,"max_position_embeddings":256,"vocab_size":250,"norm_eps":1e-5,"rope_theta":10000,"partial_rotary_factor":0.5,"hidden_act":"relu2",
		"torch_dtype":"bfloat16","tie_word_embeddings":false,"attention_bias":false,"mlp_bias":false}`,
	"falcon_h1_packed": `{"architectures":["FalconH1ForCausalLM"],"model_type":"falcon_h1","hidden_size":256,"intermediate_size":384,"num_hidden_layers":3,"num_attention_heads":4,
		"num_key_value_heads":2,"head_dim":64,"max_position_embeddings":256,"vocab_size":250,"rms_norm_eps":1e-5,"rope_theta":10000,"hidden_act":"silu","attention_bias":false,"mlp_bias":false,
		"projectors_bias":false,"mamba_d_ssm":512,"mamba_n_heads":8,"mamba_d_head":64,"mamba_n_groups":1,"mamba_d_state":128,"mamba_d_conv":4,"mamba_conv_bias":true,"mamba_proj_bias":false,
		"mamba_norm_before_gate":false,"mamba_rms_norm":false,"attention_in_multiplier":1.0,"attention_out_multiplier":0.9,"embedding_multiplier":5.0,"lm_head_multiplier":0.5,"key_multiplier":0.5,
		"mlp_multipliers":[0.9,0.8],"ssm_in_multiplier":1.2,"ssm_out_multiplier":0.5,"ssm_multipliers":[0.6,0.5,0.4,0.7,0.5],"torch_dtype":"bfloat16","tie_word_embeddings":false}`,
	"deepseek_v2_packed": `{"architectures":["DeepseekV2ForCausalLM"],"model_type":"deepseek_v2","hidden_size":256,"intermediate_size":384,"moe_intermediate_size":96,"num_hidden_layers":3,
		"num_attention_heads":4,"num_key_value_heads":4,"kv_lora_rank":64,"q_lora_rank":null,"qk_nope_head_dim":32,"qk_rope_head_dim":32,"v_head_dim":32,"n_routed_experts":8,
		"n_shared_experts":1,"num_experts_per_tok":2,"first_k_dense_replace":3,"moe_layer_freq":1,"n_group":1,"topk_group":1,"topk_method":"greedy","scoring_func":"softmax",
		"norm_topk_prob":false,"routed_scaling_factor":1.0,"attention_bias":false,"max_position_embeddings":256,"vocab_size":250,"rms_norm_eps":1e-6,"rope_theta":10000,
		"hidden_act":"silu","torch_dtype":"bfloat16","tie_word_embeddings":false}`,
}

// Write writes a random model of each shape, of so many bits a weight, or of numbers if that is 0, and returns their folders.
func Write(t testing.TB, shapes map[string]string, bits float64) (dirs []string) {
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
