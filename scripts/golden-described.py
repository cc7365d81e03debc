#!/usr/bin/env python3
"""Writes goldens of architectures that transformers has no class for: random models 32 wide
with the logits of the plain forward pass below, which follows what is published of them.

    python3 scripts/golden-described.py OUT [NAME ...]

OUT gets a folder a name (testdata/golden/arch). Run it in an environment with torch and
safetensors. The same arguments give the same files.
"""

import json
import os
import sys

import torch
from safetensors.torch import save_file
from torch.nn.functional import linear, silu, softmax

VOCAB, HIDDEN, LAYERS, HEADS, KV, DIM, WIDTH, EXPERT = 128, 32, 2, 4, 2, 16, 64, 32
EPS = 1e-6


class Model:
    """Draws weights as they are asked for, and computes logits with them."""

    def __init__(self, seed, names, **traits):
        self.draw = torch.Generator().manual_seed(seed)
        self.tensors, self.names, self.traits = {}, names, traits

    def weight(self, name, *shape, about=0.0):
        """A tensor that fp16 holds."""
        if name not in self.tensors:
            spread = 0.2 if len(shape) < 2 else 1.2 / shape[-1] ** 0.5
            self.tensors[name] = (about + spread * torch.randn(shape, generator=self.draw)).half()
        return self.tensors[name].float()

    def norm(self, x, name):
        w = self.weight(name + ".weight", x.shape[-1], about=1.0)
        return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + EPS) * w

    def rotate(self, x):
        """RoPE of the first dimensions of heads [rows, heads, dim], in pairs of neighbours or of halves."""
        t = self.traits
        n = t.get("rotated", DIM)
        angle = torch.arange(len(x))[:, None] * t.get("theta", 1e4) ** (-torch.arange(0, n, 2) / n)
        cos, sin = angle.cos()[:, None], angle.sin()[:, None]
        pairs = x[..., :n].unflatten(-1, (n // 2, 2)).unbind(-1) if t.get("neighbours") else x[..., :n].chunk(2, -1)
        turned = pairs[0] * cos - pairs[1] * sin, pairs[1] * cos + pairs[0] * sin
        turned = torch.stack(turned, -1).flatten(-2) if t.get("neighbours") else torch.cat(turned, -1)
        return torch.cat((turned, x[..., n:]), -1)

    def attention(self, x, at):
        n, kv = self.names, self.traits.get("kv", KV)
        rows = (HEADS + 2 * kv) * DIM
        bias = self.weight(f"{at}{n['qkv']}.bias", rows) if self.traits.get("bias") else None
        qkv = linear(x, self.weight(f"{at}{n['qkv']}.weight", rows, HIDDEN), bias).unflatten(-1, (-1, DIM))
        q, k, v = qkv.split((HEADS, kv, kv), 1)
        if "q_norm" in n:
            q, k = self.norm(q, at + n["q_norm"]), self.norm(k, at + n["k_norm"])
        q, k = self.rotate(q), self.rotate(k)
        k, v = (y.repeat_interleave(HEADS // kv, 1) for y in (k, v))
        scores = torch.einsum("ihd,jhd->hij", q, k) / DIM ** 0.5
        scores.masked_fill_(torch.ones(len(x), len(x), dtype=bool).triu(1), -torch.inf)
        mixed = torch.einsum("hij,jhd->ihd", softmax(scores, -1), v).flatten(1)
        return linear(mixed, self.weight(f"{at}{n['o']}.weight", HIDDEN, HEADS * DIM))

    def mlp(self, x, at, width):
        """Gate, up and down, the first two in one tensor where the names say so."""
        if fused := self.names.get("gate_up"):
            gate, up = linear(x, self.weight(f"{at}{fused}.weight", 2 * width, HIDDEN)).chunk(2, -1)
        else:
            gate, up = (linear(x, self.weight(f"{at}{part}_proj.weight", width, HIDDEN)) for part in ("gate", "up"))
        return linear(silu(gate) * up, self.weight(f"{at}{self.names.get('down', 'down_proj')}.weight", HIDDEN, width))

    def experts(self, x, at):
        """Experts by the softmax, or by the sigmoid with a correction, of groups; and shared ones."""
        t = self.traits
        logits, count = linear(x, self.weight(at + "gate.weight", t["experts"], HIDDEN)), t["experts"]
        scores = logits.sigmoid() if t["sigmoid"] else softmax(logits, -1)
        ranks = scores.clone()
        if t["sigmoid"]:
            ranks += self.weight(at + "gate.expert_bias", count)
            best = ranks.unflatten(-1, (t["groups"], -1)).topk(2, -1).values.sum(-1).topk(t["top_groups"], -1).indices
            open_ = torch.zeros(len(x), t["groups"], dtype=bool).scatter_(1, best, True)
            ranks.masked_fill_(~open_.repeat_interleave(count // t["groups"], 1), -torch.inf)
        chosen = ranks.topk(2, -1).indices
        weights = scores.gather(1, chosen)
        if t["sigmoid"]:
            weights = weights / weights.sum(-1, keepdim=True) * t["scale"]
        outputs = torch.stack([self.mlp(x, f"{at}experts.{e}.", EXPERT) for e in range(count)], 1)
        y = (outputs.gather(1, chosen[..., None].expand(-1, -1, HIDDEN)) * weights[..., None]).sum(1)
        return y + self.mlp(x, at + "shared_experts.", EXPERT * t["shared"])

    def logits(self, ids):
        n, t = self.names, self.traits
        x = self.weight(n["embed"] + ".weight", VOCAB, HIDDEN)[ids]
        for layer, (attends, width) in enumerate(t.get("blocks", [(True, WIDTH)] * LAYERS)):
            at = f"{n['layers']}.{layer}."
            if attends:
                x = x + self.attention(self.norm(x, at + "input_layernorm"), at)
            if not width:
                continue
            y, inner = self.norm(x, at + "post_attention_layernorm"), at + "mlp."
            x = x + (self.experts(y, inner) if t.get("experts") and layer > 0 else self.mlp(y, inner, width))
        head = self.weight(n["head"] + ".weight", VOCAB, HIDDEN)
        if t.get("unit_rows"):
            head = head / head.norm(dim=1, keepdim=True)
        return linear(self.norm(x, n["final"]), head)


PLAIN = {"embed": "model.embed_tokens", "layers": "model.layers", "final": "model.norm", "head": "lm_head", "o": "self_attn.o_proj"}
COMMON = {"vocab_size": VOCAB, "hidden_size": HIDDEN, "num_hidden_layers": LAYERS, "num_attention_heads": HEADS, "hidden_act": "silu",
          "intermediate_size": WIDTH, "max_position_embeddings": 64, "rms_norm_eps": EPS, "tie_word_embeddings": False}

BLOCKS = (True, 256), (False, 96), (True, 0), (True, 64)  # with attention or without, and an MLP's width

# By name: the architecture, its configuration, names and traits.
CASES = {
    "baichuan2": ("BaichuanForCausalLM", COMMON | {"model_type": "baichuan", "head_dim": DIM, "model_max_length": 64, "z_loss_weight": 0},
                  PLAIN | {"qkv": "self_attn.W_pack"}, {"kv": HEADS, "unit_rows": True}),
    "bailing_moe": ("BailingMoeV2ForCausalLM",
                    COMMON | {"model_type": "bailing_moe", "num_key_value_heads": KV, "head_dim": DIM, "first_k_dense_replace": 1, "num_experts": 8,
                              "num_experts_per_tok": 2, "n_group": 4, "topk_group": 2, "moe_intermediate_size": EXPERT, "num_shared_experts": 1,
                              "moe_shared_expert_intermediate_size": EXPERT, "norm_topk_prob": True, "routed_scaling_factor": 2.5, "score_function": "sigmoid",
                              "moe_router_enable_expert_bias": True, "partial_rotary_factor": 0.5, "rope_theta": 600000, "router_dtype": "fp32",
                              "use_bias": False, "use_qkv_bias": False, "use_qk_norm": True, "use_rmsnorm": True},
                    PLAIN | {"embed": "model.word_embeddings", "qkv": "attention.query_key_value", "o": "attention.dense",
                             "q_norm": "attention.query_layernorm", "k_norm": "attention.key_layernorm"},
                    {"theta": 6e5, "rotated": DIM // 2, "experts": 8, "sigmoid": True, "groups": 4, "top_groups": 2, "scale": 2.5, "shared": 1}),
    "chatglm": ("ChatGLMModel",
                {"model_type": "chatglm", "padded_vocab_size": VOCAB, "hidden_size": HIDDEN, "num_layers": LAYERS, "num_attention_heads": HEADS,
                 "multi_query_attention": True, "multi_query_group_num": KV, "kv_channels": DIM, "ffn_hidden_size": WIDTH, "seq_length": 64,
                 "layernorm_epsilon": EPS, "rope_ratio": 50, "original_rope": True, "add_qkv_bias": True, "add_bias_linear": False,
                 "rmsnorm": True, "post_layer_norm": True, "apply_residual_connection_post_layernorm": False, "apply_query_key_layer_scaling": True,
                 "attention_softmax_in_fp32": True, "bias_dropout_fusion": True, "fp32_residual_connection": False, "tie_word_embeddings": False},
                {"embed": "transformer.embedding.word_embeddings", "layers": "transformer.encoder.layers", "final": "transformer.encoder.final_layernorm",
                 "head": "transformer.output_layer", "qkv": "self_attention.query_key_value", "o": "self_attention.dense",
                 "gate_up": "dense_h_to_4h", "down": "dense_4h_to_h"},
                {"bias": True, "theta": 5e5, "rotated": DIM // 2, "neighbours": True}),
    "deci": ("DeciLMForCausalLM",
             {k: v for k, v in COMMON.items() if k != "intermediate_size"} | {
                 "model_type": "nemotron-nas", "num_hidden_layers": 4, "head_dim": DIM, "attention_bias": False, "mlp_bias": False, "block_configs": [
                     {"attention": {"n_heads_in_group": 2 if attends else None, "no_op": not attends, "replace_with_linear": False, "window_length": None},
                      "ffn": {"no_op": not width, "replace_with_linear": False} | ({"ffn_mult": 5.25} if width == 256 else {"intermediate_size": width or None})}
                     for attends, width in BLOCKS]},
             PLAIN | {"qkv": "self_attn.qkv"}, {"blocks": BLOCKS}),
    "deepseek": ("DeepseekForCausalLM",
                 COMMON | {"model_type": "deepseek", "num_key_value_heads": KV, "head_dim": DIM, "first_k_dense_replace": 1, "n_routed_experts": 4,
                           "num_experts_per_tok": 2, "moe_intermediate_size": EXPERT, "n_shared_experts": 2, "norm_topk_prob": False,
                           "scoring_func": "softmax", "moe_layer_freq": 1},
                 PLAIN | {"qkv": "self_attn.qkv"}, {"experts": 4, "sigmoid": False, "shared": 2}),
}
SEEDS = {"bailing_moe": 17}  # by which every expert is chosen
SPLIT = {"deci", "deepseek"}  # q, k and v have tensors of their own


def write(folder, name):
    architecture, config, names, traits = CASES[name]
    model = Model(SEEDS.get(name, sum(map(ord, name))), names, **traits)
    ids = torch.randint(3, 120, (2, 30), generator=torch.Generator().manual_seed(7))
    logits = torch.stack([model.logits(row) for row in ids])
    tensors = model.tensors
    if name in SPLIT:
        for whole in [t for t in tensors if "qkv" in t]:
            parts = tensors.pop(whole).split((HEADS * DIM, KV * DIM, KV * DIM))
            tensors |= {whole.replace("qkv", part + "_proj"): x.contiguous() for part, x in zip("qkv", parts)}
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, "config.json"), "w") as f:
        json.dump({"architectures": [architecture]} | config, f, indent=1)
    save_file(tensors, os.path.join(folder, "model.safetensors"))
    save_file({"input_ids": ids.int(), "logits": logits.contiguous()}, os.path.join(folder, "golden.safetensors"))


for name in sys.argv[2:] or sorted(CASES):
    write(os.path.join(sys.argv[1], name), name)
