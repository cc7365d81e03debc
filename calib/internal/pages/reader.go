package pages

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math"

	"github.com/apache/arrow/go/v17/arrow/memory"
	"github.com/apache/arrow/go/v17/parquet"
	"github.com/apache/arrow/go/v17/parquet/compress"
	"github.com/apache/arrow/go/v17/parquet/file"
	"github.com/apache/arrow/go/v17/parquet/metadata"
	"github.com/apache/arrow/go/v17/parquet/schema"
)

// A Reader is a [file.PageReader] of one chunk. It holds one page at a time.
type Reader struct {
	column *schema.Column
	kind   compress.Compression
	in     *bufio.Reader
	left   int64 // bytes of the chunk
	values int64 // of the chunk that no page has had yet

	dictionary int // its values; -1 if there was none
	page       file.Page
	err        error
}

// New returns the pages of a chunk of a file of size bytes.
func New(in io.ReaderAt, size int64, column *schema.Column, chunk *metadata.ColumnChunkMetaData) (*Reader, error) {
	if _, err := codec(chunk.Compression()); err != nil {
		return nil, err
	}
	if chunk.CryptoMetadata() != nil {
		return nil, errors.New("the column is encrypted")
	}
	begin, length := chunk.DataPageOffset(), chunk.TotalCompressedSize()
	if d := chunk.DictionaryPageOffset(); chunk.HasDictionaryPage() && d > 0 && d < begin {
		begin = d
	}
	if begin < int64(len(Magic)) || length < 0 || begin > size || length > size-begin {
		return nil, fmt.Errorf("its data is at byte %d, %d bytes long, in a file of %d", begin, length, size)
	}
	r := newReader(io.NewSectionReader(in, begin, length), column, chunk.Compression())
	r.values = chunk.NumValues()
	return r, nil
}

// newReader returns the pages of a chunk whose bytes are in.
func newReader(in *io.SectionReader, column *schema.Column, kind compress.Compression) *Reader {
	return &Reader{column: column, kind: kind, in: bufio.NewReader(in), left: in.Size(), values: math.MaxInt64, dictionary: -1}
}

// Next reads the next page that is not empty. At the end of the chunk or after
// an error it returns false.
func (r *Reader) Next() bool {
	r.page = nil
	for r.err == nil && r.values > 0 && r.left > 0 && r.page == nil {
		r.page, r.err = r.next()
	}
	return r.err == nil && r.page != nil
}

// Page returns the page that Next read.
func (r *Reader) Page() file.Page { return r.page }

// Err returns why Next returned false; nil at the end.
func (r *Reader) Err() error { return r.err }

// SetMaxPageHeaderSize does nothing: a header is read as it comes.
func (r *Reader) SetMaxPageHeaderSize(int) {}

// Reset is not needed by readers of one chunk, and panics.
func (r *Reader) Reset(parquet.BufferedReader, int64, compress.Compression, *file.CryptoContext) {
	panic("pages: Reset: a Reader is for one chunk")
}

// next reads a page, or nil if it is of no use.
func (r *Reader) next() (file.Page, error) {
	c := &compact{in: r.in, left: r.left}
	h, err := readHeader(c)
	if err != nil {
		return nil, err
	}
	r.left = c.left - int64(h.compressed)
	body := make([]byte, h.compressed)
	if _, err := io.ReadFull(r.in, body); err != nil {
		return nil, err
	}
	switch h.kind {
	case dictionaryPage:
		return r.dictionaryPage(h, body)
	case dataPage, dataPageV2:
		if int64(h.values) > r.values {
			return nil, fmt.Errorf("a page of %d values, the column has %d left", h.values, r.values)
		}
		r.values -= int64(h.values)
		if h.values == 0 {
			return nil, nil
		}
		if h.kind == dataPage {
			return r.firstVersion(h, body)
		}
		return r.secondVersion(h, body)
	}
	return nil, nil
}

func (r *Reader) dictionaryPage(h pageHeader, body []byte) (file.Page, error) {
	data, err := decompress(r.kind, body, int(h.uncompressed))
	if err != nil {
		return nil, err
	}
	// A text takes four bytes at least, for its length.
	if int64(h.values)*r.width(4) > int64(len(data)) {
		return nil, fmt.Errorf("a dictionary of %d values in %d bytes", h.values, len(data))
	}
	r.dictionary = int(h.values)
	return file.NewDictionaryPage(memory.NewBufferBytes(data), h.values, parquet.Encoding(h.encoding)), nil
}

// width returns the bytes of a number of the column, or text for texts.
func (r *Reader) width(text int64) int64 {
	switch r.column.PhysicalType() {
	case parquet.Types.Int32:
		return 4
	case parquet.Types.Int64:
		return 8
	}
	return text
}

// firstVersion makes a page whose levels are compressed with its values, each
// kind of level behind its length in four bytes.
func (r *Reader) firstVersion(h pageHeader, body []byte) (file.Page, error) {
	data, err := decompress(r.kind, body, int(h.uncompressed))
	if err != nil {
		return nil, err
	}
	repeated, rest, err := cutLevels(data, r.column.MaxRepetitionLevel(), parquet.Encoding(h.repEncoding))
	if err != nil {
		return nil, err
	}
	defined, rest, err := cutLevels(rest, r.column.MaxDefinitionLevel(), parquet.Encoding(h.defEncoding))
	if err != nil {
		return nil, err
	}
	if err := r.check(h, repeated, defined, rest); err != nil {
		return nil, err
	}
	return file.NewDataPageV1(memory.NewBufferBytes(data), h.values, parquet.Encoding(h.encoding),
		parquet.Encoding(h.defEncoding), parquet.Encoding(h.repEncoding), h.uncompressed), nil
}

// cutLevels takes the levels off the front of a page of the first version.
func cutLevels(data []byte, most int16, encoding parquet.Encoding) (levels, rest []byte, err error) {
	if most == 0 {
		return nil, data, nil
	}
	if encoding != parquet.Encodings.RLE {
		return nil, nil, fmt.Errorf("levels in the old encoding %s are not supported", encoding)
	}
	const prefix = 4
	if len(data) < prefix {
		return nil, nil, errRuns
	}
	n := littleEndian(data[:prefix])
	if n > uint64(len(data)-prefix) {
		return nil, nil, errRuns
	}
	return data[prefix : prefix+n], data[prefix+n:], nil
}

// secondVersion makes a page whose levels stand uncompressed before its values.
func (r *Reader) secondVersion(h pageHeader, body []byte) (file.Page, error) {
	levels := int(h.repBytes) + int(h.defBytes)
	kind := r.kind
	if h.plain {
		kind = compress.Codecs.Uncompressed
	}
	values, err := decompress(kind, body[levels:], int(h.uncompressed)-levels)
	if err != nil {
		return nil, err
	}
	if err := r.check(h, body[:h.repBytes], body[h.repBytes:levels], values); err != nil {
		return nil, err
	}
	data := append(body[:levels:levels], values...)
	return file.NewDataPageV2(memory.NewBufferBytes(data), h.values, h.nulls, h.rows, parquet.Encoding(h.encoding),
		h.defBytes, h.repBytes, h.uncompressed, false), nil
}
