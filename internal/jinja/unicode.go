package jinja

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/cases"
	"golang.org/x/text/language"
)

// isSpace reports whether Python's str.isspace is true of a character.
func isSpace(r rune) bool { return unicode.IsSpace(r) || r >= 0x1c && r <= 0x1f }

// isLineEnd reports whether a line ends at a character, for str.splitlines.
func isLineEnd(r rune) bool {
	switch r {
	case '\n', '\r', '\v', '\f', 0x1c, 0x1d, 0x1e, 0x85, 0x2028, 0x2029:
		return true
	}
	return false
}

func upper(s string) string { return cases.Upper(language.Und).String(s) }

// upperRune returns a character in upper case, which may be several.
func upperRune(r rune) string {
	if r < utf8.RuneSelf {
		return string(unicode.ToUpper(r))
	}
	return upper(string(r))
}

// lower is str.lower. The package cases looks at pieces of a long text, where a sigma may stand at the end of one.
func lower(s string) string {
	var b strings.Builder
	b.Grow(len(s))
	for i, r := range s {
		switch {
		case r == 'İ':
			b.WriteString("i\u0307")
		case r == 'Σ' && endsWord(s[:i], s[i+len("Σ"):]):
			b.WriteRune('ς')
		default:
			b.WriteRune(unicode.ToLower(r))
		}
	}
	return b.String()
}

// endsWord reports whether a sigma between two texts is the last letter of a word: there are
// cased characters in front of it and none behind it, but for those that case ignores.
func endsWord(before, after string) bool {
	before = strings.TrimRightFunc(before, caseIgnores)
	r, n := utf8.DecodeLastRuneInString(before)
	if n == 0 || !isCased(r) {
		return false
	}
	r, n = utf8.DecodeRuneInString(strings.TrimLeftFunc(after, caseIgnores))
	return n == 0 || !isCased(r)
}

// caseIgnores is Unicode's property Case_Ignorable.
func caseIgnores(r rune) bool {
	return unicode.In(r, unicode.Mn, unicode.Me, unicode.Cf, unicode.Lm, unicode.Sk) || strings.ContainsRune("'.:·\u0387\u055f\u05f4‘’․‧\ufe13\ufe52\ufe55＇．：", r)
}

func casefold(s string) string { return cases.Fold().String(s) }

// titleRune returns a character in title case, which may be several.
func titleRune(r rune) string {
	if r < utf8.RuneSelf {
		return string(unicode.ToUpper(r))
	}
	return cases.Title(language.Und, cases.NoLower).String(string(r))
}

// capitalize returns the first character in title case, the rest in lower case.
func capitalize(s string) string {
	r, n := utf8.DecodeRuneInString(s)
	if n == 0 {
		return ""
	}
	return titleRune(r) + strings.TrimPrefix(lower(s), lower(s[:n]))
}

func isLower(r rune) bool { return unicode.IsLower(r) || unicode.Is(unicode.Other_Lowercase, r) }

func isUpper(r rune) bool { return unicode.IsUpper(r) || unicode.Is(unicode.Other_Uppercase, r) }

func isCased(r rune) bool { return isLower(r) || isUpper(r) || unicode.IsTitle(r) }

// eachLower calls f with every character and its lower case, which for a sigma
// depends on those around it.
func eachLower(s string, f func(r rune, low string)) {
	low := lower(s)
	for _, r := range s {
		n := min(len(lower(string(r))), len(low)) // both sigmas take two bytes
		f(r, low[:n])
		low = low[n:]
	}
}

// title returns every run of cased characters capitalized.
func title(s string) string {
	var b strings.Builder
	b.Grow(len(s))
	inside := false
	eachLower(s, func(r rune, low string) {
		if inside {
			b.WriteString(low)
		} else {
			b.WriteString(titleRune(r))
		}
		inside = isCased(r)
	})
	return b.String()
}

// swapcase exchanges upper and lower case.
func swapcase(s string) string {
	var b strings.Builder
	b.Grow(len(s))
	eachLower(s, func(r rune, low string) {
		switch {
		case isUpper(r):
			b.WriteString(low)
		case isLower(r):
			b.WriteString(upperRune(r))
		default:
			b.WriteRune(r)
		}
	})
	return b.String()
}

// asciiDigits writes the decimal digits of all scripts as 0 to 9.
func asciiDigits(s string) string {
	return strings.Map(func(r rune) rune {
		if r < utf8.RuneSelf || !unicode.Is(unicode.Nd, r) {
			return r
		}
		zero := r // every range of them begins with a zero
		for unicode.Is(unicode.Nd, zero-1) {
			zero--
		}
		return '0' + (r-zero)%10
	}, s)
}

// casedAs reports whether s has a cased character and every one is of the case.
func casedAs(s string, want, not func(rune) bool) bool {
	found := false
	for _, r := range s {
		if not(r) || unicode.IsTitle(r) {
			return false
		}
		found = found || want(r)
	}
	return found
}

// isTitle is str.istitle: capitals where words begin, and only there.
func isTitle(s string) bool {
	found, inside := false, false
	for _, r := range s {
		switch {
		case isUpper(r) || unicode.IsTitle(r):
			if inside {
				return false
			}
			found, inside = true, true
		case isLower(r):
			if !inside {
				return false
			}
		default:
			inside = false
		}
	}
	return found
}

// isDigit is str.isdigit: decimals, and digits raised, lowered and circled.
func isDigit(r rune) bool {
	return unicode.Is(unicode.Nd, r) || unicode.Is(unicode.No, r) && (r == '²' || r == '³' || r == '¹' ||
		r == '⁰' || r >= '⁴' && r <= '⁹' || r >= '₀' && r <= '₉' || r >= '①' && r <= '⑨' || r >= '⑴' && r <= '⑼' ||
		r >= '⒈' && r <= '⒐' || r == '⓪' || r >= '⓵' && r <= '⓽' || r == '⓿' || r >= '❶' && r <= '❾' || r >= '➀' && r <= '➈' || r >= '➊' && r <= '➒')
}

// isNumeric is str.isnumeric: numbers of all kinds, Chinese ones included.
func isNumeric(r rune) bool {
	return unicode.Is(unicode.N, r) || strings.ContainsRune("一二三四五六七八九十百千万億兆零壹貳叁參肆伍陸柒捌玖拾佰仟萬亿", r)
}

// all reports whether s has characters and f is true of every one.
func all(s string, f func(rune) bool) bool {
	return s != "" && strings.IndexFunc(s, func(r rune) bool { return !f(r) }) < 0
}

// reversed returns the characters of s from the last to the first.
func reversed(s string) string {
	b := make([]byte, len(s))
	at := len(s)
	for _, r := range s {
		at -= utf8.RuneLen(r)
		utf8.EncodeRune(b[at:], r)
	}
	return string(b)
}

// Strip returns s without what Python takes for whitespace at both ends.
func Strip(s string) string { return strings.TrimFunc(s, isSpace) }

// StripRight returns s without whitespace at its end.
func StripRight(s string) string { return strings.TrimRightFunc(s, isSpace) }
