package tokenizer

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/dlclark/regexp2/v2"
)

// A finder passes on the matches of a pattern in s, which is UTF-8, in order, as byte ranges.
// They do not overlap; an empty match never touches the end of the one before.
type finder func(s string, yield func(start, end int))

// readFinder reads the field "pattern": {"String": s} or {"Regex": r}.
func readFinder(f *fields) (finder, error) {
	raw := f.need("pattern")
	if f.err != nil {
		return nil, f.err
	}
	p, err := newFields(f.at("pattern"), raw)
	if err != nil {
		return nil, err
	}
	text, expr := p.take("String"), p.take("Regex")
	if err := p.done(); err != nil {
		return nil, err
	}
	var find finder
	switch {
	case (text == nil) == (expr == nil):
		err = fmt.Errorf("want one of String and Regex")
	case text != nil:
		find, err = readLiteral(text)
	default:
		find, err = readRegex(expr)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", f.at("pattern"), err)
	}
	return find, nil
}

// readLiteral returns the finder of a text.
func readLiteral(raw json.RawMessage) (finder, error) {
	var text string
	if err := json.Unmarshal(raw, &text); err != nil {
		return nil, jsonError(err)
	}
	if text == "" {
		return nil, fmt.Errorf("an empty string: %w", ErrUnsupported)
	}
	return func(s string, yield func(start, end int)) {
		for at := 0; ; {
			i := strings.Index(s[at:], text)
			if i < 0 {
				return
			}
			yield(at+i, at+i+len(text))
			at += i + len(text)
		}
	}, nil
}

// readRegex returns the finder of a regular expression.
func readRegex(raw json.RawMessage) (finder, error) {
	var expr string
	if err := json.Unmarshal(raw, &expr); err != nil {
		return nil, jsonError(err)
	}
	re, err := compilePattern(expr)
	if err != nil {
		return nil, err
	}
	return regexFinder(re), nil
}

// regexFinder returns the finder of a compiled expression.
func regexFinder(re *regexp2.Regexp) finder {
	var buffers sync.Pool
	return func(s string, yield func(start, end int)) {
		if s == "" { // has no matches, not even empty ones, says the tokenizers library
			return
		}
		buf, _ := buffers.Get().(*[]rune)
		if buf == nil {
			buf = new([]rune)
		}
		runes := (*buf)[:0]
		for _, r := range s {
			runes = append(runes, r)
		}
		bytesBefore := byteOffsets(runes, len(s))
		last := -1 // end of the match before
		err := re.FindRunesMatches(runes, 0, func(m regexp2.MatchView) bool {
			at, n, _ := m.GroupRange(0)
			if n > 0 || at != last {
				yield(bytesBefore(at), bytesBefore(at+n))
				last = at + n
			}
			return true
		})
		if err != nil {
			panic(fmt.Sprintf("tokenizer: regex %s: %v", re, err)) // there are no limits that it could exceed
		}
		if *buf = runes; cap(runes) <= maxKept {
			buffers.Put(buf)
		}
	}
}

// byteOffsets returns a function that turns positions in runes into positions
// in their text of n bytes; it must be called with rising positions.
func byteOffsets(runes []rune, n int) func(int) int {
	if len(runes) == n {
		return func(at int) int { return at }
	}
	at, bytes := 0, 0
	return func(to int) int {
		for ; at < to; at++ {
			bytes += utf8.RuneLen(runes[at])
		}
		return bytes
	}
}
