package sentencepiece

import (
	"strings"
	"unicode/utf8"

	"exl2/infer/tokenizer/internal/decode"
	"exl2/infer/tokenizer/internal/subword"
)

// A decoder decodes as SentencePiece does, except that control pieces,
// which it drops, are kept as their texts.
type decoder struct {
	next  decode.Sink
	m     *File
	bytes []byte // of the run of byte pieces so far, without whole characters
	first bool   // a space mark that comes now is the one put before the text
}

// Stage returns the one stage of decoding.
func (m *File) Stage() decode.Stage {
	return func(next decode.Sink) decode.Sink { return &decoder{next: next, m: m, first: true} }
}

func (d *decoder) Put(text string, end decode.Ending) { d.next.Put(text, end) }

func (d *decoder) PutID(id int32, text string) {
	if int(id) >= len(d.m.pieces) || d.m.pieces[id].text != text { // added by the folder's other files; a text begins anew after it
		d.flush()
		d.next.Put(text, decode.Whole)
		d.first = !d.m.prefixOnce
		return
	}
	p := d.m.pieces[id]
	if p.kind == bytePiece {
		b, _ := subword.ByteToken(p.text)
		d.bytes = append(d.bytes, b)
		for utf8.FullRune(d.bytes) {
			d.char()
		}
		return
	}
	d.flush()
	switch p.kind {
	case controlPiece:
		d.next.Put(text, decode.Whole)
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
func (d *decoder) spaces(text string) string {
	if d.first && (d.m.dummyPrefix || d.m.prefixOnce || d.m.trimSpaces) {
		if rest, ok := strings.CutPrefix(text, spaceMark); ok {
			text = rest
			d.first = d.m.trimSpaces
		}
	}
	return strings.ReplaceAll(text, spaceMark, " ")
}

// write passes decoded text on.
func (d *decoder) write(text string) {
	if text != "" {
		d.first = false
	}
	d.next.Put(text, decode.Whole)
}

// flush ends a run of byte pieces. Each byte left that is of no whole
// character becomes U+FFFD.
func (d *decoder) flush() {
	for len(d.bytes) > 0 {
		d.char()
	}
}

// char passes on the first character of the bytes held.
func (d *decoder) char() {
	r, n := utf8.DecodeRune(d.bytes)
	d.write(string(r))
	d.bytes = append(d.bytes[:0], d.bytes[n:]...)
}

func (d *decoder) Close() {
	d.flush()
	d.next.Close()
}
