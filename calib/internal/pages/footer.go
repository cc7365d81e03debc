package pages

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// Magic begins and ends every Parquet file that is not encrypted.
const Magic = "PAR1"

const (
	encryptedMagic = "PARE"

	// tail is the length of the footer in 4 bytes and the magic again.
	tail = 8

	// maxElements bounds the schema, whose groups arrow reads by recursion.
	maxElements = 10_000

	schemaField  = 2  // of FileMetaData
	logicalField = 10 // of SchemaElement
	lastLogical  = 15 // of LogicalType that arrow knows, float16; there is no 9
)

// Open makes sure that the metadata at the end of a file of size bytes is
// well-formed and asks for no more memory than it has bytes. It returns the
// file as arrow can read it: without logical types that arrow does not know,
// at which it panics. Their columns then are plain bytes and groups.
func Open(file io.ReaderAt, size int64) (io.ReaderAt, int64, error) {
	footer, err := readFooter(file, size)
	if err != nil {
		return nil, 0, err
	}
	unknown, err := checkFooter(footer)
	if err != nil {
		return nil, 0, fmt.Errorf("damaged Parquet footer: %w", err)
	}
	if unknown == nil {
		return file, size, nil
	}
	start := size - tail - int64(len(footer))
	footer = without(footer, unknown)
	footer = binary.LittleEndian.AppendUint32(footer, uint32(len(footer)))
	footer = append(footer, Magic...)
	return &patched{file, start, footer}, start + int64(len(footer)), nil
}

// readFooter returns the metadata.
func readFooter(file io.ReaderAt, size int64) ([]byte, error) {
	if size < int64(len(Magic))+tail {
		return nil, fmt.Errorf("%d bytes are too few for a Parquet file", size)
	}
	var end [tail]byte
	if _, err := file.ReadAt(end[:], size-tail); err != nil {
		return nil, err
	}
	switch string(end[4:]) {
	case Magic:
	case encryptedMagic:
		return nil, errors.New("an encrypted Parquet file")
	default:
		return nil, fmt.Errorf("a Parquet file that does not end in %s: truncated", Magic)
	}
	n := int64(binary.LittleEndian.Uint32(end[:]))
	if n > size-tail-int64(len(Magic)) {
		return nil, fmt.Errorf("a Parquet footer of %d bytes in a file of %d", n, size)
	}
	footer := make([]byte, n)
	_, err := io.ReadFull(io.NewSectionReader(file, size-tail-n, n), footer)
	return footer, err
}

// checkFooter reads the metadata and returns where logical types are that arrow
// does not know.
func checkFooter(footer []byte) ([]fieldPlace, error) {
	c := &compact{in: bufio.NewReader(bytes.NewReader(footer)), left: int64(len(footer))}
	size := c.left
	var unknown []fieldPlace
	c.structure(func(id int16, kind byte) {
		if id != schemaField || kind != kindList {
			c.skip(kind, 0)
			return
		}
		element, count := c.list()
		if count > maxElements {
			c.fail(fmt.Errorf("a schema of %d elements, at most %d are read", count, maxElements))
		}
		if element != kindStruct {
			c.elements(count, 0, element)
			return
		}
		for ; count > 0 && c.err == nil; count-- {
			c.schemaElement(size, &unknown)
		}
	})
	return unknown, c.err
}

// A fieldPlace is where a field of a structure is: its head, and its value.
type fieldPlace struct{ head, begin, end int64 }

// schemaElement reads a column or group of the schema.
func (c *compact) schemaElement(size int64, unknown *[]fieldPlace) {
	c.structure(func(id int16, kind byte) {
		if id != logicalField || kind != kindStruct {
			c.skip(kind, 1)
			return
		}
		place := fieldPlace{head: size - c.head, begin: size - c.left}
		known := false
		c.structure(func(id int16, kind byte) {
			known = id >= 1 && id <= lastLogical && id != 9
			c.skip(kind, 2)
		})
		if place.end = size - c.left; !known {
			*unknown = append(*unknown, place)
		}
	})
}
