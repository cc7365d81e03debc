package cuda

import (
	"slices"

	"exl2/internal/tensor"
)

// An area is Area of kernels/digit_rows.cuh.
type area struct{ id, at int16 }

// areas returns where x of the matrices' units is, and behind all how many units that are; or none, where a lane cannot
// have one of each that its warp has.
func (p *packed) areas() (list [mostMatrices + 1]area, units int) {
	for i, m := range p.list[:p.n] {
		same := slices.IndexFunc(p.list[:i], func(o *matrix) bool { return slices.Equal(o.unitBlocks, m.unitBlocks) })
		if same >= 0 {
			list[i] = list[same]
			continue
		}
		if m.units128 > 32*few_rows_many_warps {
			return list, 0
		}
		list[i] = area{int16(i), int16(units)}
		units += m.units128
	}
	list[mostMatrices].at = int16(units)
	return list, units
}

// A portion is Portion of kernels/digit_rows.cuh.
type portion struct{ first, at uint16 }

// portionsShared returns the bytes that a row of digits takes by portions, with zeros behind it.
func portionsShared(blocks int) int {
	return blocks*digit_part_part_block + tensor.I32.Size()*packed_row_padding
}

// portions returns the blocks of x that each warp needs for any matrix: their units may begin at different ones; and
// how many that are.
func (p *packed) portions() (list [few_rows_many_warps + 2]portion, blocks int) {
	for w := range few_rows_many_warps {
		from, to := p.stagedBlocks(w, few_rows_many_warps)
		list[w].first = uint16(from)
		blocks += to - from
		list[w+1].at = uint16(blocks)
	}
	return list, blocks
}

// digitsPackings lists the variants whose warps make digits of x, which has to be in order.
var digitsPackings = []packing{
	{(*Device).qmatmul_two, kernel_qmatmul_two, few_rows_many_warps, 3, 2, false},
	{(*Device).qmatmul_two_wide, kernel_qmatmul_two_wide, few_rows_many_warps, 2, 2, false},
	{(*Device).qmatmul_four, kernel_qmatmul_four, few_rows_many_warps, 2, 4, false},
}

// threeSlots is the widest code of products that have three slots: of wider ones, some of a layer's have room for
// two alone, and two kernels that take turns are slower than one.
const threeSlots = 5

// digitsPlan is plan by one of them, three rows being four of which one is not there: with sums of as many tiles as there is
// room for, and three slots, of codes that are not wider than threeSlots, where there is room for as many as a block needs.
func (d *Device) digitsPlan(n need, rows int) (plan packedPlan, ok bool) {
	for _, v := range digitsPackings {
		if n.areas == 0 || n.digitless || n.most > step_most_steps*v.warps || rows < 2 || rows > v.rows {
			continue
		}
		x := (n.areas + 1) * rows_digits_four_unit
		if v.rows == 2 {
			x = (n.blocks + exl2_unit_blocks) * digit_rows_portion_block
		}
		groups := n.groups // words that a lane has in front of those of a unit
		if groups > 2 {
			groups += 2
		}
		plan = packedPlan{packing: v, groups: groups, slot: groups*unit_lane_bytes + 4*exl2_chunk_words*n.widest, areas: true}
		tile, shared := tensor.F32.Size()*v.warps*exl2_tile_columns*v.rows, d.sharedFor(v.name)-n.beside
		result := keptResult * exl2_tile_columns * v.rows / n.each // for a tile
		plan.shared = v.slots*v.warps*plan.slot + x
		most, room := min((n.run+1)/2, v.warps/v.rows*n.each/2), (shared-plan.shared)/(tile+result)/2 // a warp stores a row of a tile
		if v.slots > 2 && (room < most || n.widest > threeSlots) {
			continue
		}
		plan.round = min(most, room) * 2
		plan.results = plan.round * result
		plan.shared += plan.round*tile + plan.results
		return plan, plan.round > 0
	}
	return plan, false
}
