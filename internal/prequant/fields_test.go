package prequant_test

import (
	"fmt"
	"strings"
	"testing"

	"exl2/internal/prequant"
	"exl2/internal/prequant/prequanttest"
)

// Of configurations as programs write them every field is known.
func TestPublishedFields(t *testing.T) {
	for name, config := range map[string]string{
		"AutoGPTQ":     `{"bits": 4, "group_size": 128, "damp_percent": 0.1, "desc_act": true, "static_groups": true, "sym": true, "true_sequential": true, "model_name_or_path": "x", "model_file_base_name": "model", "quant_method": "gptq", "is_marlin_format": false}`,
		"GPTQModel":    `{"bits": 4, "checkpoint_format": "gptq", "desc_act": true, "dynamic": {"-:.*q_proj": {}, "+:.*v_proj": {"bits": 8, "group_size": 64, "sym": true}}, "group_size": 128, "lm_head": true, "pack_dtype": "int32", "quant_method": "gptq", "sym": true, "rotation": null, "meta": {"act_group_aware": true, "damp_percent": 0.01, "mse": 2.4, "quantizer": ["gptqmodel:4.2.0"], "true_sequential": true, "uri": "https://example.org"}}`,
		"transformers": `{"batch_size": 1, "bits": 4, "block_name_to_quantize": "model.layers", "cache_block_outputs": true, "damp_percent": 0.1, "dataset": "wikitext2", "desc_act": false, "exllama_config": {"version": 1}, "group_size": 128, "max_input_length": 4096, "model_seqlen": 4096, "module_name_preceding_first_block": ["model.embed_tokens"], "modules_in_block_to_quantize": [["self_attn.q_proj"]], "pad_token_id": 2, "quant_method": "gptq", "sym": true, "tokenizer": "x", "true_sequential": true, "use_cuda_fp16": true, "use_exllama": true}`,
		"AutoAWQ":      `{"backend": "autoawq", "bits": 4, "do_fuse": true, "exllama_config": {"version": 2}, "fuse_max_seq_len": 512, "group_size": 128, "modules_to_fuse": {"mlp": ["gate_proj"]}, "modules_to_not_convert": ["lm_head"], "quant_method": "awq", "version": "gemm", "zero_point": true}`,
		"AutoRound":    `{"amp": true, "autoround_version": "0.4.2", "batch_size": 8, "bits": 4, "block_name_to_quantize": "model.layers", "damp_percent": 0.01, "data_type": "int", "dataset": "x", "desc_act": false, "enable_minmax_tuning": true, "enable_quanted_input": true, "gradient_accumulate_steps": 1, "group_size": 128, "iters": 200, "low_gpu_mem_usage": true, "lr": 0.005, "minmax_lr": 0.005, "nsamples": 512, "quant_method": "gptq", "scale_dtype": "torch.float16", "seqlen": 2048, "sym": true, "true_sequential": true}`,
		"integers of llm-compressor": `{"config_groups": {"group_0": {"input_activations": {"actorder": null, "block_structure": null, "dynamic": true, "group_size": null, "num_bits": 8, "observer": null, "observer_kwargs": {"a": 1}, "strategy": "token", "symmetric": true, "type": "int"}, "output_activations": null, "targets": ["Linear"],
			"weights": {"actorder": "weight", "block_structure": null, "dynamic": false, "group_size": 128, "num_bits": 4, "observer": "minmax", "observer_kwargs": {"a": 1}, "scale_dtype": null, "strategy": "group", "symmetric": false, "type": "int", "zp_dtype": "torch.int8"}}},
			"format": "pack-quantized", "global_compression_ratio": 1.9, "ignore": ["lm_head"], "kv_cache_scheme": {"num_bits": 8, "type": "float"}, "quant_method": "compressed-tensors", "quantization_status": "compressed", "sparsity_config": {"format": "dense", "global_sparsity": 0.1, "ignore": ["x"], "registry_requires_subclass": false, "sparsity_structure": "unstructured", "targets": ["y"]}, "transform_config": {}, "version": "0.12.2"}`,
		"NVFP4 of llm-compressor": `{"config_groups": {"group_0": {"format": "nvfp4-pack-quantized", "input_activations": {"dynamic": "local", "group_size": 16, "num_bits": 4, "observer": "static_minmax", "scale_dtype": "torch.float8_e4m3fn", "strategy": "tensor_group", "symmetric": true, "type": "float"}, "targets": ["Linear"],
			"weights": {"dynamic": false, "group_size": 16, "num_bits": 4, "strategy": "tensor_group", "symmetric": true, "type": "float"}}}, "format": "nvfp4-pack-quantized", "quant_method": "compressed-tensors", "transform_config": {"config_groups": {}}}`,
		"DeepSeek":         `{"activation_scheme": "dynamic", "fmt": "e4m3", "quant_method": "fp8", "scale_fmt": "ue8m0", "weight_block_size": [128, 128]}`,
		"Mistral":          `{"activation_scheme": "static", "dequantize": true, "modules_to_not_convert": ["lm_head"], "quant_method": "fp8", "weight_block_size": null}`,
		"FBGEMM":           `{"activation_scale_ub": 1200.0, "modules_to_not_convert": ["model.layers.0.mlp"], "quant_method": "fbgemm_fp8"}`,
		"gpt-oss":          `{"modules_to_not_convert": ["lm_head"], "quant_method": "mxfp4"}`,
		"Model Optimizer":  `{"config_groups": {"group_0": {"input_activations": {"dynamic": false, "group_size": 16, "num_bits": 4, "type": "float"}, "targets": ["Linear"], "weights": {"dynamic": false, "group_size": 16, "num_bits": 4, "type": "float"}}}, "ignore": ["lm_head"], "kv_cache_scheme": {"num_bits": 8}, "producer": {"name": "modelopt", "version": "0.35.1"}, "quant_algo": "NVFP4", "quant_method": "modelopt"}`,
		"mixed precisions": `{"quant_method": "modelopt", "quant_algo": "MIXED_PRECISION", "kv_cache_quant_algo": "FP8", "quantized_layers": {"a": {"quant_algo": "FP8"}, "b": {"quant_algo": "NVFP4", "group_size": 16}}}`,
	} {
		if s, err := schemeOf(t, config); err != nil {
			t.Errorf("%s: %v", name, err)
		} else if s.Warning != "" {
			t.Errorf("%s: %s", name, s.Warning)
		}
	}
}

// Fields that are not known are named, unless they turn nothing on.
func TestUnknownFields(t *testing.T) {
	s, err := schemeOf(t, `{"quant_method": "compressed-tensors", "colour": "red", "none": null, "off": false, "config_groups": {"a": {"flavour": 1, "weights": {"num_bits": 4, "shape": {"sides": 4}}, "input_activations": {"num_bits": 8, "scent": "mint"}}}}`)
	if err != nil {
		t.Fatal(err)
	}
	const want = "config.json: fields that are not known, and are taken to mean nothing: quantization_config.colour, quantization_config.config_groups.a.flavour, " +
		"quantization_config.config_groups.a.input_activations.scent, quantization_config.config_groups.a.weights.shape"
	if s.Warning != want {
		t.Errorf("%s, want\n%s", s.Warning, want)
	}
}

// Rotations are refused wherever they stand.
func TestRotations(t *testing.T) {
	for config, field := range map[string]string{
		`{"quant_method": "gptq", "bits": 4, "rotation": "hadamard"}`:                                                  "rotation",
		`{"quant_method": "gptq", "bits": 4, "rotation": {"mode": "hadamard"}}`:                                        "rotation",
		`{"quant_method": "gptq", "bits": 4, "meta": {"rotation": "random"}}`:                                          "meta.rotation",
		`{"quant_method": "gptq", "bits": 4, "dynamic": {"+:x": {"rotation": "hadamard"}}}`:                            "dynamic.+:x.rotation",
		`{"quant_method": "awq", "bits": 4, "hadamard_config": {"block": 32}}`:                                         "hadamard_config",
		`{"quant_method": "compressed-tensors", "transform_config": {"config_groups": {"u": {"type": "hadamard"}}}}`:   "transform_config",
		`{"quant_method": "compressed-tensors", "config_groups": {"a": {"weights": {"num_bits": 4, "rotate": true}}}}`: "config_groups.a.weights.rotate",
	} {
		want := "config.json: quantization_config." + field + ": unsupported: weights that are rotated are not read; use the model's original"
		if _, err := schemeOf(t, config); err == nil || err.Error() != want {
			t.Errorf("%s:\n%v, want\n%s", config, err, want)
		}
	}
}

// Rotations that are in weights alone the model computes nothing of.
func TestOfflineRotations(t *testing.T) {
	const config = `{"quant_method": "compressed-tensors", "config_groups": {"a": {"weights": {"num_bits": 4}}}, "transform_config": {"config_groups": {"R1": {"type": "hadamard", "apply": [
		{"targets": ["re:.*embed_tokens$", "re:.*o_proj$"], "location": "weight_output"}, {"targets": ["re:.*q_proj$"], "location": %q, "inverse": true}]}}}}`
	for location, fine := range map[string]bool{"weight_input": true, "input": false, "k_cache": false} {
		if _, err := schemeOf(t, fmt.Sprintf(config, location)); (err == nil) != fine {
			t.Errorf("%s: %v", location, err)
		}
	}
}

// What compressed-tensors does not know, and what weights are not.
func TestUnknownForms(t *testing.T) {
	for weights, want := range map[string]string{
		`"strategy": "block_hadamard"`:         `weights.strategy: unsupported: "block_hadamard" (known: tensor, channel, group, block, tensor_group, token, attn_head); use the model's original`,
		`"type": "nf"`:                         `weights.type: unsupported: "nf" (known: int, float); use the model's original`,
		`"dynamic": true`:                      `weights.dynamic: unsupported: true, want false of weights`,
		`"strategy": "group", "group_size": 0`: `weights.group_size: unsupported: 0 with strategy "group", want a positive number`,
		`"group_size": -2`:                     `weights.group_size: unsupported: -2 with strategy ""`,
	} {
		_, err := schemeOf(t, `{"quant_method": "compressed-tensors", "config_groups": {"a": {"weights": {"num_bits": 4, `+weights+`}}}}`)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s:\n%v, want\n%s", weights, err, want)
		}
	}
	if _, err := schemeOf(t, `{"quant_method": "compressed-tensors", "config_groups": {"a": {"input_activations": {"strategy": "turned"}}}}`); err == nil || !strings.Contains(err.Error(), `input_activations.strategy: unsupported: "turned"`) {
		t.Errorf("activations: %v", err)
	}
}

// Tensors that are not what the configuration says are refused; what is said in part, or in
// other words, fits.
func TestForms(t *testing.T) {
	const out, in = 64, 96
	w := wave(out*in, 1)
	packed := func(group int, symmetric, zeros bool) source {
		c := prequanttest.Round(w, out, in, 4, group, symmetric, false)
		return sourceOf(c.PackQuantized("m", !zeros, false))
	}
	uneven, even, bare, whole := packed(32, false, true), packed(32, true, true), packed(32, true, false), packed(0, true, false)
	one, _ := prequanttest.FP8("m", ".weight_scale", w, out, in, out, in)
	rows, _ := prequanttest.FP8("m", ".weight_scale", w, out, in, 1, in)
	blocks, _ := prequanttest.FP8("m", ".weight_scale", w, out, in, 32, 48)
	fp4, _ := prequanttest.NVFP4.Encode("m", w, out, in)
	for _, c := range []struct {
		weights string
		source  source
		want    string // of the error behind "...group_0.weights says "
	}{
		{`"num_bits": 4, "type": "int", "symmetric": false, "strategy": "group", "group_size": 32`, uneven, ""},
		{`"num_bits": 4, "type": "INT", "symmetric": true, "strategy": "Group", "group_size": 32`, even, ""},
		{`"num_bits": 4, "symmetric": true, "group_size": 32`, bare, ""},
		{`"num_bits": 4`, bare, ""},
		{`"num_bits": 4, "symmetric": true, "strategy": "channel", "group_size": -1`, whole, ""},
		{`"num_bits": 4, "strategy": "channel", "group_size": null`, whole, ""},
		{`"num_bits": 4, "symmetric": true`, uneven, "symmetric true of what has zeros elsewhere than in the middle"},
		{`"num_bits": 4, "symmetric": false`, bare, "symmetric false of what has no zero points"},
		{`"num_bits": 4, "type": "float"`, bare, `type "float" of what is "int"`},
		{`"num_bits": 8`, bare, `num_bits 8 of what has 4`},
		{`"num_bits": 4, "group_size": 16`, bare, `group_size 16 of what has a scale for 1x32 weights`},
		{`"num_bits": 4, "strategy": "channel"`, bare, `strategy "channel" of what has a scale for 1x32 weights`},
		{`"num_bits": 4, "group_size": -1`, bare, `strategy "" of what has a scale for 1x32 weights`},
		{`"num_bits": 4, "strategy": "tensor"`, whole, `strategy "tensor" of what has a scale for 1x96 weights`},

		{`"num_bits": 8, "type": "float", "strategy": "tensor"`, sourceOf(one), ""},
		{`"num_bits": 8, "type": "float", "strategy": "channel"`, sourceOf(rows), ""},
		{`"num_bits": 8, "type": "float", "strategy": "block", "block_structure": [32, 48]`, sourceOf(blocks), ""},
		{`"num_bits": 8, "type": "float", "strategy": "channel"`, sourceOf(one), `strategy "channel" of what has a scale for 64x96 weights`},
		{`"num_bits": 8, "type": "int"`, sourceOf(rows), `type "int" of what is "float"`},
		{`"num_bits": 4, "type": "float"`, sourceOf(rows), `num_bits 4 of what has 8`},

		{`"num_bits": 4, "type": "float", "strategy": "tensor_group", "group_size": 16`, sourceOf(fp4), ""},
		{`"num_bits": 4, "type": "int", "group_size": 16`, sourceOf(fp4), `type "int" of what is "float"`},
	} {
		s, err := schemeOf(t, `{"quant_method": "compressed-tensors", "config_groups": {"group_0": {"weights": {`+c.weights+`}}}}`)
		if err != nil {
			t.Fatal(err)
		}
		_, err = prequant.Show(s, c.source)
		want := "config_groups.group_0.weights says " + c.want + "; correct one of them"
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %s", c.weights, err, want)
		}
	}
	s, err := schemeOf(t, `{"quant_method": "compressed-tensors", "config_groups": {"a": {"weights": {"num_bits": 8, "type": "float"}}, "b": {"weights": {"num_bits": 4, "type": "int", "group_size": 32}}}}`)
	if err != nil {
		t.Fatal(err)
	}
	both := sourceOf(rows)
	for name, x := range bare {
		x.Name = "n" + name[1:]
		both[x.Name] = x
	}
	if _, err := prequant.Show(s, both); err != nil {
		t.Errorf("two groups: %v", err)
	}
}
