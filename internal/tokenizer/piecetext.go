package tokenizer

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// spaceMark is how SentencePiece writes a space.
const spaceMark = "▁"

// A pieceNormalizer is the normalizer of a tokenizer.model: its table of
// replacements, and its ways with white space.
type pieceNormalizer struct {
	m     *modelFile
	table *charsmap
	users *trie // texts that are not replaced; nil: there are none
	plain [utf8.RuneSelf]bool
}

// newPieceNormalizer returns the normalizer of a model.
func newPieceNormalizer(m *modelFile) (*pieceNormalizer, error) {
	table, err := readCharsmap(m.charsmap)
	if err != nil {
		return nil, fmt.Errorf("normalizer_spec.precompiled_charsmap: %w", err)
	}
	n := &pieceNormalizer{m: m, table: table, plain: table.same}
	var texts []string
	for _, p := range m.pieces {
		if p.kind == userPiece {
			texts = append(texts, p.text)
			if p.text[0] < utf8.RuneSelf {
				n.plain[p.text[0]] = false
			}
		}
	}
	if len(texts) > 0 {
		n.users = newTrie(texts)
	}
	return n, nil
}

// next returns what the beginning of s becomes, and how many bytes that is of.
func (n *pieceNormalizer) next(s string) (text string, length int) {
	if s[0] < utf8.RuneSelf && n.plain[s[0]] {
		return s[:1], 1
	}
	if n.users != nil {
		if id, length := n.users.longest(s); id >= 0 {
			return s[:length], length
		}
	}
	if text, length := n.table.longest(s); length > 0 {
		return text, length
	}
	_, length = utf8.DecodeRuneInString(s)
	return s[:length], length
}

// normalize returns s as the model wants it.
func (n *pieceNormalizer) normalize(s string) string {
	m := n.m
	if m.trimSpaces {
		s = n.trimLeft(s)
	}
	if s == "" {
		return ""
	}
	mark := " "
	if m.escapeSpaces {
		mark = spaceMark
	}
	var b strings.Builder
	b.Grow(len(s) + len(s)/2)
	if m.dummyPrefix && !m.suffixSpace {
		b.WriteString(mark)
	}
	if len(n.table.units) == 0 && !m.trimSpaces {
		b.WriteString(strings.ReplaceAll(s, " ", mark))
	} else {
		n.write(&b, s, mark)
	}
	out := b.String()
	for m.trimSpaces && strings.HasSuffix(out, mark) {
		out = out[:len(out)-len(mark)]
	}
	if m.dummyPrefix && m.suffixSpace {
		out += mark
	}
	return out
}

// trimLeft removes what becomes a space from the beginning of s.
func (n *pieceNormalizer) trimLeft(s string) string {
	for s != "" {
		text, length := n.next(s)
		if text != " " {
			break
		}
		s = s[length:]
	}
	return s
}

// write writes what s becomes, with spaces as mark.
func (n *pieceNormalizer) write(b *strings.Builder, s, mark string) {
	afterSpace := n.m.trimSpaces
	for s != "" {
		text, length := n.next(s)
		s = s[length:]
		if afterSpace {
			text = strings.TrimLeft(text, " ")
		}
		if text == "" {
			continue
		}
		if len(text) == 1 && text != " " {
			b.WriteByte(text[0])
		} else {
			b.WriteString(strings.ReplaceAll(text, " ", mark))
		}
		afterSpace = n.m.trimSpaces && text[len(text)-1] == ' '
	}
}

// A pieceDecoder decodes as SentencePiece does, except that control pieces,
// which it drops, are kept as their texts.
type pieceDecoder struct {
	next  sink
	m     *modelFile
	bytes []byte // of the run of byte pieces so far, without whole characters
	first bool   // a space mark that comes now is the one put before the text
}

// newPieceDecoder returns the stage of a model.
func newPieceDecoder(m *modelFile) stage {
	return func(next sink) sink { return &pieceDecoder{next: next, m: m, first: true} }
}

func (d *pieceDecoder) put(text string, end ending) { d.next.put(text, end) }

func (d *pieceDecoder) putID(id int32, text string) {
	if int(id) >= len(d.m.pieces) || d.m.pieces[id].text != text { // added by the folder's other files; a text begins anew after it
		d.flush()
		d.next.put(text, whole)
		d.first = true
		return
	}
	p := d.m.pieces[id]
	if p.kind == bytePiece {
		b, _ := byteToken(p.text)
		d.bytes = append(d.bytes, b)
		for utf8.FullRune(d.bytes) {
			d.char()
		}
		return
	}
	d.flush()
	switch p.kind {
	case controlPiece:
		d.next.put(text, whole)
		return
	case unknownPiece:
		text = d.m.unkSurface
	default:
		text = d.spaces(text)
	}
	d.write(text)
}

// spaces turns the marks of a piece into spaces; the one that stands for the
// space before the text goes.
func (d *pieceDecoder) spaces(text string) string {
	if d.first && (d.m.dummyPrefix || d.m.trimSpaces) {
		if rest, ok := strings.CutPrefix(text, spaceMark); ok {
			text = rest
			d.first = d.m.trimSpaces
		}
	}
	return strings.ReplaceAll(text, spaceMark, " ")
}

// write passes decoded text on.
func (d *pieceDecoder) write(text string) {
	if text != "" {
		d.first = false
	}
	d.next.put(text, whole)
}

// flush ends a run of byte pieces. Each byte left that is of no whole
// character becomes U+FFFD.
func (d *pieceDecoder) flush() {
	for len(d.bytes) > 0 {
		d.char()
	}
}

// char passes on the first character of the bytes held.
func (d *pieceDecoder) char() {
	r, n := utf8.DecodeRune(d.bytes)
	d.write(string(r))
	d.bytes = append(d.bytes[:0], d.bytes[n:]...)
}

func (d *pieceDecoder) close() {
	d.flush()
	d.next.close()
}
