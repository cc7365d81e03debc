package tokenizer

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"unicode"

	"golang.org/x/text/unicode/norm"
)

// A normalizer rewrites text. It also tells whether characters are gone from
// the text's beginning, so that what is first now was not first before: the
// Metaspace splitter asks for that.
type normalizer func(text string) (out string, shifted bool)

// readNormalizer reads a normalizer of a tokenizer.json; null is none.
func readNormalizer(path string, data json.RawMessage) (normalizer, error) {
	if data == nil {
		return nil, nil
	}
	kind, f, err := component(path, data)
	if err != nil {
		return nil, err
	}
	var n normalizer
	switch kind {
	case "Sequence":
		list, err := each(f, "normalizers", readNormalizer)
		return inSequence(list), err
	case "NFC", "NFD", "NFKC", "NFKD":
		form := map[string]norm.Form{"NFC": norm.NFC, "NFD": norm.NFD, "NFKC": norm.NFKC, "NFKD": norm.NFKD}[kind]
		n = rewrite(func(s string) string { return unicodeForm(form, s) })
	case "Lowercase":
		n = rewrite(lowercase)
	case "Prepend":
		n = prepend(f.str("prepend"))
	case "Replace":
		return readReplace(f)
	case "Strip":
		n = readStrip(f)
	case "StripAccents":
		n = remove(func(r rune) bool { return unicode.Is(unicode.M, r) })
	case "Nmt":
		n = inSequence([]normalizer{remove(isNmtControl), rewrite(nmtSpaces)})
	case "ByteLevel":
		n = rewrite(byteLevel)
	case "BertNormalizer":
		n = readBert(f)
	case "Precompiled":
		return readPrecompiled(f)
	default:
		return nil, unsupported(path, kind)
	}
	return n, f.done()
}

// rewrite is the normalizer of a function that keeps the beginning of a text.
func rewrite(fn func(string) string) normalizer {
	return func(s string) (string, bool) { return fn(s), false }
}

// inSequence applies normalizers in order.
func inSequence(list []normalizer) normalizer {
	return func(s string) (string, bool) {
		shifted := false
		for _, n := range list {
			var now bool
			s, now = n(s)
			shifted = shifted || now
		}
		return s, shifted
	}
}

// prepend puts text before any that is not empty.
func prepend(text string) normalizer {
	return rewrite(func(s string) string {
		if s == "" {
			return s
		}
		return text + s
	})
}

// readStrip reads a Strip normalizer, which removes white space from the ends.
func readStrip(f *fields) normalizer {
	var list []normalizer
	if f.boolean("strip_left") {
		list = append(list, func(s string) (string, bool) {
			out := strings.TrimLeftFunc(s, unicode.IsSpace)
			return out, len(out) < len(s)
		})
	}
	if f.boolean("strip_right") {
		list = append(list, rewrite(func(s string) string { return strings.TrimRightFunc(s, unicode.IsSpace) }))
	}
	return inSequence(list)
}

// remove drops characters.
func remove(drop func(rune) bool) normalizer {
	return func(s string) (string, bool) {
		shifted := false
		for _, r := range s {
			shifted = drop(r)
			break
		}
		return strings.Map(func(r rune) rune {
			if drop(r) {
				return -1
			}
			return r
		}, s), shifted
	}
}

// lowercase maps each character by itself, without Unicode's rules of context.
func lowercase(s string) string {
	s = strings.ReplaceAll(s, "İ", "i\u0307") // the one character whose lower case is two
	return strings.Map(unicode.ToLower, s)
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
func readBert(f *fields) normalizer {
	var list []normalizer
	if f.boolean("clean_text") {
		list = append(list, remove(isBertControl), rewrite(bertSpaces))
	}
	if f.boolean("handle_chinese_chars") {
		list = append(list, rewrite(spaceIdeographs))
	}
	lower := f.boolean("lowercase")
	if f.boolOr("strip_accents", lower) {
		list = append(list, rewrite(func(s string) string { return unicodeForm(norm.NFD, s) }),
			remove(func(r rune) bool { return unicode.Is(unicode.Mn, r) }))
	}
	if lower {
		list = append(list, rewrite(lowercase))
	}
	return inSequence(list)
}

// isBertControl reports whether BERT's cleaning drops r.
func isBertControl(r rune) bool {
	if r == '\t' || r == '\n' || r == '\r' {
		return false
	}
	return r == 0 || r == 0xFFFD || unicode.Is(unicode.C, r)
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
var ideographs = runeSet{
	{0x3400, 0x4DBF}, {0x4E00, 0x9FFF}, {0xF900, 0xFAFF}, {0x20000, 0x2A6DF},
	{0x2A700, 0x2B73F}, {0x2B740, 0x2B81F}, {0x2B920, 0x2CEAF}, {0x2F800, 0x2FA1F},
}

// spaceIdeographs puts spaces around ideographs.
func spaceIdeographs(s string) string {
	var b strings.Builder
	for _, r := range s {
		if ideographs.has(r) {
			b.WriteString(" " + string(r) + " ")
		} else {
			b.WriteRune(r)
		}
	}
	return b.String()
}

// readReplace reads a Replace normalizer.
func readReplace(f *fields) (normalizer, error) {
	find, err := readFinder(f)
	content := f.str("content")
	if err := firstError(err, f.done()); err != nil {
		return nil, err
	}
	return func(s string) (string, bool) {
		var b strings.Builder
		done, shifted := 0, false
		find(s, func(start, end int) {
			if start == 0 {
				shifted = content == "" && end > 0 || manyRunes(s[:end])
			}
			b.WriteString(s[done:start])
			b.WriteString(content)
			done = end
		})
		if done == 0 && b.Len() == 0 && !shifted {
			return s, false
		}
		b.WriteString(s[done:])
		return b.String(), shifted
	}, nil
}

// manyRunes reports whether s has more than one character.
func manyRunes(s string) bool {
	for i := range s {
		if i > 0 {
			return true
		}
	}
	return false
}

// firstError returns the first error that is not nil.
func firstError(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// readPrecompiled reads a Precompiled normalizer: SentencePiece's table, applied
// as the tokenizers library does it.
func readPrecompiled(f *fields) (normalizer, error) {
	text := f.strOr("precompiled_charsmap", "")
	if err := f.done(); err != nil {
		return nil, err
	}
	data, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", f.at("precompiled_charsmap"), err)
	}
	c, err := readCharsmap(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", f.at("precompiled_charsmap"), err)
	}
	return rewrite(c.byClusters), nil
}
