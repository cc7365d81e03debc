#!/usr/bin/env python3
"""Writes small architecture goldens: random models 32 wide with what transformers
computes for them, less than 200 KB each.

    python3 scripts/golden-small.py OUT [NAME ...]

OUT gets a folder a name (testdata/golden/arch). Run it in an environment with torch,
safetensors and transformers (5.24 made those that are committed). The same arguments
give the same files.
"""

import importlib.util
import json
import os
import sys

import torch
from safetensors.torch import load_file, save_file
from transformers import AutoConfig

here = os.path.dirname(os.path.abspath(__file__))
spec = importlib.util.spec_from_file_location("variants", os.path.join(here, "golden-variants.py"))
variants = importlib.util.module_from_spec(spec)
spec.loader.exec_module(variants)

TINY = {"vocab_size": 128, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4,
        "num_key_value_heads": 2, "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0}
MLA = {"kv_lora_rank": 32, "q_lora_rank": 32, "qk_nope_head_dim": 8, "qk_rope_head_dim": 8, "v_head_dim": 8, "num_key_value_heads": 4}
EXPERTS = {"num_experts_per_tok": 2, "moe_intermediate_size": 32}
LLAMA3 = {"rope_type": "llama3", "rope_theta": 1e4, "factor": 4.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
          "original_max_position_embeddings": 16}
YARN = {"rope_type": "yarn", "rope_theta": 1e4, "factor": 4.0, "beta_fast": 32, "beta_slow": 1}
NO_GQA = {"intermediate_size": None, "num_key_value_heads": None}
WINDOWS = {"sliding_window": 8, "num_hidden_layers": 3, "layer_types": ["sliding_attention", "full_attention", "sliding_attention"]}
INDEXER = {"index_topk": 512, "index_head_dim": 16, "index_n_heads": 2}
LLAMA4 = {"num_hidden_layers": 4, "head_dim": 16, "intermediate_size": 32, "intermediate_size_mlp": 64, "num_local_experts": 4, "interleave_moe_layer_step": 2}

LINEAR = {"linear_num_key_heads": 2, "linear_num_value_heads": 4, "linear_key_head_dim": 8, "linear_value_head_dim": 16, "head_dim": 16}
GEMMA4 = {"num_hidden_layers": 3, "layer_types": ["sliding_attention", "full_attention", "full_attention"], "sliding_window": 8, "head_dim": 8,
          "global_head_dim": 16, "num_global_key_value_heads": 1, "attention_k_eq_v": True, "final_logit_softcapping": 3.0}
HYBRID = {"num_hidden_layers": 3, "layer_types": ["linear_attention", "full_attention", "linear_attention"]}
MROPE = {"rope_type": "default", "rope_theta": 1e4, "partial_rotary_factor": 0.5, "mrope_interleaved": True, "mrope_section": [2, 1, 1]}
SEEING = {"depth": 1, "hidden_size": 32, "intermediate_size": 32, "num_heads": 2, "out_hidden_size": 32, "patch_size": 2, "num_position_embeddings": 4}
VISION = {"hidden_size": 32, "intermediate_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "patch_size": 2, "image_size": 8}
BLOCKS = {"depth": 1, "hidden_size": 32, "intermediate_size": 32, "num_heads": 2, "out_hidden_size": 32, "patch_size": 2}

AUDIO = {"audio_config": {"d_model": 32, "encoder_layers": 1, "encoder_attention_heads": 2, "encoder_ffn_dim": 32, "num_mel_bins": 8}} | dict.fromkeys(TINY)
HEARING = {"hidden_size": 32, "intermediate_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "num_mel_bins": 8}
QFORMER = {"hidden_size": 32, "intermediate_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "encoder_hidden_size": 32, "vocab_size": 16}
SPEECH = {"encoder_config": {"input_dim": 8, "num_layers": 1, "hidden_dim": 32, "num_heads": 2}, "projector_config": QFORMER | {"model_type": "blip_2_qformer"},
          "vision_config": None, "tie_word_embeddings": False}
GRANITE = {"head_dim": None, "embedding_multiplier": 3.0, "attention_multiplier": 0.3, "residual_multiplier": 0.5, "logits_scaling": 2.0}


FALCON_H1 = {"head_dim": 16, "mamba_d_ssm": 48, "mamba_n_heads": 4, "mamba_d_state": 8, "mamba_n_groups": 2, "lm_head_multiplier": 0.5, "embedding_multiplier": 2.0,
             "mlp_multipliers": [1.5, 0.5], "key_multiplier": 0.8, "attention_out_multiplier": 0.7, "attention_in_multiplier": 1.2,
             "ssm_multipliers": [0.9, 1.1, 0.8, 1.2, 1.3], "ssm_in_multiplier": 1.1, "ssm_out_multiplier": 0.6}


def behind(kind, vision, **text):
    """A language model behind a picture encoder."""
    text = {k: v for k, v in (TINY | {"model_type": kind, "head_dim": 16} | text).items() if v is not None}
    return {"text_config": text, "vision_config": vision} | dict.fromkeys(TINY)


def heard(kind, audio, **text):
    """A language model behind an encoder of sound."""
    return {k: v for k, v in behind(kind, None, **text).items() if k != "vision_config"} | {"audio_config": audio}


MAMBA = {"mamba_n_heads": 4, "mamba_d_head": 16, "mamba_n_groups": 1, "mamba_d_state": 8, "mamba_expand": 2}

# By model_type, or with one: what differs from TINY; None leaves a field out.
CASES = {
    "axk1": MLA | EXPERTS | {"n_routed_experts": 4, "n_group": 1, "topk_group": 1, "mlp_layer_types": ["dense", "sparse", "dense"], "num_hidden_layers": 3},
    "audioflamingo3": heard("qwen2", HEARING, head_dim=None),
    "fun_asr_nano": heard("qwen3", HEARING) | {"adaptor_config": {"hidden_size": 32, "intermediate_size": 8, "num_attention_heads": 2, "num_hidden_layers": 1, "projector_hidden_size": 32}},
    "glmasr": heard("llama", HEARING),
    "moss_transcribe_diarize": heard("qwen3", HEARING, rope_parameters={"rope_type": "default", "rope_theta": 1e6}),
    "musicflamingo": heard("qwen2", HEARING | {"model_type": "audioflamingo3_encoder"}, head_dim=None),
    "omniasr": heard("llama", VISION | {"conv_dim": [8, 8], "conv_kernel": [3, 3], "conv_stride": [2, 2], "num_conv_pos_embeddings": 4, "num_conv_pos_embedding_groups": 2}),
    "qwen3_asr": heard("qwen3", AUDIO["audio_config"] | {"output_dim": 32, "downsample_hidden_size": 8}),
    "vibevoice_asr": heard("qwen2", None, head_dim=None) | {"audio_config": None} | dict.fromkeys(
        ["acoustic_tokenizer_encoder_config", "semantic_tokenizer_encoder_config"], {"model_type": "vibevoice_acoustic_tokenizer_encoder", "hidden_size": 8, "num_filters": 2,
                                                                                "depths": [1, 1, 1, 1, 1, 1, 1]}),
    "granite_speech": behind("granite", None, **GRANITE | {"logits_scaling": 1.0}) | SPEECH,
    "granite_speech_plus": behind("granite", None, **GRANITE | {"logits_scaling": 1.0}) | SPEECH,
    "granite4_vision": behind("granite4_vision_text", VISION | {"model_type": "clip_vision_model", "hidden_size": 64}, **GRANITE) | {"downsample_rate": "1/2", "deepstack_layer_map": [[-1, 0]], "qformer_config": QFORMER | {"model_type": "blip_2_qformer"}},
    "granite_docling": behind("granite_docling_text", VISION | {"out_hidden_size": 32, "scale_factor": 2, "deepstack_visual_indexes": [0]}, **GRANITE),
    "hyperclovax_vision_v2": behind("hyperclovax", BLOCKS | {"fullatt_block_indexes": [0]}, head_dim=None, embedding_multiplier=2.0, logits_scaling=0.5, residual_multiplier=0.7),
    "emu3": behind("emu3_text_model", None) | {"vision_config": None, "vq_config": {"base_channels": 32, "codebook_size": 8, "hidden_size": 32, "channel_multiplier": [1, 1], "num_res_blocks": 1, "attn_resolutions": [1]}, "vocabulary_map": {"<image>": 127}},
    "emu3_text_model": {},
    "aria": behind("aria_text", VISION | {"model_type": "idefics3_vision"}, intermediate_size=32, moe_num_experts=4, moe_topk=2, moe_num_shared_experts=2) | {"projector_patch_to_query_dict": {16: 4}},
    "fast_vlm": behind("qwen2", VISION | {"model_type": "siglip_vision_model"}, head_dim=None),
    "idefics2": behind("mistral", VISION, sliding_window=8) | {"perceiver_config": {"hidden_size": 32, "resampler_n_latents": 2, "resampler_depth": 1, "resampler_n_heads": 2, "resampler_head_dim": 16, "num_key_value_heads": 2}},
    "ovis2": behind("qwen2", VISION | {"vocab_size": 16}, head_dim=None),
    "video_llava": behind("llama", VISION | {"model_type": "clip_vision_model"}),
    "pp_chart2table": behind("qwen2", VISION | {"output_channels": 8, "mlp_dim": 32, "global_attn_indexes": [0], "window_size": 2}, head_dim=None),
    "fuyu": {"text_config": TINY | {"model_type": "persimmon", "num_key_value_heads": 4}} | dict.fromkeys(TINY) | {"patch_size": 2},
    "mllama": behind("mllama_text_model", {"hidden_size": 32, "num_hidden_layers": 1, "num_global_layers": 1, "attention_heads": 2, "intermediate_size": 32, "vision_output_dim": 64,
                                           "image_size": 8, "patch_size": 2, "intermediate_layers_indices": [0]}, head_dim=None, num_hidden_layers=4, cross_attention_layers=[1, 3],
                     rope_parameters={"rope_type": "default", "rope_theta": 5e5}),
    "blip-2": behind("opt", VISION, activation_function="gelu", num_key_value_heads=None, intermediate_size=None, head_dim=None, ffn_dim=64, max_position_embeddings=40, word_embed_proj_dim=32) | {"qformer_config": QFORMER},
    "instructblip": behind("llama", VISION) | {"qformer_config": QFORMER},
    "qwen2_5_omni_thinker": heard("qwen2_5_omni_text", AUDIO["audio_config"] | {"output_dim": 32}, head_dim=None, rope_parameters={"rope_type": "default", "rope_theta": 1e6, "mrope_section": [1, 1, 2]}) | {"vision_config": BLOCKS | {"fullatt_block_indexes": [0]}},
    "qwen3_omni_moe_thinker": heard("qwen3_omni_moe_text", AUDIO["audio_config"] | {"output_dim": 32, "downsample_hidden_size": 8}, num_experts=4, num_experts_per_tok=2, moe_intermediate_size=32,
                                    rope_parameters={"rope_type": "default", "rope_theta": 1e6, "mrope_section": [3, 3, 2], "mrope_interleaved": True}) | {"vision_config": SEEING | {"deepstack_visual_indexes": [0]}},
    "cohere_compass": behind("cohere_compass_text", SEEING | {"deepstack_visual_indexes": [0]}, **WINDOWS | {"head_dim": None, "logit_scale": 0.5, "rope_parameters": {
        "full_attention": None, "sliding_attention": {"rope_type": "default", "rope_theta": 5e4, "mrope_section": [2, 1, 1]}}}),
    "cosmos3_omni": behind("qwen3_vl_text", SEEING | {"deepstack_visual_indexes": [0]}, rope_parameters={"rope_type": "default", "rope_theta": 1e6, "mrope_section": [3, 3, 2], "mrope_interleaved": True}),
    "cosmos3_edge": behind("cosmos3_edge_text", VISION, rope_parameters={"rope_type": "default", "rope_theta": 1e6, "mrope_section": [3, 3, 2]}),
    "deepseek_ocr2": behind("deepseek_ocr2_text", {"sam_config": VISION | {"output_channels": 8, "downsample_channels": [16, 32], "global_attn_indexes": [0], "window_size": 2}, "encoder_config": TINY}, head_dim=None, num_key_value_heads=4, n_routed_experts=4, n_shared_experts=1, num_experts_per_tok=2, moe_intermediate_size=32, mlp_layer_types=["dense", "sparse"]),
    "minicpmv4_6": {"text_config": TINY | LINEAR | HYBRID | {"model_type": "qwen3_5_text"}, "vision_config": VISION | {"insert_layer_id": 0}} | dict.fromkeys(TINY),
    "minicpmv4_7": {"text_config": TINY | LINEAR | HYBRID | {"model_type": "qwen3_5_text"}, "vision_config": VISION | {"insert_layer_id": 0}} | dict.fromkeys(TINY),
    "minicpm_ocr": {"text_config": TINY | LINEAR | HYBRID | {"model_type": "qwen3_5_text"}, "vision_config": VISION | {"insert_layer_id": 0}} | dict.fromkeys(TINY),
    "muse_glimmer": behind("muse_glimmer_text", VISION | {"image_size": 8, "out_hidden_size": 32}, sliding_window=8, num_hidden_layers=3, post_norm_eps=0.01) | {"out_hidden_size": 32, "projector_hidden_size": 32},
    "molmo2": behind("molmo2_text", VISION | {"image_size": [8, 8], "head_dim": 16}, additional_vocab_size=8, qk_norm_type="olmo", norm_after=True, attention_bias=True,
                     rope_scaling_layers=[1], rope_parameters=LLAMA3) | {"adapter_config": {"vision_feature_layer": [-1], "hidden_size": 32, "num_attention_heads": 2, "num_key_value_heads": 2, "head_dim": 16,
                                                                                                                         "intermediate_size": 32, "text_hidden_size": 32}},
    "aya_vision": behind("cohere", VISION | {"model_type": "siglip_vision_model"}, logit_scale=1.0),
    "cohere2_moe": WINDOWS | {"head_dim": 16, "intermediate_size": 32, "prefix_dense_intermediate_size": 64, "num_experts": 4, "num_shared_experts": 1,
                    "mlp_layer_types": ["dense", "sparse", "sparse"], "layer_types": ["full_attention", "sliding_attention", "full_attention"],
                    "expert_selection_fn": "sigmoid", "logit_scale": 1.0},
    "cohere2_vision": behind("cohere2", VISION | {"model_type": "siglip_vision_model"}, **WINDOWS | {"logit_scale": 1.0}),
    "biogpt": {"num_key_value_heads": None, "max_position_embeddings": 64},
    "codegen": NO_GQA | dict.fromkeys(["hidden_size", "num_hidden_layers", "num_attention_heads"]) | {"n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 64, "rotary_dim": 4},
    "afmoe": EXPERTS | WINDOWS | {"head_dim": 16, "num_experts": 4, "num_shared_experts": 1, "num_dense_layers": 1, "route_scale": 2.5, "mup_enabled": True},
    "bamba": MAMBA | {"num_hidden_layers": 3, "attn_layer_indices": [1], "head_dim": None},
    "cwm": {"head_dim": 16, "sliding_window": 8, "rope_parameters": LLAMA3},
    "dbrx": {"d_model": 32, "n_heads": 4, "n_layers": 2, "max_seq_len": 64, "attn_config": {"kv_n_heads": 2, "clip_qkv": 2.5, "rope_theta": 5e4},
             "ffn_config": {"ffn_hidden_size": 64, "moe_num_experts": 4, "moe_top_k": 2, "hidden_size": 32}} | dict.fromkeys(set(TINY) - {"vocab_size"}),
    "deepseek_v2": MLA | EXPERTS | {"q_lora_rank": 0, "n_routed_experts": 4, "n_shared_experts": 1, "first_k_dense_replace": 1,
                                    "topk_method": "group_limited_greedy", "n_group": 2, "topk_group": 1,
                                    "rope_parameters": YARN | {"mscale": 0.707, "mscale_all_dim": 0.707, "original_max_position_embeddings": 16}},
    "deepseek_v32": MLA | EXPERTS | INDEXER | {"n_routed_experts": 4, "n_group": 2, "topk_group": 1, "mlp_layer_types": ["dense", "sparse"],
                                               "rope_parameters": YARN | {"mscale": 1.0, "mscale_all_dim": 1.0, "original_max_position_embeddings": 16}},
    "deepseek_vl": behind("llama", VISION | {"model_type": "siglip_vision_model"}),
    "ernie4_5_moe": {"moe_num_experts": 4, "moe_k": 2, "moe_intermediate_size": 32, "moe_num_shared_experts": 1},
    "ernie4_5_vl_moe": behind("ernie4_5_vl_moe_text", BLOCKS | {"intermediate_size": 32}, moe_num_experts=4, moe_k=2, moe_intermediate_size=[32, 16],
                              moe_num_shared_experts=1, rope_parameters={"rope_type": "default", "rope_theta": 5e5, "mrope_section": [3, 3, 2]}),
    "exaone": {"rope_parameters": LLAMA3},
    "exaone4_5": behind("exaone4", BLOCKS | {"num_key_value_heads": 2, "fullatt_block_indexes": [0]}, **WINDOWS),
    "exaone_moe": EXPERTS | WINDOWS | {"num_experts": 4, "mlp_layer_types": ["sparse", "dense", "sparse"], "num_shared_experts": 1},
    "falcon": NO_GQA | {"ffn_hidden_size": 64, "bias": True},
    "falcon_40b": NO_GQA | {"model_type": "falcon", "new_decoder_architecture": True, "num_kv_heads": 2},
    "falcon_rw": NO_GQA | {"model_type": "falcon", "multi_query": False, "parallel_attn": False, "bias": True},
    "flex_olmo": {"num_experts": 4, "num_experts_per_tok": 2},
    "gemma4": {"text_config": TINY | GEMMA4 | {"num_experts": 4, "top_k_experts": 2, "moe_intermediate_size": 32, "enable_moe_block": True, "hidden_size_per_layer_input": 0},
               "vision_config": None, "audio_config": None} | dict.fromkeys(TINY),
    "gemma4_text": GEMMA4 | {"attention_k_eq_v": False, "num_global_key_value_heads": None, "hidden_size_per_layer_input": 0, "num_attention_heads": 2},
    "gemma4_e2b": {"model_type": "gemma4", "text_config": TINY | GEMMA4 | {
        "num_hidden_layers": 5, "layer_types": ["sliding_attention", "full_attention", "sliding_attention", "sliding_attention", "full_attention"],
        "attention_k_eq_v": False, "num_global_key_value_heads": None, "num_key_value_heads": 1, "num_kv_shared_layers": 2, "use_double_wide_mlp": True,
        "intermediate_size": 32, "hidden_size_per_layer_input": 32, "vocab_size_per_layer_input": 128}, "vision_config": None, "audio_config": None} | dict.fromkeys(TINY),
    "gemma4_unified_text": GEMMA4 | {"attention_bias": True, "use_bidirectional_attention": None},
    "gemma4_unified": {"text_config": TINY | GEMMA4 | {"num_hidden_layers": 7, "layer_types": None, "intermediate_size": 32}} | dict.fromkeys(TINY),
    "flint": EXPERTS | WINDOWS | {"head_dim": 16, "num_experts": 4, "mlp_only_layers": [1], "shared_expert_intermediate_size": 48},
    "glm": {"head_dim": 16},
    "glm46v": behind("glm4v_text", BLOCKS, head_dim=None, num_attention_heads=2, num_key_value_heads=1, rope_parameters={"rope_type": "default", "rope_theta": 1e4, "partial_rotary_factor": 0.5, "mrope_section": [1, 1, 2]}),
    "glm4_moe_lite": MLA | EXPERTS | {"n_routed_experts": 4, "mlp_layer_types": ["sparse", "dense"]},
    "glm_moe_dsa": MLA | EXPERTS | INDEXER | {"n_routed_experts": 4, "first_k_dense_replace": 1, "indexer_types": ["full", "shared"]},
    "glm_ocr": behind("glm_ocr_text", BLOCKS, rope_parameters={"rope_type": "default", "rope_theta": 1e4, "mrope_section": [2, 3, 3]}),
    "granitemoehybrid": MAMBA | {"intermediate_size": 32, "num_hidden_layers": 3, "layer_types": ["mamba", "attention", "mamba"], "num_local_experts": 4, "num_experts_per_tok": 2,
                                 "shared_intermediate_size": 32, "embedding_multiplier": 3.0, "residual_multiplier": 0.5, "attention_multiplier": 0.2, "logits_scaling": 2.0},
    "granitemoehybrid_dense": MAMBA | {"model_type": "granitemoehybrid", "layer_types": ["mamba", "attention"], "num_local_experts": 0, "num_experts_per_tok": 0,
                                       "shared_intermediate_size": 64, "position_embedding_type": "rope", "mamba_n_groups": 2, "mamba_conv_bias": False},
    "got_ocr2": behind("qwen2", VISION | {"output_channels": 8, "mlp_dim": 32, "global_attn_indexes": [0], "window_size": 2}),
    "gpt_neo": NO_GQA | {"num_hidden_layers": None, "num_attention_heads": None, "num_layers": 3, "num_heads": 4, "max_position_embeddings": 64,
                         "attention_types": [[["global", "local", "local"], 1]], "window_size": 8},
    "gptj": NO_GQA | dict.fromkeys(["hidden_size", "num_hidden_layers", "num_attention_heads"]) | {"n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 64, "rotary_dim": 4},
    "granite_swa": {"num_hidden_layers": 3, "sliding_window": 8, "layer_rope_theta": [0, 1e4, 5e4], "embedding_multiplier": 3.0,
                    "attention_multiplier": 0.3, "residual_multiplier": 0.5, "logits_scaling": 2.0},
    "granitemoe_swa": {"sliding_window": 8, "num_local_experts": 4, "num_experts_per_tok": 2, "shared_intermediate_size": 32},
    "hunyuan_vl": behind("hunyuan_vl_text", VISION | {"out_hidden_size": 32}, rope_parameters={
        "rope_type": "xdrope", "rope_theta": 1e4, "factor": 1.0, "alpha": 50.0, "xdrope_section": [2, 2, 2, 2]}),
    "hyperclovax": {"embedding_multiplier": 2.0, "logits_scaling": 0.5, "residual_multiplier": 0.7},
    "hy_v3": EXPERTS | {"head_dim": 16, "num_experts": 4, "num_shared_experts": 1},
    "idefics3": behind("llama", VISION),
    "internlm3": {"attention_bias": True, "mlp_bias": True, "head_dim": 16},
    "jais2": {},
    "janus": behind("llama", VISION | {"mlp_ratio": 1.0, "projection_dim": 32, "depth": 1}) | {"vq_config": {"base_channels": 32, "num_embeddings": 8}, "tie_word_embeddings": False},
    "kimi_k25": behind("deepseek_v3", VISION | {"pos_emb_height": 2, "pos_emb_width": 2}, **MLA | EXPERTS | {"head_dim": 8,
        "n_routed_experts": 4, "n_shared_experts": 1, "first_k_dense_replace": 1, "n_group": 1, "topk_group": 1}) | {"tie_word_embeddings": False},
    "lighton_ocr": behind("qwen3", VISION | {"model_type": "pixtral"}),
    "llama4": behind("llama4_text", VISION | {"vision_output_dim": 32, "projector_input_dim": 32, "projector_output_dim": 32},
                     **LLAMA4 | {"rope_parameters": LLAMA3 | {"rope_theta": 100.0, "high_freq_factor": 1.0}}),
    "llama4_text": LLAMA4 | {"attention_bias": True, "use_qk_norm": False},
    "mellum": EXPERTS | WINDOWS | {"head_dim": 16, "num_experts": 4, "mlp_layer_types": ["dense", "sparse", "sparse"], "rope_parameters": {
        "full_attention": {"rope_type": "yarn", "rope_theta": 5e5, "factor": 4.0, "original_max_position_embeddings": 16},
        "sliding_attention": {"rope_type": "default", "rope_theta": 777.0}}},
    "mimo_v2_flash": EXPERTS | {"num_hidden_layers": 3, "sliding_window": 8, "layer_types": ["full_attention", "sliding_attention", "sliding_attention"], "head_dim": 16, "v_head_dim": 8,
                      "n_routed_experts": 4, "rope_parameters": {
                          "full_attention": {"rope_type": "default", "rope_theta": 5e6, "partial_rotary_factor": 0.5},
                          "sliding_attention": {"rope_type": "default", "rope_theta": 1e4, "partial_rotary_factor": 0.5}}},
    "minicpm3": MLA | {"v_head_dim": 16, "scale_emb": 3, "dim_model_base": 16, "tie_word_embeddings": False},
    "minimax_m2": {"num_local_experts": 4, "num_experts_per_tok": 2, "head_dim": 16, "rotary_dim": 8},
    "minimax_m3_vl": behind("minimax_m3_vl_text", VISION, num_hidden_layers=3, num_local_experts=4, num_experts_per_tok=2, intermediate_size=32, dense_intermediate_size=64,
                            shared_intermediate_size=48, rotary_dim=8, mlp_layer_types=["dense", "sparse", "sparse"],
                            layer_types=["full_attention", "minimax_m3_sparse", "full_attention"], index_n_heads=2, index_head_dim=16, index_block_size=32,
                            rope_parameters={"rope_type": "default", "rope_theta": 5e6, "partial_rotary_factor": 0.5}) | {"projector_hidden_size": 32},
    "ministral3": {"head_dim": 16, "rope_parameters": YARN | {"mscale": 1.0, "mscale_all_dim": 1.0, "llama_4_scaling_beta": 0.3,
                                                              "original_max_position_embeddings": 8}},
    "lfm2": {"num_hidden_layers": 3, "layer_types": ["conv", "full_attention", "conv"], "block_auto_adjust_ff_dim": False},
    "lfm2_adjusted": {"model_type": "lfm2", "full_attn_idxs": [1], "conv_bias": True, "conv_L_cache": 4, "block_multiple_of": 32, "block_ffn_dim_multiplier": 1.5},
    "lfm2_moe": EXPERTS | {"num_hidden_layers": 3, "layer_types": ["conv", "full_attention", "conv"], "num_experts": 4, "num_dense_layers": 1, "routed_scaling_factor": 1.5},
    "apertus": {"rope_parameters": LLAMA3},
    "laguna": EXPERTS | WINDOWS | {"head_dim": 16, "num_experts": 4, "shared_expert_intermediate_size": 32, "num_attention_heads_per_layer": [4, 6, 2], "num_key_value_heads": 2,
               "moe_routed_scaling_factor": 1.5, "rope_parameters": {
                   "full_attention": YARN | {"rope_theta": 5e5, "partial_rotary_factor": 0.5, "original_max_position_embeddings": 16},
                   "sliding_attention": {"rope_type": "default", "rope_theta": 1e4, "partial_rotary_factor": 1.0}}},
    "lfm3": {"num_hidden_layers": 4, "layer_types": ["conv", "full_attention", "sliding_attention", "conv"], "head_dim": 16, "sliding_window": 8},
    "step3p7": {"text_config": {k: v for k, v in (TINY | EXPERTS | WINDOWS | {"model_type": "step3p5", "head_dim": 16, "num_attention_heads": 4, "num_sliding_attention_heads": 6,
        "n_routed_experts": 4, "share_expert_dim": 32, "mlp_layer_types": ["dense", "sparse", "sparse"], "moe_router_scaling_factor": 1.5,
        "swiglu_limits": [0.0, 0.0, 0.05], "swiglu_limits_shared": [0.0, 0.1, None], "rope_parameters": {
            "full_attention": LLAMA3 | {"rope_theta": 5e6, "partial_rotary_factor": 0.5}, "sliding_attention": {"rope_type": "default", "rope_theta": 1e4}}}).items()},
        "vision_config": {"width": 32, "layers": 1, "heads": 2, "image_size": 28, "patch_size": 14}} | dict.fromkeys(TINY),
    "lfm2_vl": behind("lfm2", VISION | {"model_type": "siglip2_vision_model"}, head_dim=None, num_hidden_layers=2, layer_types=["conv", "full_attention"], block_auto_adjust_ff_dim=False),
    "mamba2": dict.fromkeys(set(TINY) - {"vocab_size", "hidden_size", "num_hidden_layers"}) | {"num_heads": 4, "head_dim": 16, "state_size": 8, "n_groups": 2, "use_bias": True},
    "mistral4": MLA | EXPERTS | {"n_routed_experts": 4, "n_shared_experts": 1, "first_k_dense_replace": 1, "rope_parameters": YARN | {
        "mscale": 1.0, "mscale_all_dim": 1.0, "llama_4_scaling_beta": 0.3, "original_max_position_embeddings": 8}},
    "nemotron_h": EXPERTS | {"layers_block_type": ["linear_attention", "mlp", "full_attention", "moe", "linear_attention"], "num_hidden_layers": None, "head_dim": 16,
                             "mamba_num_heads": 4, "mamba_head_dim": 16, "ssm_state_size": 8, "n_groups": 2, "n_routed_experts": 4, "n_group": 2, "topk_group": 1,
                             "moe_shared_expert_intermediate_size": 32, "routed_scaling_factor": 2.5},
    "nemotron_h_latent": EXPERTS | {"model_type": "nemotron_h", "layers_block_type": ["linear_attention", "moe", "full_attention", "moe"], "num_hidden_layers": None, "head_dim": 16,
                                    "mamba_num_heads": 4, "mamba_head_dim": 16, "ssm_state_size": 8, "n_groups": 2, "n_routed_experts": 4, "moe_latent_size": 16,
                                    "moe_shared_expert_intermediate_size": 48, "routed_scaling_factor": 5.0},
    "modernbert-decoder": NO_GQA | {"intermediate_size": 48, "num_hidden_layers": 4, "local_attention": 16, "cls_token_id": 1, "sep_token_id": 2, "mlp_bias": True},
    "nanochat": {"head_dim": 16, "final_logit_softcapping": 3.0},
    "olmo": {"clip_qkv": 2.0},
    "falcon_h1": FALCON_H1,
    "falcon_h1_normed": {"model_type": "falcon_h1"} | FALCON_H1 | {"mamba_rms_norm": True, "mamba_norm_before_gate": False, "mlp_multipliers": None, "mamba_d_ssm": 64},
    "olmo_hybrid": {"num_hidden_layers": 3, "layer_types": ["linear_attention", "full_attention", "linear_attention"], "linear_num_key_heads": 2, "linear_num_value_heads": 4,
                    "linear_key_head_dim": 8, "linear_value_head_dim": 16, "rope_parameters": {"rope_type": "default", "rope_theta": 5e5}},
    "olmoe": {"num_experts": 4, "num_experts_per_tok": 2, "norm_topk_prob": True},
    "openai-gpt": dict.fromkeys(set(TINY) - {"vocab_size"}) | {"n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 64},
    "opt": NO_GQA | {"ffn_dim": 64, "max_position_embeddings": 40, "word_embed_proj_dim": 32},
    "opt_350m": NO_GQA | {"model_type": "opt", "hidden_size": 64, "ffn_dim": 64, "max_position_embeddings": 40, "word_embed_proj_dim": 32, "activation_function": "gelu", "do_layer_norm_before": False},
    "paddleocr_vl": behind("paddleocr_vl_text", VISION, rope_parameters={"rope_type": "default", "rope_theta": 5e5, "mrope_section": [2, 3, 3]}, use_bias=True),
    "persimmon": {"num_key_value_heads": None},
    "phi4mm": {"model_type": "phi4_multimodal", "rope_parameters": {"rope_type": "longrope", "rope_theta": 1e4, "partial_rotary_factor": 0.5, "short_factor": [1.0, 1.1], "long_factor": [1.5, 2.0]},
                        "original_max_position_embeddings": 16, "vision_config": VISION | {"crop_size": 8},
                        "audio_config": {"hidden_size": 32, "intermediate_size": 32, "num_blocks": 1, "num_attention_heads": 2, "ext_pw_out_channel": 32, "nemo_conv_channels": 32}},
    "qianfan_ocr": behind("qwen3", VISION | {"image_size": [8, 8], "patch_size": [2, 2]}),
    "qwen2_audio": AUDIO | {"text_config": TINY | {"model_type": "qwen2"}},
    "qwen3_vl_moe": {"text_config": TINY | EXPERTS | {"head_dim": 16, "num_experts": 4, "moe_intermediate_size": 64, "mlp_only_layers": [0]},
                     "vision_config": {"depth": 1, "hidden_size": 32, "intermediate_size": 32, "num_heads": 2, "out_hidden_size": 32, "patch_size": 2,
                                       "num_position_embeddings": 4, "deepstack_visual_indexes": [0]}} | dict.fromkeys(TINY),
    "qwen3_5": {"text_config": TINY | LINEAR | HYBRID | {"rope_parameters": MROPE}, "vision_config": SEEING} | dict.fromkeys(TINY),
    "qwen3_5_moe": {"model_type": "qwen3_5_moe_text"} | EXPERTS | LINEAR | HYBRID | {"num_experts": 4, "shared_expert_intermediate_size": 32,
                                                                                        "intermediate_size": None, "linear_num_value_heads": 6},
    "qwen3_5_text": LINEAR | HYBRID | {"linear_conv_kernel_dim": 3, "attention_bias": True, "tie_word_embeddings": True},
    "qwen3_next": EXPERTS | LINEAR | {"num_experts": 4, "shared_expert_intermediate_size": 32, "mlp_only_layers": [1], "num_hidden_layers": 4},
    "sarvam_moe": EXPERTS | {"head_dim": 16, "n_routed_experts": 4, "n_shared_experts": 1},
    "smolvlm": behind("llama", VISION),
    "solar_open": EXPERTS | {"head_dim": 16, "n_routed_experts": 4, "attention_bias": True, "intermediate_size": None},
    "vaultgemma": {"head_dim": 16, "sliding_window": 8, "query_pre_attn_scalar": 20},
    "video_llama_3": behind("qwen2", VISION),
    "voxtral": AUDIO | {"text_config": TINY | {"model_type": "llama", "head_dim": 16}},
    "xglm": dict.fromkeys(set(TINY) - {"vocab_size"}) | {"d_model": 32, "ffn_dim": 64, "num_layers": 2, "attention_heads": 4, "max_position_embeddings": 64},
    "youtu": MLA,
}

CASES["step3p5"] = CASES["step3p7"] | {"model_type": "step3p7"}
CASES["qwen3_omni_moe"] = CASES["qwen3_omni_moe_thinker"] | {"model_type": "qwen3_omni_moe_thinker"}

# Seeds by which every expert is chosen, no derivative is taken at a clip, and linear attention in
# float32, whose small results are normalized, is near that in float64.
SEEDS = {"qwen3_5": 17, "qwen3_5_moe": 17, "qwen3_5_text": 21, "qwen3_next": 11, "opt": 13, "dbrx": 11, "olmo": 11, "ernie4_5_moe": 11, "ernie4_5_vl_moe": 15, "exaone_moe": 11, "solar_open": 11, "sarvam_moe": 12, "minimax_m2": 11}


def adapters(folder):
    """Spells a phi4_multimodal as published, with adapters that text does not go through."""
    path = os.path.join(folder, "model.safetensors")
    tensors = {}
    for k, v in load_file(path).items():
        if "_proj" in k:
            tensors[k.replace(".weight", ".lora_A.vision.weight")] = torch.ones(2, v.shape[1]).half()
            tensors[k.replace(".weight", ".lora_B.vision.weight")] = torch.ones(v.shape[0], 2).half()
            k = k.replace(".weight", ".base_layer.weight")
        tensors[k] = v
    save_file(tensors, path)
    path = os.path.join(folder, "config.json")
    with open(path) as f:
        config = json.load(f)
    for k in ("audio_config", "vision_config"):
        del config[k]
    config |= {"architectures": ["Phi4MMForCausalLM"], "model_type": "phi4mm", "full_attn_mod": 1, "interpolate_factor": 1, "lm_head_bias": False,
               "vision_lora": {"r": 2, "lora_alpha": 4}}
    with open(path, "w") as f:
        json.dump(config, f, indent=1)


def borrowed(path):
    """Adds keys and values of layers that do not use them, as published files have them."""
    tensors = load_file(path)
    for layer in (3, 4):
        at = f"model.language_model.layers.{layer}.self_attn."
        dim = tensors[at + "q_norm.weight"].shape[0]
        tensors |= {at + "k_norm.weight": torch.ones(dim).half(), at + "k_proj.weight": torch.ones(dim, 32).half(), at + "v_proj.weight": torch.ones(dim, 32).half()}
    save_file(tensors, path)


def thinking(folder):
    """Puts a thinker inside what also speaks, as published."""
    path = os.path.join(folder, "model.safetensors")
    save_file({"thinker." + k: v for k, v in load_file(path).items()}, path)
    path = os.path.join(folder, "config.json")
    with open(path) as f:
        thinker = json.load(f)
    for k in ("audio_config", "vision_config"):
        del thinker[k]
    with open(path, "w") as f:
        json.dump({"architectures": ["Qwen3OmniMoeForConditionalGeneration"], "model_type": "qwen3_omni_moe", "thinker_config": thinker}, f, indent=1)


def flash(folder):
    """Spells a Step as 3.5 is published: alone, with bases and parts of RoPE by layer, and its own names of fields."""
    path = os.path.join(folder, "config.json")
    with open(path) as f:
        text = json.load(f)["text_config"]
    rope = text.pop("rope_parameters")
    kinds = [rope[k] for k in text["layer_types"]]
    for old, new in [("num_key_value_heads", "num_attention_groups"), ("n_routed_experts", "moe_num_experts"), ("num_experts_per_tok", "moe_top_k")]:
        text[new] = text.pop(old)
    sparse = [str(i) for i, k in enumerate(text.pop("mlp_layer_types")) if k == "sparse"]
    other = {"attention_type": "sliding_attention", "num_attention_heads": text.pop("num_sliding_attention_heads"), "num_attention_groups": 2, "head_dim": 16}
    for k in ("per_layer_config", "query_pre_attn_scalar", "mtp_layer_types", "mtp_mlp_layer_types"):
        del text[k]
    text |= {"architectures": ["Step3p5ForCausalLM"], "model_type": "step3p5", "rope_theta": [k["rope_theta"] for k in kinds], "moe_layers_enum": ",".join(sparse),
             "partial_rotary_factors": [k.get("partial_rotary_factor", 1.0) for k in kinds], "yarn_only_types": ["full_attention"], "attention_other_setting": other,
             "rope_scaling": {k: v for k, v in rope["full_attention"].items() if k not in ("rope_theta", "partial_rotary_factor")}}
    with open(path, "w") as f:
        json.dump(text, f, indent=1)


def blocks(path):
    """Spells a molmo2 as published: its table in two, the second with the last 8 rows."""
    tensors = {k.replace(".layers.", ".blocks."): v for k, v in load_file(path).items()}
    names = ["model.transformer.wte.embedding", "model.transformer.wte.new_embedding"]
    whole = torch.cat([tensors[k] for k in names])
    tensors |= {names[0]: whole[:-8].clone(), names[1]: whole[-8:].clone()}
    save_file(tensors, path)


def stacked(path):
    """Puts the experts of a layer in two tensors, [out, in], as published files have them."""
    tensors = load_file(path)
    for prefix in sorted({k.split(".0.gate_proj")[0] for k in tensors if ".experts.0.gate_proj" in k}):
        take = lambda part: [tensors.pop(f"{prefix}.{e}.{part}.weight") for e in range(4)]
        gate, up, down = take("gate_proj"), take("up_proj"), take("down_proj")
        tensors[prefix + ".gate_up_proj"] = torch.stack([torch.cat(pair) for pair in zip(gate, up)])
        tensors[prefix + ".down_proj"] = torch.stack(down)
    save_file(tensors, path)


def write(folder, kind):
    """Writes the golden of a model_type."""
    config = {k: v for k, v in (TINY | CASES[kind]).items() if v is not None}
    kind, name = config.pop("model_type", kind), kind
    if config.get("q_lora_rank") == 0:
        config["q_lora_rank"] = None
    settings = AutoConfig.for_model(kind, **config)
    model = variants.build(settings)
    variants.draw(model, SEEDS.get(name, sum(map(ord, name))))
    ids = torch.randint(3, 120, (2, 30), generator=torch.Generator().manual_seed(7))
    with torch.no_grad():
        inner = name == "llama4" or "qformer_config" in config and "blip" in kind  # without pictures transformers' own fails
        logits = (model.language_model if inner else model)(ids, use_cache=False).logits.float()
    model.half().save_pretrained(folder)
    os.remove(os.path.join(folder, "generation_config.json"))
    if "text_config" in config or "vision_config" in config:
        variants.text_only(os.path.join(folder, "model.safetensors"))
    if name == "phi4mm":
        adapters(folder)
    if name == "step3p5":
        flash(folder)
    if name == "gemma4_e2b":
        borrowed(os.path.join(folder, "model.safetensors"))
    if name == "qwen3_omni_moe":
        thinking(folder)
    if name == "molmo2":
        blocks(os.path.join(folder, "model.safetensors"))
    if name == "qwen3_5_moe":
        stacked(os.path.join(folder, "model.safetensors"))
    save_file({"input_ids": ids.int(), "logits": logits.contiguous()}, os.path.join(folder, "golden.safetensors"))


for name in sys.argv[2:] or sorted(CASES):
    write(os.path.join(sys.argv[1], name), name)
