package simd

import (
	"encoding/binary"
	"fmt"

	"exl2/internal/exl2"
)

// NewPacked lays out m; Fill copies the columns. Groups that are not of 32 rows
// or a multiple are refused: no reader of the format supports them.
func NewPacked(m *exl2.Matrix) (*Packed, error) {
	p := &Packed{In: m.In, Out: m.Out}
	for i := 0; i < len(m.Groups); {
		n := sameBits(m.Groups[i:])
		r, err := newRegion(m.Groups[i : i+n])
		if err != nil {
			return nil, err
		}
		r.group = i
		r.codes = make([]byte, m.Out*r.chunks()*lanes*r.bits)
		r.scales = make([]uint8, m.Out*r.units())
		r.values = make([]float32, 0, 16*r.units())
		r.eachUnit(m, func(_, group int) {
			for _, v := range exl2.ScaleTable(m.ScaleMax[group]) {
				r.values = append(r.values, v.Float32())
			}
		})
		p.regions = append(p.regions, r)
		i += n
	}
	return p, nil
}

// sameBits returns how many groups begin the list with one bit width.
func sameBits(groups []exl2.Group) int {
	n := 1
	for n < len(groups) && groups[n].Bits == groups[0].Bits {
		n++
	}
	return n
}

// newRegion chooses the largest unit that divides all groups but the last.
func newRegion(groups []exl2.Group) (region, error) {
	r := region{bits: groups[0].Bits, row: groups[0].Row, unit: chunkRows}
	for i, g := range groups {
		if g.Rows%stepRows != 0 {
			return r, fmt.Errorf("group of %d rows at row %d, want a multiple of %d", g.Rows, g.Row, stepRows)
		}
		for i < len(groups)-1 && g.Rows%r.unit != 0 {
			r.unit /= 2
		}
		r.rows += g.Rows
	}
	return r, nil
}

// eachUnit calls f for the units of r with the groups that they belong to.
func (r *region) eachUnit(m *exl2.Matrix, f func(unit, group int)) {
	group := r.group
	for unit := range r.units() {
		if g := m.Groups[group]; r.row+unit*r.unit >= g.Row+g.Rows {
			group++
		}
		f(unit, group)
	}
}

// Fill copies columns lo to hi, multiples of 4, of the matrix that p was made
// for. Different columns may be filled at the same time.
func (p *Packed) Fill(m *exl2.Matrix, lo, hi int) {
	p.check("Fill", lo, hi)
	for i := range p.regions {
		r := &p.regions[i]
		r.eachUnit(m, func(unit, group int) {
			for c := lo; c < hi; c++ {
				r.quadScales(c &^ (abreast - 1))[unit*abreast+c%abreast] = uint8(m.Scale(group, c))
			}
		})
		for c := lo; c < hi; c += fillTile {
			r.fillCodes(m, c, min(c+fillTile, hi))
		}
	}
}

// fillTile is the columns whose codes are collected together.
const fillTile = 64

// collected is the codes of a chunk of columns, lane by lane.
type collected [lanes][fillTile]uint64

// fillCodes fills the chunks of at most fillTile columns. Rows that a short
// chunk lacks are left zero, and never used.
func (r *region) fillCodes(m *exl2.Matrix, lo, hi int) {
	var words collected
	group := r.group
	for at := range r.rows {
		g := m.Groups[group]
		if r.row+at == g.Row+g.Rows {
			group++
			g = m.Groups[group]
		}
		collect(words[at%lanes][:hi-lo], m, g, r.row+at, lo, at%chunkRows/lanes*r.bits)
		if (at+1)%chunkRows == 0 || at+1 == r.rows {
			r.store(&words, at/chunkRows, lo, hi)
			clear(words[:])
		}
	}
}

// collect adds the codes of a row, columns lo and on, to those of its lane,
// shifted up.
func collect(lane []uint64, m *exl2.Matrix, g exl2.Group, row, lo, up int) {
	bit := (row - g.Row) * g.Bits
	word, down := g.Word+bit/32, bit%32
	words := m.Words[word*m.Out+lo:][:len(lane)]
	next := words // whose bits are masked, unless codes reach into the next word
	if down+g.Bits > 32 {
		next = m.Words[(word+1)*m.Out+lo:][:len(lane)]
	}
	mask := uint64(1)<<g.Bits - 1
	n := whole(asm.collectCodes != nil, len(lane))
	if n > 0 {
		asm.collectCodes(&lane[0], &words[0], &next[0], down, up, mask, n)
	}
	for c := n; c < len(lane); c++ {
		lane[c] |= (uint64(next[c])<<32 | uint64(words[c])) >> down & mask << up
	}
}

// store stores the lanes of a chunk of columns lo to hi.
func (r *region) store(words *collected, chunk, lo, hi int) {
	size := lanes * r.bits
	low, _ := planes(r.bits)
	for c := lo; c < hi; c++ {
		at := ((c/abreast*r.chunks()+chunk)*abreast + c%abreast) * size
		words.put(r.codes[at:at+lanes*low], c-lo, 0)
		words.put(r.codes[at+lanes*low:at+size], c-lo, low)
	}
}

// put stores as many bytes of each lane of column c as dst has for it, from
// byte skip on.
func (w *collected) put(dst []byte, c, skip int) {
	switch len(dst) / lanes {
	case 1:
		for l := range w {
			dst[l] = byte(w[l][c] >> (8 * skip))
		}
	case 2:
		for l := range w {
			binary.LittleEndian.PutUint16(dst[2*l:], uint16(w[l][c]>>(8*skip)))
		}
	case 4:
		for l := range w {
			binary.LittleEndian.PutUint32(dst[4*l:], uint32(w[l][c]>>(8*skip)))
		}
	}
}

// planes returns the bytes that a lane has in the low and the high plane.
func planes(bits int) (low, high int) {
	low = 4
	if bits < 4 {
		low = 2
	}
	return low, bits - low
}

// getBytes loads n bytes, 0, 1, 2 or 4.
func getBytes(src []byte, n int) uint64 {
	switch n {
	case 1:
		return uint64(src[0])
	case 2:
		return uint64(binary.LittleEndian.Uint16(src))
	case 4:
		return uint64(binary.LittleEndian.Uint32(src))
	}
	return 0
}
