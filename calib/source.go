package calib

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"path/filepath"

	"exl2/calib/internal/pages"
	"exl2/internal/regular"
)

// A Record is one row of a source. Records that are null are left out.
type Record struct {
	Row  int     // in the file, from 1; the line of JSON lines, the place in a list or among objects on any lines
	Text string  // valid UTF-8
	IDs  []int32 // instead of Text, if the source holds token ids
}

// A records reads the records of a source from the first to io.EOF.
type records interface {
	next() (Record, error)
	columns() []string // that the last record is made of, if the file has any
	damaged() bool     // whether not all of what was read was UTF-8
}

// A Source is a file of text or token ids.
type Source struct {
	path   string
	label  string
	unit   string // what Record.Row counts
	tokens bool
	broken bool       // not all text that was read was UTF-8
	plain  *plainText // nil if there are records
	open   func() (records, error)
	close  func() error
}

// Open opens a file of text. The text of Parquet, of JSON objects, one a line or on whatever lines, and of a JSON list of objects is in the
// column that is named (a dotted path within nested columns), or, if that is
// "", in text, else in content, else in a conversation (messages,
// conversations, conversation, or a nested prompt with its completion or
// chosen), else in all columns that have strings, joined by a space, with ids
// and hashes at the end. Strings within one nested value are joined by a space
// in the order of the file, of messages only role and content. Where
// text and content are there and hold no text, nor is there a conversation, no
// other column is taken in their place: such records have no text, and a file of
// them is an error. Bytes that a Parquet
// file does not call text are, if they are UTF-8, where the column is named or
// called text or content, or nothing in the file is called text. A column of
// lists of integers that is named, or is called input_ids, is taken as token
// ids. The strings of a JSON list are texts, as if of a column text.
// [Source.Describe] says what was found.
func Open(path, column string) (*Source, error) {
	in, size, closer, err := openFile(path)
	if err != nil {
		return nil, err
	}
	s := &Source{path: path, label: filepath.Base(path), unit: "row", close: closer}
	if err := s.recognize(in, size, column); err != nil {
		closer()
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return s, nil
}

// openFile opens a file for reading at any place. What is not a file with a
// size, such as a pipe, is read whole.
func openFile(path string) (in io.ReaderAt, size int64, closer func() error, err error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, 0, nil, err
	}
	stat, err := file.Stat()
	switch {
	case err != nil:
	case stat.IsDir():
		err = fmt.Errorf("%s: a folder, not a file of text", path)
	case stat.Mode().IsRegular():
		return file, stat.Size(), file.Close, nil
	default:
		var all []byte
		if all, err = io.ReadAll(io.LimitReader(file, maxText+1)); err == nil {
			file.Close()
			return bytes.NewReader(all), int64(len(all)), func() error { return nil }, nil
		}
	}
	file.Close()
	return nil, 0, nil, err
}

// recognize tells by its first bytes what a file is.
func (s *Source) recognize(in io.ReaderAt, size int64, column string) error {
	head := make([]byte, min(size, 4096))
	if _, err := in.ReadAt(head, 0); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	if bytes.HasPrefix(head, []byte(pages.Magic)) {
		return s.recognizeParquet(in, size, column)
	}
	if err := checkText(head, "neither Parquet nor text"); err != nil {
		return err
	}
	start := int64(0)
	if bytes.HasPrefix(head, []byte(regular.ByteOrderMark)) {
		start = int64(len(regular.ByteOrderMark))
	}
	text := io.NewSectionReader(in, start, size-start)
	open, unit, err := objectsOf(text)
	if err != nil {
		return err
	}
	if open != nil {
		s.unit = unit
		return s.recognizeJSON(open, column)
	}
	if column != "" {
		return fmt.Errorf("plain text has no column %q", column)
	}
	s.plain = &plainText{SectionReader: text}
	s.open = func() (records, error) { return &plainRecords{plainText: s.plain}, nil }
	return nil
}

// Name returns the file's name without its folder, (default) for the built-in
// set, as config.json names the calibration data.
func (s *Source) Name() string { return s.label }

// HasTokens tells whether the records are token ids, which need no tokenizer.
func (s *Source) HasTokens() bool { return s.tokens }

// Damage says what was not text of what has been read, or is "".
func (s *Source) Damage() string {
	if !s.broken && (s.plain == nil || !s.plain.broken) {
		return ""
	}
	return s.label + ": not all of the text is UTF-8; each other byte is read as U+FFFD; convert it first, as by iconv -f latin1 -t utf-8"
}

// Records yields the records from the first on; it can be called again. After
// an error, which names the file, nothing follows.
func (s *Source) Records() iter.Seq2[Record, error] {
	return func(yield func(Record, error) bool) {
		in, err := s.open()
		for err == nil {
			var r Record
			r, err = in.next()
			s.broken = s.broken || in.damaged()
			if err == nil && !yield(r, nil) {
				return
			}
		}
		if !errors.Is(err, io.EOF) {
			yield(Record{}, fmt.Errorf("%s: %w", s.path, err))
		}
	}
}

// Close closes the file.
func (s *Source) Close() error { return s.close() }

// maxText bounds a text that is kept in memory: a plain file, a line of JSON.
const maxText = 1 << 30
