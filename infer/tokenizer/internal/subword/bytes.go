package subword

import (
	"fmt"
	"strconv"
	"strings"
)

// Byte-level vocabularies write each byte as one printable character: printable
// Latin-1 bytes as themselves, the others as U+0100 and on, in order. Space is
// 'Ġ', line feed is 'Ċ'. This is GPT-2's table.
var byteRunes, runeBytes = byteTables()

// byteTables returns the character of each byte, and the byte of each
// character below U+0144, or -1.
func byteTables() (runes [256]rune, bytes [0x144]int16) {
	for i := range bytes {
		bytes[i] = -1
	}
	next := rune(0x100)
	for b := range runes {
		r := rune(b)
		if b < '!' || b > '~' && b < 0xA1 || b == 0xAD {
			r = next
			next++
		}
		runes[b], bytes[r] = r, int16(b)
	}
	return runes, bytes
}

// ByteLevel writes the bytes of s as byte-level characters.
func ByteLevel(s string) string {
	var b strings.Builder
	b.Grow(2 * len(s))
	for i := range len(s) {
		b.WriteRune(byteRunes[s[i]])
	}
	return b.String()
}

// AppendByteLevel appends the bytes that a byte-level token stands for, or
// those of the token itself if it has a character of another kind.
func AppendByteLevel(dst []byte, token string) []byte {
	start := len(dst)
	for _, r := range token {
		if int(r) >= len(runeBytes) || runeBytes[r] < 0 {
			return append(dst[:start], token...)
		}
		dst = append(dst, byte(runeBytes[r]))
	}
	return dst
}

// ByteToken returns the byte that a byte fallback token such as "<0x0A>" stands for.
func ByteToken(token string) (byte, bool) {
	if len(token) != len("<0x00>") || token[:3] != "<0x" || token[5] != '>' {
		return 0, false
	}
	b, err := strconv.ParseUint(token[3:5], 16, 8)
	return byte(b), err == nil
}

// ByteTokens returns the ids of "<0x00>" to "<0xFF>", -1 for those missing.
func ByteTokens(ids map[string]int32) *[256]int32 {
	t := new([256]int32)
	for c := range t {
		id, ok := ids[fmt.Sprintf("<0x%02X>", c)]
		if !ok {
			id = -1
		}
		t[c] = id
	}
	return t
}
