"""Writes settings.json: what transformers makes of the files beside a tokenizer.

    pip install transformers==4.57.1 sentencepiece protobuf && python settings.py > settings.json

A case is a golden tokenizer, files that are put beside it, and texts with their
ids in the template and without.
"""
import json
import os
import shutil
import tempfile

from transformers import AutoTokenizer

GOLDEN = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../../testdata/golden/tokenizer")
TEXTS = ["", "the a", "a<s> b</s>  c", "<unk>the", "x <|new|> y", "  the<|new|>", "<|im_start|>a  <|im_end|>", "</s>", "<s>the", "a   b", "<pad>", "<end>x"]


def token(content, **flags):
    return {"content": content, "lstrip": False, "normalized": False, "rstrip": False, "single_word": False} | flags


NAMES = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"}
LATER = {"tokenizer_class": "PreTrainedTokenizerFast", "added_tokens_decoder": {"9000": token("<|new|>", special=True), "9001": token("a  ", normalized=True, special=False)}}
CASES = [
    ("llama2", {"tokenizer_config.json": {"tokenizer_class": "PreTrainedTokenizerFast"}}),
    ("llama2", {"tokenizer_config.json": LATER}),
    ("llama2", {"tokenizer_config.json": LATER | NAMES | {"pad_token": "<pad>", "additional_special_tokens": ["<|im_start|>", "<|im_end|>"]}}),
    ("llama2", {"tokenizer_config.json": {"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": "<end>", "add_bos_token": False, "add_eos_token": True}}),
    ("llama2", {"tokenizer_config.json": {"tokenizer_class": "LlamaTokenizerFast", "eos_token": "<end>", "add_bos_token": False, "add_eos_token": True}}),
    ("llama2", {"tokenizer_config.json": {"tokenizer_class": "PreTrainedTokenizerFast"}, "special_tokens_map.json": {"pad_token": "<pad>", "sep_token": token("<|new|>", rstrip=True)}}),
    ("llama2", {"tokenizer_config.json": LATER, "special_tokens_map.json": {"pad_token": "<pad>"}}),
    ("llama3", {"tokenizer_config.json": {"tokenizer_class": "PreTrainedTokenizerFast", "add_bos_token": True, "bos_token": "<s>"}}),
    ("llama3", {"tokenizer_config.json": {"tokenizer_class": "GPTNeoXTokenizer"} | NAMES}),
    ("unigram", {"tokenizer_config.json": {"tokenizer_class": "PreTrainedTokenizerFast", "mask_token": "<|new|>"} | NAMES}),
    ("sp_bpe_gemma", {"tokenizer_config.json": {"tokenizer_class": "LlamaTokenizer"}}),
    ("sp_bpe_gemma", {"tokenizer_config.json": {"tokenizer_class": "LlamaTokenizer", "legacy": False}}),
    ("sp_bpe_gemma", {"tokenizer_config.json": {"tokenizer_class": "LlamaTokenizer", "add_bos_token": False, "add_eos_token": True} | NAMES,
                      "special_tokens_map.json": {"pad_token": "<pad>"}, "added_tokens.json": {"<|new|>": 3000}}),
    ("sp_unigram_rules", {"tokenizer_config.json": {"tokenizer_class": "LlamaTokenizer", "legacy": True, "additional_special_tokens": ["<|im_start|>", "<|im_end|>"]}}),
]

out = []
for golden, files in CASES:
    with tempfile.TemporaryDirectory() as folder:
        fast = os.path.exists(os.path.join(GOLDEN, golden, "tokenizer.json"))
        shutil.copy(os.path.join(GOLDEN, golden, "tokenizer.json" if fast else "tokenizer.model"), folder)
        for name, content in files.items():
            with open(os.path.join(folder, name), "w") as f:
                json.dump(content, f)
        t = AutoTokenizer.from_pretrained(folder, use_fast=fast)
        cases = [{"text": s, "ids": t.encode(s), "ids_plain": t.encode(s, add_special_tokens=False)} for s in TEXTS]
        out.append({"golden": golden, "files": files, "bos": t.bos_token_id, "eos": t.eos_token_id, "cases": cases})
print("[\n" + ",\n".join(json.dumps(c, ensure_ascii=False, separators=(",", ":")) for c in out) + "\n]")
