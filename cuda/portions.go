package cuda

import "exl2/internal/tensor"

// A portion is Portion of kernels/digit_rows.cuh: the blocks of x that a warp multiplies.
type portion struct{ first, at uint16 }

// portions are those of a block's warps, and where the last one ends; one more fills a word of eight bytes.
type portions [qmatmul_many_warps + 2]portion

// portions returns what each warp needs of x for any matrix: their units may begin at different blocks.
func (p *packed) portions() (list portions) {
	for w := range qmatmul_many_warps {
		from, to := p.stagedBlocks(w, qmatmul_many_warps)
		list[w].first = uint16(from)
		list[w+1].at = list[w].at + uint16(to-from)
	}
	return list
}

// portionPackings lists the variants whose warps make digits of x for themselves, which has to be in order.
var portionPackings = []packing{
	{(*Device).qmatmul_two, kernel_qmatmul_two, qmatmul_many_warps, 2, 2, false},
	{(*Device).qmatmul_four, kernel_qmatmul_four, qmatmul_many_warps, 2, 4, false},
}

// portionPlan is plan by one of them: with sums of as many tiles as there is room for.
func (d *Device) portionPlan(n need, rows int) (plan packedPlan, ok bool) {
	for _, v := range portionPackings {
		if n.staged == 0 || rows < 2 || rows > v.rows {
			continue
		}
		plan = packedPlan{packing: v, groups: n.groups, slot: (1+n.groups)*unit_lane_bytes + 4*exl2_chunk_words*n.widest, portioned: true}
		tile, shared := tensor.F32.Size()*v.warps*exl2_tile_columns*v.rows, d.sharedFor(v.name)
		plan.shared = v.slots*v.warps*plan.slot + 4*n.units + n.staged*v.rows*digit_rows_portion_block
		plan.round = min((n.run+1)/2, (shared-plan.shared)/tile/2) * 2
		plan.shared += plan.round * tile
		return plan, plan.round > 0
	}
	return plan, false
}
