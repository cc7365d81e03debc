package cuda

import (
	"exl2/internal/device"
	"exl2/internal/tensor"
)

type deltaPrepare func(d *Device, l launch, images, records, columns, gates tensor.Tensor,
	keyHeads, valueHeads, keyDim, valueDim, span, first, chunks int32, ldc int64)

type deltaWalk func(d *Device, l launch, y, columns, images, records, skips, state, left, q, k, v, pos, seq tensor.Tensor,
	sequences, keyHeads, valueHeads, keyDim, valueDim, kernel, span, first, chunks int32, ldy, ldc, ldq, ldk, ldv int64)

// A deltaChunk is kernels for heads of up to so many dimensions of keys, what they prepare of a chunk, for each head of keys and of values, and the
// shared memory of a block.
type deltaChunk struct {
	prepare               deltaPrepare
	walk                  deltaWalk
	plain                 bool
	dims                  int
	image, record, shared int
}

var deltaChunkList = []deltaChunk{
	{(*Device).delta_chunks_prepare_rule_64, (*Device).delta_chunks_rule_64, false, 64, chunks_image_of_64, chunks_record_of_rule, delta_chunks_shared_of_64},
	{(*Device).delta_chunks_prepare_rule_128, (*Device).delta_chunks_rule_128, false, 128, chunks_image_of_128, chunks_record_of_rule, delta_chunks_shared_of_128},
	{(*Device).delta_chunks_prepare_plain_64, (*Device).delta_chunks_plain_64, true, 64, chunks_image_of_64, chunks_record_of_plain, delta_chunks_shared_of_64},
	{(*Device).delta_chunks_prepare_plain_128, (*Device).delta_chunks_plain_128, true, 128, chunks_image_of_128, chunks_record_of_plain, delta_chunks_shared_of_128},
}

// Runs of leastChunked rows or more go by chunks, of which so many bytes a multiprocessor are prepared at a time: about what L2 caches have room for.
const (
	leastChunked  = 32
	preparedBytes = 384 << 10
)

// chunksOf returns the kernels that runs of a span go by, if they go by chunks.
func (d *Device) chunksOf(g device.GatedDelta, columns tensor.Tensor, span int) (deltaChunk, bool) {
	if d.major < 8 || span < leastChunked || g.KeyDim%8 != 0 || g.ValueDim%4 != 0 || !atSixteenBytes(columns) {
		return deltaChunk{}, false
	}
	for _, c := range deltaChunkList {
		if c.plain == g.Plain && g.KeyDim <= c.dims {
			return c, c.shared <= d.shared
		}
	}
	return deltaChunk{}, false
}

// deltaChunks goes through the chunks of all runs, some of each at a time.
func (d *Device) deltaChunks(c deltaChunk, y, columns, gates, left, q, k, v tensor.Tensor, g device.GatedDelta, m device.DeltaState, batch device.Batch) {
	runs, all := q.Rows/batch.Span, pieces(batch.Span, chunks_rows_of_chunk)
	images, records := runs*g.KeyHeads*c.image, runs*g.ValueHeads*c.record
	most := min(all, max(1, d.sms*preparedBytes/(images+records)))
	memory := d.scratch(scratchSums, tensor.U8, 1, most*(images+records))
	keys, values := int32(g.KeyHeads), int32(g.ValueHeads)
	for first := 0; first < all; first += most {
		n := min(most, all-first)
		image, record := memory.Columns(0, n*images), memory.Columns(n*images, n*(images+records))
		sharing := pieces(g.ValueHeads/g.KeyHeads, chunks_prepare_heads_of_block)
		l := launch{blocks: dim{x: g.KeyHeads * sharing, y: n, z: runs}, threads: dim{x: chunks_prepare_preparing_threads}}
		c.prepare(d, l, image, record, columns, gates, keys, values, int32(g.KeyDim), int32(g.ValueDim), int32(batch.Span), int32(first), int32(n), int64(columns.Stride))
		leaves := left
		if first+n < all {
			leaves = tensor.Tensor{}
		}
		l = launch{blocks: dim{x: pieces(g.ValueDim, delta_chunks_columns_of_block), y: g.ValueHeads, z: runs}, threads: dim{x: delta_chunks_threads}, shared: c.shared}
		c.walk(d, l, y, columns, image, record, g.Skip, m.State, leaves, q, k, v, batch.Pos, batch.Seq, int32(m.State.Rows), keys, values, int32(g.KeyDim), int32(g.ValueDim),
			int32(g.Kernel), int32(batch.Span), int32(first), int32(n), int64(y.Stride), int64(columns.Stride), int64(q.Stride), int64(k.Stride), int64(v.Stride))
	}
}
