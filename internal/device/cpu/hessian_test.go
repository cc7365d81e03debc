package cpu

import (
	"fmt"
	"math"
	"testing"

	"exl2/internal/device"
	"exl2/internal/half"
	"exl2/internal/tensor"
)

// Gram adds xᵀ·y to what is there; with x itself the result is symmetric.
func TestGram(t *testing.T) {
	for _, c := range []struct{ rows, k, cols int }{{1, 1, 1}, {3, 40, 7}, {70, 33, 130}, {300, 257, 64}} {
		t.Run(fmt.Sprintf("%dx%d and %dx%d", c.rows, c.k, c.rows, c.cols), func(t *testing.T) {
			d, x, y, old := open(t), normal(1, c.rows, c.k), normal(2, c.rows, c.cols), normal(3, c.k, c.cols)
			h, want := upload(d, old), x.transposed().times(y)
			for i := range want.v {
				want.v[i] += old.v[i]
			}
			d.Gram(h, upload(d, x), upload(d, y))
			near(t, download(d, h), want, 1e-5)

			square, in := d.Alloc(tensor.F32, c.k, c.k), upload(d, x)
			d.Gram(square, in, in)
			d.Gram(square, in, in)
			got, twice := download(d, square), x.transposed().times(x)
			for i := range twice.v {
				twice.v[i] *= 2
			}
			near(t, got, twice, 1e-5)
			near(t, got, got.transposed(), 0)
		})
	}
}

// Moments of many rows have the bits that they have one after the other.
func TestGrams(t *testing.T) {
	d := open(t)
	var list []device.Moment
	var want []tensor.Tensor
	for i, c := range []struct{ rows, k, cols int }{{300, 65, 40}, {1, 33, 130}} {
		h, square := d.Alloc(tensor.F32, c.k, c.cols), d.Alloc(tensor.F32, c.k, c.k)
		one, alone := d.Alloc(tensor.F32, c.k, c.cols), d.Alloc(tensor.F32, c.k, c.k)
		for r := range 3 {
			x, y := upload(d, normal(uint64(9*i+r), c.rows+r, c.k)), upload(d, normal(uint64(9*i+r+3), c.rows+r, c.cols))
			list = append(list, device.Moment{H: h, X: x, Y: y}, device.Moment{H: square, X: x, Y: x})
			d.Gram(one, x, y)
			d.Gram(alone, x, x)
		}
		want = append(want, one, alone)
	}
	d.Grams(list)
	d.Mirror([]tensor.Tensor{list[1].H, list[7].H})
	for i, m := range []int{0, 1, 6, 7} {
		near(t, download(d, list[m].H), download(d, want[i]), 0)
	}
}

func TestTake(t *testing.T) {
	d, src := open(t), normal(4, 5, 40)
	rows, cols := []int32{4, 0, 0}, make([]int32, 40)
	for j := range cols {
		cols[j] = int32(j * 7 % 40)
	}
	for _, c := range []struct {
		name       string
		rows, cols []int32
	}{{"both", rows, cols}, {"rows", rows, nil}, {"columns", nil, cols}, {"all in order", nil, nil}} {
		t.Run(c.name, func(t *testing.T) {
			r, k := tensor.Tensor{}, tensor.Tensor{}
			want := newGrid(5, 40)
			if c.rows != nil {
				r, want = indexTensor(d, c.rows...), newGrid(len(c.rows), 40)
			}
			if c.cols != nil {
				k = indexTensor(d, c.cols...)
			}
			for i := range want.rows {
				for j := range want.cols {
					from, at := i, j
					if c.rows != nil {
						from = int(c.rows[i])
					}
					if c.cols != nil {
						at = int(c.cols[j])
					}
					want.set(i, j, src.at(from, at))
				}
			}
			dst := d.Alloc(tensor.F32, want.rows, want.cols)
			d.Take(dst, upload(d, src), r, k)
			near(t, download(d, dst), want, 0)
		})
	}
}

// TakeT transposes weights of any type, in the order of a permutation, and pads
// with zeros on the right.
func TestTakeT(t *testing.T) {
	d := open(t)
	const out, in, padded = 37, 50, 64
	src := newGrid(out, in)
	for i := range src.v {
		src.v[i] = float64(i%251) - 125 // all types hold these
	}
	perm := make([]int32, in)
	for i := range perm {
		perm[i] = int32((i*11 + 3) % in)
	}
	for _, typ := range []tensor.Type{tensor.F32, tensor.F16, tensor.BF16} {
		for _, cols := range []tensor.Tensor{{}, indexTensor(d, perm...)} {
			w := d.Alloc(typ, out, in)
			d.Copy(w, upload(d, src))
			dst, want := upload(d, normal(5, in, padded)), newGrid(in, padded)
			for i := range in {
				from := i
				if !cols.Nil() {
					from = int(perm[i])
				}
				for j := range out {
					want.set(i, j, src.at(j, from))
				}
			}
			d.TakeT(dst, w, cols)
			near(t, download(d, dst), want, 0)
		}
	}
}

// positive returns a positive definite matrix: moments and a little more.
func positive(k int) grid {
	x := normal(6, k/2+1, k)
	h := x.transposed().times(x)
	for i := range k {
		h.set(i, i, h.at(i, i)+1)
	}
	return h
}

// factors reports whether a matrix could be factored.
func factors(d *Device, u, h tensor.Tensor, damp float32) bool {
	ok := indexTensor(d, 7)
	d.InverseFactor(u, h, damp, ok)
	return elements[int32](ok)[0] == 1
}

// U is upper triangular, and UᵀU·(h + damp·I) is the identity.
func TestInverseFactor(t *testing.T) {
	for _, k := range []int{1, 2, 31, 33, 128, 200, 300} {
		t.Run(fmt.Sprint(k), func(t *testing.T) {
			d, h := open(t), positive(k)
			u, in := upload(d, normal(7, k, k)), upload(d, h)
			const damp = 0.5
			if !factors(d, u, in, damp) {
				t.Fatal("a positive definite matrix is refused")
			}
			near(t, download(d, in), h, 1e-7)
			f, sum, identity := download(d, u), h, newGrid(k, k)
			for i := range k {
				sum.set(i, i, sum.at(i, i)+damp)
				identity.set(i, i, 1)
				for j := range i {
					if f.at(i, j) != 0 {
						t.Fatalf("element %d, %d is %v", i, j, f.at(i, j))
					}
				}
			}
			near(t, f.transposed().times(f).times(sum), identity, 1e-4)
		})
	}
}

// What is not positive definite is refused, where ever that shows, and kept.
func TestInverseFactorRefuses(t *testing.T) {
	const k = 150
	for name, spoil := range map[string]func(h grid){
		"negative first element": func(h grid) { h.set(0, 0, -1) },
		"negative last element":  func(h grid) { h.set(k-1, k-1, -1) },
		"zero":                   func(h grid) { clear(h.v) },
		"indefinite":             func(h grid) { h.set(3, 140, 1e4); h.set(140, 3, 1e4) },
		"NaN":                    func(h grid) { h.set(70, 70, math.NaN()) },
		"infinite":               func(h grid) { h.set(70, 70, math.Inf(1)) },
	} {
		t.Run(name, func(t *testing.T) {
			d, h := open(t), positive(k)
			spoil(h)
			in, u := upload(d, h), d.Alloc(tensor.F32, k, k)
			if factors(d, u, in, 0) {
				t.Error("it was factored")
			}
			if name == "indefinite" {
				near(t, download(d, in), h, 1e-7)
				if !factors(d, u, in, 2e4) {
					t.Error("enough damping does not help")
				}
			}
		})
	}
}

func TestSolve(t *testing.T) {
	for _, c := range []struct{ k, n int }{{1, 1}, {40, 7}, {130, 300}, {600, 33}, {1100, 5}} {
		d, b := open(t), normal(8, c.k, c.n)
		u := normal(9, c.k, c.k)
		for i := range c.k {
			for j := range i {
				u.set(i, j, 0)
			}
		}
		x := upload(d, b)
		d.Solve(x, upload(d, u))
		near(t, download(d, x), u.transposed().times(u.times(b)), 1e-5)
	}
}

func dot(d *Device, x, y tensor.Tensor) float64 {
	sum := d.Alloc(tensor.F64, 1, 1)
	d.Dot(sum, x, y)
	return elements[float64](sum)[0]
}

func TestDot(t *testing.T) {
	d := open(t)
	for _, c := range []struct{ rows, cols int }{{0, 5}, {1, 1}, {3, 5}, {50, 333}} {
		x, y, want := normal(10, c.rows, c.cols), normal(11, c.rows, c.cols), 0.0
		for i, v := range x.v {
			want += v * y.v[i]
		}
		if got := dot(d, upload(d, x), upload(d, y)); math.Abs(got-want) > 1e-12*float64(1+len(x.v)) {
			t.Errorf("%d x %d: %v, want %v", c.rows, c.cols, got, want)
		}
	}
	large := newGrid(2, 40)
	for i := range large.v {
		large.v[i] = half.MaxF16 * 1e30
	}
	if got := dot(d, upload(d, large), upload(d, large)); !(got > 1e60) {
		t.Errorf("%v: squares that float32 cannot hold are lost", got)
	}
	bad := normal(12, 3, 70)
	bad.set(2, 69, math.NaN())
	if got := dot(d, upload(d, bad), upload(d, bad)); !math.IsNaN(got) {
		t.Errorf("a NaN is lost: %v", got)
	}
}

// SubtractProduct subtracts a product whose left side is transposed.
func TestSubtractProduct(t *testing.T) {
	for _, c := range []struct{ r, m, n int }{{1, 1, 1}, {32, 64, 70}, {300, 300, 33}, {70, 90, 5}, {0, 8, 8}, {8, 0, 8}} {
		d, a, x, y := open(t), normal(4, c.r, c.m), normal(5, c.r, c.n), normal(6, c.m, c.n)
		got := upload(d, y)
		d.SubtractProduct(got, upload(d, a), upload(d, x))
		for i, v := range a.transposed().times(x).v {
			y.v[i] -= v
		}
		near(t, download(d, got), y, 1e-5)
	}
}

func TestDiagonal(t *testing.T) {
	d, m := open(t), normal(13, 37, 37)
	x, diagonal := upload(d, m), d.Alloc(tensor.F32, 1, 37)
	d.AddDiagonal(x, 0.5)
	d.Diagonal(diagonal, x)
	want := newGrid(1, 37)
	for i := range want.v {
		want.v[i] = float64(float32(m.at(i, i)) + 0.5)
		m.set(i, i, want.v[i])
	}
	near(t, download(d, diagonal), want, 0)
	near(t, download(d, x), m, 0)
}
