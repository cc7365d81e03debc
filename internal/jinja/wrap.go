package jinja

import (
	"slices"
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
	if width <= 0 && s != "" {
		raise(ValueError, "invalid width %d (must be > 0)", width)
	}
	m.step(len(s) / 4)
	w := &wrapper{builder: builder{m: m}, by: by, html: isMarkup(a[3]),
		width: width, cut: truth(a[2]), hyphens: truth(a[4]), compounds: a[4] == true}
	w.grow(len(s))
	for first := true; s != ""; first = false {
		if !first {
			w.write(by)
		}
		var line string
		line, _, s = cutLine(s)
		w.wrap(line)
	}
	return sameKind(a[3], w.String())
}

// A wrapper breaks lines.
type wrapper struct {
	builder
	by        string // between them
	html      bool   // whether they are escaped
	width     int
	cut       bool // words that are too long
	hyphens   bool // cut those behind hyphens
	compounds bool // break behind other hyphens
	text      []rune
	lines     int

	// The line that grows is text[start:end]; its last piece, if it has any, begins at last.
	// It is fresh as long as nothing was to be put into it.
	start, last, end int
	pieces, fresh    bool
}

// wrap writes one line as several.
func (w *wrapper) wrap(s string) {
	w.m.reserveTimes(4, runeCount(s))
	w.text, w.lines = []rune(s), 0
	w.begin(0)
	for at := 0; at < len(w.text); {
		end := pieceEnd(w.text, at, w.compounds)
		w.add(at, end)
		at = end
	}
	w.flush()
}

// begin begins a line.
func (w *wrapper) begin(at int) { w.start, w.last, w.end, w.pieces, w.fresh = at, at, at, false, true }

// put puts a piece into the line.
func (w *wrapper) put(start, end int) {
	if !w.pieces {
		w.start = start
	}
	w.last, w.end, w.pieces = start, end, true
}

// flush ends the line, without a blank at its end.
func (w *wrapper) flush() {
	if isBlank(w.text[w.last:w.end]) {
		w.end = w.last
	}
	if w.start < w.end {
		if w.lines++; w.lines > 1 {
			w.write(w.by)
		}
		w.writeLine(w.text[w.start:w.end])
	}
	w.begin(w.end)
}

func (w *wrapper) writeLine(line []rune) {
	if w.html {
		w.m.reserveTimes(4, len(line))
		w.write(string(w.m.escape(string(line))))
		return
	}
	for _, r := range line {
		w.writeRune(r)
	}
}

func isBlank(text []rune) bool {
	for _, r := range text {
		if !isSpace(r) {
			return false
		}
	}
	return true
}

// add puts a piece into the line, or begins another, without a blank in front. What is
// too long for any line is cut.
func (w *wrapper) add(start, end int) {
	blank := start // the piece is blank from there on
	for i := start; i < end; i++ {
		if !isSpace(w.text[i]) {
			blank = i + 1
		}
	}
	for start < end {
		fresh, room := w.fresh, w.width-(w.end-w.start)
		w.fresh = false
		switch n := end - start; {
		case fresh && w.lines > 0 && start >= blank:
			return
		case n <= room:
			w.put(start, end)
			return
		case n <= w.width || !w.cut && w.pieces:
			w.flush()
		case !w.cut:
			w.put(start, end)
			w.flush()
			return
		default:
			at := start + w.cutAt(start, room)
			w.put(start, at) // of no characters, it keeps a blank in front of it
			w.flush()
			start = at
		}
	}
}

// cutAt returns how much of a word that is too long comes into the room there is: all up to
// the last hyphen, if there is one behind other characters.
func (w *wrapper) cutAt(start, room int) int {
	if !w.hyphens {
		return room
	}
	word := w.text[start : start+room]
	for i := room - 1; i > 0; i-- {
		if word[i] == '-' {
			if slices.ContainsFunc(word[:i], func(r rune) bool { return r != '-' }) {
				return i + 1
			}
			break
		}
	}
	return room
}

// pieceEnd returns where the piece of a text ends that begins at a place: blanks, a word, or
// with compounds a part of one behind which it may break.
func pieceEnd(r []rune, at int, compounds bool) int {
	end := at + 1
	if asciiBlank(r[at]) {
		for end < len(r) && asciiBlank(r[end]) {
			end++
		}
		return end
	}
	if compounds && isDash(r, at) {
		return dashesEnd(r, at)
	}
	for ; end < len(r) && !asciiBlank(r[end]); end++ {
		switch {
		case compounds && isCompound(r, end):
			return end + 1
		case compounds && isDash(r, end):
			return end
		}
	}
	return end
}

func asciiBlank(r rune) bool { return r == ' ' || r >= '\t' && r <= '\r' }

// runeAt returns a character of a text, and blanks around it.
func runeAt(r []rune, i int) rune {
	if i < 0 || i >= len(r) {
		return ' '
	}
	return r[i]
}

// isCompound reports whether character i is a hyphen between two letters or more, or single
// ones with hyphens between them.
func isCompound(r []rune, i int) bool {
	letter := func(k int) bool { c := runeAt(r, k); return isWord(c) && !unicode.Is(unicode.Nd, c) }
	dash := func(k int) bool { return runeAt(r, k) == '-' }
	return dash(i) && letter(i-1) && (letter(i-2) || dash(i-2) && letter(i-3)) &&
		letter(i+1) && (letter(i+2) || dash(i+2) && letter(i+3))
}

// isDash reports whether two hyphens or more begin at i that stand between words.
func isDash(r []rune, i int) bool {
	before := runeAt(r, i-1)
	return runeAt(r, i) == '-' && runeAt(r, i+1) == '-' && (isWord(before) || strings.ContainsRune(`!"'&.,?`, before)) &&
		isWord(runeAt(r, dashesEnd(r, i)))
}

// dashesEnd returns where the hyphens end that begin at i.
func dashesEnd(r []rune, i int) int {
	for i < len(r) && r[i] == '-' {
		i++
	}
	return i
}
