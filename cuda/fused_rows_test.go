package cuda

import (
	"testing"

	"exl2/internal/device"
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
