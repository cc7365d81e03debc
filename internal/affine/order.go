package affine

import (
	"fmt"
	"slices"
)

// An Order is the order in which rows that belong to groups are stored.
type Order struct {
	Rows   []int   // of every group that has any
	Groups []int   // which those groups are
	Perm   []int32 // original row of every stored row; nil if they are the same
}

// Even is the order of rows in groups of one size, the last perhaps less.
func Even(in, group int) Order {
	var o Order
	for at := 0; at < in; at += group {
		o.Groups = append(o.Groups, len(o.Rows))
		o.Rows = append(o.Rows, min(group, in-at))
	}
	return o
}

// Sorted is the order that brings together the rows of each of n groups, in
// their own order; group is what each row belongs to.
func Sorted(group []int32, n int) (Order, error) {
	counts := make([]int, n)
	for i, g := range group {
		if g < 0 || int(g) >= n {
			return Order{}, fmt.Errorf("row %d is of group %d, of %d", i, g, n)
		}
		counts[g]++
	}
	var o Order
	for g, rows := range counts {
		if rows > 0 {
			o.Groups, o.Rows = append(o.Groups, g), append(o.Rows, rows)
		}
	}
	if slices.IsSorted(group) {
		return o, nil
	}
	o.Perm = make([]int32, len(group))
	for i := range o.Perm {
		o.Perm[i] = int32(i)
	}
	slices.SortStableFunc(o.Perm, func(a, b int32) int { return int(group[a]) - int(group[b]) })
	return o, nil
}

// Row returns the original row of a stored row.
func (o *Order) Row(stored int) int {
	if o.Perm == nil {
		return stored
	}
	return int(o.Perm[stored])
}

// Pick returns the rows of v, [groups, width], that belong to the order's groups.
func Pick[E any](o *Order, v []E, width int) []E {
	out := make([]E, 0, len(o.Groups)*width)
	for _, g := range o.Groups {
		out = append(out, v[g*width:(g+1)*width]...)
	}
	return out
}
