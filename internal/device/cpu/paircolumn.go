package cpu

import (
	"exl2/internal/device"
	"exl2/internal/exl2"
	"exl2/internal/half"
)

// pairColumn is the rows of a window in one column.
type pairColumn struct {
	rows        int
	largest     float32                  // change of a code
	left        [device.PairRows]float32 // of H·(W-V)
	up, down    [device.PairRows]float32 // what the next codes would change values by; 0: there is none
	diagonal    [device.PairRows]float32
	scale, zero [device.PairRows]float32
	code        [device.PairRows]float32 // less zero
}

// take reads a column.
func (p *pairColumn) take(s *pairing, rest []float32, stride, col, row, end int) {
	p.rows, p.largest = end-row, 0
	for g := range s.groups {
		first, last := s.coding.rows(g)
		if last <= row || first >= end {
			continue
		}
		scale := exl2.ScaleTable(s.largest[g])[s.scales[g*s.n+col]].Float32()
		zero := float32(int(1) << (s.groups[g].Bits - 1))
		for r := max(first, row); r < min(last, end); r++ {
			i := r - row
			p.scale[i], p.zero[i] = scale, zero
			p.code[i] = float32(s.codes[r*s.n+col]) - zero
		}
	}
	for i := range p.rows {
		p.left[i], p.diagonal[i] = rest[i*stride], s.factor.h[(row+i)*(s.factor.k+1)]
		p.neighbours(i)
		p.largest = max(p.largest, p.up[i], -p.down[i])
	}
}

func (p *pairColumn) value(i int, code float32) float32 {
	return half.ToF16(code * p.scale[i]).Float32()
}

// neighbours finds what the next codes would change.
func (p *pairColumn) neighbours(i int) {
	now := p.value(i, p.code[i])
	p.up[i], p.down[i] = 0, 0
	if p.code[i] < p.zero[i]-1 {
		p.up[i] = p.value(i, p.code[i]+1) - now
	}
	if p.code[i] > -p.zero[i] {
		p.down[i] = p.value(i, p.code[i]-1) - now
	}
}

// gain is what the loss falls by where a value changes by d.
func gain(d, left, diagonal float32) float32 {
	t := float32(d * diagonal)
	u := float32(left+left) - t
	return float32(d * u)
}

// better returns the better of both neighbours.
func (p *pairColumn) better(i int, left float32) (d, g float32) {
	up, down := gain(p.up[i], left, p.diagonal[i]), gain(p.down[i], left, p.diagonal[i])
	if up >= down {
		return p.up[i], up
	}
	return p.down[i], down
}

// run goes through the rows, and reports whether any has changed. h begins at the
// window.
func (p *pairColumn) run(h, reach []float32, k int) (changed bool) {
	for i, most := range reach {
		d, own := p.better(i, p.left[i])
		if d == 0 {
			continue
		}
		need := float32(float32(float32(d*d)*p.diagonal[i])*pairLeast) - own
		if need > float32(float32(2*max(d, -d)*most)*p.largest) {
			continue
		}
		row := h[i*k : i*k+p.rows]
		least := need
		if need <= 0 {
			least = 0
		}
		at := p.partner(i, row, d, least)
		if at < 0 && !(need < 0) {
			continue
		}
		changed = true
		p.change(i, d, row)
		if at >= 0 {
			other, _ := p.better(at, p.left[at])
			p.change(at, other, h[at*k:at*k+p.rows])
		}
	}
	return changed
}

// pairLeast is the share of d²·h that a change must bring.
const pairLeast = 1.0 / 1024

// partner returns the row whose change brings most once row i has changed by d, and
// more than least; -1 if there is none.
func (p *pairColumn) partner(i int, h []float32, d, least float32) int {
	at := -1
	up, down, diagonal, left := p.up[:len(h)], p.down[:len(h)], p.diagonal[:len(h)], p.left[:len(h)]
	for j, v := range h {
		x := left[j] - float32(v*d)
		x += x
		u, w, g := up[j], down[j], diagonal[j]
		a := float32(u * (x - float32(u*g)))
		b := float32(w * (x - float32(w*g)))
		if (a > least || b > least) && j != i {
			least, at = max(a, b), j
		}
	}
	return at
}

// change changes the value of a row by d, which its neighbour's code does.
func (p *pairColumn) change(i int, d float32, h []float32) {
	if d == p.up[i] {
		p.code[i]++
	} else {
		p.code[i]--
	}
	p.neighbours(i)
	for j, v := range h {
		p.left[j] -= float32(v * d)
	}
}

// put stores codes and errors.
func (p *pairColumn) put(s *pairing, e []float32, stride, col, row int) {
	for i := range p.rows {
		s.codes[(row+i)*s.n+col] = uint8(p.code[i] + p.zero[i])
		e[i*stride] = p.value(i, p.code[i]) - s.w[(row+i)*s.n+col]
	}
}
