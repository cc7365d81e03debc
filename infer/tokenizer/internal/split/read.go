package split

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"unicode"

	"exl2/infer/tokenizer/internal/chars"
	"exl2/infer/tokenizer/internal/jsonfields"
	"exl2/infer/tokenizer/internal/limit"
	"exl2/infer/tokenizer/internal/pattern"
	"exl2/infer/tokenizer/internal/subword"
)

// Read reads a pre-tokenizer of a tokenizer.json as splitters in
// their order; null is none.
func Read(path string, data json.RawMessage) ([]Splitter, error) {
	if data == nil {
		return nil, nil
	}
	kind, f, err := jsonfields.Component(path, data)
	if err != nil {
		return nil, err
	}
	var s []Splitter
	switch kind {
	case "Sequence":
		lists, err := jsonfields.Each(f, "pretokenizers", Read)
		for _, list := range lists {
			s = append(s, list...)
		}
		return s, err
	case "Split":
		return readSplit(f)
	case "ByteLevel":
		s = readByteLevel(f)
	case "Metaspace":
		s = []Splitter{ReadMetaspace(f)}
	case "Digits":
		b := contiguous
		if f.Bool("individual_digits") {
			b = isolated
		}
		s = []Splitter{&cutBy{find: each(chars.IsNumeric), behavior: b}}
	case "Punctuation":
		b := isolated
		if f.Has("behavior") {
			b = behavior(f.Choice("behavior", behaviorNames...))
		}
		s = []Splitter{&cutBy{find: each(chars.IsPunctuation), behavior: b}}
	case "Whitespace":
		s = []Splitter{splitterFunc(wordsAndSymbols)}
	case "WhitespaceSplit":
		s = []Splitter{&cutBy{find: each(unicode.IsSpace), behavior: removed}}
	case "CharDelimiterSplit", "Delimiter":
		delimiter := f.Char("delimiter")
		s = []Splitter{&cutBy{find: each(func(r rune) bool { return r == delimiter }), behavior: removed}}
	case "BertPreTokenizer":
		s = []Splitter{
			&cutBy{find: each(unicode.IsSpace), behavior: removed},
			&cutBy{find: each(chars.IsPunctuation), behavior: isolated},
		}
	case "FixedLength":
		s = readFixedLength(f)
	default: // UnicodeScripts among them: its table of scripts is an old one
		return nil, jsonfields.Unsupported(path, kind)
	}
	return s, f.Done()
}

// readSplit reads a Split pre-tokenizer.
func readSplit(f *jsonfields.Fields) ([]Splitter, error) {
	find, err := pattern.Read(f)
	s := &cutBy{find: find, behavior: behavior(f.Choice("behavior", behaviorNames...)), inverted: f.Bool("invert")}
	return []Splitter{s}, cmp.Or(err, f.Done())
}

// wordsAndSymbols passes on runs of word characters, and runs of what is
// neither that nor white space.
func wordsAndSymbols(p Piece, next func(Piece)) {
	const space, word, symbol = 0, 1, 2
	start, kind := 0, space
	for i, r := range p.Text {
		now := symbol
		switch {
		case chars.IsWord(r):
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
		next(p.part(start, len(p.Text)))
	}
}

// readFixedLength reads a FixedLength pre-tokenizer: pieces of so many characters.
func readFixedLength(f *jsonfields.Fields) []Splitter {
	length := 5
	f.Read("length", f.Take("length"), &length)
	if f.Err() == nil && length < 1 {
		f.Fail("length", "%d is not positive", length)
	}
	return []Splitter{splitterFunc(func(p Piece, next func(Piece)) {
		start, n := 0, 0
		for i := range p.Text {
			if n == length {
				next(p.part(start, i))
				start, n = i, 0
			}
			n++
		}
		next(p.part(start, len(p.Text)))
	})}
}

// gpt2 is the expression by which ByteLevel splits if nothing else is said.
var gpt2 = sync.OnceValue(func() *pattern.Regex {
	r, err := pattern.Compile(`'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+`)
	if err != nil {
		panic(fmt.Sprintf("split: %v", err))
	}
	return r
})

// Bytes writes pieces in byte-level characters. Where it is the last splitter
// the model can do that instead, for words that it has not seen before.
type Bytes struct{}

// Split is that of Splitter.
func (Bytes) Split(_ *limit.Time, p Piece, next func(Piece)) {
	next(Piece{Text: subword.ByteLevel(p.Text), Head: len(subword.ByteLevel(p.Text[:p.Head]))})
}

// readByteLevel reads a ByteLevel pre-tokenizer.
func readByteLevel(f *jsonfields.Fields) []Splitter {
	f.Ignore("trim_offsets")
	var s []Splitter
	if f.Bool("add_prefix_space") {
		s = append(s, splitterFunc(func(p Piece, next func(Piece)) {
			if !strings.HasPrefix(p.Text, " ") {
				p = p.behind(" ")
			}
			next(p)
		}))
	}
	if f.BoolOr("use_regex", true) {
		s = append(s, &cutBy{find: gpt2(), behavior: isolated})
	}
	return append(s, Bytes{})
}

// ByPattern returns what cuts texts into the matches of a regular expression and
// what lies between, for a model of bytes.
func ByPattern(expr string) ([]Splitter, error) {
	r, err := pattern.Compile(expr)
	return []Splitter{&cutBy{find: r, behavior: isolated}}, err
}
