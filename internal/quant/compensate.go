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
// targets, and coordinate descent brings their codes there. What columns of one block
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
		for step := 0; compensateStep(f, spans, step*blockCols, passes); step++ {
		}
		for _, s := range spans {
			s.free()
		}
		places = places[n:]
	}
	return f.dev.Sync()
}

// compensateStep improves the blocks that begin at a place of all spans. It reports
// whether there were any.
func compensateStep(f *Factor, spans []*span, at, passes int) bool {
	spans = slices.DeleteFunc(slices.Clone(spans), func(s *span) bool { return at >= len(s.order) })
	if len(spans) == 0 {
		return false
	}
	blocks, list := make([]*columnBlock, len(spans)), make([]device.Coding, len(spans))
	device.SideBySide(f.dev, len(spans), func(i int) {
		s := spans[i]
		blocks[i] = s.take(at, min(at+blockCols, len(s.order)))
		list[i] = blocks[i].c
	})
	f.dev.Descend(list, f.Factor, passes)
	device.SideBySide(f.dev, len(blocks), func(i int) { blocks[i].settle() })
	return true
}

// CompensateBytes returns the memory that Compensate takes for matrices of k rows with
// so many columns together, and the columns that it improves at once.
func CompensateBytes(k, columns int) (bytes, block int) {
	n := min(columns, spansAtOnce*Span)
	side := min(n, Span)
	block = min((n+Span-1)/Span*blockCols, n)
	return 4*k*n + 4*n*side + 4*n*blockCols + (4+1)*k*block, block
}
