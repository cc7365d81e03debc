package pages

import "io"

// without returns the footer with each of the fields, which hold structures,
// made into the value true: a field of another type than it should have is
// skipped, and true takes no bytes.
func without(footer []byte, fields []fieldPlace) []byte {
	var out []byte
	at := int64(0)
	for _, f := range fields {
		out = append(out, footer[at:f.begin]...)
		head := int64(len(out)) - (f.begin - f.head)
		out[head] = out[head]&0xf0 | kindTrue
		at = f.end
	}
	return append(out, footer[at:]...)
}

// A patched is a file with another end from byte at on.
type patched struct {
	io.ReaderAt
	at  int64
	end []byte
}

// ReadAt makes a patched an io.ReaderAt.
func (p *patched) ReadAt(b []byte, off int64) (int, error) {
	n := 0
	if off < p.at {
		var err error
		n, err = p.ReaderAt.ReadAt(b[:min(int64(len(b)), p.at-off)], off)
		if err != nil || n == len(b) {
			return n, err
		}
	}
	n += copy(b[n:], p.end[min(off+int64(n)-p.at, int64(len(p.end))):])
	if n < len(b) {
		return n, io.EOF
	}
	return n, nil
}
