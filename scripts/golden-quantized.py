#!/usr/bin/env python3
"""Writes goldens of models that others' programs have quantized: architecture goldens
whose matrices compressed-tensors and NVIDIA's Model Optimizer have made smaller, with what
transformers computes of the weights that the same programs decode.

    python3 scripts/golden-quantized.py SOURCE OUT [NAME ...]
    EXL2_GOLDEN=OUT go test ./internal/model -run Quantized

SOURCE holds a folder a golden (testdata/golden/arch), OUT gets quantized/NAME-FORMAT. Run it in
an environment with torch, safetensors, transformers, compressed-tensors and nvidia-modelopt.
"""

import json
import os
import sys

import torch
from compressed_tensors.compressors import (
    FloatQuantizationCompressor, IntQuantizationCompressor, MXFP4PackedCompressor, MXFP8QuantizationCompressor,
    NVFP4PackedCompressor, PackedQuantizationCompressor)
from compressed_tensors.quantization import QuantizationConfig, QuantizationScheme, quant_scheme
from compressed_tensors.quantization.utils import calculate_qparams, generate_gparam
from modelopt.torch.quantization.qtensor import FP8QTensor, NVFP4QTensor
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM

# Formats of compressed-tensors: its preset, and what writes it.
PRESETS = {
    "nvfp4": ("NVFP4A16", "nvfp4-pack-quantized", NVFP4PackedCompressor),
    "mxfp4": ("MXFP4A16", "mxfp4-pack-quantized", MXFP4PackedCompressor),
    "mxfp8": ("MXFP8A16", "mxfp8-quantized", MXFP8QuantizationCompressor),
    "fp8": ("FP8_DYNAMIC", "float-quantized", FloatQuantizationCompressor),
    "fp8-tensor": ("FP8", "float-quantized", FloatQuantizationCompressor),
    "fp8-block": ("FP8_BLOCK", "float-quantized", FloatQuantizationCompressor),
    "int8": ("INT8_W8A8", "int-quantized", IntQuantizationCompressor),
    "w4": ("W4A16", "pack-quantized", PackedQuantizationCompressor),
    "w4-asymmetric": ("W4A16_ASYM", "pack-quantized", PackedQuantizationCompressor),
    "w8": ("W8A16", "pack-quantized", PackedQuantizationCompressor),
}
SHRINK = {"W4A16": 32, "W4A16_ASYM": 32, "W8A16": 32}  # groups, for matrices narrower than the preset's
BLOCK = [32, 48]


def scheme_of(preset):
    """The scheme of a preset, for weights alone."""
    args = {"targets": ["Linear"], "weights": getattr(quant_scheme, preset)["weights"].model_copy()}
    if preset in SHRINK:
        args["weights"].group_size = SHRINK[preset]
    if preset == "FP8_BLOCK":
        args["weights"].block_structure = BLOCK
    return QuantizationScheme(**args)


def ends(w, args):
    """The least and largest of what shares a scale."""
    kind = str(getattr(args.strategy, "value", args.strategy))
    if kind == "tensor":
        return w.amin().reshape(1), w.amax().reshape(1)
    if kind == "channel":
        return w.amin(1, keepdim=True), w.amax(1, keepdim=True)
    if kind == "block":
        rows, cols = args.block_structure
        down, across = -(-w.shape[0] // rows), -(-w.shape[1] // cols)
        wide = torch.zeros(down * rows, across * cols)
        wide[:w.shape[0], :w.shape[1]] = w
        blocks = wide.reshape(down, rows, across, cols)
        return blocks.amin((1, 3)), blocks.amax((1, 3))
    groups = w.reshape(w.shape[0], -1, args.group_size)
    return groups.amin(2), groups.amax(2)


def compressed(preset, compressor):
    """A function from a weight to tensors by their ends, and the weight they stand for."""
    scheme = scheme_of(preset)

    def encode(w):
        args = scheme.weights
        least, most = ends(w, args)
        state = {"weight": w}
        whole = None
        if args.strategy == "tensor_group":
            whole = generate_gparam(w.amin().reshape(1), w.amax().reshape(1))
            state["weight_global_scale"] = whole
        scale, zero = calculate_qparams(least, most, args, global_scale=whole)
        if compressor is PackedQuantizationCompressor:  # as in models of fp16, which codes are multiplied by
            scale = scale.half().float()
        state |= {"weight_scale": scale, "weight_zero_point": zero}
        small = compressor.compress(dict(state), scheme)
        return {k: v for k, v in small.items() if v is not None}, compressor.decompress(dict(small), scheme)["weight"]

    return encode


def optimizer_fp8(w):
    small, scale = FP8QTensor.quantize(w)
    return {"weight": small._quantized_data, "weight_scale": scale.reshape(()).float()}, small.dequantize(dtype=torch.float32, scale=scale)


def optimizer_nvfp4(w):
    small, scale, whole = NVFP4QTensor.quantize(w, 16)
    decoded = small.dequantize(dtype=torch.float32, scale=scale, double_scale=whole, block_sizes={-1: 16})
    return {"weight": small._quantized_data, "weight_scale": scale, "weight_scale_2": whole.reshape(()).float()}, decoded


def formats():
    """What writes each format, and its configuration."""
    for name, (preset, form, compressor) in PRESETS.items():
        config = QuantizationConfig(config_groups={"group_0": scheme_of(preset)}, format=form, quantization_status="compressed", ignore=["lm_head"])
        yield name, compressed(preset, compressor), json.loads(config.model_dump_json())
    yield "modelopt-fp8", optimizer_fp8, {"quant_method": "modelopt", "quant_algo": "FP8", "ignore": ["lm_head"]}
    yield "modelopt-nvfp4", optimizer_nvfp4, {"quant_method": "modelopt", "quant_algo": "NVFP4", "group_size": 16, "ignore": ["lm_head"]}


def rounded(w, config):
    """A decoded weight as programs hold it."""
    return w.half() if config.get("format") == "pack-quantized" else w.float().bfloat16()


def write(folder, source, encode, config):
    """Writes a golden, and beside it, for transformers, the model that it stands for."""
    twin = folder + ".twin"
    os.makedirs(folder, exist_ok=True), os.makedirs(twin, exist_ok=True)
    small, plain = {}, {}
    for name, w in load_file(os.path.join(source, "model.safetensors")).items():
        small[name] = plain[name] = w
        module, is_weight, _ = name.rpartition(".weight")
        if "layers." not in name or not is_weight or w.dim() != 2 or w.shape[1] % 32 or name.endswith("gate.weight"):
            continue
        del small[name]
        tensors, decoded = encode(w.float())
        small |= {f"{module}.{k}": v.contiguous() for k, v in tensors.items()}
        plain[name] = rounded(decoded, config)
    save_file(small, os.path.join(folder, "model.safetensors"), {"format": "pt"})
    save_file(plain, os.path.join(twin, "model.safetensors"), {"format": "pt"})
    with open(os.path.join(source, "config.json")) as f:
        settings = json.load(f)
    with open(os.path.join(twin, "config.json"), "w") as f:
        json.dump(settings, f)
    with open(os.path.join(folder, "config.json"), "w") as f:
        json.dump(settings | {"quantization_config": config}, f, indent=1)
    model = AutoModelForCausalLM.from_pretrained(twin, dtype=torch.float32, attn_implementation="eager").eval()
    ids = torch.randint(3, model.config.vocab_size, (2, 40), generator=torch.Generator().manual_seed(7))
    with torch.no_grad():
        logits = model(ids, use_cache=False).logits.float()
    save_file({"input_ids": ids.int(), "logits": logits.contiguous()}, os.path.join(folder, "golden.safetensors"))
    for name in os.listdir(twin):
        os.remove(os.path.join(twin, name))
    os.rmdir(twin)


def main():
    source, out, names = sys.argv[1], os.path.join(sys.argv[2], "quantized"), sys.argv[3:] or ["llama"]
    for name in names:
        for form, encode, config in formats():
            write(os.path.join(out, f"{name}-{form}"), os.path.join(source, name), encode, config)


if __name__ == "__main__":
    main()
