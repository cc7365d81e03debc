package normalize

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/dlclark/regexp2/v2/syntax"

	"exl2/infer/tokenizer/internal/jsonfields"
)

// A Charsmap is SentencePiece's precompiled table of replacements: a trie from
// byte strings to offsets in a block of texts that end in zero bytes.
//
// The trie is a Darts-clone double array. A unit of 32 bits holds a label in
// its low byte, a flag at bit 8 that a key ends below it, and in bits 10 and up
// the distance to its followers, times 256 where bit 9 is set. The unit below
// the flag holds a value in 31 bits.
type Charsmap struct {
	units []uint32
	texts []byte
	Same  [utf8.RuneSelf]bool // ASCII characters that no key begins with
}

// MaxReplacement is how long a replacement may be, in bytes: a longer one would
// let short texts fill the memory. The longest of Unicode's forms has 33.
const MaxReplacement = 64

// ReadCharsmap reads a table: the trie's size in bytes, the trie, the texts.
// No data is the table that replaces nothing.
func ReadCharsmap(data []byte) (*Charsmap, error) {
	c := new(Charsmap)
	if len(data) > 0 {
		if len(data) < 4 {
			return nil, fmt.Errorf("%d bytes, want at least 4", len(data))
		}
		size := binary.LittleEndian.Uint32(data)
		data = data[4:]
		if size%4 != 0 || uint64(size) > uint64(len(data)) {
			return nil, fmt.Errorf("a trie of %d bytes in %d bytes", size, len(data))
		}
		c.units = make([]uint32, size/4)
		for i := range c.units {
			c.units[i] = binary.LittleEndian.Uint32(data[4*i:])
		}
		c.texts = data[size:]
		if !utf8.Valid(c.texts) {
			return nil, fmt.Errorf("replacements that are not UTF-8")
		}
		if n := len(c.texts); n > 0 && c.texts[n-1] != 0 {
			return nil, fmt.Errorf("the last replacement has no end")
		}
		for text := range bytes.SplitSeq(c.texts, []byte{0}) {
			if len(text) > MaxReplacement {
				return nil, fmt.Errorf("a replacement of %d bytes, more than %d: %w", len(text), MaxReplacement, jsonfields.ErrUnsupported)
			}
		}
	}
	for b := range c.Same {
		c.Same[b] = !c.begins(byte(b))
	}
	return c, nil
}

// Empty reports whether the table replaces nothing.
func (c *Charsmap) Empty() bool { return len(c.units) == 0 }

// unit returns a unit, 0 outside of the array: a damaged trie has no keys there.
func (c *Charsmap) unit(at uint32) uint32 {
	if at < uint32(len(c.units)) {
		return c.units[at]
	}
	return 0
}

// below returns the distance from a unit to its followers.
func below(unit uint32) uint32 { return unit >> 10 << (unit >> 6 & 8) }

// isLabel reports whether a unit is that of the byte b.
func isLabel(unit uint32, b byte) bool { return unit&(1<<31|0xFF) == uint32(b) }

// begins reports whether some key may begin with b.
func (c *Charsmap) begins(b byte) bool {
	return b != 0 && isLabel(c.unit(below(c.unit(0))^uint32(b)), b)
}

// prefixes passes on the lengths and values of the keys that s begins with,
// shortest first, until yield returns false.
func (c *Charsmap) prefixes(s string, yield func(length int, value uint32) bool) {
	at := below(c.unit(0))
	for i := 0; i < len(s) && s[i] != 0; i++ {
		at ^= uint32(s[i])
		unit := c.unit(at)
		if !isLabel(unit, s[i]) {
			return
		}
		at ^= below(unit)
		if unit>>8&1 == 1 && !yield(i+1, c.unit(at)&(1<<31-1)) {
			return
		}
	}
}

// text returns the replacement at an offset; there is none beyond the texts.
func (c *Charsmap) text(value uint32) (string, bool) {
	if uint64(value) >= uint64(len(c.texts)) {
		return "", false
	}
	rest := c.texts[value:]
	return strings.ToValidUTF8(string(rest[:bytes.IndexByte(rest, 0)]), "\uFFFD"), true
}

// Longest returns the replacement of the longest key that s begins with, and
// the key's length, 0 if there is none.
func (c *Charsmap) Longest(s string) (text string, length int) {
	c.prefixes(s, func(n int, value uint32) bool {
		if t, ok := c.text(value); ok {
			text, length = t, n
		}
		return true
	})
	return text, length
}

// shortest returns the replacement of the shortest key that s begins with.
func (c *Charsmap) shortest(s string) (text string, ok bool) {
	c.prefixes(s, func(_ int, value uint32) bool {
		text, ok = c.text(value)
		return false
	})
	return text, ok
}

// maxCluster is the length in bytes up to which the tokenizers library looks
// up a whole grapheme cluster rather than its characters.
const maxCluster = 5

// byClusters replaces as the tokenizers library does: a grapheme cluster, or
// failing that a character, becomes the replacement of the shortest key that
// it begins with.
func (c *Charsmap) byClusters(s string) string {
	var b strings.Builder
	runes := []rune(s)
	for at := 0; at < len(runes); {
		end := at + 1
		if !plainNext(runes, at) {
			end = syntax.NextGraphemeClusterBoundary(runes, at)
		}
		c.cluster(&b, string(runes[at:end]))
		at = end
	}
	return b.String()
}

// plainNext reports whether the character at a position is a cluster by
// itself for being ASCII, as is the next.
func plainNext(runes []rune, at int) bool {
	return runes[at] < utf8.RuneSelf && runes[at] != '\r' && (at+1 == len(runes) || runes[at+1] < utf8.RuneSelf)
}

// cluster writes what a grapheme cluster becomes.
func (c *Charsmap) cluster(b *strings.Builder, s string) {
	if len(s) == 1 && c.Same[s[0]] {
		b.WriteString(s)
		return
	}
	if len(s) <= maxCluster {
		if text, ok := c.shortest(s); ok {
			b.WriteString(text)
			return
		}
	}
	for _, r := range s {
		if text, ok := c.shortest(string(r)); ok {
			b.WriteString(text)
		} else {
			b.WriteRune(r)
		}
	}
}
