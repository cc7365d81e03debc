package cuda

import "exl2/internal/tensor"

// spreadLanes is the most rows of attend_spread.cu: a lane each.
const spreadLanes = 32

// A spreadVariant is a kernel of attend_spread.cu, and one of which more blocks find room.
type spreadVariant struct{ kernel, more splitFunc }

// spreadVariants are by the dimensions of a head.
var spreadVariants = map[int]spreadVariant{
	64:  {(*Device).attend_spread_64, (*Device).attend_spread_64},
	128: {(*Device).attend_spread_128, (*Device).attend_spread_128_more},
}

// spreadReach is up to how many positions rows are short.
const spreadReach = 1024

// spreadHeads are those of a block.
const spreadHeads = 8

// spreadParts is how many blocks of attend_spread.cu a set of heads has, of all rows, of which
// some run on a multiprocessor at a time.
func (d *Device) spreadParts(t rowsAttend, blocks int) int { return blocks * d.sms / t.KVHeads }

// spreadTakes reports whether there is such a kernel, and it is faster: where there are
// blocks for two of every row, or rows are short and most blocks run at once. Long ones are
// divided more evenly by attend_decode.cu.
func (d *Device) spreadTakes(t rowsAttend) bool {
	if spreadVariants[t.HeadDim].kernel == nil || t.group() > spreadHeads || t.q.Rows > spreadLanes {
		return false
	}
	parts := d.spreadParts(t, attend_spread_blocks)
	return t.q.Rows == 1 || t.q.Rows <= parts/2 || t.most() <= spreadReach && t.q.Rows <= parts*4/3
}

// attendSpread divides the positions of every row and set of heads among blocks, all together
// as many as there is room for.
func (d *Device) attendSpread(v spreadVariant, t rowsAttend) {
	const warps = attend_spread_warps
	sets, stride := t.KVHeads, t.HeadDim+attend_block_padding
	kernel, parts := v.kernel, d.spreadParts(t, attend_spread_blocks)
	if parts < t.q.Rows {
		kernel, parts = v.more, max(t.q.Rows, d.spreadParts(t, attend_spread_more_blocks))
	}
	sums := d.scratch(scratchSums, tensor.F32, sets*parts*spreadHeads, stride)
	counters := d.scratch(scratchCounters, tensor.I32, t.q.Rows, sets)
	shared := rowShared(rowsShape{t.HeadDim, spreadHeads, false}, warps, 1, t.group(), 32*warps*attend_spread_found)
	l := launch{blocks: dim{x: sets, y: parts}, threads: dim{x: 32 * warps}, shared: shared}
	s, b, c, h := t.numbers(), t.batch, t.cache, t.own.heads
	kernel(d, l, t.y, t.places, t.q, c.k[t.layer], c.v[t.layer], t.own.k, t.own.v, t.own.freqs, t.Sinks, h.Q, h.K,
		b.Pos, b.Seq, b.Table, d.fault, sums, counters, s.rows, s.sequences, s.tableCols, s.pages, s.pageRows, s.heads, s.kvHeads, s.dim, s.pairs, s.interleaved,
		s.ldy, s.ldq, s.ldk, s.ldv, s.turnScale, t.Scale, t.Softcap, t.Temperature, s.temperatureSpan, s.window, s.norm, h.Norm.Eps, h.Norm.Offset)
}
