// Package normalize rewrites texts as the normalizers of a tokenizer.json do.
package normalize

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"

	"exl2/infer/tokenizer/internal/chars"
	"exl2/infer/tokenizer/internal/jsonfields"
	"exl2/infer/tokenizer/internal/limit"
	"exl2/infer/tokenizer/internal/pattern"
	"exl2/infer/tokenizer/internal/subword"
)

// A Normalizer rewrites text. Of head, the bytes in front that stand for the first
// character of what is encoded, it says how many there are now: fewer where that is
// taken away, more where something is put in front of it. The Metaspace splitter asks
// for that. When t is up it may return anything.
type Normalizer func(t *limit.Time, text string, head int) (out string, headNow int)

// Head returns the bytes of the first character of text.
func Head(text string) int {
	_, n := utf8.DecodeRuneInString(text)
	return n
}

// Read reads a normalizer of a tokenizer.json; null is none.
func Read(path string, data json.RawMessage) (Normalizer, error) {
	if data == nil {
		return nil, nil
	}
	kind, f, err := jsonfields.Component(path, data)
	if err != nil {
		return nil, err
	}
	var n Normalizer
	switch kind {
	case "Sequence":
		list, err := jsonfields.Each(f, "normalizers", Read)
		return inSequence(list), err
	case "NFC", "NFD", "NFKC", "NFKD":
		form := map[string]norm.Form{"NFC": norm.NFC, "NFD": norm.NFD, "NFKC": norm.NFKC, "NFKD": norm.NFKD}[kind]
		n = Rewrite(func(s string) string { return chars.Form(form, s) })
	case "Lowercase":
		n = Rewrite(chars.Lowercase)
	case "Prepend":
		n = prepend(f.Str("prepend"))
	case "Replace":
		return readReplace(f)
	case "Strip":
		n = readStrip(f)
	case "StripAccents":
		n = remove(chars.IsAccent)
	case "Nmt":
		n = inSequence([]Normalizer{remove(isNmtControl), Rewrite(nmtSpaces)})
	case "ByteLevel":
		n = Rewrite(subword.ByteLevel)
	case "BertNormalizer":
		n = readBert(f)
	case "Precompiled":
		return readPrecompiled(f)
	default:
		return nil, jsonfields.Unsupported(path, kind)
	}
	return n, f.Done()
}

// Rewrite is the normalizer of a function that keeps the beginning of a text.
func Rewrite(fn func(string) string) Normalizer {
	return func(_ *limit.Time, s string, head int) (string, int) {
		out := fn(s)
		if head == 0 {
			return out, 0
		}
		front := fn(s[:head])
		if n := common(out, front); n < len(front) || n == 0 { // its last character joins what is behind
			return out, n + Head(out[n:])
		}
		return out, len(front)
	}
}

// common returns the bytes of the characters that two texts begin with.
func common(a, b string) int {
	n := 0
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	for n > 0 && n < len(a) && !utf8.RuneStart(a[n]) {
		n--
	}
	return n
}

// inSequence applies normalizers in order.
func inSequence(list []Normalizer) Normalizer {
	return func(t *limit.Time, s string, head int) (string, int) {
		for _, n := range list {
			s, head = n(t, s, head)
		}
		return s, head
	}
}

// prepend puts text before any that is not empty.
func prepend(text string) Normalizer {
	return func(_ *limit.Time, s string, head int) (string, int) {
		switch {
		case s == "":
			return s, 0
		case head == 0:
			return text + s, 0
		}
		return text + s, len(text) + head
	}
}

// readStrip reads a Strip normalizer, which removes white space from the ends.
func readStrip(f *jsonfields.Fields) Normalizer {
	var list []Normalizer
	if f.Bool("strip_left") {
		list = append(list, func(_ *limit.Time, s string, head int) (string, int) {
			out := strings.TrimLeftFunc(s, unicode.IsSpace)
			return out, max(0, head-(len(s)-len(out)))
		})
	}
	if f.Bool("strip_right") {
		list = append(list, func(_ *limit.Time, s string, head int) (string, int) {
			out := strings.TrimRightFunc(s, unicode.IsSpace)
			return out, min(head, len(out))
		})
	}
	return inSequence(list)
}

// remove drops characters.
func remove(drop func(rune) bool) Normalizer {
	keep := func(s string) string {
		return strings.Map(func(r rune) rune {
			if drop(r) {
				return -1
			}
			return r
		}, s)
	}
	return func(_ *limit.Time, s string, head int) (string, int) { return keep(s), len(keep(s[:head])) }
}

// isNmtControl reports whether the Nmt normalizer drops r.
func isNmtControl(r rune) bool {
	switch {
	case r >= 0x01 && r <= 0x08, r == 0x0B, r >= 0x0E && r <= 0x1F, r == 0x7F, r == 0x8F, r == 0x9F:
		return true
	}
	return false
}

// nmtSpaces turns what the Nmt normalizer counts as white space into spaces.
func nmtSpaces(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\t', r == '\n', r == '\f', r == '\r', r == 0x1680, r >= 0x200B && r <= 0x200F,
			r == 0x2028, r == 0x2029, r == 0x2581, r == 0xFEFF, r == 0xFFFD:
			return ' '
		}
		return r
	}, s)
}

// readBert reads a BertNormalizer.
func readBert(f *jsonfields.Fields) Normalizer {
	var list []Normalizer
	if f.Bool("clean_text") {
		list = append(list, remove(chars.IsBertControl), Rewrite(bertSpaces))
	}
	if f.Bool("handle_chinese_chars") {
		list = append(list, Rewrite(spaceIdeographs))
	}
	lower := f.Bool("lowercase")
	if f.BoolOr("strip_accents", lower) {
		list = append(list, Rewrite(func(s string) string { return chars.Form(norm.NFD, s) }),
			remove(chars.IsBertAccent))
	}
	if lower {
		list = append(list, Rewrite(chars.Lowercase))
	}
	return inSequence(list)
}

// bertSpaces turns all white space into spaces.
func bertSpaces(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsSpace(r) {
			return ' '
		}
		return r
	}, s)
}

// ideographs are the blocks that BERT takes apart into characters.
var ideographs = chars.Spans(0x3400, 0x4DBF, 0x4E00, 0x9FFF, 0xF900, 0xFAFF, 0x20000, 0x2A6DF,
	0x2A700, 0x2B73F, 0x2B740, 0x2B81F, 0x2B920, 0x2CEAF, 0x2F800, 0x2FA1F)

// spaceIdeographs puts spaces around ideographs.
func spaceIdeographs(s string) string {
	var b strings.Builder
	for _, r := range s {
		if ideographs.Has(r) {
			b.WriteString(" " + string(r) + " ")
		} else {
			b.WriteRune(r)
		}
	}
	return b.String()
}

// readReplace reads a Replace normalizer.
func readReplace(f *jsonfields.Fields) (Normalizer, error) {
	find, err := pattern.Read(f)
	content := f.Str("content")
	if err := cmp.Or(err, f.Done()); err != nil {
		return nil, err
	}
	return func(t *limit.Time, s string, head int) (string, int) {
		var b strings.Builder
		done, front := 0, 0
		find.Find(t, s, func(start, end int) {
			b.WriteString(s[done:start])
			b.WriteString(content)
			if front += max(0, min(start, head)-done); end <= head && head > 0 {
				front += len(content)
			}
			done = end
		})
		if done == 0 && b.Len() == 0 {
			return s, head
		}
		b.WriteString(s[done:])
		return b.String(), front + max(0, head-done)
	}, nil
}

// readPrecompiled reads a Precompiled normalizer: SentencePiece's table, applied
// as the tokenizers library does it.
func readPrecompiled(f *jsonfields.Fields) (Normalizer, error) {
	text := f.Str("precompiled_charsmap")
	if err := f.Done(); err != nil {
		return nil, err
	}
	data, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", f.At("precompiled_charsmap"), err)
	}
	c, err := ReadCharsmap(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", f.At("precompiled_charsmap"), err)
	}
	return Rewrite(c.byClusters), nil
}
