package calib

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"exl2/internal/ordered"
)

// isJSONLines tells whether the first line that is not blank is an object.
func isJSONLines(text *io.SectionReader) bool {
	first := bufio.NewReader(io.NewSectionReader(text, 0, text.Size()))
	for {
		b, err := first.ReadByte()
		if err != nil || b != '{' && !bytes.ContainsRune([]byte(" \t\r\n"), rune(b)) {
			return false
		}
		if b == '{' {
			line, err := newLines(text).next()
			return err == nil && json.Valid(line)
		}
	}
}

// A lines reads the lines of a text that are not blank, without white space
// around them.
type lines struct {
	in     *bufio.Reader
	number int // of the last line, from 1
}

func newLines(text *io.SectionReader) *lines {
	const buffer = 1 << 16
	return &lines{in: bufio.NewReaderSize(io.NewSectionReader(text, 0, text.Size()), buffer)}
}

// next returns a line, which is the caller's, or io.EOF.
func (l *lines) next() ([]byte, error) {
	for {
		l.number++
		line, err := l.read()
		if line = bytes.TrimSpace(line); len(line) > 0 {
			return line, nil
		}
		if err != nil {
			return nil, err
		}
	}
}

func (l *lines) read() ([]byte, error) {
	var line []byte
	for {
		part, err := l.in.ReadSlice('\n')
		line = append(line, part...)
		if !errors.Is(err, bufio.ErrBufferFull) {
			return line, err
		}
		if len(line) > maxText {
			return nil, fmt.Errorf("line %d: over %d bytes", l.number, maxText)
		}
	}
}

// recognizeJSON decides by the first records whether they are token ids, and
// refuses a column that none of them has.
func (s *Source) recognizeJSON(text *io.SectionReader, column string) error {
	const looked = 100
	s.unit = "line"
	s.open = func() (records, error) {
		return &jsonRecords{lines: newLines(text), column: column, tokens: s.tokens}, nil
	}
	in := newLines(text)
	var first ordered.Object
	known := column == ""
	for range looked {
		o, err := in.object()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		if first == nil {
			first = o
		}
		value, ok := find(o, cmp.Or(column, idsColumn))
		known = known || ok
		if ok && !isNull(value) && !isEmptyList(value) {
			s.tokens = isIntegers(value)
			return nil
		}
		if !ok && column == "" {
			return nil
		}
	}
	if !known {
		return fmt.Errorf("no column %q; there are %s", column, strings.Join(names(first), ", "))
	}
	return nil
}

// object reads the next line that is not blank.
func (l *lines) object() (ordered.Object, error) {
	line, err := l.next()
	if err != nil {
		return nil, err
	}
	o, err := ordered.Parse(line)
	if err != nil {
		return nil, fmt.Errorf("line %d: %w", l.number, err)
	}
	return o, nil
}

// A jsonRecords reads the records of JSON lines.
type jsonRecords struct {
	lines  *lines
	column string
	tokens bool
	last   []string // the columns of the last record
}

func (j *jsonRecords) columns() []string { return j.last }

func (j *jsonRecords) next() (Record, error) {
	for {
		o, err := j.lines.object()
		if err != nil {
			return Record{}, err
		}
		r, ok, err := j.record(o)
		if err != nil {
			return Record{}, fmt.Errorf("line %d: %w", j.lines.number, err)
		}
		if ok {
			r.Row = j.lines.number
			return r, nil
		}
	}
}

// record reads a record; false if it is null.
func (j *jsonRecords) record(o ordered.Object) (Record, bool, error) {
	if !j.tokens {
		f, err := j.texts(o)
		if err != nil {
			return Record{}, false, err
		}
		j.last = f.allColumns()
		return Record{Text: clean(strings.Join(f.all(), " "))}, !f.empty(), nil
	}
	name := cmp.Or(j.column, idsColumn)
	value, ok := find(o, name)
	if !ok || isNull(value) {
		return Record{}, false, nil
	}
	ids, err := integers(value)
	if err != nil {
		return Record{}, false, fmt.Errorf("column %q: %w", name, err)
	}
	j.last = []string{name}
	return Record{IDs: ids}, len(ids) > 0, nil
}
