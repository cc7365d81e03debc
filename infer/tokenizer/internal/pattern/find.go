// Package pattern finds what a tokenizer.json calls a pattern: a text, or a
// regular expression in Oniguruma's syntax.
package pattern

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/dlclark/regexp2/v2"

	"exl2/infer/tokenizer/internal/jsonfields"
	"exl2/infer/tokenizer/internal/limit"
	"exl2/internal/regular"
)

// A Finder passes on matches in s, which is UTF-8, in order, as byte ranges.
// They do not overlap; an empty match never touches the end of the one before.
// When t is up it stops.
type Finder interface {
	Find(t *limit.Time, s string, yield func(start, end int))
}

// Read reads the field "pattern": {"String": s} or {"Regex": r}.
func Read(f *jsonfields.Fields) (Finder, error) {
	raw := f.Need("pattern")
	if f.Err() != nil {
		return nil, f.Err()
	}
	p, err := jsonfields.New(f.At("pattern"), raw)
	if err != nil {
		return nil, err
	}
	text, expr := p.Take("String"), p.Take("Regex")
	if err := p.Done(); err != nil {
		return nil, err
	}
	var find Finder
	switch {
	case (text == nil) == (expr == nil):
		err = fmt.Errorf("want one of String and Regex")
	case text != nil:
		find, err = readLiteral(text)
	default:
		find, err = readRegex(expr)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", f.At("pattern"), err)
	}
	return find, nil
}

// Literal finds a text, which is not empty.
type Literal string

// Find is Finder's.
func (l Literal) Find(_ *limit.Time, s string, yield func(start, end int)) {
	for at := 0; ; {
		i := strings.Index(s[at:], string(l))
		if i < 0 {
			return
		}
		yield(at+i, at+i+len(l))
		at += i + len(l)
	}
}

// readLiteral reads a text to find.
func readLiteral(raw json.RawMessage) (Finder, error) {
	var text string
	if err := json.Unmarshal(raw, &text); err != nil {
		return nil, regular.InWords(err)
	}
	if text == "" {
		return nil, fmt.Errorf("an empty string: %w", jsonfields.ErrUnsupported)
	}
	return Literal(text), nil
}

// readRegex reads a regular expression.
func readRegex(raw json.RawMessage) (Finder, error) {
	var expr string
	if err := json.Unmarshal(raw, &expr); err != nil {
		return nil, regular.InWords(err)
	}
	r, err := Compile(expr)
	if err != nil {
		return nil, err
	}
	return r, nil
}

// A Regex finds the matches of a regular expression. It is safe for concurrent use.
type Regex struct {
	expr    string
	re      *regexp2.Regexp
	cost    cost
	buffers sync.Pool // of *[]rune
}

// maxMatch is how long the search for one match may take: a context that ends
// is noticed no later. Prompt expressions need no such limit, which costs time.
const maxMatch = 5 * time.Second

// maxKept is the largest buffer, in characters, that is kept for later.
const maxKept = 1 << 16

// Compile returns the finder of a regular expression. One that may take
// exponential time is refused, as is one with a part that is not implemented.
func Compile(expr string) (*Regex, error) {
	out, err := translate(expr)
	if err != nil {
		return nil, fmt.Errorf("regex %.200q: %w", expr, err)
	}
	re, err := regexp2.Compile(out.text, regexp2.OptionMaxBacktrackingStackSize(-1))
	if err != nil {
		return nil, fmt.Errorf("regex %.200q: %w", expr, err)
	}
	if !out.reach.prompt() {
		re.MatchTimeout = maxMatch
	}
	return &Regex{expr: expr, re: re, cost: out.cost}, nil
}

// Find is Finder's.
func (r *Regex) Find(t *limit.Time, s string, yield func(start, end int)) {
	if s == "" { // has no matches, not even empty ones, says the tokenizers library
		return
	}
	buf, _ := r.buffers.Get().(*[]rune)
	if buf == nil {
		buf = new([]rune)
	}
	runes := (*buf)[:0]
	if cap(runes) < len(s) {
		runes = make([]rune, 0, utf8.RuneCountInString(s))
	}
	for _, c := range s {
		runes = append(runes, c)
	}
	bytesBefore := byteOffsets(runes, len(s))
	last := -1 // end of the match before
	err := r.re.FindRunesMatches(runes, 0, func(m regexp2.MatchView) bool {
		at, n, _ := m.GroupRange(0)
		if n > 0 || at != last {
			yield(bytesBefore(at), bytesBefore(at+n))
			last = at + n
		}
		return !t.Up()
	})
	if err != nil { // of the library there are no others
		t.Fail(fmt.Errorf("regex %.200q: one match in a text of %d bytes takes longer than %v", r.expr, len(s), r.re.MatchTimeout))
	} else if t.Up() {
		t.Fail(fmt.Errorf("regex %.200q: a text of %d bytes: %w", r.expr, len(s), t.Late()))
	}
	if *buf = runes; cap(runes) <= maxKept {
		r.buffers.Put(buf)
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
		for _, r := range runes[at:to] {
			bytes++
			if r >= utf8.RuneSelf {
				bytes++
			}
			if r >= 1<<11 {
				bytes++
			}
			if r >= 1<<16 {
				bytes++
			}
		}
		at = to
		return bytes
	}
}
