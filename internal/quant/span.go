package quant

import (
	"cmp"
	"slices"

	"exl2/internal/device"
	"exl2/internal/half"
	"exl2/internal/parallel"
	"exl2/internal/tensor"
)

// A place is where a span of a matrix begins.
type place struct {
	r       *Result
	columns *Columns
	lo      int
}

// A span is columns of a matrix that depend on each other, those that matter most
// first.
type span struct {
	r      *Result
	order  []int32       // columns of the matrix
	cols   tensor.Tensor // order on the device
	target tensor.Tensor // [k, n]
	feed   tensor.Tensor // [n, n]: what errors of a block take off the others (device.Feed)
	part   parts
}

// spansOf takes spans. The host waits once for all of them.
func spansOf(list []place, damp float32) []*span {
	f := list[0].r.f
	d, ok := f.dev, f.dev.Alloc(tensor.I32, len(list), 1)
	defer d.Free(ok)
	spans, inverses, feeds := make([]*span, len(list)), make([]device.Inverse, len(list)), make([]device.Feed, len(list))
	orders := make([][]int32, len(list))
	parallel.For(len(list), func(i int) { orders[i] = list[i].columns.order(list[i].lo, list[i].cols()) })
	device.SideBySide(d, len(list), func(i int) {
		s, sorted := list[i].span(orders[i])
		n := len(s.order)
		s.feed = d.Alloc(tensor.F32, n, n)
		inverses[i] = device.Inverse{H: sorted, U: d.Alloc(tensor.F32, n, n), OK: ok.Slice(i, i+1)}
		spans[i], feeds[i] = s, device.Feed{Feed: s.feed, U: inverses[i].U}
	})
	d.InverseFactors(inverses, damp)
	d.Feeds(feeds, blockCols)
	done := make([]int32, len(list))
	d.Download(tensor.BytesOf(done), ok)
	for i, v := range inverses {
		d.Free(v.H)
		d.Free(v.U)
		if done[i] == 0 { // moments that are no moments say nothing
			spans[i].order = nil
		}
	}
	return spans
}

// cols is the columns of the span.
func (p place) cols() int { return min(p.columns.Span, p.r.c.Codes.Cols-p.lo) }

// span takes the columns from the place on, in an order, and returns their moments in that.
func (p place) span(order []int32) (s *span, sorted tensor.Tensor) {
	r, c := p.r, p.columns
	d, n := r.f.dev, p.cols()
	s = &span{r: r, order: order, cols: d.Alloc(tensor.I32, 1, n), target: d.Alloc(tensor.F32, r.f.k, n)}
	s.part = s.parts()
	within := make([]int32, n)
	for i, c := range s.order {
		within[i] = c - int32(p.lo)
	}
	d.Upload(s.cols, tensor.BytesOf(s.order))
	d.Take(s.target, r.c.W, tensor.Tensor{}, s.cols)
	stored, b, places := d.Alloc(tensor.F16, n, c.Span), d.Alloc(tensor.F32, n, c.Span), d.Alloc(tensor.I32, 1, n)
	defer func() { d.Free(stored); d.Free(b); d.Free(places) }()
	d.Upload(stored, tensor.BytesOf(c.rows(p.lo, n)))
	d.Copy(b, stored)
	d.Upload(places, tensor.BytesOf(within))
	sorted = d.Alloc(tensor.F32, n, n)
	d.Take(sorted, b, places, places)
	return s, sorted
}

// rows returns the moments of n columns from lo on, zeros for those that pad the
// matrix.
func (c *Columns) rows(lo, n int) []half.F16 {
	if have := len(c.B) / c.Span; lo+n > have {
		return append(slices.Clone(c.B[lo*c.Span:]), make([]half.F16, (lo+n-have)*c.Span)...)
	}
	return c.B[lo*c.Span : (lo+n)*c.Span]
}

// order sorts n columns from lo on, those first whose errors cost most.
func (c *Columns) order(lo, n int) []int32 {
	list, cost, rows := make([]int32, n), make([]float32, n), c.rows(lo, n)
	for i := range list {
		list[i], cost[i] = int32(lo+i), rows[i*(c.Span+1)].Float32()
	}
	slices.SortFunc(list, func(a, b int32) int {
		return cmp.Or(cmp.Compare(cost[int(b)-lo], cost[int(a)-lo]), cmp.Compare(a, b))
	})
	return list
}

func (s *span) free() {
	d := s.r.f.dev
	for _, t := range []tensor.Tensor{s.cols, s.target, s.feed, s.part.w, s.part.codes, s.part.scales} {
		d.Free(t)
	}
}
