package quant

import (
	"slices"

	"exl2/internal/device"
)

// blockCols is how many columns of a span are improved at a time, and spansAtOnce how
// many spans go side by side.
const (
	blockCols   = 64
	spansAtOnce = 32
)

// Compensate lets columns of matrices make up for each other's errors, as GPTQ does
// with rows: it lowers tr(B·Δᵀ·H·Δ), with B the columns' moments, where Descend
// lowers tr(Δᵀ·H·Δ). Results are of the targets that were prepared for, and go side by
// side; one whose columns are nil stays as it is. Scales stay.
//
// In every span the columns that matter most come first, in blocks. With the errors Δ
// of a block C known, those of the columns R after it that cost least are
// -Δ·B[C,R]·B[R,R]⁻¹ = -Δ·U[C,C]⁻¹·U[C,R], UᵀU = B⁻¹; so much is added to their
// targets, and descent brings their codes there. What columns of one block
// have in common is left out.
func (p *Preparation) Compensate(list []*Result) {
	f := list[0].f
	for len(p.places) > 0 {
		if p.spans == nil {
			p.prepare()
		}
		spans := p.begin(list)
		ready := f.ready()
		same := &sameBlocks{dev: f.dev, improve: func(list []device.Coding) { descend(f.dev, list, ready, 1) }}
		for step := 0; same.step(spans, step*blockCols); step++ {
		}
		same.free()
		p.places = p.places[len(spans):]
		p.Free()
	}
}

// sameBlocks improves blocks of columns, one of every span at a time. As long as they are
// as many and as wide they are in the same memory, and the device does again what it did.
type sameBlocks struct {
	dev     device.Quantize
	improve func(list []device.Coding)

	list        []device.Coding
	again, drop func()
}

// step improves the blocks that begin at a place of all spans. It reports whether there
// were any.
func (s *sameBlocks) step(spans []*span, at int) bool {
	var blocks []device.ColumnBlock
	var list []device.Coding
	for _, p := range spans {
		if at < len(p.order) {
			b := p.block(at, min(at+blockCols, len(p.order)))
			blocks, list = append(blocks, b), append(list, b.Part)
		}
	}
	if len(list) == 0 {
		return false
	}
	s.dev.TakeColumns(blocks)
	if s.again != nil && slices.EqualFunc(list, s.list, func(a, b device.Coding) bool { return a.W == b.W && a.Codes == b.Codes && a.Scales == b.Scales }) {
		s.again()
	} else {
		s.free()
		s.list = list
		s.again, s.drop = device.Repeat(s.dev, func() { s.improve(list) })
	}
	s.dev.PutColumns(blocks)
	return true
}

func (s *sameBlocks) free() {
	if s.drop != nil {
		s.drop()
	}
}

// CompensateBytes returns the memory that preparing takes for matrices of k rows with so
// many columns each, what it takes more meanwhile, what Compensate takes beside it, and the
// columns that it improves at once: those of the first spans, which no others exceed by much.
func CompensateBytes(k int, columns []int) (prepared, more, bytes, block int) {
	spans, moments := 0, 0
	for _, all := range columns {
		moments = max(moments, (2+4)*min(Span, all)*min(all, spansAtOnce*Span)) // as they are stored, of a matrix
		for lo := 0; lo < all && spans < spansAtOnce; lo += Span {
			n := min(Span, all-lo)
			prepared, more = prepared+4*n*(n+2), more+2*4*n*n
			bytes, block = bytes+4*n*k+(4+1+1)*k*min(n, blockCols), block+min(n, blockCols)
			spans++
		}
	}
	return prepared, more + moments, bytes, block
}
