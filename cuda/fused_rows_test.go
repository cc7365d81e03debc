package cuda

import (
	"strings"
	"testing"

	"exl2/internal/device"
	"exl2/internal/tensor"
)

// Matrices that are more than is decoded at a time are divided into parts that differ by little, of whole tiles.
func TestEvenly(t *testing.T) {
	for _, c := range []struct {
		name                   string
		columns, weights, want int
	}{
		{"fits", 4096, 4096, 4096},
		{"two parts", 28672, 8192, 14336},
		{"two parts of long rows", 8192, 28672, 4096},
		{"parts of whole tiles", 10000, 20000, 5120},
		{"a gate of two matrices", 28672, 2 * 8192, 7168},
		{"rows of which few fit", 600, 1 << 20, 256},
	} {
		got := evenly(c.columns, c.weights)
		if got != c.want {
			t.Errorf("%s: %d columns of %d, want %d", c.name, got, c.columns, c.want)
		}
	}
}

// A few rows more than packed products take go in parts, but none of matrices for which there is no room, or whose products take more; and none on
// Hopper, which has products of as many.
func TestAtOnce(t *testing.T) {
	hopper, d := hopperFake(t), planner(t, 10, 132, 227<<10, 128)
	d.atOnce = [9]int{2: 66, 3: 43, 4: 30}
	m, large := orderedMatrix(d, 4096, 256), orderedMatrix(d, 1<<16, 256)
	for rows, want := range map[int]int{1: 1, 16: 16, 17: 16, 32: 16, 33: 16, 48: 16, 49: 49, 2048: 2048} {
		if got := d.AtOnce(rows, m); got != want {
			t.Errorf("%d of %d rows at once, want %d", got, rows, want)
		}
		for _, w := range []device.Matrix{&affineMatrix{}, large} {
			if got := d.AtOnce(rows, w); got != rows {
				t.Errorf("%d of %d rows of %T at once", got, rows, w)
			}
		}
		if got := hopper.AtOnce(rows, m); got != rows {
			t.Errorf("%d of %d rows at once on Hopper", got, rows)
		}
	}
}

// What is read by more matrices of one order than a launch has is normalized and put in order once, of five rows and more, where that is a launch of its own; what is read
// in another order, or by other products, is not taken for it.
func TestOrderOnce(t *testing.T) {
	for _, rows := range []int{1, 4, 8, 16, 40, 300} {
		f := newFake()
		f.attr[attributeMajor], f.attr[attributeMinor], f.attr[attributeSMs], f.attr[attributeSharedOptIn] = 9, 0, 132, 227<<10
		d, orders := f.open(t), 0
		f.launched(d, func(name string) {
			if strings.Contains(name, "order") {
				orders++
			}
		})
		stream, scale := d.Alloc(tensor.F32, rows, 256), d.Alloc(tensor.F32, 1, 256)
		list := func(orders ...uint64) (p device.Products) {
			p = device.Products{X: stream, Scale: scale}
			for _, order := range orders {
				m := orderedMatrix(d, 256, 96)
				m.sorted = order
				p.List = append(p.List, device.Product{W: m, Y: d.Alloc(tensor.F16, rows, 96)})
			}
			return p
		}
		for _, step := range []struct {
			name string
			p    device.Products
			want int
		}{
			{"five of one order", list(1, 1, 1, 1, 1), 1},
			{"and again", list(1, 1, 1, 1, 1), 1},
			{"the last of another", list(1, 1, 1, 1, 2), 2},
			{"of two orders", list(1, 1, 1, 2, 2, 2), 2},
			{"one by one", list(1, 2, 1), 3},
			{"of no order that is known", list(0, 0), 2},
		} {
			if orders = 0; !d.Products(step.p) || d.err != nil {
				t.Fatal("no products", d.err)
			}
			if rows <= 4 {
				step.want = 0
			}
			if orders != step.want {
				t.Errorf("%d rows, %s: put in order %d times, want %d", rows, step.name, orders, step.want)
			}
		}
	}
}
