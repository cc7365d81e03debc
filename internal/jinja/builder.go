package jinja

import (
	"strings"
	"unicode/utf8"
)

// A builder puts a text together within the machine's limits: its buffers are counted
// before they are there.
type builder struct {
	m      *machine
	buffer *strings.Builder // nil as long as nothing is written
}

// grow makes room for n bytes more.
func (b *builder) grow(n int) {
	have, room := 0, 0
	if b.buffer != nil {
		have, room = b.buffer.Len(), b.buffer.Cap()
	}
	if n <= room-have {
		return
	}
	size := have + n
	if twice := 2 * room; twice > size && twice <= b.m.limits.Bytes-b.m.bytes {
		size = twice
	}
	b.m.reserve(size)
	larger := &strings.Builder{}
	larger.Grow(size)
	larger.WriteString(b.String())
	b.buffer = larger
}

// growTimes makes room for count pieces of size bytes each.
func (b *builder) growTimes(size, count int) { b.grow(b.m.times(size, count)) }

func (b *builder) write(s string) {
	if s != "" {
		b.grow(len(s))
		b.buffer.WriteString(s)
	}
}

func (b *builder) writeRune(r rune) {
	b.grow(utf8.RuneLen(r))
	b.buffer.WriteRune(r)
}

// repeat writes a text count times.
func (b *builder) repeat(s string, count int) {
	b.growTimes(len(s), count)
	for range count {
		if s == "" {
			return
		}
		b.buffer.WriteString(s)
	}
}

// String returns what was written.
func (b *builder) String() string {
	if b.buffer == nil {
		return ""
	}
	return b.buffer.String()
}
