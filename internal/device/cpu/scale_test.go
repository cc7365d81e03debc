package cpu

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"exl2/internal/device"
	"exl2/internal/exl2"
	"exl2/internal/half"
	"exl2/internal/tensor"
)

// cost is what column c of w loses when it is stored at a scale.
func cost(w grid, c int, importance []float64, bits int, scale float64) float64 {
	zero, sum := float64(int(1)<<(bits-1)), 0.0
	for r := range w.rows {
		q := 0.0
		if scale != 0 {
			q = min(max(math.RoundToEven(w.at(r, c)/scale), -zero), zero-1)
		}
		e := w.at(r, c) - q*scale
		sum += importance[r] * e * e
	}
	return sum
}

// within64 lists the scales within the bounds around a base scale; if there are
// none, the first above them, or the largest.
func within64(largest half.F16, base float64) (list []float64) {
	next := 0.0
	for _, s := range exl2.ScaleTable(largest) {
		switch scale := float64(s.Float32()); {
		case scale < 0.40*base:
			next = 0
		case scale <= 1.15*base:
			list = append(list, scale)
		case next == 0:
			next = scale
		}
	}
	switch {
	case len(list) > 0:
		return list
	case next > 0:
		return []float64{next}
	}
	return []float64{float64(exl2.ScaleTable(largest)[15].Float32())}
}

// leastCost is the smallest sum over columns that any candidate of the largest
// scale reaches with any codes within the bounds.
func leastCost(w grid, importance []float64, bits int) float64 {
	base, top := make([]float64, w.cols), 0.0
	for c := range base {
		for r := range w.rows {
			base[c] = max(base[c], math.Abs(w.at(r, c))/(float64(int(1)<<(bits-1))-0.5))
		}
		top = max(top, base[c])
	}
	least := math.Inf(1)
	for i := range 26 {
		p := 0.40 + 0.75*float64(i)/25
		sum := 0.0
		for c := range w.cols {
			best := math.Inf(1)
			for _, scale := range within64(half.ToF16(float32(p*top)), base[c]) {
				best = min(best, cost(w, c, importance, bits, scale))
			}
			sum += best
		}
		least = min(least, sum)
	}
	return least
}

func searchScale(d *Device, w grid, importance []float64, bits int) device.Coding {
	c := newCoding(d, w, exl2.Uniform(bits, w.rows).Groups(w.rows))
	d.SearchScale([]device.Coding{c}, 0, upload(d, grid{1, w.rows, importance}))
	return c
}

// No other choice of scales costs less.
func TestSearchScale(t *testing.T) {
	for _, bits := range exl2.Widths {
		for _, c := range []struct{ rows, n int }{{32, 32}, {64, 96}, {128, 160}} {
			t.Run(fmt.Sprintf("%d bits, %d x %d", bits, c.rows, c.n), func(t *testing.T) {
				d, w, importance := open(t), normal(1, c.rows, c.n), normal(2, 1, c.rows).v
				for i, v := range importance {
					importance[i] = v * v
				}
				g, got := searchScale(d, w, importance, bits), 0.0
				for col, s := range scales(g, 0) {
					got += cost(w, col, importance, bits, s)
				}
				if least := leastCost(w, importance, bits); math.Abs(got-least) > 1e-4*least {
					t.Errorf("cost %v, want %v", got, least)
				}
			})
		}
	}
}

// Columns of zeros, such as padding, and columns far smaller than the rest keep
// the others from nothing.
func TestSearchScaleOddColumns(t *testing.T) {
	d, w := open(t), normal(3, 32, 64)
	ones := make([]float64, 32)
	for r := range ones {
		ones[r] = 1
		w.set(r, 5, 0)
		w.set(r, 6, w.at(r, 6)*1e-6)
	}
	g := searchScale(d, w, ones, 4)
	if s := elements[uint8](g.Scales); s[5] != 0 || s[6] != 0 {
		t.Errorf("scale codes %d and %d, want the smallest", s[5], s[6])
	}
	for col, s := range scales(g, 0) {
		if total := cost(w, col, ones, 4, 1e30); col != 5 && col != 6 && cost(w, col, ones, 4, s) > 0.05*total {
			t.Errorf("column %d loses %v of %v", col, cost(w, col, ones, 4, s), total)
		}
	}
	zeros := searchScale(d, newGrid(32, 64), ones, 4)
	if got := elements[half.F16](zeros.Largest)[0]; got != 0 {
		t.Errorf("the largest scale of zeros is %v", got.Float32())
	}
}

// Weights at fp16's end and beyond get scales whose codes all decode to numbers.
func TestSearchScaleHuge(t *testing.T) {
	d := open(t)
	ones := make([]float64, 32)
	for r := range ones {
		ones[r] = 1
	}
	for _, bits := range exl2.Widths {
		for _, v := range []float64{half.MaxF16, 1e30} {
			w := newGrid(32, 64)
			for i := range w.v {
				w.v[i] = math.Copysign(v, float64(i%3-1))
			}
			scale := elements[half.F16](searchScale(d, w, ones, bits).Largest)[0].Float32()
			if largest := scale * float32(int(1)<<(bits-1)); !(largest <= half.MaxF16) || largest < 0.4*half.MaxF16 {
				t.Errorf("%d bits, weights of %v: the largest code decodes to %v", bits, v, largest)
			}
		}
	}
}

// A row without importance does not matter.
func TestSearchScaleImportance(t *testing.T) {
	d, w := open(t), normal(4, 32, 32)
	ones := make([]float64, 32)
	for r := range ones {
		ones[r] = 1
	}
	weighed := slices.Clone(ones)
	weighed[7] = 1e4
	even, uneven := searchScale(d, w, ones, 3), searchScale(d, w, weighed, 3)
	row := func(g device.Coding) (sum float64) {
		for col, s := range scales(g, 0) {
			sum += cost(grid{1, 32, w.v[7*32 : 8*32]}, col, ones[:1], 3, s)
		}
		return sum
	}
	if !(row(uneven) < 0.7*row(even)) {
		t.Errorf("the row that matters loses %v, %v when it does not", row(uneven), row(even))
	}
	panics(t, "importance of another length", func() {
		d.SearchScale([]device.Coding{even}, 0, d.Alloc(tensor.F32, 1, 31))
	})
}
