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
	"unicode/utf8"

	"exl2/internal/ordered"
)

// An objects reads the texts of JSON objects one by one.
type objects interface {
	next() ([]byte, error) // which is the caller's, or io.EOF
	at() int               // the number of the last one, from 1
}

// objectsOf returns what reads the records of a text, if it is JSON: lines whose first
// that is not blank is an object, objects one after another, or a list that begins with an
// object or a string. unit is what they are counted in. Other JSON lists are an error.
func objectsOf(text *io.SectionReader) (open func() objects, unit string, err error) {
	switch firstOfAll(text) {
	case '{':
		if startsAsLines(text) {
			return func() objects { return newLines(text) }, "line", nil
		}
		if startsAsRun(text) {
			return func() objects { return newRun(text) }, "record", nil
		}
	case '[':
		if startsAsList(text) {
			return func() objects { return newElements(text) }, "record", nil
		}
		return nil, "", checkNoList(text)
	}
	return nil, "", nil
}

// firstOfAll returns the first byte of a text that is not white space, or 0.
func firstOfAll(text *io.SectionReader) byte {
	in := fromStart(text)
	for {
		b, err := in.ReadByte()
		if err != nil || bytes.IndexByte([]byte(space), b) < 0 {
			return b
		}
	}
}

// startsAsLines reports whether the first line is an object, or looks like one that is
// damaged, with a whole one in the line behind it.
func startsAsLines(text *io.SectionReader) bool {
	in := newLines(text)
	first, err := in.next()
	if err != nil || isObject(first) {
		return err == nil
	}
	second, err := in.next()
	return err == nil && hasKey(first) && hasKey(second) && isObject(second)
}

// hasKey reports whether a text begins as objects do that are not empty.
func hasKey(text []byte) bool {
	return text[0] == '{' && bytes.HasPrefix(bytes.TrimLeft(text[1:], space), []byte(`"`))
}

// isObject reports whether a text is a JSON object.
func isObject(text []byte) bool {
	return text[0] == '{' && json.Valid(ordered.FromPython(text, ordered.Null))
}

// space is the white space of JSON.
const space = " \t\r\n"

// A lines reads the lines of a text that are not blank, without white space
// around them.
type lines struct {
	in     *bufio.Reader
	number int // of the last line, from 1
}

func newLines(text *io.SectionReader) *lines { return &lines{in: fromStart(text)} }

// fromStart reads a text from its start, whoever else reads it.
func fromStart(text *io.SectionReader) *bufio.Reader {
	const buffer = 1 << 16
	return bufio.NewReaderSize(io.NewSectionReader(text, 0, text.Size()), buffer)
}

func (l *lines) at() int { return l.number }

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
			return nil, fmt.Errorf("over %d bytes", maxText)
		}
	}
}

// looked is how many records tell what a file is.
const looked = 100

// recognizeJSON decides by the first records whether they are token ids, and
// refuses a column that none of them has, and records without text.
func (s *Source) recognizeJSON(open func() objects, column string) error {
	s.open = func() (records, error) {
		return &jsonRecords{objects: open(), unit: s.unit, column: column, tokens: s.tokens}, nil
	}
	in := &jsonRecords{objects: open(), unit: s.unit}
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
			break
		}
		if !ok && column == "" {
			break
		}
	}
	if column == "" && !s.tokens {
		return (&jsonRecords{objects: open()}).textless()
	}
	if !known {
		return fmt.Errorf("no column %q; there are %s", column, listed(names(first)))
	}
	return nil
}

// A jsonRecords reads the records of JSON.
type jsonRecords struct {
	objects objects
	unit    string
	column  string
	tokens  bool
	last    []string // the columns of the last record
	broken  bool     // not all of the JSON was UTF-8
}

// object reads the next object.
func (j *jsonRecords) object() (ordered.Object, error) {
	text, err := j.objects.next()
	if errors.Is(err, io.EOF) {
		return nil, err
	}
	var o ordered.Object
	if err == nil {
		j.broken = j.broken || !utf8.Valid(text)
		o, err = ordered.Parse(ordered.FromPython(text, ordered.Null))
	}
	if err != nil {
		return nil, fmt.Errorf("%s %d: %w", j.unit, j.objects.at(), err)
	}
	return o, nil
}

func (j *jsonRecords) columns() []string { return j.last }

func (j *jsonRecords) damaged() bool { return j.broken }

func (j *jsonRecords) next() (Record, error) {
	for {
		o, err := j.object()
		if err != nil {
			return Record{}, err
		}
		r, ok, err := j.record(o)
		if err != nil {
			return Record{}, fmt.Errorf("%s %d: %w", j.unit, j.objects.at(), err)
		}
		if ok {
			r.Row = j.objects.at()
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
		return Record{Text: strings.Join(f.all(), " ")}, !f.empty(), nil
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
