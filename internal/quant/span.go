package quant

import (
	"cmp"
	"slices"

	"exl2/internal/device"
	"exl2/internal/half"
	"exl2/internal/parallel"
	"exl2/internal/tensor"
)

// A place is n columns of a matrix from lo on that depend on each other.
type place struct {
	matrix  int // in the list of targets
	columns *Columns
	lo, n   int
}

// A Preparation is what is made of the moments of columns before there are codes, so that
// the host does its part while the device works on these.
type Preparation struct {
	dev    device.Quantize
	damp   float32
	done   *device.Mark // of the spans, or nil
	places []place
	spans  []*span         // of the first places, or none
	cols   []tensor.Tensor // orders of these, a matrix each
	ok     tensor.Tensor   // I32 [spans, 1]: moments of these are such
}

// Prepare prepares to compensate in targets of one factor, all that have columns. It waits
// for nothing, nor does Compensate, with a mark of a device.Fetcher, for what is issued
// between.
func Prepare(targets []*Target, columns []*Columns, damp float32, done *device.Mark) *Preparation {
	f := targets[0].f
	p := &Preparation{dev: f.dev, damp: damp, done: done}
	if f.Nearest {
		return p
	}
	for i, t := range targets {
		if columns[i] == nil {
			continue
		}
		for lo := 0; lo < t.w.Cols; lo += columns[i].Span {
			p.places = append(p.places, place{i, columns[i], lo, min(columns[i].Span, t.w.Cols-lo)})
		}
	}
	p.prepare()
	return p
}

// A span is columns of a matrix that depend on each other, those that matter most
// first.
type span struct {
	r      *Result
	order  []int32       // columns of the matrix
	cols   tensor.Tensor // order on the device, the preparation's
	feed   tensor.Tensor // [n, n]: what errors of a block take off the others (device.Feed)
	target tensor.Tensor // [k, n]
	part   parts
}

// prepare makes the first spans.
func (p *Preparation) prepare() {
	list, d := p.places[:min(len(p.places), spansAtOnce)], p.dev
	if len(list) == 0 {
		return
	}
	p.ok = d.Alloc(tensor.I32, len(list), 1)
	orders := make([][]int32, len(list))
	parallel.For(len(list), func(i int) { orders[i] = list[i].columns.order(list[i].lo, list[i].n) })
	var inverses []device.Inverse
	for len(list) > 0 {
		n := 1
		for n < len(list) && list[n].matrix == list[0].matrix {
			n++
		}
		inverses = append(inverses, p.sorted(list[:n], orders[:n])...)
		list, orders = list[n:], orders[n:]
	}
	feeds := make([]device.Feed, len(inverses))
	for i, v := range inverses {
		inverses[i].OK, feeds[i] = p.ok.Slice(i, i+1), device.Feed{Feed: p.spans[i].feed, U: v.U}
	}
	d.InverseFactors(inverses, p.damp)
	d.Feeds(feeds, blockCols)
	for _, v := range inverses {
		d.Free(v.H)
		d.Free(v.U)
	}
	if p.done != nil {
		d.(device.Fetcher).Set(*p.done)
	}
}

// sorted makes spans of places of one matrix, and returns the moments of their columns in
// their orders. What is to be uploaded goes at once.
func (p *Preparation) sorted(list []place, orders [][]int32) (moments []device.Inverse) {
	d, c, first := p.dev, list[0].columns, list[0].lo
	last := list[len(list)-1]
	n := last.lo + last.n - first
	order := slices.Concat(orders...)
	within := make([]int32, n)
	for i, at := range order {
		within[i] = at - int32(list[i/c.Span].lo)
	}
	cols, places := d.Alloc(tensor.I32, 1, n), d.Alloc(tensor.I32, 1, n)
	stored, b := device.Blank(d, tensor.F16, n, c.Span), device.Blank(d, tensor.F32, n, c.Span)
	defer func() { d.Free(b); d.Free(places) }()
	d.Upload(cols, tensor.BytesOf(order))
	d.Upload(places, tensor.BytesOf(within))
	d.Upload(stored, tensor.BytesOf(c.rows(first, n)))
	d.Copy(b, stored)
	d.Free(stored)
	p.cols = append(p.cols, cols)
	for i, x := range list {
		lo, hi := x.lo-first, x.lo-first+x.n
		p.spans = append(p.spans, &span{order: orders[i], cols: cols.Columns(lo, hi), feed: d.Alloc(tensor.F32, x.n, x.n)})
		h := d.Alloc(tensor.F32, x.n, x.n)
		d.Take(h, b.Slice(lo, hi), places.Columns(lo, hi), places.Columns(lo, hi))
		moments = append(moments, device.Inverse{H: h, U: d.Alloc(tensor.F32, x.n, x.n)})
	}
	return moments
}

// begin waits for the spans that are prepared, and takes what they are of.
func (p *Preparation) begin(list []*Result) []*span {
	done := make([]int32, len(p.spans))
	if p.done != nil {
		p.dev.(device.Fetcher).Fetch(tensor.BytesOf(done), p.ok, *p.done)
	} else {
		p.dev.Download(tensor.BytesOf(done), p.ok)
	}
	device.SideBySide(p.dev, len(p.spans), func(i int) {
		s := p.spans[i]
		if done[i] == 0 { // moments that are no moments say nothing
			s.order = nil
			return
		}
		s.r = list[p.places[i].matrix]
		s.target = device.Blank(p.dev, tensor.F32, s.r.f.k, p.places[i].n)
		s.part = s.parts()
		p.dev.Take(s.target, s.r.c.W, tensor.Tensor{}, s.cols)
	})
	return p.spans
}

// Free frees what is prepared.
func (p *Preparation) Free() {
	for _, s := range p.spans {
		for _, t := range []tensor.Tensor{s.target, s.feed, s.part.w, s.part.codes, s.part.scales} {
			p.dev.Free(t)
		}
	}
	for _, t := range append(p.cols, p.ok) {
		p.dev.Free(t)
	}
	p.spans, p.cols, p.ok = nil, nil, tensor.Tensor{}
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
