package cuda

import (
	"math/bits"
	"unsafe"

	"exl2/internal/device"
	"exl2/internal/tensor"
)

// leftVariants are the kernels of attend_left.cu by the dimensions of a head.
var leftVariants = map[int]normVariant[leftFunc]{
	64:  {(*Device).attend_left_64, nil},
	128: {(*Device).attend_left_128, (*Device).attend_left_128_more},
	256: {(*Device).attend_left_256, (*Device).attend_left_256_more},
}

type leftFunc func(d *Device, l launch, given []byte)

// leftWidth is the most columns of queries of a block of attend_left.cu, which has few warps to
// bring them. More of a head of keys are sets with blocks of their own.
const leftWidth = 512

// leftSets is into how many sets the heads of a head of keys are divided.
func leftSets(t rowsAttend) int { return pieces(t.group()*t.HeadDim, leftWidth) }

// leftHeads is how many heads a set has; the last one has what is left.
func leftHeads(t rowsAttend) int { return pieces(t.group(), leftSets(t)) }

// leftFew is up to how many positions, of all rows, attention beside its products is always faster.
const leftFew = 512

// leftTakes reports whether there is a kernel of attend_left.cu for t, and it is faster: while
// positions are so few that all warps together have them at once (docs/decoding.md).
func (d *Device) leftTakes(t rowsAttend) bool {
	round := attend_left_warps / leftSharing(t) * attend_meet_positions
	parts := d.leftParts(t)
	return leftVariants[t.HeadDim].of(t.own) != nil && !t.own.heads.Whole && parts > 0 && d.hopper() && d.meets() &&
		t.most() <= max(leftFew/t.q.Rows, parts*round)
}

// leftParts is how many blocks may attend to a set of a row: a power of two, and all together one
// a multiprocessor; or 0, where there are more sets than these.
func (d *Device) leftParts(t rowsAttend) int {
	return min(1<<bits.Len(uint(d.sms/(t.q.Rows*t.KVHeads*leftSets(t))))>>1, attend_left_most_parts)
}

// leftSharing is how many warps share positions.
func leftSharing(t rowsAttend) int { return pieces(t.HeadDim, meet_attending_columns) }

// leftShared is what a block that attends takes.
func leftShared(t rowsAttend) int {
	return rowShared(rowsShape{t.HeadDim, spreadHeads, false}, attend_left_warps, leftSharing(t), leftHeads(t), 0)
}

// leavesFor reports whether a kernel that makes p, of rows that attend, can leave it for those who do: of several rows, one beside
// which a multiprocessor's shared memory has room for theirs.
func (d *Device) leavesFor(p *packed, t rowsAttend) bool {
	p.beside = blockOwn + leftShared(t)
	q := *p
	q.ordered = (d.links(&q) || q.plain()) && d.leftFor(&q)
	plan, ok := d.plan(q.needs(d.sms), q.x.Rows)
	return ok && plan.leaves()
}

// leaving, leftGiven, leftAttend and leftCache are Leaving of kernels/meet.cuh and Given,
// Attend and Cache of kernels/attend_left.cu.
type leaving struct {
	words, pos                 uint64
	queries, dim, most, window int32
	sets, wordsARow            int32
}

type leftGiven struct {
	attend  leftAttend
	cache   leftCache
	leaving leaving
	found   uint64
	values  uint64
	late    int32
	heads   int32
}

type leftAttend struct {
	y, places, q, k, v, freqs, sinks, pos, seq, fault               uint64
	rows, sequences, pages, heads, kvHeads, dim, pairs, interleaved int32
	ldy, ldq, ldk, ldv                                              int64
	turnScale, scale, cap, temperature                              float32
	temperatureSpan, window                                         int32
	qNorm, kNorm                                                    uint64
	norm                                                            int32
	eps, offset                                                     float32
}

type leftCache struct {
	k, v, table                uint64
	tableCols, pageRows, width int32
}

// Attention is products of a row, or of two, on Hopper, whose blocks leave their results for those of
// attention, which start beside them.
func (d *Device) Attention(y tensor.Tensor, p device.Products, m device.Mixing) bool {
	if len(p.List) != 3 || p.Then != device.Put || m.Batch.Span != 1 || m.Attend.Latent > 0 || !d.hopper() || d.err != nil {
		return false
	}
	parts, ok := d.parts(p)
	t := rowsAttend{y, tensor.Tensor{}, p.List[0].Y, own{p.List[1].Y, p.List[2].Y, m.Freqs, m.Heads, m.Rope}, m.Cache.(*cache), m.Layer, m.Attend, m.Batch}
	width, keys := t.Heads*t.HeadDim, t.KVHeads*t.HeadDim
	if !ok || len(parts) != 1 || !d.leftTakes(t) || !d.checkPages(t.cache) {
		return false
	}
	q := &parts[0]
	if t.q.Type != tensor.F16 || q.plain() && !d.takesPlain(q) || !d.leavesFor(q, t) {
		return false
	}
	want(q.list[0].out == width && q.list[1].out == keys && q.list[2].out == keys && t.cache.shape.K == keys && t.cache.shape.V == keys && y.Rows == t.q.Rows && y.Cols == width &&
		m.Batch.Pos.Cols == y.Rows && m.Batch.Seq.Cols == y.Rows && m.Heads.Q.Nil() == m.Heads.K.Nil() && m.Rope.Dims <= t.HeadDim && m.Freqs.Cols == m.Rope.Dims/2, "Attention", y, p.X, m.Freqs)
	d.attendLeft(leftVariants[t.HeadDim].of(t.own), q, t)
	return true
}

// attendLeft launches both kernels.
func (d *Device) attendLeft(kernel leftFunc, q *packed, t rowsAttend) {
	const warps = attend_left_warps
	at, split := d.addressOrNull, leftSets(t)
	parts, sets, rows, queries := d.leftParts(t), t.KVHeads*split, t.q.Rows, t.group()*t.HeadDim
	left := parts*queries + split*2*t.HeadDim // words of a head of keys
	d.mixed = mixed{}
	d.link(q)
	t.places = d.placesFor(t.y, t.Attend)
	words := d.scratch(scratchLeft, tensor.I32, rows*t.KVHeads, left)
	found := d.scratch(scratchMeet, tensor.I32, rows*sets*parts, spreadHeads*t.HeadDim/4*attend_meet_left_words)
	q.leaving = leaving{words: at(words), pos: at(t.batch.Pos), queries: int32(queries), dim: int32(t.HeadDim), most: int32(parts), window: int32(t.Window), sets: int32(split),
		wordsARow: int32(t.KVHeads * left)}
	d.packedProducts(q)
	g := &d.left
	*g = leftGiven{attend: d.leftAttend(t), leaving: q.leaving, found: at(found), values: at(t.own.heads.V), late: flag(t.own.heads.Late), heads: int32(leftHeads(t)), cache: leftCache{k: at(t.cache.k[t.layer]), v: at(t.cache.v[t.layer]),
		table: at(t.batch.Table), tableCols: int32(t.batch.Table.Cols), pageRows: int32(t.cache.shape.PageRows), width: int32(t.cache.shape.K)}}
	l := launch{blocks: dim{x: sets, y: rows, z: parts}, threads: dim{x: 32 * warps}, shared: leftShared(t)}
	kernel(d, l, unsafe.Slice((*byte)(unsafe.Pointer(g)), unsafe.Sizeof(*g)))
}

// leftAttend describes t as the kernel takes it.
func (d *Device) leftAttend(t rowsAttend) leftAttend {
	at, s, h := d.addressOrNull, t.numbers(), t.own.heads
	return leftAttend{
		y: at(t.y), places: at(t.places), q: at(t.q), k: at(t.own.k), v: at(t.own.v), freqs: at(t.own.freqs), sinks: at(t.Sinks), pos: at(t.batch.Pos), seq: at(t.batch.Seq), fault: at(d.fault),
		rows: s.rows, sequences: s.sequences, pages: s.pages, heads: s.heads, kvHeads: s.kvHeads, dim: s.dim, pairs: s.pairs, interleaved: s.interleaved,
		ldy: s.ldy, ldq: s.ldq, ldk: s.ldk, ldv: s.ldv, turnScale: s.turnScale, scale: t.Scale, cap: t.Softcap, temperature: t.Temperature,
		temperatureSpan: s.temperatureSpan, window: s.window, qNorm: at(h.Q), kNorm: at(h.K), norm: s.norm, eps: h.Norm.Eps, offset: h.Norm.Offset,
	}
}
