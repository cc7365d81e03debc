package pages

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"
)

var errRuns = errors.New("a run of levels or indexes is cut off or empty")

// walkRuns visits count numbers of width bits that are stored as runs: of one
// number repeated, or of groups of eight, packed from the lowest bit.
func walkRuns(data []byte, width, count int, visit func(value uint32, times int)) error {
	for count > 0 {
		head, k := binary.Uvarint(data)
		if k <= 0 || head>>1 == 0 || head>>1 > 1<<31 {
			return errRuns
		}
		data = data[k:]
		length, times := (width+7)/8, int(head>>1)
		if head&1 == 1 {
			length, times = times*width, times*8
		}
		if length > len(data) {
			return errRuns
		}
		times = min(times, count)
		if head&1 == 1 {
			unpack(data, width, times, visit)
		} else {
			visit(uint32(littleEndian(data[:length])), times)
		}
		data = data[length:]
		count -= times
	}
	return nil
}

// littleEndian reads a number of up to four bytes.
func littleEndian(data []byte) (n uint64) {
	for i, b := range data {
		n |= uint64(b) << (8 * i)
	}
	return n
}

// unpack visits count packed numbers.
func unpack(data []byte, width, count int, visit func(value uint32, times int)) {
	var have int
	var acc uint64
	for range count {
		for have < width {
			acc |= uint64(data[0]) << have
			data = data[1:]
			have += 8
		}
		visit(uint32(acc&(1<<width-1)), 1)
		acc >>= width
		have -= width
	}
}

// checkLevels makes sure that data holds count levels up to most, and returns
// how many of them are most.
func checkLevels(data []byte, count int, most int16) (full int, err error) {
	var highest uint32
	err = walkRuns(data, bits.Len16(uint16(most)), count, func(value uint32, times int) {
		highest = max(highest, value)
		if value == uint32(most) {
			full += times
		}
	})
	if err == nil && highest > uint32(most) {
		err = fmt.Errorf("a level of %d in a column whose highest is %d", highest, most)
	}
	return full, err
}

// checkIndexes makes sure that the data of a page, a bit width and runs, holds
// count indexes into a dictionary of the given size.
func checkIndexes(data []byte, count, size int) error {
	if count == 0 {
		return nil
	}
	const widest = 32
	if len(data) == 0 || data[0] > widest {
		return errors.New("indexes of a dictionary without a bit width")
	}
	var highest uint32
	err := walkRuns(data[1:], int(data[0]), count, func(value uint32, _ int) { highest = max(highest, value) })
	if err == nil && int64(highest) >= int64(size) {
		err = fmt.Errorf("index %d of a dictionary of %d values", highest, size)
	}
	return err
}
