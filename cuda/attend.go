package cuda

import (
	"exl2/internal/device"
	"exl2/internal/tensor"
)

type prefillFunc func(d *Device, l launch, y, q, k, v, table, pos, seq, sinks tensor.Tensor,
	tableCols, pageRows, span, heads, kvHeads, dim int32, ldy, ldq int64, scale, softcap, temperature float32, temperatureSpan, window, together int32, sums, stats tensor.Tensor, parts int32)

// A prefillVariant is a kernel, the dimensions of a head that it is made for,
// the positions that it takes at a time, and how many times a block has room for queries.
type prefillVariant[F any] struct {
	kernel             F
	dim, keys, queries int
}

var prefillVariants = []prefillVariant[prefillFunc]{
	{(*Device).attend_prefill_32, 32, attend_prefill_keys, 1},
	{(*Device).attend_prefill_64, 64, attend_prefill_keys, 1},
	{(*Device).attend_prefill_96, 96, attend_prefill_keys, 1},
	{(*Device).attend_prefill_128, 128, attend_prefill_keys, 1},
	{(*Device).attend_prefill_256, wideHead, attend_prefill_keys_256, 1},
	{(*Device).attend_prefill_512, MaxHeadDim, attend_prefill_keys_512, 1},
}

// prefillLaunch returns how a variant is launched, but for its blocks.
func prefillLaunch(v prefillVariant[prefillFunc]) launch {
	const rows = attend_prefill_rows_a_block
	l := launch{threads: dim{x: attend_prefill_threads}, shared: max(rows, 2*v.keys) * (v.dim + attend_prefill_padding) * tensor.F16.Size()}
	if v.dim > wideHead {
		l.threads.x, l.shared = attend_prefill_threads_512, l.shared+attend_prefill_exchange_512
	}
	return l
}

// MaxHeadDim is the largest dimension of a head that attention takes, which must
// be even, too. Few rows of more than wideHead are a plain kernel's, without sinks and temperature, but for heads of MaxHeadDim on Hopper.
const MaxHeadDim, wideHead = 512, 256

// pageUnit divides the positions of a page that attention takes.
const pageUnit = 16

// checkPages reports whether attention takes the pages of a cache.
func (d *Device) checkPages(c *cache) bool {
	ok := c.shape.PageRows%pageUnit == 0
	if !ok {
		d.failWith("Attend: pages of %d positions, want a multiple of %d", c.shape.PageRows, pageUnit)
	}
	return ok
}

// Attend is softmax(scale·q·Kᵀ)·V by heads.
func (d *Device) Attend(y, q tensor.Tensor, of device.Cache, layer int, a device.Attend, b device.Batch) {
	d.attend(y, q, own{}, of, layer, a, b)
}

// Mix is norms of heads, Rope, Store and Attend: of single rows in one kernel, unless their
// heads are few.
func (d *Device) Mix(y, q, k, v, freqs tensor.Tensor, of device.Cache, layer int, h device.Heads, r device.Rope, a device.Attend, b device.Batch) {
	queries, keys := a.HeadDim, a.HeadDim
	if h.Whole {
		queries, keys = a.HeadDim*a.Heads, a.HeadDim*a.KVHeads
	}
	want((k.Nil() || h.Q.Nil() == h.K.Nil()) && (h.Q.Nil() || h.Q.Cols == queries) && (h.K.Nil() || h.K.Cols == keys) && (h.V.Nil() || h.V.Cols == a.HeadDim), "Mix", h.Q, h.K, h.V)
	t := rowsAttend{y: y, q: q, own: own{k, v, freqs, h, r}, cache: of.(*cache), layer: layer, Attend: a, batch: b}
	single := b.Span == 1 && a.Latent == 0 && d.together(a, q.Rows)
	_, run := d.runTakes(t)
	if t.own.odd() && !(single && d.meetTakes(t) || run) {
		single = single && !h.Late
		h = d.normApart(q, k, v, h, a)
		t.own.heads = h
		_, run = d.runTakes(t)
	}
	if single || run {
		want((k.Nil() || k.Rows == q.Rows && k.Cols == a.KVHeads*a.HeadDim) && v.Rows == k.Rows && v.Cols == k.Cols && r.Dims <= a.HeadDim && freqs.Cols == r.Dims/2, "Mix", y, q, k, v, freqs)
		d.attend(y, q, t.own, of, layer, a, b)
		return
	}
	d.beforeAttend(q, k, v, freqs, of, layer, h, r, a, b)
	d.attend(y, q, own{}, of, layer, a, b)
}

// normApart does what only some kernels of attention do of heads' norms, but behind the rotation, and returns what is left to be done.
func (d *Device) normApart(q, k, v tensor.Tensor, h device.Heads, a device.Attend) device.Heads {
	if h.Whole && !h.Late {
		device.NormHeads(d, q, k, h)
		h.Q, h.K = tensor.Tensor{}, tensor.Tensor{}
	}
	if !h.V.Nil() {
		d.HeadNorm(v, h.V, a.KVHeads, h.Norm)
		h.V = tensor.Tensor{}
	}
	return h
}

// beforeAttend is what Mix does of queries and keys before it attends.
func (d *Device) beforeAttend(q, k, v, freqs tensor.Tensor, of device.Cache, layer int, h device.Heads, r device.Rope, a device.Attend, b device.Batch) {
	if k.Nil() || h.Late && !h.Q.Nil() {
		device.TurnHeads(d, q, k, freqs, h, r, a.HeadDim, b)
	} else {
		device.NormHeads(d, q, k, h)
		if d.ropeStore(q, k, v, freqs, of.(*cache), layer, r, a, b) {
			return
		}
		device.TurnHeads(d, q, k, freqs, device.Heads{}, r, a.HeadDim, b)
	}
	if !k.Nil() {
		d.Store(of, layer, k, v, b)
	}
}

func (d *Device) attend(y, q tensor.Tensor, o own, of device.Cache, layer int, a device.Attend, b device.Batch) {
	d.mixed = mixed{}
	if a.Latent > 0 {
		d.attendLatent(y, q, of.(*cache), layer, a, b)
		return
	}
	c := of.(*cache)
	width := a.Heads * a.HeadDim
	want(y.Rows == q.Rows && q.Rows == b.Pos.Cols && q.Rows == b.Seq.Cols && y.Cols == width && q.Cols == width &&
		c.shape.K == a.KVHeads*a.HeadDim && c.shape.V == c.shape.K && a.Heads%a.KVHeads == 0, "Attend", y, q, c.k[layer], c.v[layer], b.Pos)
	if a.HeadDim > MaxHeadDim || a.HeadDim%2 != 0 {
		d.failWith("Attend: heads of %d dimensions, want an even number up to %d; --devices cpu has no such limit", a.HeadDim, MaxHeadDim)
		return
	}
	if !d.checkPages(c) || q.Rows == 0 {
		return
	}
	t := rowsAttend{y: y, q: q, own: o, cache: c, layer: layer, Attend: a, batch: b}
	v, run := d.runTakes(t)
	switch {
	case run:
		t.places = d.placesOf(y, a.Reader, false)
		d.attendMeet(v, t)
	case a.HeadDim > wideHead && !(b.Span == 1 && d.meetsWide(a)) && !d.runsWide(q, b):
		d.attendWide(y, q, c, layer, a, b)
	case b.Span == 1:
		t.places = d.placesFor(y, a)
		d.attendRows(t)
	default:
		d.attendRuns(y, q, c, layer, a, b)
	}
}

// prefillVariantFor returns the first variant for heads of so many dimensions.
func prefillVariantFor[F any](list []prefillVariant[F], dim int) prefillVariant[F] {
	for _, v := range list {
		if dim <= v.dim {
			return v
		}
	}
	panic("cuda: no attention for these heads")
}

// Up to rowsApart rows of runs, which see up to reachApart positions, are attention of rows by themselves on Hopper, which is faster.
const rowsApart, reachApart = 2, 4096

// attendRuns is attention of runs of more than one row.
func (d *Device) attendRuns(y, q tensor.Tensor, c *cache, layer int, a device.Attend, b device.Batch) {
	if d.hopper() && q.Rows <= rowsApart && b.Reach <= reachApart && a.HeadDim <= wideHead { // this kernel reads nothing early
		t := rowsAttend{y: y, q: q, cache: c, layer: layer, Attend: a, batch: b}
		d.attendSplit(rowsVariantFor(splitVariants, t), t)
		return
	}
	if c.tiles(y, q, a) {
		d.attendHopper(y, q, c, layer, a, b)
		return
	}
	d.attendPrefill(y, q, c, layer, a, b)
}

// attendPrefill is attention of runs on other GPUs.
func (d *Device) attendPrefill(y, q tensor.Tensor, c *cache, layer int, a device.Attend, b device.Batch) {
	const blocks = 2 // of a multiprocessor
	v, runs := prefillVariantFor(prefillVariants, a.HeadDim), q.Rows/b.Span
	of := shapeOf(runs, attend_prefill_rows_a_block, v.keys, a.HeadDim, a, b)
	f, l := d.foundOf(of, blocks*d.sms), prefillLaunch(v)
	l.blocks = dim{x: runs * pieces(b.Span, attend_prefill_rows_a_block), y: a.Heads / of.together, z: f.parts}
	v.kernel(d, l, y, q, c.k[layer], c.v[layer], b.Table, b.Pos, b.Seq, a.Sinks, int32(b.Table.Cols), int32(c.shape.PageRows), int32(b.Span),
		int32(a.Heads), int32(a.KVHeads), int32(a.HeadDim), int64(y.Stride), int64(q.Stride), a.Scale, a.Softcap, a.Temperature, int32(max(a.TemperatureSpan, 1)), int32(a.Window),
		int32(of.together), f.sums, f.stats, int32(f.parts))
	f.join(d, y, a)
}
