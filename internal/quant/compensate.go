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

// Compensate lets columns of a matrix make up for each other's errors, as GPTQ does
// with rows: it lowers tr(B·Δᵀ·H·Δ), with B the columns' moments, where Descend
// lowers tr(Δᵀ·H·Δ). Results of one factor go side by side; one whose columns are
// nil stays as it is. Scales stay.
//
// In every span the columns that matter most come first, in blocks. With the errors Δ
// of a block C known, those of the columns R after it that cost least are
// -Δ·B[C,R]·B[R,R]⁻¹ = -Δ·U[C,C]⁻¹·U[C,R], UᵀU = B⁻¹; so much is added to their
// targets, and descent brings their codes there. What columns of one block
// have in common is left out.
func Compensate(list []*Result, columns []*Columns, damp float32, passes int) error {
	f := list[0].f
	if f.Nearest || passes == 0 {
		return nil
	}
	var places []place
	for i, r := range list {
		if columns[i] == nil {
			continue
		}
		for lo := 0; lo < r.c.Codes.Cols; lo += columns[i].Span {
			places = append(places, place{r, columns[i], lo})
		}
	}
	for len(places) > 0 {
		n := min(len(places), spansAtOnce)
		spans := spansOf(places[:n], damp)
		ready := f.Factor
		ready.Ready = f.dev.ReadyToDescend(ready)
		same := &sameBlocks{dev: f.dev, improve: func(list []device.Coding) { descend(f.dev, list, ready, passes) }}
		for step := 0; same.step(spans, step*blockCols); step++ {
		}
		same.free()
		f.dev.Free(ready.Ready)
		for _, s := range spans {
			s.free()
		}
		places = places[n:]
	}
	return f.dev.Sync()
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

// CompensateBytes returns the memory that Compensate takes for matrices of k rows with
// so many columns each, what it takes more before the first block, and the columns that
// it improves at once: those of the first spans, which no others exceed by much.
func CompensateBytes(k int, columns []int) (bytes, more, block int) {
	spans := 0
	for _, all := range columns {
		for lo := 0; lo < all && spans < spansAtOnce; lo += Span {
			n := min(Span, all-lo)
			bytes, more, block = bytes+4*n*(k+n+1)+(4+1+1)*k*min(n, blockCols), more+2*4*n*n, block+min(n, blockCols)
			spans++
		}
	}
	return bytes, more, block
}
