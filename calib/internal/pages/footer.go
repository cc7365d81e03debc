package pages

import (
	"bufio"
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

	schemaField = 2 // of FileMetaData
)

// CheckFooter makes sure that the metadata at the end of a file of size bytes
// is well-formed and asks for no more memory than it has bytes.
func CheckFooter(file io.ReaderAt, size int64) error {
	if size < int64(len(Magic))+tail {
		return fmt.Errorf("%d bytes are too few for a Parquet file", size)
	}
	var end [tail]byte
	if _, err := file.ReadAt(end[:], size-tail); err != nil {
		return err
	}
	switch string(end[4:]) {
	case Magic:
	case encryptedMagic:
		return errors.New("an encrypted Parquet file")
	default:
		return fmt.Errorf("a Parquet file that does not end in %s: truncated", Magic)
	}
	n := int64(binary.LittleEndian.Uint32(end[:]))
	if n > size-tail-int64(len(Magic)) {
		return fmt.Errorf("a Parquet footer of %d bytes in a file of %d", n, size)
	}
	section := io.NewSectionReader(file, size-tail-n, n)
	c := &compact{in: bufio.NewReader(section), left: n}
	c.structure(func(id int16, kind byte) {
		if id != schemaField || kind != kindList {
			c.skip(kind, 0)
			return
		}
		element, count := c.list()
		if count > maxElements {
			c.fail(fmt.Errorf("a schema of %d elements, at most %d are read", count, maxElements))
		}
		c.elements(count, 0, element)
	})
	if c.err != nil {
		return fmt.Errorf("damaged Parquet footer: %w", c.err)
	}
	return nil
}
