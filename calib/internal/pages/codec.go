package pages

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/apache/arrow/go/v17/parquet/compress"
	"github.com/klauspost/compress/zstd"
)

// lz4Raw is a codec of Parquet that arrow has no name for.
const lz4Raw = compress.Compression(7)

// codec returns arrow's codec, nil for those that it lacks and this package
// has, or an error. Its zstd and its own buffers are not used: they grow as the
// data demands.
func codec(kind compress.Compression) (compress.Codec, error) {
	if kind == compress.Codecs.Lz4 || kind == lz4Raw {
		return nil, nil
	}
	c, err := compress.GetCodec(kind)
	if err != nil {
		return nil, fmt.Errorf("compression %s is not supported: write the file again with zstd, snappy, gzip, lz4 or brotli", kind)
	}
	return c, nil
}

// errSize says that a page decompresses to another size than its header says.
var errSize = errors.New("a page has another size than its header says")

// zstdDecoder never writes beyond the buffer that it is given.
var zstdDecoder = sync.OnceValue(func() *zstd.Decoder {
	d, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecodeAllCapLimit(true))
	if err != nil {
		panic("pages: zstd: " + err.Error())
	}
	return d
})

// decompress returns the size bytes that packed stands for.
func decompress(kind compress.Compression, packed []byte, size int) (data []byte, err error) {
	if len(packed) == 0 && size == 0 {
		return nil, nil // arrow's codecs panic on what stands for nothing
	}
	defer func() { // arrow's codecs panic on damaged data
		if cause := recover(); cause != nil {
			err = fmt.Errorf("%s: %v", kind, cause)
		}
	}()
	data, err = inflate(kind, packed, size)
	if err == nil && len(data) != size {
		err = errSize
	}
	return data, err
}

func inflate(kind compress.Compression, packed []byte, size int) ([]byte, error) {
	c, err := codec(kind)
	if err != nil {
		return nil, err
	}
	switch kind {
	case compress.Codecs.Uncompressed:
		return packed, nil
	case compress.Codecs.Lz4:
		return lz4Hadoop(packed, size)
	case lz4Raw:
		return lz4Block(packed, size)
	case compress.Codecs.Zstd:
		if size/zstdRatio > len(packed) {
			return nil, errSize
		}
		return zstdDecoder().DecodeAll(packed, make([]byte, 0, size))
	case compress.Codecs.Snappy:
		// A block begins with its size, which is what would be allocated.
		if n, k := binary.Uvarint(packed); k <= 0 || n != uint64(size) || size/snappyRatio > len(packed) {
			return nil, errSize
		}
		return c.Decode(make([]byte, size), packed), nil
	}
	in := c.NewReader(bytes.NewReader(packed))
	defer in.Close()
	return io.ReadAll(io.LimitReader(in, int64(size)+1))
}

// What a byte can stand for at most, so that the memory that a page takes is
// in proportion to the file. zstd has blocks of 4 bytes for 128 KiB, snappy
// copies 64 bytes with 3; gzip and brotli are read as a stream instead.
const (
	zstdRatio   = 1 << 15
	snappyRatio = 22
)
