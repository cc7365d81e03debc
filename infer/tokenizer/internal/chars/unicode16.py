"""Writes unicode16.txt: Unicode 16.0's properties as Oniguruma has them, and at the
end some that other parts of the tokenizers library have from other versions.

    pip install tokenizers==0.23.3 && python unicode16.py > unicode16.txt

The tokenizers library is asked for every code point, so that what stands there
is what its patterns match. A line is a name, as \\p{...} has it, and ranges in
hexadecimal: each as the distance from the end of the one before, and if it is
longer than one code point "-" and by how much.
"""
from tokenizers import Regex, normalizers, pre_tokenizers

ALL = [c for c in range(0x110000) if not 0xD800 <= c <= 0xDFFF]
CATEGORIES = "Lu Ll Lt Lm Lo Mn Mc Me Nd Nl No Pc Pd Ps Pe Pi Pf Po Sm Sc Sk So Zs Zl Zp Cc Cf Co"
PROPERTIES = """Alphabetic Lowercase Uppercase White_Space ASCII_Hex_Digit Bidi_Control Dash Default_Ignorable_Code_Point Deprecated
Diacritic Emoji Emoji_Component Emoji_Modifier Emoji_Modifier_Base Emoji_Presentation Extended_Pictographic Extender
Grapheme_Base Grapheme_Extend Hex_Digit Hyphen ID_Continue ID_Start Ideographic IDS_Binary_Operator IDS_Trinary_Operator
Join_Control Logical_Order_Exception Math Noncharacter_Code_Point Other_Alphabetic Other_Default_Ignorable_Code_Point
Other_Grapheme_Extend Other_ID_Continue Other_ID_Start Other_Lowercase Other_Math Other_Uppercase Pattern_Syntax
Pattern_White_Space Prepended_Concatenation_Mark Quotation_Mark Radical Regional_Indicator Sentence_Terminal Soft_Dotted
Terminal_Punctuation Unified_Ideograph Variation_Selector XID_Continue XID_Start Cased Case_Ignorable"""
SCRIPTS = """Adlam Ahom Anatolian_Hieroglyphs Arabic Armenian Avestan Balinese Bamum Bassa_Vah Batak Bengali Bhaiksuki Bopomofo
Brahmi Braille Buginese Buhid Canadian_Aboriginal Carian Caucasian_Albanian Chakma Cham Cherokee Chorasmian Common Coptic
Cuneiform Cypriot Cypro_Minoan Cyrillic Deseret Devanagari Dives_Akuru Dogra Duployan Egyptian_Hieroglyphs Elbasan Elymaic
Ethiopic Garay Georgian Glagolitic Gothic Grantha Greek Gujarati Gunjala_Gondi Gurmukhi Gurung_Khema Han Hangul
Hanifi_Rohingya Hanunoo Hatran Hebrew Hiragana Imperial_Aramaic Inherited Inscriptional_Pahlavi Inscriptional_Parthian
Javanese Kaithi Kannada Katakana Kawi Kayah_Li Kharoshthi Khitan_Small_Script Khmer Khojki Khudawadi Kirat_Rai Lao Latin
Lepcha Limbu Linear_A Linear_B Lisu Lycian Lydian Mahajani Makasar Malayalam Mandaic Manichaean Marchen Masaram_Gondi
Medefaidrin Meetei_Mayek Mende_Kikakui Meroitic_Cursive Meroitic_Hieroglyphs Miao Modi Mongolian Mro Multani Myanmar
Nabataean Nag_Mundari Nandinagari New_Tai_Lue Newa Nko Nushu Nyiakeng_Puachue_Hmong Ogham Ol_Chiki Ol_Onal Old_Hungarian
Old_Italic Old_North_Arabian Old_Permic Old_Persian Old_Sogdian Old_South_Arabian Old_Turkic Old_Uyghur Oriya Osage
Osmanya Pahawh_Hmong Palmyrene Pau_Cin_Hau Phags_Pa Phoenician Psalter_Pahlavi Rejang Runic Samaritan Saurashtra Sharada
Shavian Siddham SignWriting Sinhala Sogdian Sora_Sompeng Soyombo Sundanese Sunuwar Syloti_Nagri Syriac Tagalog Tagbanwa
Tai_Le Tai_Tham Tai_Viet Takri Tamil Tangsa Tangut Telugu Thaana Thai Tibetan Tifinagh Tirhuta Todhri Toto Tulu_Tigalari
Ugaritic Vai Vithkuqi Wancho Warang_Citi Yezidi Yi Zanabazar_Square"""


def write(name, members):
    """Prints a line."""
    line, at, run = [name], 0, []
    for c in sorted(members) + [1 << 30]:
        if run and c != run[1] + 1:
            line.append("%x" % (run[0] - at) + ("-%x" % (run[1] - run[0]) if run[1] > run[0] else ""))
            at, run = run[1], []
        run = [run[0] if run else c, c]
    print(*line)


def matches(name):
    """The code points that \\p{name} matches."""
    find = pre_tokenizers.Split(Regex(r"\p{%s}+" % name), "removed", invert=True)
    return [c for i in range(0, len(ALL), 4096) for _, (a, b) in find.pre_tokenize_str("".join(map(chr, ALL[i:i + 4096])))
            for c in ALL[i + a:i + b]]


def where(becomes, want):
    """The code points c between two x of which becomes(...) is what want says with c as "a"."""
    return [c for c in ALL if c == ord("x") and want == ["xax"] or
            c != ord("x") and [t.replace(chr(c), "a") for t in becomes(f"x{chr(c)}x")] == want]


def cut(pre_tokenizer):
    """What a pre-tokenizer makes of a text."""
    return lambda s: [t for t, _ in pre_tokenizer.pre_tokenize_str(s)]


def normalized(normalizer):
    """What a normalizer makes of a text."""
    return lambda s: [normalizer.normalize_str(s)]


def bert(clean, accents):
    """A BertNormalizer."""
    return normalizers.BertNormalizer(clean_text=clean, handle_chinese_chars=False, strip_accents=accents, lowercase=False)


for name in (CATEGORIES + " " + PROPERTIES + " " + SCRIPTS).split():
    write(name, matches(name))
write("Bert_Control", where(normalized(bert(True, False)), ["xx"]))
write("Bert_Accent", where(normalized(bert(False, True)), ["xx"]))
write("Accent", where(normalized(normalizers.StripAccents()), ["xx"]))
write("Numeric", where(cut(pre_tokenizers.Digits(True)), ["x", "a", "x"]))
write("Punctuation_Mark", where(cut(pre_tokenizers.Punctuation("isolated")), ["x", "a", "x"]))
write("Word", where(cut(pre_tokenizers.Whitespace()), ["xax"]))
