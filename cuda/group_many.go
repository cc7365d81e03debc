package cuda

import (
	"encoding/binary"
	"hash/fnv"

	"exl2/internal/device"
	"exl2/internal/tensor"
)

// manyOfExpert is how many rows of an expert, on average, are many.
const manyOfExpert = 8

// arranged tells orders apart, and what units they are divided into; 0 is unknown.
func (m *matrix) arranged() uint64 {
	if m.sorted == 0 {
		return 0
	}
	h := fnv.New64a()
	h.Write(binary.LittleEndian.AppendUint64(nil, m.sorted))
	h.Write(tensor.BytesOf(m.unitBlocks))
	return h.Sum64() | 1
}

// GroupsMany reports whether grouped products of many rows are faster than one after the other.
func (d *Device) GroupsMany() bool { return d.hopper() }

// seesMany reports whether rows are multiplied by sets of many, with groups of as many inputs.
func (d *Device) seesMany(r device.Routes, groups ...*group) bool {
	if len(groups) == 0 || !d.hopper() || r.Places.Rows <= qmatmul_group_most || r.Rows.Cols < manyOfExpert*groups[0].count {
		return false
	}
	for _, g := range groups {
		if !g.packed() || qgemm_group_order_rows_at_once*g.in*tensor.F16.Size() > d.sharedFor(kernel_qgemm_group_order) {
			return false
		}
	}
	_, ok := d.groupRing(groups...)
	return ok
}

// A groupRing is the shared memory in which units of x and words come, and all that products take.
type groupRing struct{ bytes, shared int }

// groupRing returns it, and reports whether it has room for three units of the largest set (Ring of kernels/qgemm_group.cu).
func (d *Device) groupRing(groups ...*group) (ring groupRing, ok bool) {
	const alignment, least = 1024, 3
	widest := 0
	for _, g := range groups {
		widest = max(widest, g.most.widest)
	}
	unit := exl2_unit_blocks*exl2_block_rows*tensor.F16.Size()*qgemm_group_most_rows + qgemm_slots_tiles*4*exl2_chunk_words*widest
	beside := alignment + qgemm_slots_most_slots*qgemm_slots_head_bytes + qgemm_slots_tiles*qgemm_group_write_bytes + 3*(groups[0].count+1)*tensor.I32.Size()
	ring.bytes = (d.sharedFor(kernel_qgemm_group) - beside) / qgemm_group_ring_align * qgemm_group_ring_align
	ring.shared = beside + ring.bytes
	return ring, ring.bytes >= least*unit
}

// groupInput is rows that are put in order for a group: x, or, where there is up, units of x and up.
type groupInput struct {
	x, up, rows tensor.Tensor
	unit        device.Unit
}

// inOrder puts rows in the order in which products with g take them.
func (d *Device) inOrder(xs tensor.Tensor, from groupInput, g *group, r device.Routes) {
	const rows = qgemm_group_order_rows_at_once
	n, c := r.Rows.Cols, from.unit.Clamp
	l := launch{blocks: dim{x: min(n, n/rows+g.count)}, threads: dim{x: qgemm_group_order_threads}, shared: rows * g.in * tensor.F16.Size()}
	d.qgemm_group_order(l, xs, from.x, from.up, from.rows, g.table, r.First, int32(g.count), qgemm_group_most_rows, int32(g.table.Cols), int32(g.in), actOf(from.unit),
		int64(from.x.Stride), int64(from.up.Stride), c.Limit, c.Up, c.Alpha, c.Added)
}

// manyGroups multiplies rows of which experts see many by the matrices of a, and of b if it is another group.
func (d *Device) manyGroups(y1, y2 tensor.Tensor, from groupInput, a, b *group, r device.Routes) {
	n := r.Rows.Cols
	size, apart := n+7*min(n, a.count), !a.ordered(b) // rows, of each expert in whole eights
	all := size
	if apart {
		all *= 2
	}
	xs := d.scratch(scratchOrdered, tensor.F16, all, a.in)
	x1, x2 := xs.Slice(0, size), xs.Slice(all-size, all)
	d.inOrder(x1, from, a, r)
	if apart {
		d.inOrder(x2, from, b, r)
	}
	blocks2 := 0
	if a != b {
		blocks2 = pieces(b.tiles(), qgemm_slots_tiles)
	}
	ring, _ := d.groupRing(a, b)
	d.qgemm_group(launch{blocks: dim{x: d.sms}, threads: dim{x: qgemm_slots_threads}, shared: ring.shared}, y1, y2, x1, x2, a.table, b.table, r.First, int32(a.count),
		int32(a.table.Cols), int32(b.table.Cols), int32(a.places), int32(b.places), int32(pieces(a.tiles(), qgemm_slots_tiles)), int32(blocks2), int32(a.most.units), int32(b.most.units),
		int32(ring.bytes), int32(a.in), int32(a.out), int32(b.out), int64(y1.Stride), int64(y2.Stride))
}
