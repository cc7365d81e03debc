package sentencepiece

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"exl2/infer/tokenizer/internal/normalize"
	"exl2/infer/tokenizer/internal/trie"
)

// spaceMark is how SentencePiece writes a space.
const spaceMark = "▁"

// A normalizer is the normalizer of a tokenizer.model: its table of
// replacements, and its ways with white space.
type normalizer struct {
	m     *File
	table *normalize.Charsmap
	users *trie.Trie // texts that are not replaced; nil: there are none
	plain [utf8.RuneSelf]bool
}

// newNormalizer returns the normalizer of a model.
func (m *File) Normalizer() (normalize.Normalizer, error) {
	table, err := normalize.ReadCharsmap(m.charsmap)
	if err != nil {
		return nil, fmt.Errorf("normalizer_spec.precompiled_charsmap: %w", err)
	}
	n := &normalizer{m: m, table: table, plain: table.Same}
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
		n.users = trie.New(texts)
	}
	return normalize.Rewrite(n.normalize), nil
}

// next returns what the beginning of s becomes, and how many bytes that is of.
func (n *normalizer) next(s string) (text string, length int) {
	if s[0] < utf8.RuneSelf && n.plain[s[0]] {
		return s[:1], 1
	}
	if n.users != nil {
		if id, length := n.users.Longest(s); id >= 0 {
			return s[:length], length
		}
	}
	if text, length := n.table.Longest(s); length > 0 {
		return text, length
	}
	_, length = utf8.DecodeRuneInString(s)
	return s[:length], length
}

// normalize returns s as the model wants it.
func (n *normalizer) normalize(s string) string {
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
	if n.table.Empty() && !m.trimSpaces {
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
func (n *normalizer) trimLeft(s string) string {
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
func (n *normalizer) write(b *strings.Builder, s, mark string) {
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
