package calib

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"unicode/utf8"

	"exl2/calib/internal/pages"
	"exl2/infer/tokenizer"

	"github.com/apache/arrow/go/v17/parquet/file"
)

// recognizeParquet reads the metadata of a Parquet file and chooses columns.
func (s *Source) recognizeParquet(in io.ReaderAt, size int64, column string) error {
	in, size, err := pages.Open(in, size)
	if err != nil {
		return err
	}
	p := &parquetFile{in: in, size: size}
	err = guarded(func() (err error) {
		p.reader, err = file.NewParquetReader(io.NewSectionReader(in, 0, size))
		if err != nil {
			return err
		}
		if p.reader.MetaData().Schema == nil {
			return errors.New("the schema makes no sense")
		}
		scheme := p.reader.MetaData().Schema
		all := leavesOf(scheme)
		p.readBytes(all, column)
		p.choice, err = choose(all, scheme.Root(), column)
		return err
	})
	if err != nil {
		return err
	}
	s.tokens = p.tokens
	s.open = func() (records, error) { return &parquetRecords{parquetFile: p}, nil }
	return nil
}

// guarded calls work, which runs arrow on a file's bytes, and turns a panic of
// arrow into an error: it panics on much of what is damaged.
func guarded(work func() error) (err error) {
	defer func() {
		if cause := recover(); cause != nil {
			err = fmt.Errorf("damaged Parquet file: %v", cause)
		}
	}()
	return work()
}

// A parquetFile is an open Parquet file and the leaves that are read of it.
type parquetFile struct {
	choice
	in     io.ReaderAt
	size   int64
	reader *file.Reader
}

// A parquetRecords reads the records of a Parquet file.
type parquetRecords struct {
	*parquetFile
	group int   // the next row group
	left  int64 // rows of the current one
	row   int   // read so far
	parts []part

	broken bool // not all text was UTF-8
}

// columns returns the names of the columns that are read.
func (p *parquetRecords) columns() []string {
	var names []string
	for _, l := range p.leaves {
		if !slices.Contains(names, l.column()) {
			names = append(names, l.column())
		}
	}
	return names
}

func (p *parquetRecords) damaged() bool { return p.broken }

func (p *parquetRecords) next() (r Record, err error) {
	err = guarded(func() error {
		for {
			ok, err := p.record(&r)
			if err != nil || ok {
				return err
			}
		}
	})
	return r, err
}

// record reads the next row; false if it is null.
func (p *parquetRecords) record(r *Record) (bool, error) {
	values, err := p.values()
	if err != nil {
		return false, err
	}
	r.Row = p.row
	if p.tokens {
		r.IDs = values.ids
		return len(values.ids) > 0, nil
	}
	text := values.text()
	p.broken = p.broken || !utf8.ValidString(text)
	r.Text = tokenizer.Valid(text)
	return values.texts != nil, nil
}

// values reads what the next row holds.
func (p *parquetRecords) values() (values rowValues, err error) {
	for p.left == 0 {
		if err := p.nextGroup(); err != nil {
			return values, err
		}
	}
	p.left--
	p.row++
	for _, part := range p.parts {
		if err := part.read(&values); err != nil {
			return values, fmt.Errorf("row %d: column %q: %w", p.row, part.Path(), err)
		}
	}
	return values, nil
}

// nextGroup closes the current row group and opens the next, or ends.
func (p *parquetRecords) nextGroup() error {
	for _, part := range p.parts {
		if err := part.done(); err != nil {
			return fmt.Errorf("row %d: column %q: %w", p.row, part.Path(), err)
		}
	}
	p.parts = nil
	if p.group == p.reader.NumRowGroups() {
		return io.EOF
	}
	group := p.reader.RowGroup(p.group)
	p.group++
	p.left = group.NumRows()
	if p.left < 0 {
		return fmt.Errorf("row group %d has %d rows", p.group, p.left)
	}
	if p.left == 0 {
		return nil
	}
	for _, l := range p.leaves {
		part, err := p.openLeaf(group, l)
		if err != nil {
			return fmt.Errorf("column %q: %w", l.Path(), err)
		}
		p.parts = append(p.parts, part)
	}
	return nil
}
