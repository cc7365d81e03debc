#!/usr/bin/env python3
"""Writes variants of architecture goldens: random models whose configuration differs
from a golden's in one to three fields, with what transformers computes for them.

    python3 scripts/golden-variants.py SOURCE OUT [NAME ...]
    EXL2_GOLDEN=OUT go test ./internal/model ./convert -run Architectures

SOURCE holds a folder a golden (testdata/golden/arch), OUT gets arch/NAME-VARIANT. Run it
in an environment with torch, safetensors and transformers; a second for fifty models.
Every third configuration is spelled as before transformers 5. What transformers itself
refuses is named and left out. The same arguments give the same files.
"""

import copy
import json
import os
import random
import shutil
import sys

import torch
import transformers
from safetensors.torch import load_file, save_file
from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForImageTextToText

ACTIVATIONS = ("gelu", "gelu_pytorch_tanh", "relu", "silu", "relu2")
CLASSES = {"emu3_text_model": "Emu3ForCausalLM", "mistral4": "Mistral4ForCausalLM", "phi4_multimodal": "Phi4MultimodalForCausalLM"}  # of models that build would not find
SWITCHES = """attention_bias mlp_bias use_bias use_qkv_bias qkv_bias add_qkv_bias tie_word_embeddings use_qk_norm
    qk_layernorm norm_topk_prob rope_interleave use_parallel_residual attention_out_bias lm_head_bias""".split()
# Fields and the values to try, where a configuration has the field.
VALUES = {
    "head_dim": [32], "hidden_act": ACTIVATIONS, "hidden_activation": ACTIVATIONS, "activation_function": ACTIVATIONS,
    "sliding_window": [8, None], "num_experts_per_tok": [1], "num_experts": [5], "num_local_experts": [5],
    "n_routed_experts": [5], "decoder_sparse_step": [2], "mlp_only_layers": [[0]], "first_k_dense_replace": [0, 2],
    "n_shared_experts": [2], "num_shared_experts": [2], "router_scaling_factor": [0.37], "scale_depth": [None, 0.7], "dim_model_base": [None], "routed_scaling_factor": [0.37], "q_lora_rank": [None], "logit_scale": [0.31],
    "logits_scaling": [0.31], "embedding_multiplier": [0.31], "residual_multiplier": [0.31], "attention_multiplier": [0.31],
    "final_logit_softcapping": [None, 3.0], "attn_logit_softcapping": [None, 3.0], "query_pre_attn_scalar": [9],
    "rms_norm_eps": [0.05], "layer_norm_eps": [0.05], "layer_norm_epsilon": [0.05], "norm_eps": [0.05],
    "linear_allow_neg_eigval": [False], "linear_value_head_dim": [8], "gating": ["per-element"], "moe_routed_scaling_factor": [0.37], "use_sandwich_norm": [False], "use_attention_gate": [False],
    "conv_bias": [True], "conv_L_cache": [3], "swiglu_limits": [None], "swiglu_limits_shared": [None], "num_sliding_attention_heads": [2], "num_attention_heads_per_layer": [None],
    "mamba_rms_norm": [True], "mamba_norm_before_gate": [False], "mamba_conv_bias": [False], "mamba_d_conv": [3], "mlp_multipliers": [[1.0, 0.5]], "ssm_multipliers": [[1.0] * 5],
    "moe_latent_size": [None, 24], "mlp_layer_types": [["sparse", "sparse", "dense"]],
    "vocab_size": [100], "intermediate_size": [160], "num_key_value_heads": [1],
}


def ropes(config):
    """Scaled and partial RoPE, by name."""
    p = config.get("rope_parameters")
    if not isinstance(p, dict) or "rope_type" not in p:
        return {}
    base = {k: p[k] for k in p if k in ("rope_theta", "partial_rotary_factor")}
    dim = config.get("head_dim") or config["hidden_size"] // config["num_attention_heads"]
    n = int(dim * base.get("partial_rotary_factor", 1.0)) // 2
    kinds = {
        "theta": {"rope_type": "default", "rope_theta": 500000.0},
        "linear": {"rope_type": "linear", "factor": 2.5},
        "yarn": {"rope_type": "yarn", "factor": 4.0, "beta_fast": 16.0, "beta_slow": 2.0, "mscale": 0.707, "mscale_all_dim": 0.5},
        "yarn-whole": {"rope_type": "yarn", "factor": 4.0, "truncate": False, "attention_factor": 1.3},
        "llama3": {"rope_type": "llama3", "factor": 4.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0},
        "longrope": {"rope_type": "longrope", "factor": 4.0, "short_factor": [1 + 0.1 * i for i in range(n)],
                     "long_factor": [1.5 + 0.2 * i for i in range(n)]},
    }
    short = {"original_max_position_embeddings": 32}  # less than the rows are long
    found = {k: {"rope_parameters": base | v | (short if k not in ("theta", "linear") else {})} for k, v in kinds.items()}
    found["dynamic"] = {"rope_parameters": base | {"rope_type": "dynamic", "factor": 2.0}, "max_position_embeddings": 24}
    found["partial"] = {"rope_parameters": p | {"partial_rotary_factor": 0.5 if p.get("partial_rotary_factor", 1.0) == 1 else 1.0}}
    return found


def variants(config):
    """Changes to a configuration, by name."""
    found = ropes(config)
    for k in SWITCHES:
        if k in config:
            found[k] = {k: not config[k]}
    for k, values in VALUES.items():
        if k not in config or k == "head_dim" and config.get("q_lora_rank") or k == "num_key_value_heads" and "q_lora_rank" in config:
            continue
        for v in values:
            if v != config[k]:
                found[f"{k}={v}"] = {k: v}
    if "use_sliding_window" in config:
        for layers in (0, 1, 2):
            found[f"max_window_layers={layers}"] = {"use_sliding_window": True, "sliding_window": 16, "max_window_layers": layers}
    if isinstance(config.get("layer_types"), list):
        found["all-full"] = {"layer_types": ["full_attention"] * len(config["layer_types"])}
    return found


def draw(model, seed):
    """Gives a model random weights that fp16 holds, norms' and biases' among them."""
    g = torch.Generator().manual_seed(seed)
    beside = [(n, b) for n, b in model.named_buffers() if "correction" in n or "feed_forward.expert_bias" in n or "layer_scalar" in n]
    with torch.no_grad():
        for name, p in list(model.named_parameters()) + beside:
            w = torch.randn(p.shape, generator=g) * (0.2 if p.dim() < 2 else 1.2 / p.shape[-1] ** 0.5)
            if p.dim() < 2 and "norm" in name and not name.endswith("bias") and ("gemma" not in model.config.model_type or "gemma4" in model.config.model_type):
                w += 1
            if name.endswith(("layer_scalar", "router.scale", "expert_scale")):
                w += 1
            p.copy_(w.half().float())


def build(settings):
    """Makes a model of a configuration."""
    seeing = type(settings) in AutoModelForImageTextToText._model_mapping
    name = CLASSES.get(settings.model_type, type(settings).__name__.replace("Config", "ForConditionalGeneration"))
    if hasattr(transformers, name) and not seeing:
        settings._attn_implementation = "eager"
        return getattr(transformers, name)(settings).eval()
    auto = AutoModelForImageTextToText if seeing else AutoModelForCausalLM
    return auto.from_config(settings, attn_implementation="eager", dtype=torch.float32).eval()


def text_only(path):
    """Leaves what is read of a model with pictures, by published names, stacked experts [in, out] as in Qwen's files, but for Gemma's."""
    others = ("visual", "vision", "vit.", "projector", "connector", "perceive", "mlp_AR", "resampler", "weight_1", "embed_tokens_extend",
              "audio", "aligner", "vqmodel", "generation_", "mlp1.", "patch_merge", "qformer", "query_tokens", "image_newline", "language_projection", "image_tower",
              "video_tower", "tokenizer_encoder", "projection_layer", "adaptor", "merger", "view_sep",
              "sam_model", "qwen2_model")
    tensors = {k: v for k, v in load_file(path).items() if not any(o in k for o in others) and not k.startswith(("encoder.", "blocks.", "patch_embed", "pos_embed"))}
    # transformers renames Kimi's and Qianfan's layers as it should those of pictures only
    tensors = {k.replace(".blocks.", ".layers.").replace(".encoder.layers.", ".layers."): v for k, v in tensors.items()}
    save_file({k: v.transpose(1, 2).contiguous() if v.dim() == 3 and ".mlp.experts" in k else v for k, v in tensors.items()}, path)


def respell(path):
    """Spells config.json as before transformers 5."""
    with open(path) as f:
        whole = json.load(f)
    c = whole.get("text_config", whole)
    rope = c.get("rope_parameters") or {}
    if any(isinstance(v, dict) for v in rope.values()):
        return
    c.pop("rope_parameters", None)
    for k in ("rope_theta", "partial_rotary_factor"):
        if k in rope:
            c[k] = rope.pop(k)
    if rope.get("rope_type", "default") != "default":
        c["rope_scaling"] = rope
    c["torch_dtype"] = c.pop("dtype", "float16")
    with open(path, "w") as f:
        json.dump(whole, f, indent=1)


def write(folder, config, old):
    """Writes a golden of a configuration."""
    config = {k: v for k, v in config.items() if k not in ("transformers_version", "dtype")}
    settings = AutoConfig.for_model(config.pop("model_type"), **config)
    model = build(settings)
    draw(model, sum(map(ord, os.path.basename(folder))))
    ids = torch.randint(3, settings.get_text_config().vocab_size, (2, 40), generator=torch.Generator().manual_seed(7))
    with torch.no_grad():
        logits = model(ids, use_cache=False).logits.float()
    if not torch.isfinite(logits).all():
        raise ValueError("logits are not finite")
    model.half().save_pretrained(folder)
    if "text_config" in config or "vision_config" in config:
        text_only(os.path.join(folder, "model.safetensors"))
    if old:
        respell(os.path.join(folder, "config.json"))
    save_file({"input_ids": ids.int(), "logits": logits.contiguous()}, os.path.join(folder, "golden.safetensors"))


def main():
    source, out, names = sys.argv[1], os.path.join(sys.argv[2], "arch"), sys.argv[3:]
    pick = random.Random(5)
    for name in names or sorted(d for d in os.listdir(source) if os.path.isdir(os.path.join(source, d))):
        with open(os.path.join(source, name, "config.json")) as f:
            config = json.load(f)
        if "__float__" in str(config.get("time_step_limit")):  # infinity as transformers writes it, and does not read
            del config["time_step_limit"]
        changes = variants(config.get("text_config", config))
        single = list(changes.items())
        for _ in range(12):
            some = pick.sample(single, min(3, len(single)))
            changes["+".join(k for k, _ in some)] = {k: v for _, one in some for k, v in one.items()}
        for i, (variant, change) in enumerate(changes.items()):
            changed, folder = copy.deepcopy(config), os.path.join(out, f"{name}-{variant}")
            text = changed.get("text_config", changed)
            text.update(change)
            if "layer_types" in text and "sliding_window" in change:
                del text["layer_types"]
            try:
                write(folder, changed, i % 3 == 2)
            except Exception as e:  # what transformers makes of a change is not ours
                print(f"{name}-{variant}: {type(e).__name__}: {str(e)[:120]}", file=sys.stderr)
                shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
