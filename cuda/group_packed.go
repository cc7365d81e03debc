package cuda

import (
	"exl2/internal/device"
	"exl2/internal/tensor"
)

type packedGroupFunc func(d *Device, l launch, y1, y2, x, table1, table2, reader, rows, first tensor.Tensor,
	count, words1, words2, words3, places1, places2, tiles1, tiles2, same, together, buffers, units, in, out1, out2, slots, slot, groups int32, ldy1, ldy2, ldx int64)

type packedActsFunc func(d *Device, l launch, y, gate, up, table, first tensor.Tensor,
	count, words, places, tiles, together, buffers, units, in, out, act, slots, slot, groups int32, ldy, ldg, ldu int64, limit, most, alpha, added float32)

// A groupRoom is how many slots a warp has, and buffers of rows.
type groupRoom struct{ slots, buffers int }

// A packedGroupVariant is kernels by the warps of a block that multiply, by digits or by codes, and what they may have room for, the best first.
type packedGroupVariant struct {
	kernel packedGroupFunc
	acts   packedActsFunc
	name   kernel // of either, which declare as much
	digits bool
	warps  int
	rooms  []groupRoom
}

// packedGroupVariants are all, the best of either kind first.
var packedGroupVariants = []packedGroupVariant{
	{(*Device).qmatmul_group_digits_12, (*Device).qmatmul_group_digits_acts_12, kernel_qmatmul_group_digits_12, true, qmatmul_group_many_warps, []groupRoom{{3, 2}, {3, 1}, {2, 1}}},
	{(*Device).qmatmul_group_digits_6, (*Device).qmatmul_group_digits_acts_6, kernel_qmatmul_group_digits_6, true, qmatmul_group_some_warps, []groupRoom{{3, 2}, {2, 1}}},
	{(*Device).qmatmul_group_12, (*Device).qmatmul_group_acts_12, kernel_qmatmul_group_12, false, qmatmul_group_many_warps, []groupRoom{{3, 2}, {2, 2}, {2, 1}}},
	{(*Device).qmatmul_group_6, (*Device).qmatmul_group_acts_6, kernel_qmatmul_group_6, false, qmatmul_group_some_warps, []groupRoom{{3, 2}, {2, 1}}},
	{(*Device).qmatmul_group_2, (*Device).qmatmul_group_acts_2, kernel_qmatmul_group_2, false, qmatmul_group_few_warps, []groupRoom{{3, 1}, {1, 1}}},
}

// A packedGroupPlan is how products with the matrices of some experts are launched.
type packedGroupPlan struct {
	packedGroupVariant
	groupRoom
	slot, together int // bytes; rows of a set
	launch         launch
}

// packedPlan plans products of r's rows with the matrices of a and b: by digits where that can be and experts are likely to see few rows; by the
// first variant that has room for as many rows of a set as experts are likely to see, or the one that has room for most; by the fewest warps
// where others have room for none.
func (d *Device) packedPlan(a, b *group, r device.Routes) (p packedGroupPlan, ok bool) {
	n, rows := a.with(b), r.Places.Rows
	likely := min(rows, 4) // few experts see more
	digits := !n.digitless && r.Rows.Cols <= 3*a.count
	for _, v := range packedGroupVariants {
		if v.digits && !digits {
			continue
		}
		for _, room := range v.rooms {
			if v.warps == qmatmul_group_few_warps && p.together > 0 {
				break
			}
			if q := d.planGroup(v, room, a, n, rows); q.together > p.together {
				p = q
			}
			if p.together >= likely {
				return p, true
			}
		}
	}
	if p.together < 1 {
		d.failWith("GroupMul: matrices of %d inputs leave no room in shared memory; --devices cpu has it", a.in)
	}
	return p, p.together > 0
}

// planGroup plans products of so many rows with matrices as a's by one variant and room, whose sets may have no room for any.
func (d *Device) planGroup(v packedGroupVariant, room groupRoom, a *group, n mostOf, rows int) packedGroupPlan {
	vectors := 2
	if v.digits {
		vectors = 1
	}
	slot := 2*unit_lane_bytes*n.unitGroups + 4*exl2_chunk_words*n.widest
	shared := v.warps*(room.slots*slot+2*vectors*qmatmul_group_vector_bytes+16*group_feed_listed) + (2*a.count+1)*tensor.I32.Size()
	left, row := max(0, d.sharedFor(v.name)-shared)/room.buffers, 16*group_rows_block_vectors*(pieces(a.in, exl2_block_rows)+group_rows_behind|1)
	together := min(rows, qmatmul_group_most, left/row)
	buffer := together * row
	if v.digits {
		if together, buffer = min(rows, qmatmul_group_most_by_digits), n.units*rows_digits_four_unit; buffer > left {
			together = 0
		}
	}
	return packedGroupPlan{v, room, slot, together, launch{blocks: dim{x: d.sms}, threads: dim{x: 32 * (v.warps + qmatmul_group_bringers)}, shared: shared + room.buffers*buffer}}
}

// packedGroups multiplies by the matrices of one group or two, and leaves results in the order of reader's, if there is one.
func (d *Device) packedGroups(ys []tensor.Tensor, x, rows tensor.Tensor, groups []*group, reader *group, r device.Routes) {
	y1, y2, a, b := ys[0], ys[len(ys)-1], groups[0], &group{}
	if len(groups) > 1 {
		b = groups[1]
	}
	p, ok := d.packedPlan(a, b, r)
	if !ok {
		return
	}
	p.kernel(d, p.launch, y1, y2, x, a.table, b.table, reader.table, rows, r.First, int32(a.count), int32(a.table.Cols), int32(b.table.Cols), int32(reader.table.Cols), int32(a.places), int32(b.places),
		int32(a.tiles()), int32(b.tiles()), flag(a.arranged(b)), int32(p.together), int32(p.buffers), int32(a.with(b).units), int32(a.in), int32(a.out), int32(b.out), int32(p.slots), int32(p.slot), int32(a.with(b).unitGroups), int64(y1.Stride), int64(y2.Stride), int64(x.Stride))
}

// packedActs multiplies units of gate and up by the matrices of g. The kernel before must be of packedGroups, for this reader and with the same choice.
func (d *Device) packedActs(m device.Experts, g *group, r device.Routes) {
	p, ok := d.packedPlan(g, &group{}, r)
	if !ok {
		return
	}
	c := m.Clamp
	p.acts(d, p.launch, m.Each, m.Opens(), m.Ups, g.table, r.First, int32(g.count), int32(g.table.Cols), int32(g.places), int32(g.tiles()), int32(p.together), int32(p.buffers), int32(g.most.units), int32(g.in), int32(g.out),
		actOf(m.Unit), int32(p.slots), int32(p.slot), int32(g.most.unitGroups), int64(m.Each.Stride), int64(m.Opens().Stride), int64(m.Ups.Stride), c.Limit, c.Up, c.Alpha, c.Added)
}
