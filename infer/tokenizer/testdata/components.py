"""Writes components.json: what the tokenizers library makes of texts.

    pip install tokenizers==0.23.3 && python components.py > components.json

A case names a component as it stands in a tokenizer.json, and what it makes of
inputs: a normalizer a text of a text, a pre_tokenizer texts of a text, a
decoder a text of tokens.
"""
import json

from tokenizers import Tokenizer

TEXTS = ["", " ", "a", "  Hello,  wörld! 12x3 ", "aa1b22½Ⅷ٣c", "don't\tstop\r\n\n now", "a-b_c.d…«e»$+^",
         "É é e\u0301 ﬁ ① Å ǆ İ ß Σς", "日本語 ｶﾞ한국어", "\x00\x07\u200b\u2028x\ufeff\ufffd\xad", "▁a▁▁b ▁", "aXbX", "ab" * 4,
         "x\u0378x\u0890x\u0897x\u2e52x\U00011de0x\ua7cbx\U00016ea0x\U00010d50x\u1734x", "123456 aaaaab aaX"]

NORMALIZERS = [{"type": t} for t in ("NFC", "NFD", "NFKC", "NFKD", "Lowercase", "StripAccents", "Nmt", "ByteLevel")] + [
    {"type": "Prepend", "prepend": "▁"},
    {"type": "Replace", "pattern": {"String": " "}, "content": "▁"},
    {"type": "Replace", "pattern": {"Regex": r"\s+"}, "content": " "},
    {"type": "Replace", "pattern": {"Regex": r"[0-9]"}, "content": ""},
    {"type": "Strip", "strip_left": True, "strip_right": True},
    {"type": "Strip", "strip_left": True, "strip_right": False},
    {"type": "Strip", "strip_left": False, "strip_right": True},
    {"type": "Sequence", "normalizers": [{"type": "NFD"}, {"type": "StripAccents"}, {"type": "Lowercase"}]},
    {"type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True, "strip_accents": None, "lowercase": True},
    {"type": "BertNormalizer", "clean_text": False, "handle_chinese_chars": False, "strip_accents": True, "lowercase": False},
]


def split(pattern, behavior, invert=False):
    return {"type": "Split", "pattern": pattern, "behavior": behavior, "invert": invert}


def metaspace(scheme, cut=True):
    return {"type": "Metaspace", "replacement": "▁", "prepend_scheme": scheme, "split": cut}


def byte_level(prefix, regex):
    return {"type": "ByteLevel", "add_prefix_space": prefix, "trim_offsets": True, "use_regex": regex}


BEHAVIORS = ("Removed", "Isolated", "MergedWithPrevious", "MergedWithNext", "Contiguous")
PRE_TOKENIZERS = [{"type": t} for t in ("Whitespace", "WhitespaceSplit", "BertPreTokenizer", "Punctuation")] + [
    {"type": "Digits", "individual_digits": True},
    {"type": "Digits", "individual_digits": False},
    {"type": "CharDelimiterSplit", "delimiter": "a"},
    {"type": "FixedLength", "length": 3},
    {"type": "Metaspace", "replacement": "▁", "add_prefix_space": True},
    metaspace("always"), metaspace("never"), metaspace("first"), metaspace("always", False),
    byte_level(False, True), byte_level(True, True), byte_level(True, False),
    {"type": "Sequence", "pretokenizers": [{"type": "WhitespaceSplit"}, metaspace("first")]},
    {"type": "Sequence", "pretokenizers": [{"type": "Digits", "individual_digits": True}, byte_level(False, True)]},
]
for b in BEHAVIORS:
    PRE_TOKENIZERS += [{"type": "Punctuation", "behavior": b}, split({"String": "a"}, b), split({"Regex": r"\d|(?=X)"}, b),
                       split({"Regex": r"\w+"}, b, True)]
PATTERNS = [
    r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+",
    r" ?[^(\s|[.,!?…。，、।۔،])]+", r"(?=(\d{3})+(?!\d))", r"[\p{L}&&[^\p{Han}a-c]]+", r"\b\w+\b", r"[\w]+|\W", r"^\s*|$",
    r"(?<=a)b|(?<!a)X", r"a(?i)B|x", r"(?m:.)(?x: a b )|.+?", r"(?>a|ab)X", r"[[:^digit:]&&[:punct:]]+|\h+", r"a{,2}b|b{2}?", r"[a-]|\x{2581}|\u0031",
    r"[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$|\s*[\r\n]|\s+(?!\S)|\s", r"a{1,3}+b", r"a{,2}+X|(?:a+)*b", r"(?:a{1,2})++a|b", r"a{2}++",
    r"\p{Lu}|\p{Nd}|\p{Mn}", r"(?i:\u0264)|\w",
]
PRE_TOKENIZERS += [split({"Regex": p}, "Isolated") for p in PATTERNS] + [split({"Regex": p}, "Removed") for p in PATTERNS]

TOKENS = [[], ["a"], ["▁Hello", "▁", "▁w", "ör", "##ld", "!"], ["<0xE6>", "<0x97>", "<0xA5>", "x", "<0xE6>", "<0x97>", "<0x0A>"],
          ["ĠHello", "Ċ", "æĹ", "¥", "é", "日", "æĹ"], ["he</w>", "l</w>lo", "w</w>"], ["a", "a", "<pad>", "a", "|", "|", "b", "n't", " ."],
          ["  x  ", " ", "", "y "], ["aaab", "ab", "abb"]]
DECODERS = [{"type": t} for t in ("ByteFallback", "Fuse")] + [
    byte_level(True, True), metaspace("always"), metaspace("never"), metaspace("first", False),
    {"type": "BPEDecoder", "suffix": "</w>"},
    {"type": "WordPiece", "prefix": "##", "cleanup": True}, {"type": "WordPiece", "prefix": "##", "cleanup": False},
    {"type": "CTC", "pad_token": "<pad>", "word_delimiter_token": "|", "cleanup": True},
    {"type": "CTC", "pad_token": "<pad>", "word_delimiter_token": "|", "cleanup": False},
    {"type": "Replace", "pattern": {"String": "▁"}, "content": " "}, {"type": "Replace", "pattern": {"String": "ab"}, "content": "-"},
    {"type": "Replace", "pattern": {"Regex": "[ab]+"}, "content": "<>"},
    {"type": "Strip", "content": " ", "start": 1, "stop": 0}, {"type": "Strip", "content": "a", "start": 2, "stop": 0},
    {"type": "Sequence", "decoders": [{"type": "Replace", "pattern": {"String": "▁"}, "content": " "}, {"type": "ByteFallback"},
                                      {"type": "Fuse"}, {"type": "Strip", "content": " ", "start": 1, "stop": 0}]},
    {"type": "Sequence", "decoders": [{"type": "Fuse"}, byte_level(True, True), {"type": "Replace", "pattern": {"String": "ab"}, "content": "-"}]},
]


def load(**parts):
    model = {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None, "end_of_word_suffix": None,
             "fuse_unk": False, "byte_fallback": False, "ignore_merges": False, "vocab": {}, "merges": []}
    return Tokenizer.from_str(json.dumps({"version": "1.0", "model": model, "added_tokens": []} | parts))


cases = []
for config in NORMALIZERS:
    n = load(normalizer=config).normalizer
    cases.append({"kind": "normalizer", "config": config, "cases": [{"in": t, "out": n.normalize_str(t)} for t in TEXTS]})
for config in PRE_TOKENIZERS:
    p = load(pre_tokenizer=config).pre_tokenizer
    cases.append({"kind": "pre_tokenizer", "config": config, "cases": [{"in": t, "out": [s for s, _ in p.pre_tokenize_str(t)]} for t in TEXTS]})
for config in DECODERS:
    d = load(decoder=config).decoder
    cases.append({"kind": "decoder", "config": config, "cases": [{"in": t, "out": d.decode(t)} for t in TOKENS]})
print("[\n" + ",\n".join(json.dumps(c, ensure_ascii=False, separators=(",", ":")) for c in cases) + "\n]")
