package pages

import (
	"encoding/binary"
	"errors"

	"github.com/pierrec/lz4/v4"
)

// lz4Ratio is what a byte of LZ4 can stand for at most: one more of a length.
const lz4Ratio = 255

var errLZ4 = errors.New("damaged LZ4 data")

// lz4Block decompresses one block of LZ4 to size bytes.
func lz4Block(packed []byte, size int) ([]byte, error) {
	if size/lz4Ratio > len(packed) {
		return nil, errSize
	}
	data := make([]byte, size)
	n, err := lz4.UncompressBlock(packed, data)
	if err != nil {
		return nil, errLZ4
	}
	return data[:n], nil
}

// lz4Hadoop decompresses what Parquet calls just LZ4: the blocks of Hadoop, or
// the one bare block that early versions of Arrow wrote instead.
func lz4Hadoop(packed []byte, size int) ([]byte, error) {
	if size/lz4Ratio > len(packed) {
		return nil, errSize
	}
	data := make([]byte, size)
	if n, err := hadoopBlocks(data, packed); err == nil {
		return data[:n], nil
	}
	return lz4Block(packed, size)
}

// hadoopBlocks fills data with blocks, each of which is its length in four
// bytes, most significant first, and parts: the length of one, and its LZ4
// data, until the block is full.
func hadoopBlocks(data, packed []byte) (filled int, err error) {
	length := func() uint64 {
		if len(packed) < 4 {
			err = errLZ4
			return 0
		}
		n := binary.BigEndian.Uint32(packed)
		packed = packed[4:]
		return uint64(n)
	}
	for len(packed) > 0 && err == nil {
		block := length()
		if block > uint64(len(data)-filled) {
			return 0, errLZ4
		}
		for end := filled + int(block); filled < end && err == nil; {
			part := length()
			if err != nil || part > uint64(len(packed)) {
				return 0, errLZ4
			}
			n, broken := lz4.UncompressBlock(packed[:part], data[filled:end])
			if broken != nil || n == 0 {
				return 0, errLZ4
			}
			packed, filled = packed[part:], filled+n
		}
	}
	return filled, err
}
