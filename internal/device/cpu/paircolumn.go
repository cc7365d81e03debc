package cpu

import (
	"exl2/internal/device"
	"exl2/internal/device/cpu/simd"
	"exl2/internal/half"
)

// pairColumn is the rows of a window in one column.
type pairColumn struct {
	*pairing
	col, row, rows int       // of the matrix; the window's first row, and how many it has
	e              []float32 // of the window: every stride-th element is the column's
	stride         int

	largest     float32                  // change of a code
	left        [device.PairRows]float32 // of H·(W-V)
	up, down    [device.PairRows]float32 // what the next codes would change values by; 0: there is none
	scale, zero [device.PairRows]float32
	code        [device.PairRows]float32 // less zero
	by          [1]float32               // what a value changes by
}

// take reads a column of what is left and of the codes.
func (p *pairColumn) take(rest []float32) {
	end := p.row + p.rows
	for g, table := range p.tables {
		first, last := p.coding.rows(g)
		if last <= p.row || first >= end {
			continue
		}
		scale := table[p.scales[g*p.n+p.col]]
		zero := float32(int(1) << (p.groups[g].Bits - 1))
		for r := max(first, p.row); r < min(last, end); r++ {
			i := r - p.row
			p.scale[i], p.zero[i] = scale, zero
			p.code[i] = float32(p.codes[r*p.n+p.col]) - zero
		}
	}
	for i := range p.rows {
		p.left[i] = rest[i*p.stride]
	}
	p.largest = p.beside(0, p.rows)
}

// beside finds what the next codes of rows would change, and returns the largest change.
func (p *pairColumn) beside(lo, hi int) float32 {
	return simd.Beside(p.up[lo:hi], p.down[lo:hi], p.code[lo:hi], p.scale[lo:hi], p.zero[lo:hi])
}

// gain is what the loss falls by where a value changes by d.
func gain(d, left, diagonal float32) float32 {
	t := float32(d * diagonal)
	u := float32(left+left) - t
	return float32(d * u)
}

// better returns the better of both neighbours.
func (p *pairColumn) better(i int) (d, g float32) {
	left, diagonal := p.left[i], p.diagonal[p.row+i]
	up, down := gain(p.up[i], left, diagonal), gain(p.down[i], left, diagonal)
	if up >= down {
		return p.up[i], up
	}
	return p.down[i], down
}

// run goes through the rows.
func (p *pairColumn) run() {
	for i, most := range p.reach[p.row : p.row+p.rows] {
		d, own := p.better(i)
		if d == 0 {
			continue
		}
		need := float32(float32(float32(d*d)*p.diagonal[p.row+i])*pairLeast) - own
		if need > float32(float32(2*max(d, -d)*most)*p.largest) {
			continue
		}
		at := p.partner(i, d, max(0, need))
		if at < 0 && !(need < 0) {
			continue
		}
		p.change(i, d)
		if at >= 0 {
			other, _ := p.better(at)
			p.change(at, other)
		}
	}
}

// pairLeast is the share of d²·h that a change must bring.
const pairLeast = 1.0 / 1024

// moments returns those of a row with all rows of the window.
func (p *pairColumn) moments(i int) []float32 {
	at := (p.row+i)*p.factor.k + p.row
	return p.factor.h[at : at+p.rows]
}

// partner returns the row whose change brings most once row i has changed by d, and
// more than least; -1 if there is none.
func (p *pairColumn) partner(i int, d, least float32) int {
	n, diagonal := p.rows, p.diagonal[p.row:p.row+p.rows]
	return simd.Partner(p.up[:n], p.down[:n], diagonal, p.left[:n], p.moments(i), d, least, i)
}

// change changes the value of a row by d, which its neighbour's code does.
func (p *pairColumn) change(i int, d float32) {
	if d == p.up[i] {
		p.code[i]++
	} else {
		p.code[i]--
	}
	p.beside(i, i+1)
	p.by[0] = d
	simd.SubtractOuter(p.left[:p.rows], p.rows, p.by[:], p.moments(i))
	at := (p.row+i)*p.n + p.col
	p.codes[at] = uint8(p.code[i] + p.zero[i])
	p.e[i*p.stride] = half.ToF16(p.code[i]*p.scale[i]).Float32() - p.w[at]
}
