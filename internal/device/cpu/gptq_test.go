package cpu

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"exl2/internal/exl2"
	"exl2/internal/tensor"
)

// upper returns an upper triangular factor whose diagonal outweighs the rest,
// so that errors do not grow from row to row.
func upper(k int) grid {
	u := normal(1, k, k)
	for i := range k {
		for j := range k {
			u.set(i, j, 0.1*u.at(i, j))
			if j < i {
				u.set(i, j, 0)
			}
		}
		u.set(i, i, 1+math.Abs(u.at(i, i)))
	}
	return u
}

// groupCases are groups of rows within matrices of k.
var groupCases = []struct{ k, first, rows, n int }{{1, 0, 1, 1}, {32, 0, 32, 64}, {70, 33, 32, 96}, {100, 20, 80, 131}}

// Row by row, codes are the nearest to what the errors of earlier rows have
// left, and w becomes the errors.
func TestQuantizeRows(t *testing.T) {
	for _, bits := range exl2.Widths {
		for _, c := range groupCases {
			t.Run(fmt.Sprintf("%d bits, %+v", bits, c), func(t *testing.T) {
				d, u, w := open(t), upper(c.k), normal(2, c.rows, c.n)
				g := newCodes(d, bits, c.first, c.rows, c.n, 4/float32(int(1)<<bits))
				x := upload(d, w)
				d.QuantizeRows(g, x, upload(d, u))
				want, s := newGrid(c.rows, c.n), scales(g)
				for i := range c.rows {
					for col := range c.n {
						code := elements[uint8](g.Codes)[i*c.n+col]
						if !isNearest(code, bits, w.at(i, col), s[col]) {
							t.Fatalf("row %d, column %d: %v has code %d at scale %v", i, col, w.at(i, col), code, s[col])
						}
						e := (w.at(i, col) - value(code, bits, s[col])) / u.at(c.first+i, c.first+i)
						want.set(i, col, e)
						for j := i + 1; j < c.rows; j++ {
							w.set(j, col, w.at(j, col)-u.at(c.first+i, c.first+j)*e)
						}
					}
				}
				near(t, download(d, x), want, 1e-4)
			})
		}
	}
}

// Each row's codes become the best with the others fixed; r becomes the changes.
func TestDescendRows(t *testing.T) {
	for _, bits := range exl2.Widths {
		for _, c := range groupCases {
			t.Run(fmt.Sprintf("%d bits, %+v", bits, c), func(t *testing.T) {
				d, h, r := open(t), positive(c.k), normal(3, c.rows, c.n)
				g := newCodes(d, bits, c.first, c.rows, c.n, 4/float32(int(1)<<bits))
				codes, s := elements[uint8](g.Codes), scales(g)
				for i := range codes {
					codes[i] = uint8(i*37) & (1<<bits - 1)
				}
				old, x, want := slices.Clone(codes), upload(d, r), newGrid(c.rows, c.n)
				d.DescendRows(g, x, upload(d, h))
				for i := range c.rows {
					for col := range c.n {
						at := i*c.n + col
						before := value(old[at], bits, s[col])
						if best := before + r.at(i, col)/h.at(c.first+i, c.first+i); !isNearest(codes[at], bits, best, s[col]) {
							t.Fatalf("row %d, column %d: %v has code %d at scale %v", i, col, best, codes[at], s[col])
						}
						change := value(codes[at], bits, s[col]) - before
						want.set(i, col, change)
						for j := i + 1; j < c.rows; j++ {
							r.set(j, col, r.at(j, col)-h.at(c.first+i, c.first+j)*change)
						}
					}
				}
				near(t, download(d, x), want, 0)
			})
		}
	}
}

// Values are the format's: (code - 2^(bits-1))·scale in fp16.
func TestValues(t *testing.T) {
	for _, bits := range exl2.Widths {
		d := open(t)
		const rows, n = 33, 70
		g := newCodes(d, bits, 0, rows, n, 0.0371)
		w, want, s := d.Alloc(tensor.F32, rows, n), newGrid(rows, n), scales(g)
		for i := range elements[uint8](g.Codes) {
			code := uint8(i*29) & (1<<bits - 1)
			elements[uint8](g.Codes)[i] = code
			want.v[i] = value(code, bits, s[i%n])
		}
		d.Values(w, g)
		near(t, download(d, w), want, 0)
	}
}

// Feedback subtracts a block of the factor, transposed, times errors.
func TestFeedback(t *testing.T) {
	for _, c := range []struct{ k, first, rows, from, left, n int }{
		{1, 0, 1, 0, 1, 1}, {96, 0, 32, 32, 64, 70}, {96, 32, 32, 64, 32, 256}, {300, 0, 300, 0, 300, 33}, {200, 10, 70, 100, 90, 5}, {64, 32, 32, 64, 0, 8},
	} {
		t.Run(fmt.Sprintf("%+v", c), func(t *testing.T) {
			d, u, e, w := open(t), normal(4, c.k, c.k), normal(5, c.rows, c.n), normal(6, c.left, c.n)
			x := upload(d, w)
			d.Feedback(x, upload(d, u), upload(d, e), c.first, c.from)
			for j := range c.left {
				for i := range c.rows {
					for col := range c.n {
						w.set(j, col, w.at(j, col)-u.at(c.first+i, c.from+j)*e.at(i, col))
					}
				}
			}
			near(t, download(d, x), w, 1e-5)
		})
	}
}
