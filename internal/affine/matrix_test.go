package affine

import (
	"slices"
	"testing"
)

func TestRegular(t *testing.T) {
	for _, c := range []struct {
		rows   []int
		shift  int
		groups []int
	}{
		{[]int{32}, 1, []int{0}},
		{[]int{480}, 4, []int{0}},
		{[]int{128, 128, 128, 96}, 2, []int{0, 1, 2, 3}},
		{[]int{64, 64}, 1, []int{0, 1}},
		{[]int{128, 32}, 2, []int{0, 1}},
		{[]int{96, 96}, 0, []int{0, 0, 0, 1, 1, 1}},
		{[]int{64, 128, 192}, 1, []int{0, 1, 1, 2, 2, 2}},
	} {
		m := &Matrix{Rows: c.rows}
		for _, n := range c.rows {
			m.In += n
		}
		if shift, groups := m.Regular(); shift != c.shift || !slices.Equal(groups, c.groups) {
			t.Errorf("groups of %v: 2^%d blocks %v, want 2^%d %v", c.rows, shift, groups, c.shift, c.groups)
		}
	}
}
