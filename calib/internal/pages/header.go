package pages

import (
	"errors"
	"fmt"
)

// The types of pages.
const (
	dataPage       = 0
	dictionaryPage = 2
	dataPageV2     = 3
)

// maxPage bounds a page after decompression. A value lies within one page, so
// this is also the longest text.
const maxPage = 1 << 30

// A pageHeader is the part of Parquet's PageHeader that reading needs.
type pageHeader struct {
	kind         int32
	uncompressed int32
	compressed   int32

	values      int32
	encoding    int32
	defEncoding int32 // first version
	repEncoding int32
	nulls       int32 // second version, as is what follows
	rows        int32
	defBytes    int32
	repBytes    int32
	plain       bool // the values are not compressed

	described bool // the fields of the page's kind are there
}

// readHeader reads the header of a page.
func readHeader(c *compact) (pageHeader, error) {
	var h pageHeader
	h.kind = -1
	c.structure(func(id int16, kind byte) {
		switch {
		case id == 1:
			h.kind = c.int32(kind)
		case id == 2:
			h.uncompressed = c.int32(kind)
		case id == 3:
			h.compressed = c.int32(kind)
		case id == 5 && kind == kindStruct && h.kind == dataPage:
			h.readFields(c, &h.values, &h.encoding, &h.defEncoding, &h.repEncoding)
		case id == 7 && kind == kindStruct && h.kind == dictionaryPage:
			h.readFields(c, &h.values, &h.encoding)
		case id == 8 && kind == kindStruct && h.kind == dataPageV2:
			h.readFields(c, &h.values, &h.nulls, &h.rows, &h.encoding, &h.defBytes, &h.repBytes)
		default:
			c.skip(kind, 0)
		}
	})
	if c.err != nil {
		return h, fmt.Errorf("page header: %w", c.err)
	}
	return h, h.check(c.left)
}

// readFields reads the leading fields of a structure, which are numbers, and
// the flag that says that a page of the second version is not compressed.
func (h *pageHeader) readFields(c *compact, fields ...*int32) {
	const compressedField = 7
	h.described = true
	c.structure(func(id int16, kind byte) {
		switch {
		case id >= 1 && int(id) <= len(fields):
			*fields[id-1] = c.int32(kind)
		case id == compressedField && kind == kindFalse && h.kind == dataPageV2:
			h.plain = true
		default:
			c.skip(kind, 0)
		}
	})
}

// check holds the sizes against each other and against the bytes that are left.
func (h *pageHeader) check(left int64) error {
	known := h.kind == dataPage || h.kind == dictionaryPage || h.kind == dataPageV2
	switch {
	case known && !h.described:
		return errors.New("page header: the fields of its type are missing")
	case h.uncompressed < 0 || h.compressed < 0 || h.values < 0 || h.defBytes < 0 || h.repBytes < 0:
		return errors.New("page header: a negative number")
	case int64(h.compressed) > left:
		return fmt.Errorf("page header: a page of %d bytes, the column has %d left: truncated", h.compressed, left)
	case h.uncompressed > maxPage:
		return fmt.Errorf("page header: a page of %d bytes, at most %d are read", h.uncompressed, maxPage)
	}
	levels := int64(h.defBytes) + int64(h.repBytes)
	if levels > int64(h.compressed) || levels > int64(h.uncompressed) {
		return fmt.Errorf("page header: levels of %d bytes in a page of %d", levels, h.compressed)
	}
	return nil
}
