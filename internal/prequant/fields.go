package prequant

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"exl2/internal/arch"
)

// inert are fields that say nothing about what weights stand for: how they were found, by which
// program and on what text; what becomes of activations and caches; what other programs do.
var inert = arch.Set(`quant_method meta quantizer producer provider version autoround_version model_free quantization_status global_compression_ratio
	model_name_or_path model_file_base_name name_or_path uri run_compressed is_checkpoint_fp8_serialized dequantize
	damp_percent damp_auto_increment true_sequential static_groups act_group_aware mse gptaq gptaq_alpha v2 v2_alpha foem fallback failsafe
	hessian smooth smoother preprocessors mock_quantization calib_data
	dataset tokenizer batch_size nsamples seqlen model_seqlen max_input_length pad_token_id cache_block_outputs iters lr minmax_lr
	enable_minmax_tuning enable_norm_bias_tuning enable_quanted_input enable_alg_ext gradient_accumulate_steps low_gpu_mem_usage
	not_use_best_mse amp train_bs scale_dtype zp_dtype data_type super_bits super_group_size observer observer_kwargs actorder
	quant_lm_head lm_head block_name_to_quantize to_quant_block_names quant_block_list module_name_preceding_first_block
	modules_in_block_to_quantize inside_layer_modules packed_modules_mapping targets extra_config supported_types
	use_cuda_fp16 use_exllama exllama_config disable_exllama backend do_fuse modules_to_fuse fuse_max_seq_len packing_format
	offload_to_disk offload_to_disk_path device compute_device_filter vram_strategy gc_mode auto_forward_data_parallel
	wait_for_submodule_finalizers
	activation_scheme activation_scale_ub scale_fmt act_bits act_group_size act_sym act_dynamic act_data_type
	kv_cache_scheme kv_cache_quant_algo kv_cache_quant_method static_kv_dtype
	transform_config sparsity_structure global_sparsity registry_requires_subclass ignore
	format checkpoint_format desc_act sym zero_point pack_dtype is_marlin_format`)

// refuseRotated refuses rotations, wherever in a configuration they stand: such weights are those of
// inputs or outputs that are rotated, and that the model's architecture knows nothing of.
func refuseRotated(c *arch.Config) {
	if path := rotated(c.Fields()); path != "" {
		c.Refuse(path, "weights that are rotated are not read; use the model's original")
	}
}

// rotated returns where fields say that weights are rotated, or "".
func rotated(fields map[string]any) string {
	for _, key := range slices.Sorted(maps.Keys(fields)) {
		v := fields[key]
		name := strings.ToLower(key)
		if name == "transform_config" {
			if says(v) && !offline(v) {
				return key
			}
			continue
		}
		if says(v) && (strings.Contains(name, "rotat") || strings.Contains(name, "hadamard")) {
			return key
		}
		inner, _ := v.(map[string]any)
		if path := rotated(inner); path != "" {
			return key + "." + path
		}
	}
	return ""
}

// offline reports whether all locations of transforms are in weights, which have them already
// (compressed-tensors, TransformLocation): the others are of what the model computes.
func offline(v any) bool {
	at := locations(v)
	return len(at) > 0 && !slices.ContainsFunc(at, func(l string) bool { return l != "weight_input" && l != "weight_output" })
}

// locations lists where transforms are applied.
func locations(v any) (at []string) {
	switch v := v.(type) {
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(v)) {
			if l, ok := v[key].(string); ok && key == "location" {
				at = append(at, l)
			}
			at = append(at, locations(v[key])...)
		}
	case []any:
		for _, e := range v {
			at = append(at, locations(e)...)
		}
	}
	return at
}

// says reports whether a value, or one within it, turns something on.
func says(v any) bool {
	switch v := v.(type) {
	case map[string]any:
		return slices.ContainsFunc(slices.Collect(maps.Values(v)), says)
	case []any:
		return slices.ContainsFunc(v, says)
	case json.Number:
		return v != "0"
	}
	return v != nil && v != false && v != ""
}
