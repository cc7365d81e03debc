// Package kernelfile is the format of cuda/bin/<op>.zst: the compiled kernels
// of one source file for every target, and what they were compiled from.
//
// A file is a sequence of zstd frames, so that `zstd -t` can check it. The first
// is a skippable frame that holds the header, a line of text each: the format's
// name and version, "source" with the hash of everything that decides what
// follows, and "image" with target, compressed and uncompressed size for each of
// the images, which are the frames that follow in that order.
package kernelfile

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"strings"

	"github.com/klauspost/compress/zstd"
)

// Ext is the extension of kernel files.
const Ext = ".zst"

// skippable marks the zstd frame that decoders pass over.
const skippable = 0x184d2a5e

const format = "exl2 kernels 1"

// maxImage is more than any image takes: sizes over it are damage.
const maxImage = 64 << 20

// An Image is machine code, or PTX, for one target.
type Image struct {
	Target string // as "sm_86" or "compute_80"
	Data   []byte
}

// Encode returns a file with the given source hash and images. The same
// arguments give the same bytes.
func Encode(source string, images []Image) ([]byte, error) {
	enc, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedBestCompression), zstd.WithEncoderConcurrency(1))
	if err != nil {
		return nil, err
	}
	var header, frames bytes.Buffer
	fmt.Fprintf(&header, "%s\nsource %s\n", format, source)
	for _, m := range images {
		frame := enc.EncodeAll(m.Data, nil)
		fmt.Fprintf(&header, "image %s %d %d\n", m.Target, len(frame), len(m.Data))
		frames.Write(frame)
	}
	out := binary.LittleEndian.AppendUint32(nil, skippable)
	out = binary.LittleEndian.AppendUint32(out, uint32(header.Len()))
	out = append(out, header.Bytes()...)
	return append(out, frames.Bytes()...), nil
}

// A File is a parsed kernel file.
type File struct {
	Source string // hash, as Hash returns it
	frames []frame
}

// frame is an image as the file has it.
type frame struct {
	target string
	data   []byte
	size   int
}

// Parse reads the header of a file, whose bytes it keeps.
func Parse(data []byte) (*File, error) {
	if len(data) < 8 || binary.LittleEndian.Uint32(data) != skippable {
		return nil, fmt.Errorf("not a kernel file")
	}
	n, rest := binary.LittleEndian.Uint32(data[4:]), data[8:]
	if uint64(n) > uint64(len(rest)) {
		return nil, fmt.Errorf("header of %d bytes in a file of %d", n, len(data))
	}
	lines := strings.Split(strings.TrimSuffix(string(rest[:n]), "\n"), "\n")
	if lines[0] != format || len(lines) < 2 {
		return nil, fmt.Errorf("format %q, want %q", lines[0], format)
	}
	f := &File{}
	if _, err := fmt.Sscanf(lines[1], "source %s", &f.Source); err != nil {
		return nil, fmt.Errorf("header line %q: %w", lines[1], err)
	}
	return f, f.images(lines[2:], rest[n:])
}

// images cuts the frames that the header's lines describe off data.
func (f *File) images(lines []string, data []byte) error {
	for _, line := range lines {
		var m frame
		var packed int
		if _, err := fmt.Sscanf(line, "image %s %d %d", &m.target, &packed, &m.size); err != nil {
			return fmt.Errorf("header line %q: %w", line, err)
		}
		if packed < 0 || packed > len(data) || m.size < 0 || m.size > maxImage {
			return fmt.Errorf("image %s of %d bytes, %d packed, where %d are left", m.target, m.size, packed, len(data))
		}
		m.data, data = data[:packed], data[packed:]
		f.frames = append(f.frames, m)
	}
	if len(data) != 0 {
		return fmt.Errorf("%d bytes after the last image", len(data))
	}
	return nil
}

// Targets lists the targets that the file has images for.
func (f *File) Targets() []string {
	var list []string
	for _, m := range f.frames {
		list = append(list, m.target)
	}
	return list
}

// Image returns the image for a target.
func (f *File) Image(target string) ([]byte, error) {
	for _, m := range f.frames {
		if m.target != target {
			continue
		}
		dec, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(maxImage))
		if err != nil {
			return nil, err
		}
		defer dec.Close()
		data, err := dec.DecodeAll(m.data, make([]byte, 0, m.size))
		if err == nil && len(data) != m.size {
			err = fmt.Errorf("%d bytes, want %d", len(data), m.size)
		}
		if err != nil {
			return nil, fmt.Errorf("image %s: %w", target, err)
		}
		return data, nil
	}
	return nil, fmt.Errorf("no image for %s", target)
}
