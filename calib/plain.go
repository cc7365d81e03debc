package calib

import (
	"errors"
	"fmt"
	"io"
	"math"
	"unicode/utf8"

	"exl2/infer/tokenizer"
)

// A plainText is a file that is all text.
type plainText struct {
	*io.SectionReader
	broken bool // not all of what was read was UTF-8
}

// beginning returns all of the text, or about the first length bytes of it;
// whole says which.
func (p *plainText) beginning(length int) (text string, whole bool, err error) {
	n := min(p.Size(), int64(length))
	if n > maxText {
		return "", false, fmt.Errorf("%d bytes of plain text are over the %d that are read: cut the file", p.Size(), maxText)
	}
	all := make([]byte, n)
	if _, err := p.ReadAt(all, 0); err != nil && !errors.Is(err, io.EOF) {
		return "", false, err
	}
	text, whole = string(all), n == p.Size()
	if !whole { // the last character may have been cut
		text = text[:runeStart(text, max(0, len(text)-utf8.UTFMax))]
	}
	p.broken = p.broken || !utf8.ValidString(text)
	return tokenizer.Valid(text), whole, nil
}

// A plainRecords is the one record of a plain text; none if it is empty.
type plainRecords struct {
	*plainText
	done bool
}

func (*plainRecords) columns() []string { return nil }

func (p *plainRecords) damaged() bool { return p.broken }

func (p *plainRecords) next() (Record, error) {
	if p.done || p.Size() == 0 {
		return Record{}, io.EOF
	}
	p.done = true
	text, _, err := p.beginning(math.MaxInt)
	return Record{Row: 1, Text: text}, err
}
