package pages

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// The kinds of values of Thrift's compact protocol.
const (
	kindTrue   = 1
	kindFalse  = 2
	kindByte   = 3
	kindInt16  = 4
	kindInt32  = 5
	kindInt64  = 6
	kindDouble = 7
	kindBinary = 8
	kindList   = 9
	kindSet    = 10
	kindMap    = 11
	kindStruct = 12
	kindUUID   = 13
)

// maxDepth bounds the nesting of what is skipped; Parquet's own is below 10.
const maxDepth = 32

// A compact reads Thrift's compact protocol from a stream that has at most
// left bytes. The first failure is kept in err; all reads after it return 0.
type compact struct {
	in   *bufio.Reader
	left int64
	head int64 // what was left before the last field of a structure
	err  error
}

// ReadByte makes a compact an io.ByteReader.
func (c *compact) ReadByte() (byte, error) {
	if c.err != nil {
		return 0, c.err
	}
	if c.left == 0 {
		c.err = io.ErrUnexpectedEOF
		return 0, c.err
	}
	b, err := c.in.ReadByte()
	c.left--
	if err != nil {
		c.err = err
	}
	return b, c.err
}

func (c *compact) uvarint() uint64 {
	if c.err != nil {
		return 0
	}
	n, err := binary.ReadUvarint(c)
	if err != nil && c.err == nil {
		c.err = err
	}
	return n
}

// varint reads a number in zigzag order: 0, -1, 1, -2, ...
func (c *compact) varint() int64 {
	n := c.uvarint()
	return int64(n>>1) ^ -int64(n&1)
}

// int32 reads a field that must be a 32-bit number.
func (c *compact) int32(kind byte) int32 {
	if kind != kindInt32 {
		c.fail(errors.New("a field is not of its type"))
		return 0
	}
	n := c.varint()
	if int64(int32(n)) != n {
		c.fail(errors.New("a number has more than 32 bits"))
	}
	return int32(n)
}

func (c *compact) fail(err error) {
	if c.err == nil {
		c.err = err
	}
}

// discard steps over n bytes.
func (c *compact) discard(n uint64) {
	if c.err != nil {
		return
	}
	if n > uint64(c.left) {
		c.err = fmt.Errorf("a value of %d bytes, %d are left", n, c.left)
		return
	}
	for n > 0 && c.err == nil {
		step := int(min(n, 1<<30))
		_, c.err = c.in.Discard(step)
		c.left -= int64(step)
		n -= uint64(step)
	}
}

// structure calls field for every field of a structure. The field's value must
// be read there, if only by skip; true and false have none.
func (c *compact) structure(field func(id int16, kind byte)) {
	id := int16(0)
	for {
		c.head = c.left
		b, err := c.ReadByte()
		if err != nil || b == 0 {
			return
		}
		if step := b >> 4; step != 0 {
			id += int16(step)
		} else {
			id = int16(c.varint())
		}
		field(id, b&15)
	}
}

// list reads the head of a list or set. An element takes a byte at least, so a
// longer list than there are bytes left is a lie.
func (c *compact) list() (kind byte, n uint64) {
	b, _ := c.ReadByte()
	n = uint64(b >> 4)
	if n == 15 {
		n = c.uvarint()
	}
	if n > uint64(c.left) {
		c.fail(fmt.Errorf("a list of %d elements in %d bytes", n, c.left))
		return 0, 0
	}
	return b & 15, n
}

// skip steps over a value of a field.
func (c *compact) skip(kind byte, depth int) {
	if depth > maxDepth {
		c.fail(errors.New("nested too deeply"))
	}
	if c.err != nil {
		return
	}
	switch kind {
	case kindTrue, kindFalse:
	case kindByte:
		c.discard(1)
	case kindInt16, kindInt32, kindInt64:
		c.uvarint()
	case kindDouble:
		c.discard(8)
	case kindUUID:
		c.discard(16)
	case kindBinary:
		c.discard(c.uvarint())
	case kindList, kindSet:
		element, n := c.list()
		c.elements(n, depth, element)
	case kindMap:
		c.skipMap(depth)
	case kindStruct:
		c.structure(func(_ int16, kind byte) { c.skip(kind, depth+1) })
	default:
		c.fail(fmt.Errorf("a value of kind %d", kind))
	}
}

// elements steps over n rounds of values of the given kinds. Within lists and
// maps true and false take a byte.
func (c *compact) elements(n uint64, depth int, kinds ...byte) {
	for ; n > 0 && c.err == nil; n-- {
		for _, kind := range kinds {
			if kind == kindTrue || kind == kindFalse {
				kind = kindByte
			}
			c.skip(kind, depth+1)
		}
	}
}

func (c *compact) skipMap(depth int) {
	n := c.uvarint()
	if n == 0 {
		return
	}
	if n > uint64(c.left) {
		c.fail(fmt.Errorf("a map of %d pairs in %d bytes", n, c.left))
		return
	}
	b, _ := c.ReadByte()
	c.elements(n, depth, b>>4, b&15)
}
