package cuda

import (
	"exl2/internal/device"
	"exl2/internal/tensor"
)

// Products does what there is for matrices of EXL2, and up to sixteen rows or, on Hopper,
// any: each of list in one product, if its matrices read x in one order.
func (d *Device) Products(list ...device.Products) bool {
	var all []packed
	for _, p := range list {
		parts, ok := d.parts(p)
		if !ok {
			return false
		}
		for i := range parts {
			if !d.takes(&parts[i]) {
				return false
			}
		}
		all = append(all, parts...)
	}
	for i := 1; i < len(all); i++ {
		all[i].again = all[i].likes(&all[i-1])
		if all[i].again && all[i].sooner(&all[i-1]) {
			return false
		}
	}
	for i := range all {
		if !all[i].again {
			d.rowsInOrder = tensor.Tensor{}
		}
		switch rows := all[i].x.Rows; {
		case rows <= qmatmul_rows_most:
			d.multiplyPacked(&all[i])
		case rows < tiledRows:
			d.someProducts(&all[i])
		default:
			d.manyProducts(&all[i])
		}
	}
	return true
}

// likes reports whether p reads what the products in front do, which leave it as it is, in one order.
func (p *packed) likes(front *packed) bool {
	m, o := p.list[0], front.list[0]
	return m.sorted != 0 && m.sorted == o.sorted && p.x == front.x && p.norm == front.norm && p.scale == front.scale && p.shift == front.shift && p.ordered == front.ordered && front.then != device.Add
}

// sooner reports whether the only matrix of p is multiplied sooner with those of the products in front, which it is like, and activated later: of one row
// and two, where a launch takes about as long as what it reads (docs/performance.md, "MLPs without gates").
func (p *packed) sooner(front *packed) bool {
	const most = 2
	return p.then.Ungated() && p.x.Rows <= most && front.n+p.n <= matricesAtOnce(p.x.Rows)
}

// takes reports whether there is a kernel for p.
func (d *Device) takes(p *packed) bool {
	switch rows := p.x.Rows; {
	case p.joins != nil && !d.takesJoin(p):
		return false
	case p.plain() && !d.takesPlain(p):
		return false
	case rows <= qmatmul_rows_most:
		return p.then != device.Turn && d.takesPacked(p)
	case rows < tiledRows:
		return d.takesSome(p)
	}
	return d.takesMany(p) && (p.then != device.Turn || d.turnsHeads(p))
}

// parts cuts p where matrices read x in different orders.
func (d *Device) parts(p device.Products) (parts []packed, ok bool) {
	if p.X.Rows == 0 || !atSixteenBytes(p.X) {
		return nil, false
	}
	var sorted uint64
	most := matricesAtOnce(p.X.Rows)
	for _, l := range p.List {
		m, ok := l.W.(*matrix)
		if !ok || m.order.Nil() {
			return nil, false
		}
		want(p.X.Cols == m.in && (l.Bias.Nil() || l.Bias.Cols == m.out), "Products", p.X, l.Bias)
		if n := len(parts); n > 0 && m.sorted != 0 && m.sorted == sorted && parts[n-1].n < most {
			parts[n-1].add(m, l)
			continue
		}
		if len(parts) > 0 && p.Then == device.Gate { // a gate and what it opens are one product
			return nil, false
		}
		q := packed{x: p.X, norm: p.Norm, scale: p.Scale, shift: p.Shift, ordered: p.Sorted, then: p.Then, act: p.Act, turn: p.Turn, left: p.Left, reader: p.Reader, joins: p.Joins}
		q.add(m, l)
		parts, sorted = append(parts, q), m.sorted
	}
	if !p.Then.Activates() {
		return parts, true
	}
	if len(parts) != 1 || !parts[0].activates() {
		return nil, false
	}
	if p.Next != nil {
		next, ok := p.Next.(*matrix)
		if !ok || next.places.Nil() {
			return nil, false
		}
		parts[0].to, parts[0].from = next.places, next.order
	}
	return parts, true
}

// activates reports whether p has the matrices that are activated together, by a function that kernels of products have.
func (p *packed) activates() bool {
	n := 1
	if p.then == device.Gate {
		n = 2
	}
	return p.act <= device.ReLU && p.n == n && p.list[0].out == p.list[n-1].out
}

// AtOnce has rows that are some more than kernels of packed products take go through these two times or three, if the one for as many
// as it may has room for those of this matrix, where there is none for more that is faster (docs/decoding.md, "More rows than sixteen").
func (d *Device) AtOnce(rows int, w device.Matrix) int {
	m, ok := w.(*matrix)
	if !ok || d.hopper() || rows <= batch_rows_most || rows > mostParts*batch_rows_most || m.order.Nil() {
		return rows
	}
	p := packed{x: tensor.New(tensor.F16, batch_rows_most, m.in, nil), list: [mostMatrices]*matrix{m}, n: 1}
	if !d.batchTakes(&p) {
		return rows
	}
	return batch_rows_most
}

// mostParts is in how many parts rows go at most.
const mostParts = 3

// matricesAtOnce returns by how many matrices some rows are multiplied together at most.
func matricesAtOnce(rows int) int {
	switch {
	case rows > qmatmul_rows_most:
		return min(gemm_tiles_most_matrices, qgemm_some_most_matrices)
	case rows == 3 || rows == 4:
		return digit_rows_four_matrices
	}
	return mostMatrices
}

// add adds a matrix to the list.
func (p *packed) add(m *matrix, l device.Product) {
	p.list[p.n], p.y[p.n], p.bias[p.n] = m, l.Y, l.Bias
	want(l.Y.Nil() && p.then == device.Gate && p.n == 1 || l.Y.Rows == p.x.Rows && l.Y.Cols == m.out && l.Y.Type == p.y[0].Type, "Products", l.Y)
	p.n++
}

var _ device.Fuser = (*Device)(nil)
