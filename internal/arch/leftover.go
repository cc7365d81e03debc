package arch

import (
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
)

// leftovers goes through the fields that the architecture has not read. One that
// changes the arithmetic of some architecture is refused, unless its value
// changes nothing; the names of others that are not known to be harmless are
// returned.
func (c *Config) leftovers() []string {
	var names []string
	for _, key := range slices.Sorted(maps.Keys(c.raw)) {
		v := c.raw[key]
		switch {
		case c.subs[key] != nil:
			names = append(names, c.subs[key].leftovers()...)
		case key == QuantizationKeys[1] && empty(c.raw[QuantizationKeys[0]]): // read instead
		case c.seen[key] || empty(v) && !(v == false && whenFalse[key]) || harmless(key):
		case !arithmetic[key]:
			names = append(names, c.path+key)
		case !c.neutral(key, v):
			c.unread(key, v)
		}
	}
	return names
}

// unread refuses a field.
func (c *Config) unread(key string, v any) {
	text, err := json.Marshal(v)
	if err != nil || len(text) > 40 {
		text = []byte("…")
	}
	if *c.first == nil {
		*c.first = fmt.Errorf("%s: %s%s: %w: %s is not known of this architecture; if the model does not use it, remove it from the file",
			c.file, c.path, key, ErrUnsupported, text)
	}
}

// empty reports whether v turns nothing on.
func empty(v any) bool {
	switch v := v.(type) {
	case nil:
		return true
	case bool:
		return !v
	case string:
		return v == ""
	case json.Number:
		f, err := v.Float64()
		return err == nil && f == 0
	case []any:
		return len(v) == 0
	case map[string]any:
		return len(v) == 0
	}
	return false
}

// neutral reports whether an arithmetic field has the value that changes nothing.
func (c *Config) neutral(key string, v any) bool {
	switch key {
	case "sliding_window", "sliding_window_size":
		f, ok := v.(json.Number)
		w, err := f.Float64()
		return ok && err == nil && w >= c.Float("max_position_embeddings", 2048)
	case "max_window_layers", "sliding_window_pattern":
		return !c.Bool("use_sliding_window", false) && empty(c.raw["sliding_window"])
	case "layer_types":
		types, ok := v.([]any)
		return ok && !slices.ContainsFunc(types, func(t any) bool { return t != "full_attention" })
	case "norm_topk_prob", "num_experts_per_tok", "topk_group", "n_group":
		return empty(c.raw["num_experts"]) && empty(c.raw["num_local_experts"]) && empty(c.raw["n_routed_experts"])
	case "position_embedding_type", "pos_emb":
		return v == "rope" || v == "rotary"
	}
	for _, names := range []map[string]bool{epsilons, activations} {
		if names[key] {
			return c.said(names, v)
		}
	}
	n, ok := v.(json.Number)
	one, err := n.Float64()
	return ok && err == nil && one == 1 && multiplies[key] || v == true && whenFalse[key]
}

// said reports whether a field of some names that has been read has the value, too.
func (c *Config) said(names map[string]bool, v any) bool {
	for name := range names {
		if c.seen[name] && same(c.raw[name], v) {
			return true
		}
	}
	return false
}

// same reports whether two values are, numbers by what they are.
func same(a, b any) bool {
	x, isX := a.(json.Number)
	y, isY := b.(json.Number)
	if !isX || !isY {
		return fmt.Sprint(a) == fmt.Sprint(b)
	}
	f, err := x.Float64()
	g, other := y.Float64()
	return err == nil && other == nil && f == g
}

// epsilons and activations are names that fields of one meaning have in some architecture: another one than what was read changes nothing if it says
// the same.
var (
	epsilons    = set(`layer_norm_eps layer_norm_epsilon layernorm_epsilon norm_eps norm_epsilon rms_norm_eps`)
	activations = set(`activation activation_function hidden_act hidden_activation mlp_hidden_act`)
)

// multiplies are fields that change nothing at 1.
var multiplies = set(`attention_multiplier embedding_multiplier logit_scale logits_scaling partial_rotary_factor residual_multiplier
	rotary_pct rope_pct rope_ratio routed_scaling_factor scale_emb num_shared_experts moe_layer_freq decoder_sparse_step factor mscale
	mscale_all_dim attention_factor n_shared_experts`)

// whenFalse are fields that change nothing at true, and something at false: is_causal
// has every token see those behind it, too, as models of embeddings do.
var whenFalse = set(`is_causal scale_attn_weights use_rotary_pos_emb`)

// arithmetic are fields that change what some architecture computes. What an
// entry of the table does not read of them, its architecture does not have.
var arithmetic = set(`add_cross_attention alibi apply_residual_connection_post_layernorm attention_bias attention_multiplier
	attention_out_bias attn_logit_softcapping attn_temperature_tuning clip_qkv conv_bias decoder_sparse_step embedding_multiplier final_logit_softcapping
	first_k_dense_replace head_dim hidden_act hidden_activation is_causal kv_lora_rank layer_norm_elementwise_affine layer_types lm_head_bias local_attention
	logit_scale logits_scaling logits_soft_cap mlp_bias mlp_only_layers moe_intermediate_size moe_layer_freq moe_num_experts moe_topk multi_query
	n_group n_routed_experts n_shared_experts new_decoder_architecture no_bias no_rope_layers norm_head norm_topk_prob num_experts
	num_experts_per_tok num_local_experts num_key_value_heads num_shared_experts parallel_attn partial_rotary_factor post_norm q_lora_rank
	qk_layernorm qk_norm qk_nope_head_dim qk_rope_head_dim qkv_bias query_pre_attn_scalar residual_multiplier rope_interleave
	rope_interleaved rope_local_base_freq rope_parameters rope_ratio rope_scaling rotary_dim rotary_emb_base rotary_pct rope_pct routed_scaling_factor
	scale_attn_by_inverse_layer_idx scale_attn_weights scale_depth scale_emb scoring_func shared_expert_intermediate_size shared_intermediate_size
	sliding_window sliding_window_pattern sliding_window_size swiglu_limit topk_group topk_method use_alibi use_bias use_bidirectional_attention
	use_cla use_logn_attn use_dynamic_ntk use_parallel_residual use_post_norm use_qk_norm use_qkv_bias use_sliding_window v_head_dim
	is_encoder_decoder encoder_layers cross_attention_layers layers_block_type full_attention_interval linear_num_key_heads linear_num_value_heads linear_key_head_dim linear_value_head_dim linear_conv_kernel_dim
	attn_output_gate output_gate_type attn_layer_period attn_layer_indices conv_L_cache full_attn_idxs hybrid_override_pattern mamba_n_heads mamba_num_heads
	block_configs sparse_config max_window_layers mlp_layer_types layer_rope_theta moba_block_size moba_topk attention_chunk_size attention_value_scale index_topk
	attention_k_eq_v enable_moe_block global_head_dim hidden_size_per_layer_input num_global_key_value_heads per_layer_config top_k_experts
	moe_layer_start_index num_kv_shared_layers route_scale scale_embedding use_double_wide_mlp
	factor attention_factor alpha low_freq_factor high_freq_factor beta_fast beta_slow mscale mscale_all_dim short_factor long_factor
	short_mscale long_mscale truncate llama_4_scaling_beta full_attention sliding_attention
	activation activation_function add_full_attention_sink_bias add_qkv_bias add_swa_attention_sink_bias attention_layer_norm attention_other_setting attn_type_list compression_ratio
	decoder_bias do_layer_norm_before embedding_size enable_bias expert_selection_fn floor_scale gating gating_types global_rope_theta hybrid_layer_pattern index_topk_blocks
	layer_norm_eps layer_norm_epsilon layernorm_epsilon norm_eps norm_epsilon rms_norm_eps layer_norm_type linear_allow_neg_eigval local_rope_theta mlp_hidden_act mlp_type
	moe_apply_router_weight_on_input moe_gate_act moe_group_experts moe_k moe_num_shared_experts moe_router_activation moe_router_enable_expert_bias moe_router_logit_softcapping
	moe_shared_expert_intermediate_size moe_top_k moe_use_hard_gate mup_enabled no_rope_layer_interval norm_after norm_bias norm_expert_weight norm_type normalization_function
	num_ln_in_parallel_attn order_of_interleaved_layers partial_rotary_factors pos_emb position_embedding_type position_embedding_xdrope post_norm_eps
	pre_seq_len prefix_dense_sliding_window_pattern qk_layer_norms qk_norm_type rope_3d rope_is_neox_style rope_percent rope_scaling_layers rotary_scaling_factor route_norm
	router_scaling_factor score_func score_function share_expert_dim shared_expert_combination_strategy sparse_attention_config swa_head_dim swa_num_attention_heads
	swa_num_key_value_heads swa_rope_theta swa_v_head_dim swiglu_alpha use_attention_gate use_conv_bias use_expert_bias use_gated_activation use_head_wise_attn_gate use_llm_lora
	use_mixed_mlp_moe use_mla use_moe_router_bias use_parallel_block use_rmsnorm use_rope_layers use_rotary_pos_emb use_routing_bias use_sandwich_norm
	window_size word_embed_proj_dim yarn_only_types zero_centered`)

// plain are fields that say nothing about what is computed: of training,
// generation, other programs, pictures.
var plain = set(`architectures auto_map attn_implementation bf16 bos_token chunk_size_feed_forward cross_attention_hidden_size
	decoder_start_token_id diversity_penalty do_sample dtype early_stopping ep_size eos_token exponential_decay_length_penalty
	finetuning_task flash_attn_v2 fp16 fp32 gradient_checkpointing id2label init_std is_composition is_decoder is_llama_config label2id
	length_penalty max_length max_new_tokens max_seq_len max_sequence_length min_length model_max_length model_type name_or_path
	no_repeat_ngram_size num_beam_groups num_beams num_labels num_mtp_layers num_nextn_predict_layers num_return_sequences onnx_safe
	output_attentions output_hidden_states output_router_logits output_scores pad_token prefix pretraining_tp problem_type
	quantization_config remove_invalid_values repetition_penalty return_dict return_dict_in_generate rope_theta router_aux_loss_coef
	router_jitter_noise router_z_loss_coef aux_loss_alpha seq_aux seq_length seed softmax_in_fp32 suppress_tokens begin_suppress_tokens
	summary_activation summary_proj_to_labels summary_type summary_use_proj task_specific_params temperature tf_legacy_loss
	tie_encoder_decoder tokenizer_class tokenizer_model_type tokenizer_type top_k top_p torch_dtype torchscript transformers.js_config
	transformers_version typical_p unsloth_fixed unsloth_version use_bfloat16 use_cache use_cache_kernel use_cache_quantization
	use_flash_attention use_flash_attn use_flashattn vocab_file
	audio_config cache_implementation image_grid_pinpoints image_seq_length mm_tokens_per_image multimodal_projector_bias
	projector_hidden_act spatial_merge_size vision_config vision_feature_layer vision_feature_select_strategy`)

// harmless reports whether a field's name is known to say nothing about what is
// computed.
func harmless(key string) bool {
	if plain[key] || strings.HasPrefix(key, "_") && !arithmetic[key[1:]] {
		return true
	}
	for _, end := range []string{"_token_id", "_token_ids", "_token_index", "_dropout", "_dropout_prob", "dropout", "_pdrop", "initializer_range", "_init_std"} {
		if strings.HasSuffix(key, end) {
			return true
		}
	}
	return false
}

// Unread says in a line which fields nothing has read, of those that turn something on and are
// not known to mean nothing, or "".
func (c *Config) Unread(known map[string]bool) string {
	return notKnown(filepath.Base(c.file), c.unreadFields(known))
}

func (c *Config) unreadFields(known map[string]bool) []string {
	var names []string
	for _, key := range slices.Sorted(maps.Keys(c.raw)) {
		switch sub := c.subs[key]; {
		case known[key] || empty(c.raw[key]):
		case sub != nil:
			names = append(names, sub.unreadFields(known)...)
		case !c.seen[key]:
			names = append(names, c.path+key)
		}
	}
	return names
}

// notKnown is the text about fields of a file that are not known, "" if there are none.
func notKnown(file string, names []string) string {
	if len(names) == 0 {
		return ""
	}
	return file + ": fields that are not known, and are taken to mean nothing: " + strings.Join(names, ", ")
}

// Set returns the words of a text as a set.
func Set(words string) map[string]bool { return set(words) }

func set(words string) map[string]bool {
	m := map[string]bool{}
	for _, w := range strings.Fields(words) {
		m[w] = true
	}
	return m
}
