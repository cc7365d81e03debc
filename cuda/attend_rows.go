package cuda

import (
	"exl2/internal/device"
	"exl2/internal/tensor"
)

// own is the keys and values of the rows themselves, and how keys and queries are
// to be normalized and rotated, or nothing.
type own struct {
	k, v, freqs tensor.Tensor
	heads       device.Heads
	rope        device.Rope
}

// none reports whether there is nothing to be done before attention proper.
func (o own) none() bool { return o.k.Nil() && o.heads.Q.Nil() && o.rope.Dims == 0 }

// odd reports whether there is what only some kernels do.
func (o own) odd() bool {
	return !o.heads.V.Nil() || (o.heads.Late || o.heads.Whole) && !o.heads.Q.Nil()
}

// rowsAttend is an attention of single rows.
type rowsAttend struct {
	y      tensor.Tensor
	places tensor.Tensor // of columns of y, or absent
	q      tensor.Tensor
	own    own
	cache  *cache
	layer  int
	device.Attend
	batch device.Batch
}

func (t rowsAttend) group() int { return t.Heads / t.KVHeads }

// most is how many positions a row may attend to.
func (t rowsAttend) most() int {
	n := t.batch.Table.Cols * t.cache.shape.PageRows
	for _, limit := range []int{t.batch.Reach, t.Window} {
		if limit > 0 {
			n = min(n, limit)
		}
	}
	return n
}

// rounds is in how many blocks of so many warps a row's positions are divided at most, so that
// each warp has some of them.
func (t rowsAttend) rounds(warps int) int {
	most := t.most()
	if t.Window > 0 && most >= t.Window {
		most += attend_meet_positions - 1 // it may begin within a warp's
	}
	return pieces(pieces(most, attend_meet_positions), warps)
}

// fewHeads reports whether the division of attend_decode.cu, which has many blocks join
// what they find for a head, is slower than others: where rows and heads of keys are
// fewer than this.
func fewHeads(a device.Attend, rows int) bool { return rows*a.KVHeads < 32 }

// together reports whether queries and keys are rotated, and keys and values stored, by
// attention itself.
func (d *Device) together(a device.Attend, rows int) bool {
	return a.HeadDim <= wideHead && (d.hopper() || !partsTake(a, rows)) || d.meetsWide(a)
}

// meetsWide reports whether heads of more than wideHead have a kernel of single rows.
func (d *Device) meetsWide(a device.Attend) bool {
	return a.HeadDim == MaxHeadDim && d.hopper() && d.meets()
}

// attendRows is attention of single rows.
func (d *Device) attendRows(t rowsAttend) {
	switch {
	case d.meetTakes(t):
		d.attendMeet(rowsVariantFor(meetVariants, t), t)
	case d.hopper() && d.spreadTakes(t):
		d.attendSpread(spreadVariants[t.HeadDim], t)
	case t.own.none() && t.places.Nil() && partsTake(t.Attend, t.q.Rows):
		d.attendParts(t.y, t.q, t.cache, t.layer, t.Attend, t.batch)
	default:
		d.attendSplit(rowsVariantFor(splitVariants, t), t)
	}
}

// A rowsShape is the dimensions of a head and the heads of a block that a kernel is
// made for. One that takes any dimensions up to dim is slower.
type rowsShape struct {
	dim, heads int
	any        bool
}

// fits reports whether the kernel takes the heads of t; one for more heads that share keys than there are is no use.
func (s rowsShape) fits(t rowsAttend) bool {
	if s.any {
		return t.HeadDim <= s.dim
	}
	return t.HeadDim == s.dim && (s.heads == 8) == (t.group() <= 8 || t.HeadDim >= wideHead)
}

// normVariant is a kernel, and one that does more of heads' norms (own.odd), if there is one.
type normVariant[K any] struct{ kernel, more K }

// of returns the kernel that does what there is to be done of rows' own, or nil.
func (v normVariant[K]) of(o own) (none K) {
	switch turned := o.rope.Scale; {
	case !o.odd():
		return v.kernel
	case o.heads.Norm.Kind == device.RMS && (!o.heads.Late || turned == 0 || turned == 1):
		return v.more
	}
	return none
}

// rowsVariantFor returns the first variant that fits.
func rowsVariantFor[V interface{ fits(t rowsAttend) bool }](list []V, t rowsAttend) V {
	for _, v := range list {
		if v.fits(t) {
			return v
		}
	}
	panic("cuda: no attention for these heads")
}

// A splitVariant is a kernel of attend_decode.cu, its warps, and its blocks of a
// multiprocessor.
type splitVariant struct {
	rowsShape
	kernel        splitFunc
	warps, blocks int
}

type splitFunc func(d *Device, l launch, y, places, q, kPages, vPages, k, v, freqs, sinks, qNorm, kNorm, pos, seq, table, fault, parts, counters tensor.Tensor,
	rows, sequences, tableCols, pages, pageRows, heads, kvHeads, dim, pairs, interleaved int32, ldy, ldq, ldk, ldv int64,
	turnScale, scale, softcap, temperature float32, temperatureSpan, window, norm int32, eps, offset float32)

var splitVariants = []splitVariant{
	{rowsShape{64, 8, false}, (*Device).attend_decode_64_8, 4, 4},
	{rowsShape{64, 16, false}, (*Device).attend_decode_64_16, 4, 3},
	{rowsShape{128, 8, false}, (*Device).attend_decode_128_8, 4, 3},
	{rowsShape{128, 16, false}, (*Device).attend_decode_128_16, 4, 2},
	{rowsShape{256, 8, false}, (*Device).attend_decode_256_8, 4, 2},
	{rowsShape{64, 8, true}, (*Device).attend_decode_64_any, 4, 3},
	{rowsShape{128, 8, true}, (*Device).attend_decode_128_any, 4, 3},
	{rowsShape{256, 8, true}, (*Device).attend_decode_256_any, 4, 2},
}

// attendSplit has as many blocks as there is room for divide the work, whatever the
// positions are.
func (d *Device) attendSplit(v splitVariant, t rowsAttend) {
	sets, blocks := t.KVHeads*pieces(t.group(), v.heads), v.blocks*d.sms
	parts := d.scratch(scratchSums, tensor.F32, 2*blocks*v.heads, pieces(t.HeadDim, 4)*4+attend_decode_extra)
	counters := d.scratch(scratchCounters, tensor.I32, t.q.Rows, sets)
	s, b, c, h := t.numbers(), t.batch, t.cache, t.own.heads
	v.kernel(d, launch{blocks: dim{x: blocks}, threads: dim{x: 32 * v.warps}}, t.y, t.places, t.q, c.k[t.layer], c.v[t.layer], t.own.k, t.own.v, t.own.freqs, t.Sinks, h.Q, h.K,
		b.Pos, b.Seq, b.Table, d.fault, parts, counters, s.rows, s.sequences, s.tableCols, s.pages, s.pageRows, s.heads, s.kvHeads, s.dim, s.pairs, s.interleaved,
		s.ldy, s.ldq, s.ldk, s.ldv, s.turnScale, t.Scale, t.Softcap, t.Temperature, s.temperatureSpan, s.window, s.norm, h.Norm.Eps, h.Norm.Offset)
}

// rowShared is what a block of some warps takes, of which so many share positions, as Shared in attend_row.cuh has it, with
// so many bytes at least for what is found.
func rowShared(s rowsShape, warps, sharing, group, found int) int {
	const half, single, aligned = 2, 4, 16
	units := warps / sharing
	exchanged := 0
	if units < warps {
		exchanged = 2 * warps * s.heads / 8 * 32 * 4 * single
	}
	fixed := exchanged + s.heads*(s.dim+8)*half + 2*s.dim*half + s.dim/2*2*single + 2*s.heads*warps*single
	return pieces(fixed, aligned)*aligned + aligned + max(units*min(group, s.heads)*(s.dim+attend_block_padding)*single, found)
}

// runShared is what a block of runs takes beside that: keys, values and turns of all its rows but one.
func runShared(dim int) int {
	const half, single = 2, 4
	return (attend_meet_most_run - 1) * (2*dim*half + dim/2*2*single)
}

// rowsNumbers is a rowsAttend as kernels take it.
type rowsNumbers struct {
	rows, sequences, tableCols, pages, pageRows, heads, kvHeads, dim, pairs, interleaved int32
	ldy, ldq, ldk, ldv                                                                   int64
	turnScale                                                                            float32
	temperatureSpan, window, norm                                                        int32
}

func (t rowsAttend) numbers() rowsNumbers {
	n, b := func(i int) int32 { return int32(i) }, t.batch
	s := rowsNumbers{
		rows: n(t.q.Rows), sequences: n(b.Table.Rows), tableCols: n(b.Table.Cols), pages: n(t.cache.shape.Pages), pageRows: n(t.cache.shape.PageRows),
		heads: n(t.Heads), kvHeads: n(t.KVHeads), dim: n(t.HeadDim), pairs: n(t.own.rope.Dims / 2),
		ldy: int64(t.y.Stride), ldq: int64(t.q.Stride), ldk: int64(t.own.k.Stride), ldv: int64(t.own.v.Stride),
		temperatureSpan: n(max(t.TemperatureSpan, 1)), window: n(t.Window), interleaved: flag(t.own.rope.Interleaved), norm: int32(t.own.heads.Norm.Kind),
	}
	_, s.turnScale = ropeLaunch(t.q.Rows, t.Heads, t.own.rope)
	return s
}
