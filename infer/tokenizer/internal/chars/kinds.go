package chars

import (
	"strings"
	"sync"
	"unicode"
)

// What parts of the tokenizers library, version 0.23.3, take characters for.
// Their tables are of Unicode 8 to 17; unicode16.txt has them as they are.
var (
	IsWord        = lazily("Word")             // \w of Rust's regex crate: UTS 18's word characters
	IsNumeric     = lazily("Numeric")          // of the pre-tokenizer Digits
	IsPunctuation = lazily("Punctuation_Mark") // of the pre-tokenizers Punctuation and BertPreTokenizer: with ASCII's symbols
	IsAccent      = lazily("Accent")           // that StripAccents removes
	IsBertAccent  = lazily("Bert_Accent")      // that BertNormalizer removes
	IsBertControl = lazily("Bert_Control")     // that BertNormalizer removes: control and format characters, private use, U+FFFD
)

// lazily returns what looks a character up in a set of unicode16.txt. The table
// for it is made when it is needed first.
func lazily(name string) func(rune) bool {
	table := sync.OnceValue(func() *Table { return NewTable(Union(name)) })
	return func(r rune) bool { return table().Has(r) }
}

// A pair is a run of upper case letters and the lower case of the first.
type pair struct{ first, last, lower rune }

// Letters that are younger than the Unicode of Go 1.26, which is 15: those of
// 16, and those of 17, which Rust's to_lowercase knows and Oniguruma does not.
var (
	pairs16 = []pair{{0x1C89, 0x1C89, 0x1C8A}, {0xA7CB, 0xA7CB, 0x264}, {0xA7CC, 0xA7CC, 0xA7CD}, {0xA7DA, 0xA7DA, 0xA7DB}, {0xA7DC, 0xA7DC, 0x19B}, {0x10D50, 0x10D65, 0x10D70}}
	pairs17 = []pair{{0xA7CE, 0xA7CE, 0xA7CF}, {0xA7D2, 0xA7D2, 0xA7D3}, {0xA7D4, 0xA7D4, 0xA7D5}, {0x16EA0, 0x16EB8, 0x16EBB}}
)

// Lowercase maps each character by itself, without Unicode's rules of context.
func Lowercase(s string) string {
	s = strings.ReplaceAll(s, "İ", "i\u0307") // the one character whose lower case is two
	return strings.Map(func(r rune) rune {
		if r >= pairs16[0].first {
			for _, list := range [][]pair{pairs16, pairs17} {
				for _, p := range list {
					if r >= p.first && r <= p.last {
						return p.lower + r - p.first
					}
				}
			}
		}
		return unicode.ToLower(r)
	}, s)
}
