package cuda

import (
	"exl2/internal/device"
	"exl2/internal/tensor"
)

type decodeAttendFunc func(d *Device, l launch, y, q, kPages, vPages, k, v, freqs, sinks, pos, seq, table, fault, parts, counters tensor.Tensor,
	rows, sequences, tableCols, pages, pageRows, heads, kvHeads, dim, pairs, interleaved int32, ldy, ldq, ldk, ldv int64,
	turnScale, scale, softcap, temperature float32, temperatureSpan, window int32)

// A decodeVariant is a kernel, the dimensions of a head and the heads of a block
// that it is made for, and its blocks of a multiprocessor. One that takes any
// dimensions up to dim is slower.
type decodeVariant struct {
	kernel            decodeAttendFunc
	dim, heads, parts int
	any               bool
}

// decodeVariants are in the order in which they are tried.
var decodeVariants = []decodeVariant{
	{(*Device).attend_decode_64_8, 64, 8, 4, false},
	{(*Device).attend_decode_64_16, 64, 16, 3, false},
	{(*Device).attend_decode_128_8, 128, 8, 3, false},
	{(*Device).attend_decode_128_16, 128, 16, 2, false},
	{(*Device).attend_decode_256_8, 256, 8, 2, false},
	{(*Device).attend_decode_64_any, 64, 8, 3, true},
	{(*Device).attend_decode_128_any, 128, 8, 3, true},
	{(*Device).attend_decode_256_any, 256, 8, 2, true},
}

// fits reports whether the kernel takes heads of so many dimensions, group of which
// share keys; one for more heads than there are is no use.
func (v decodeVariant) fits(dim, group int) bool {
	if v.any {
		return dim <= v.dim
	}
	return dim == v.dim && (v.heads == 8) == (group <= 8 || dim == 256)
}

func decodeVariantFor(dim, group int) decodeVariant {
	for _, v := range decodeVariants {
		if v.fits(dim, group) {
			return v
		}
	}
	panic("cuda: no attention for these heads")
}

// own is the keys and values of the rows themselves, and how keys and queries are
// to be rotated, or nothing.
type own struct {
	k, v, freqs tensor.Tensor
	rope        device.Rope
}

// fewHeads reports whether attend_parts.cu is faster: where there are fewer rows and
// heads of keys than this, the other kernel joins too many parts of each.
func fewHeads(a device.Attend, rows int) bool {
	const enough = 32
	return rows*a.KVHeads < enough && a.Sinks.Nil() && a.Temperature == 0
}

// attendRows is attention of single rows: as many blocks as there is room for
// divide the work, whatever the positions are.
func (d *Device) attendRows(y, q tensor.Tensor, o own, c *cache, layer int, a device.Attend, b device.Batch) {
	if o.k.Nil() && fewHeads(a, q.Rows) {
		d.attendParts(y, q, c, layer, a, b)
		return
	}
	group := a.Heads / a.KVHeads
	v := decodeVariantFor(a.HeadDim, group)
	sets, blocks := a.KVHeads*pieces(group, v.heads), v.parts*d.sms
	parts := d.scratch(scratchSums, tensor.F32, 2*blocks*v.heads, a.HeadDim+attend_decode_extra)
	counters := d.scratch(scratchCounters, tensor.I32, q.Rows, sets)
	_, turnScale := ropeLaunch(q.Rows, a.Heads, o.rope)
	interleaved := int32(0)
	if o.rope.Interleaved {
		interleaved = 1
	}
	v.kernel(d, launch{blocks: dim{x: blocks}, threads: dim{x: attend_decode_threads}}, y, q, c.k[layer], c.v[layer], o.k, o.v, o.freqs, a.Sinks,
		b.Pos, b.Seq, b.Table, d.fault, parts, counters, int32(q.Rows), int32(b.Table.Rows), int32(b.Table.Cols), int32(c.shape.Pages), int32(c.shape.PageRows),
		int32(a.Heads), int32(a.KVHeads), int32(a.HeadDim), int32(o.rope.Dims/2), interleaved, int64(y.Stride), int64(q.Stride), int64(o.k.Stride), int64(o.v.Stride),
		turnScale, a.Scale, a.Softcap, a.Temperature, int32(max(a.TemperatureSpan, 1)), int32(a.Window))
}
