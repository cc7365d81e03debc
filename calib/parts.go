package calib

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"exl2/calib/internal/pages"

	"github.com/apache/arrow/go/v17/arrow/memory"
	"github.com/apache/arrow/go/v17/parquet"
	"github.com/apache/arrow/go/v17/parquet/file"
)

// A part reads one leaf of the current row group into records.
type part interface {
	read(r *rowValues) error
	done() error
	Path() string
}

// A rowValues is what the parts found in one row.
type rowValues struct {
	texts []placedText
	ids   []int32
	bytes int
}

// grow counts what a row holds: a run of a few bytes can stand for billions of
// values.
func (v *rowValues) grow(bytes int) error {
	if v.bytes += bytes; v.bytes > maxText {
		return fmt.Errorf("more than %d bytes", maxText)
	}
	return nil
}

// A placedText is a text, the list that it lies in, and its element there.
type placedText struct {
	text     string
	list, at int
}

// text joins the texts of a row. Texts of the same list come element by
// element: columns in the order of the file only within an element.
func (v *rowValues) text() string {
	slices.SortStableFunc(v.texts, func(a, b placedText) int {
		return cmp.Or(cmp.Compare(a.list, b.list), cmp.Compare(a.at, b.at))
	})
	texts := make([]string, len(v.texts))
	for i, t := range v.texts {
		texts[i] = t.text
	}
	return strings.Join(texts, " ")
}

// openLeaf opens a leaf of a row group.
func (p *parquetRecords) openLeaf(group *file.RowGroupReader, l leaf) (part, error) {
	chunk, err := group.MetaData().ColumnChunk(l.index)
	if err != nil {
		return nil, err
	}
	if chunk.Type() != l.PhysicalType() {
		return nil, fmt.Errorf("holds %v, the schema says %v", chunk.Type(), l.PhysicalType())
	}
	in, err := pages.New(p.in, p.size, l.Column, chunk)
	if err != nil {
		return nil, err
	}
	reader := file.NewColumnReader(l.Column, in, memory.DefaultAllocator, p.reader.BufferPool())
	switch reader := reader.(type) {
	case *file.ByteArrayColumnChunkReader:
		return textPart{newColumn[parquet.ByteArray](l, reader)}, nil
	case *file.Int32ColumnChunkReader:
		return idsPart[int32]{newColumn[int32](l, reader)}, nil
	case *file.Int64ColumnChunkReader:
		return idsPart[int64]{newColumn[int64](l, reader)}, nil
	}
	return nil, fmt.Errorf("values of type %v", l.PhysicalType())
}

type textPart struct{ *column[parquet.ByteArray] }

func (t textPart) read(r *rowValues) error {
	return t.row(func(e element[parquet.ByteArray]) error {
		if e.null {
			return nil
		}
		r.texts = append(r.texts, placedText{string(e.value), t.list, e.at})
		return r.grow(len(e.value) + 1)
	})
}

type idsPart[T int32 | int64] struct{ *column[T] }

func (t idsPart[T]) read(r *rowValues) error {
	return t.row(func(e element[T]) error {
		if e.null {
			return errors.New("a token id is null")
		}
		if e.value < 0 || int64(e.value) > math.MaxInt32 {
			return fmt.Errorf("%d is not a token id", e.value)
		}
		r.ids = append(r.ids, int32(e.value))
		return r.grow(4)
	})
}
