package quant

import (
	"exl2/internal/device"
	"exl2/internal/tensor"
)

// parts is memory for blocks of columns, one of every span.
type parts struct {
	w, codes, scales tensor.Tensor // F32 and U8 [1, k·blockCols], U8 [1, groups·blockCols]
}

func (s *span) parts() parts {
	d, k := s.r.f.dev, s.r.f.k
	return parts{
		w: d.Alloc(tensor.F32, 1, k*blockCols), codes: d.Alloc(tensor.U8, 1, k*blockCols),
		scales: d.Alloc(tensor.U8, 1, len(s.r.c.Groups)*blockCols),
	}
}

// block returns columns of a span that are improved together, from lo to hi.
func (s *span) block(lo, hi int) device.ColumnBlock {
	n, c := hi-lo, s.r.c
	of := func(t tensor.Tensor, rows int) tensor.Tensor { return t.Columns(0, rows*n).Reshape(rows, n) }
	return device.ColumnBlock{
		Of: c, Cols: s.cols.Columns(lo, hi), Target: s.target, First: lo, Feed: s.feed.Slice(lo, hi),
		Part: device.Coding{
			W: of(s.part.w, s.r.f.k), Codes: of(s.part.codes, s.r.f.k), Scales: of(s.part.scales, len(c.Groups)),
			Groups: c.Groups, Largest: c.Largest,
		},
	}
}
