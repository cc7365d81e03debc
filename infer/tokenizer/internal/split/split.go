// Package split cuts text into the words that a model sees, as the pre-tokenizers
// of a tokenizer.json do.
package split

import (
	"exl2/infer/tokenizer/internal/limit"
	"exl2/infer/tokenizer/internal/pattern"
)

// A Piece is a part of a text on its way to the model.
type Piece struct {
	Text string
	Head int // bytes in front that stand for the first character of what Encode was given
}

// part returns a part of p.
func (p Piece) part(start, end int) Piece {
	return Piece{Text: p.Text[start:end], Head: max(0, min(p.Head, end)-start)}
}

// behind returns p with a text in front, which stands for what p begins with.
func (p Piece) behind(text string) Piece {
	if p.Head > 0 {
		p.Head += len(text)
	}
	p.Text = text + p.Text
	return p
}

// A Splitter cuts pieces into smaller ones; some rewrite them as well. It may
// pass empty pieces on: they are dropped. When t is up it stops.
type Splitter interface {
	Split(t *limit.Time, p Piece, next func(Piece))
}

// splitterFunc is a Splitter that needs no time to speak of.
type splitterFunc func(p Piece, next func(Piece))

func (f splitterFunc) Split(_ *limit.Time, p Piece, next func(Piece)) { f(p, next) }

// A behavior says what becomes of the matches of a pattern that cuts.
type behavior int

const (
	removed            behavior = iota // they are dropped
	isolated                           // each is a piece
	mergedWithPrevious                 // each belongs to the piece before it
	mergedWithNext                     // each belongs to the piece after it
	contiguous                         // neighbouring matches are one piece
)

// behaviorNames are the behaviors as they stand in files.
var behaviorNames = []string{"Removed", "Isolated", "MergedWithPrevious", "MergedWithNext", "Contiguous"}

// A cutter collects the spans that a pattern cuts a piece into, matches and
// what lies between, and passes pieces on as its behavior says. The cases of
// merging are those of the tokenizers library, down to what they do with
// several matches in a row.
type cutter struct {
	behavior behavior
	p        Piece
	next     func(Piece)

	open       bool // a piece [start, end) waits
	start, end int
	before     kind // of the span before; at first: text
}

// A kind says what a span is to a cutter.
type kind int

const (
	ofText kind = iota
	ofMatch
)

// span takes the next span, which begins where the one before ended.
func (c *cutter) span(start, end int, k kind) {
	match, matchBefore := k == ofMatch, c.before == ofMatch
	join := false
	switch c.behavior {
	case removed:
		if match {
			c.flush()
			return
		}
	case contiguous:
		join = match == matchBefore
	case mergedWithPrevious:
		join = match && !matchBefore
	case mergedWithNext:
		join = matchBefore && !match
	}
	c.before = k
	if join && c.open {
		c.end = end
		return
	}
	c.flush()
	c.open, c.start, c.end = true, start, end
}

// flush passes the waiting piece on.
func (c *cutter) flush() {
	if c.open {
		c.open = false
		if c.start < c.end {
			c.next(c.p.part(c.start, c.end))
		}
	}
}

// cutBy splits by the matches of a pattern, or with inverted by what lies between them.
type cutBy struct {
	find     pattern.Finder
	behavior behavior
	inverted bool
}

func (s *cutBy) Split(t *limit.Time, p Piece, next func(Piece)) {
	c := cutter{behavior: s.behavior, p: p, next: next}
	match, rest := ofMatch, ofText
	if s.inverted {
		match, rest = rest, match
	}
	done := 0
	s.find.Find(t, p.Text, func(start, end int) {
		if done < start {
			c.span(done, start, rest)
		}
		c.span(start, end, match)
		done = end
	})
	if done < len(p.Text) {
		c.span(done, len(p.Text), rest)
	}
	c.flush()
}

// each finds the single characters that it holds for.
type each func(rune) bool

// Find is that of pattern.Finder.
func (is each) Find(_ *limit.Time, s string, yield func(start, end int)) {
	start, found := 0, false
	for i, r := range s {
		if found {
			yield(start, i)
		}
		start, found = i, is(r)
	}
	if found {
		yield(start, len(s))
	}
}
