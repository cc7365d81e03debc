package jinja

import (
	"strings"
	"unicode"
)

// wordwrap breaks every line of a text at blanks and hyphens, as Python's
// textwrap does.
func wordwrap(m *machine, a []Value) Value {
	if u, ok := a[0].(*Undefined); ok {
		u.fail()
	}
	s := wantText("the text of wordwrap()", a[0])
	width := wantInt(a[1])
	by := "\n"
	if a[3] != nil {
		by = wantText("the wrapstring of wordwrap()", a[3])
	}
	if width <= 0 {
		raise(ValueError, "invalid width %d (must be > 0)", width)
	}
	m.step(1 + len(s)/4)
	m.reserveTimes(2*valueBytes, len(s))
	var lines []string
	for _, line := range splitLines(s, false) {
		w := &wrapper{width: width, cut: truth(a[2]), hyphens: truth(a[4])}
		w.wrap(line)
		m.reserveTimes(len(by), len(w.lines))
		lines = append(lines, strings.Join(w.lines, by))
	}
	m.reserveTimes(len(by), len(lines))
	return strings.Join(lines, by)
}

// A wrapper breaks one line.
type wrapper struct {
	width   int
	cut     bool // words that are too long
	hyphens bool // break behind them
	lines   []string
	line    []string // pieces of the line that grows
	used    int
	dropped bool // a blank at the start of the line
}

func (w *wrapper) wrap(s string) {
	for _, p := range w.pieces(s) {
		w.add(p)
	}
	w.flush()
}

// flush ends the line, without a blank at its end.
func (w *wrapper) flush() {
	if n := len(w.line); n > 0 && isBlank(w.line[n-1]) {
		w.line = w.line[:n-1]
	}
	if len(w.line) > 0 {
		w.lines = append(w.lines, strings.Join(w.line, ""))
	}
	w.line, w.used, w.dropped = nil, 0, false
}

func isBlank(s string) bool { return strings.TrimFunc(s, isSpace) == "" }

// add puts a piece into the line, or begins another, without a blank in front.
func (w *wrapper) add(p string) {
	for {
		if isBlank(p) && len(w.line) == 0 && len(w.lines) > 0 && !w.dropped {
			w.dropped = true
			return
		}
		n := runeCount(p)
		if w.used+n <= w.width {
			w.line, w.used = append(w.line, p), w.used+n
			return
		}
		if n <= w.width || !w.cut && len(w.line) > 0 {
			w.flush()
			continue
		}
		if !w.cut {
			w.line = append(w.line, p)
			w.flush()
			return
		}
		at := w.breakAt(p, w.width-w.used)
		w.line = append(w.line, runeSlice(p, 0, at)) // empty, it keeps a blank in front of it
		w.flush()
		p = runeSlice(p, at, n)
	}
}

// breakAt returns where a word that is too long is cut: behind the last hyphen
// in the room there is.
func (w *wrapper) breakAt(p string, room int) int {
	if w.hyphens {
		head := runeSlice(p, 0, room)
		if i := strings.LastIndexByte(head, '-'); i > 0 && strings.Trim(head[:i], "-") != "" {
			return runeCount(head[:i]) + 1
		}
	}
	return room
}

// pieces cuts a line into blanks, words, and parts of words behind which it may
// break.
func (w *wrapper) pieces(s string) []string {
	var pieces []string
	runes := []rune(s)
	start := 0
	for i := range runes {
		if i > start && (asciiBlank(runes[i]) != asciiBlank(runes[i-1]) || w.hyphens && breaksBefore(runes, i)) {
			pieces = append(pieces, string(runes[start:i]))
			start = i
		}
	}
	if start < len(runes) {
		pieces = append(pieces, string(runes[start:]))
	}
	return pieces
}

func asciiBlank(r rune) bool { return strings.ContainsRune("\t\n\v\f\r ", r) }

// breaksBefore reports whether a word may break in front of character i: behind
// the hyphen of a compound of letters, and around dashes of several hyphens.
func breaksBefore(r []rune, i int) bool {
	at := func(k int) rune {
		if k < 0 || k >= len(r) {
			return ' '
		}
		return r[k]
	}
	letter := func(k int) bool { return unicode.IsLetter(at(k)) || at(k) == '_' }
	dash := func(k int) bool { return at(k) == '-' }
	compound := dash(i-1) && (letter(i-2) && letter(i-3) || letter(i-2) && dash(i-3) && letter(i-4)) &&
		letter(i) && (letter(i+1) || dash(i+1) && letter(i+2))
	afterDash := dash(i-1) && dash(i-2) && isWord(at(i))
	beforeDash := dash(i) && dash(i+1) && (isWord(at(i-1)) || strings.ContainsRune(`!"'&.,?`, at(i-1))) && !dash(i-1)
	return compound || afterDash || beforeDash
}
