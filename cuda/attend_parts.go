package cuda

import (
	"exl2/internal/device"
	"exl2/internal/tensor"
)

type partsFunc func(d *Device, l launch, out, stats, q, k, v, table, pos, seq tensor.Tensor,
	tableCols, pageRows, heads, kvHeads, dim, splits int32, ldq int64, scale, softcap float32, window int32)

// A partsVariant is a kernel and the heads that a block takes.
type partsVariant struct {
	kernel partsFunc
	heads  int
}

var partsVariants = []partsVariant{{(*Device).attend_parts_1, 1}, {(*Device).attend_parts_4, 4}, {(*Device).attend_parts_8, 8}}

// wideVariant takes heads of up to MaxHeadDim dimensions.
var wideVariant = partsVariant{(*Device).attend_parts_wide, 8}

// wideRows is how many rows it takes at a time, so that sums of parts take some MB.
const wideRows = 64

// runsWide reports whether there is room for runs of heads of more than wideHead by kernels of runs, which are faster but for few rows.
func (d *Device) runsWide(q tensor.Tensor, b device.Batch) bool {
	const few = 16
	return b.Span > 1 && q.Rows > few && prefillLaunch(prefillVariantFor(prefillVariants, MaxHeadDim)).shared <= d.sharedFor(kernel_attend_prefill_512)
}

// attendWide is attention of heads that other kernels have no room for: of runs, too, as of single rows.
func (d *Device) attendWide(y, q tensor.Tensor, c *cache, layer int, a device.Attend, b device.Batch) {
	if !a.Sinks.Nil() || a.Temperature != 0 {
		d.failWith("Attend: heads of %d dimensions with sinks or a temperature, want up to %d; --devices cpu has no such limit", a.HeadDim, wideHead)
		return
	}
	for lo := 0; lo < q.Rows; lo += wideRows {
		hi := min(lo+wideRows, q.Rows)
		part := b
		part.Pos, part.Seq = b.Pos.Columns(lo, hi), b.Seq.Columns(lo, hi)
		d.attendPartsBy(wideVariant, y.Slice(lo, hi), q.Slice(lo, hi), c, layer, a, part)
	}
}

// partsTake reports whether attend_parts.cu can attend, and is faster than
// attend_decode.cu.
func partsTake(a device.Attend, rows int) bool {
	return fewHeads(a, rows) && a.Sinks.Nil() && a.Temperature == 0
}

// attendParts is attention of few single rows and heads of keys: the positions of each
// row are divided among as many blocks as keep the GPU busy, whatever the positions
// are.
func (d *Device) attendParts(y, q tensor.Tensor, c *cache, layer int, a device.Attend, b device.Batch) {
	v := partsVariants[0]
	for _, w := range partsVariants {
		if v = w; a.Heads/a.KVHeads <= v.heads {
			break
		}
	}
	d.attendPartsBy(v, y, q, c, layer, a, b)
}

func (d *Device) attendPartsBy(v partsVariant, y, q tensor.Tensor, c *cache, layer int, a device.Attend, b device.Batch) {
	const blocksAnSM, most = 6, 64
	sets := a.KVHeads * pieces(a.Heads/a.KVHeads, v.heads)
	capacity := b.Table.Cols * c.shape.PageRows
	splits := min(pieces(blocksAnSM*d.sms, sets*q.Rows), pieces(capacity, attend_parts_positions), most)
	f := d.foundFor(q.Rows, a.Heads, a.HeadDim, splits)
	l := launch{blocks: dim{x: splits, y: sets, z: q.Rows}, threads: dim{x: attend_parts_threads}}
	v.kernel(d, l, f.sums, f.stats, q, c.k[layer], c.v[layer], b.Table, b.Pos, b.Seq, int32(b.Table.Cols), int32(c.shape.PageRows),
		int32(a.Heads), int32(a.KVHeads), int32(a.HeadDim), int32(splits), int64(q.Stride), a.Scale, a.Softcap, int32(a.Window))
	f.join(d, y, a)
}
