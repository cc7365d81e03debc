package tokenizer

import (
	"encoding/json"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// readPreTokenizer reads a pre-tokenizer of a tokenizer.json as splitters in
// their order; null is none.
func readPreTokenizer(path string, data json.RawMessage) ([]splitter, error) {
	if data == nil {
		return nil, nil
	}
	kind, f, err := component(path, data)
	if err != nil {
		return nil, err
	}
	var s []splitter
	switch kind {
	case "Sequence":
		lists, err := each(f, "pretokenizers", readPreTokenizer)
		for _, list := range lists {
			s = append(s, list...)
		}
		return s, err
	case "Split":
		return readSplit(f)
	case "ByteLevel":
		s = readByteLevel(f)
	case "Metaspace":
		s = []splitter{readMetaspace(f)}
	case "Digits":
		b := contiguous
		if f.boolean("individual_digits") {
			b = isolated
		}
		s = []splitter{&cutBy{find: runesOf(unicode.IsNumber), behavior: b}}
	case "Punctuation":
		b := isolated
		if _, ok := f.raw["behavior"]; ok {
			b = behavior(f.choice("behavior", behaviorNames...))
		}
		s = []splitter{&cutBy{find: runesOf(isPunctuation), behavior: b}}
	case "Whitespace":
		s = []splitter{splitterFunc(wordsAndSymbols)}
	case "WhitespaceSplit":
		s = []splitter{&cutBy{find: runesOf(unicode.IsSpace), behavior: removed}}
	case "CharDelimiterSplit", "Delimiter":
		delimiter := f.char("delimiter")
		s = []splitter{&cutBy{find: runesOf(func(r rune) bool { return r == delimiter }), behavior: removed}}
	case "BertPreTokenizer":
		s = []splitter{
			&cutBy{find: runesOf(unicode.IsSpace), behavior: removed},
			&cutBy{find: runesOf(isPunctuation), behavior: isolated},
		}
	case "FixedLength":
		s = readFixedLength(f)
	default: // UnicodeScripts among them: its table of scripts is an old one
		return nil, unsupported(path, kind)
	}
	return s, f.done()
}

// readSplit reads a Split pre-tokenizer.
func readSplit(f *fields) ([]splitter, error) {
	find, err := readFinder(f)
	s := &cutBy{find: find, behavior: behavior(f.choice("behavior", behaviorNames...)), inverted: f.boolean("invert")}
	return []splitter{s}, firstError(err, f.done())
}

// isPunctuation is Unicode's punctuation and ASCII's symbols.
func isPunctuation(r rune) bool {
	return unicode.IsPunct(r) || r < utf8.RuneSelf && unicode.IsSymbol(r)
}

// wordsAndSymbols passes on runs of word characters, and runs of what is
// neither that nor white space.
func wordsAndSymbols(p piece, next func(piece)) {
	const space, word, symbol = 0, 1, 2
	start, kind := 0, space
	for i, r := range p.text {
		now := symbol
		switch {
		case isWord(r):
			now = word
		case unicode.IsSpace(r):
			now = space
		}
		if now == kind {
			continue
		}
		if kind != space {
			next(p.part(start, i))
		}
		start, kind = i, now
	}
	if kind != space {
		next(p.part(start, len(p.text)))
	}
}

// readFixedLength reads a FixedLength pre-tokenizer: pieces of so many characters.
func readFixedLength(f *fields) []splitter {
	length := 5
	f.read("length", f.take("length"), &length)
	if f.err == nil && length < 1 {
		f.fail("length", "%d is not positive", length)
	}
	return []splitter{splitterFunc(func(p piece, next func(piece)) {
		start, n := 0, 0
		for i := range p.text {
			if n == length {
				next(p.part(start, i))
				start, n = i, 0
			}
			n++
		}
		next(p.part(start, len(p.text)))
	})}
}

// gpt2Pattern is the expression by which ByteLevel splits if nothing else is said.
const gpt2Pattern = `'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+`

// bytesAsRunes writes pieces in byte-level characters. Where it is the last
// splitter the model does its work, on words that it has not seen before.
type bytesAsRunes struct{}

func (bytesAsRunes) split(p piece, next func(piece)) {
	next(piece{text: byteLevel(p.text), first: p.first})
}

// readByteLevel reads a ByteLevel pre-tokenizer.
func readByteLevel(f *fields) []splitter {
	f.ignore("trim_offsets")
	var s []splitter
	if f.boolean("add_prefix_space") {
		s = append(s, splitterFunc(func(p piece, next func(piece)) {
			if !strings.HasPrefix(p.text, " ") {
				p.text = " " + p.text
			}
			next(p)
		}))
	}
	if f.boolOr("use_regex", true) {
		re, err := compilePattern(gpt2Pattern)
		if err != nil {
			panic(fmt.Sprintf("tokenizer: %v", err))
		}
		s = append(s, &cutBy{find: regexFinder(re), behavior: isolated})
	}
	return append(s, bytesAsRunes{})
}
