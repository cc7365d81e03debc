package simd

import "fmt"

// The layout of packed columns; scripts/avogen/packed.go has the same numbers.
const (
	abreast   = 4   // columns that lie together
	chunkRows = 128 // rows of a chunk
	lanes     = 16  // of a vector of rows
	stepRows  = 32  // the least rows between places where bits or scales change
)

// Packed is an EXL2 matrix laid out for products with one vector: as many bits
// as the file has, but columns are contiguous, so that a vector register holds
// rows of one column and the sixteen weights that 4-bit codes of a column can
// stand for fit another one. Weights are the format's, rounded to fp16.
//
// Layout: the matrix is a list of regions, runs of rows with one bit width. A
// region holds, for every four columns, chunks of 128 rows, the last of which
// may be short; a chunk holds the codes of each of the four columns in 16·bits
// bytes. Lane l of a chunk has the codes of rows l, 16+l, … 112+l, from the
// lowest bits on. Their first 16 bits (2 and 3 bits) or 32 bits (the others)
// are in the low plane, lane after lane; the rest follows in the high plane.
type Packed struct {
	In, Out int
	regions []region
}

// A region is a run of rows with the same bit width, at equal distances between
// changes of scales.
type region struct {
	bits      int
	row, rows int
	unit      int       // rows of a scale: 32, 64 or 128
	group     int       // index of the first group
	codes     []byte    // [Out/4][chunks][4][16·bits]
	scales    []uint8   // [Out/4][units][4]: codes of scales, s-1
	values    []float32 // [units][16]: scales by code
}

func (r *region) chunks() int { return (r.rows + chunkRows - 1) / chunkRows }
func (r *region) units() int  { return (r.rows + r.unit - 1) / r.unit }

// quadCodes returns the codes of four columns from c on and of all after them.
func (r *region) quadCodes(c int) []byte { return r.codes[c*r.chunks()*lanes*r.bits:] }

// quadScales returns the scales of four columns from c on and of all after them.
func (r *region) quadScales(c int) []uint8 { return r.scales[c*r.units():] }

// Bytes returns the memory that a product with all columns reads.
func (p *Packed) Bytes() int {
	n := 0
	for _, r := range p.regions {
		n += len(r.codes) + len(r.scales) + 4*len(r.values)
	}
	return n
}

// check panics unless columns lo to hi are whole quads of p.
func (p *Packed) check(op string, lo, hi int) {
	if lo < 0 || hi < lo || hi > p.Out || lo%abreast != 0 || hi%abreast != 0 {
		panic(fmt.Sprintf("simd: %s: columns %d to %d of %d, want multiples of %d", op, lo, hi, p.Out, abreast))
	}
}

// Gemv is
//
//	for c := lo; c < hi; c++ {
//		for r := range p.In {
//			y[c-lo] += x[r] * w[r*p.Out+c]
//		}
//	}
//
// for the weights w, rows in stored order as in x. lo and hi are multiples of 4.
// The sum over each region of rows is made apart from y, in 16 lanes of fused
// multiply-adds; its bits do not depend on lo and hi.
func (p *Packed) Gemv(y, x []float32, lo, hi int) {
	p.check("Gemv", lo, hi)
	if len(y) != hi-lo || len(x) != p.In {
		panic(fmt.Sprintf("simd: Gemv: %d sums of %d inputs, want %d of %d", len(y), len(x), hi-lo, p.In))
	}
	if lo == hi {
		return
	}
	for i := range p.regions {
		r := &p.regions[i]
		in := x[r.row : r.row+r.rows]
		if f := asm.packedGemv[r.bits]; f != nil {
			f(&y[0], &in[0], &r.quadCodes(lo)[0], &r.quadScales(lo)[0], &r.values[0], r.rows, r.unit, (hi-lo)/abreast)
			continue
		}
		w := make([]float32, r.rows)
		for c := lo; c < hi; c++ {
			r.decode(w, c)
			y[c-lo] += dotLanes(w, in)
		}
	}
}

// Decode is
//
//	for c := lo; c < hi; c++ {
//		for r := range p.In {
//			dst[(c-lo)*p.In+r] = w[r*p.Out+c]
//		}
//	}
//
// for the weights w, rows in stored order: the transposed matrix, row by row.
// lo and hi are multiples of 4. The weights are those of exl2.Matrix.Decode to
// the bit, as long as scales are finite and not negative.
func (p *Packed) Decode(dst []float32, lo, hi int) {
	p.check("Decode", lo, hi)
	if len(dst) != (hi-lo)*p.In {
		panic(fmt.Sprintf("simd: Decode: %d weights, want %d x %d", len(dst), hi-lo, p.In))
	}
	if lo == hi {
		return
	}
	for i := range p.regions {
		r := &p.regions[i]
		if f := asm.packedDecode[r.bits]; f != nil {
			f(&dst[r.row], p.In, &r.quadCodes(lo)[0], &r.quadScales(lo)[0], &r.values[0], r.rows, r.unit, (hi-lo)/abreast)
			continue
		}
		for c := lo; c < hi; c++ {
			r.decode(dst[(c-lo)*p.In+r.row:][:r.rows], c)
		}
	}
}
