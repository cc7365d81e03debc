package cuda

import (
	"testing"

	"exl2/internal/device"
	"exl2/internal/tensor"
)

// Clusters share the units of a tile, and warps the units of a round, in such a way that the busiest has the
// least to do, and that there is room for what blocks send each other; fewer rows have other kernels.
func TestBatchPlan(t *testing.T) {
	type want struct{ shares, cluster, round, owned, each, parts int }
	for _, c := range []struct {
		name          string
		major         int
		in, out, rows int
		bits          int
		gate          bool
		want          want
	}{
		{"sixteen rows", 9, 4096, 4096, 16, 4, false, want{1, 2, 2, 1, 2, 8}},
		{"pairs of tiles", 9, 4096, 11008, 16, 4, true, want{1, 3, 8, 3, 11, 2}},
		{"long rows", 9, 11008, 4096, 12, 4, false, want{1, 3, 3, 1, 6, 6}},
		{"few rows of narrow codes", 9, 4096, 4096, 8, 2, false, want{1, 2, 2, 1, 2, 8}},
		{"of wider ones", 9, 4096, 4096, 8, 4, false, want{1, 2, 2, 1, 2, 8}},
		{"few rows of wide ones", 9, 4096, 4096, 8, 6, false, want{1, 2, 2, 1, 2, 8}},
		{"many rows of wide ones", 9, 4096, 4096, 16, 6, false, want{1, 2, 2, 1, 2, 8}},
		{"a head of wide ones", 9, 4096, 32000, 8, 6, false, want{1, 2, 16, 8, 16, 1}},
		{"one row", 9, 4096, 4096, 1, 2, false, want{}},
		{"too many rows", 9, 4096, 4096, 17, 4, false, want{}},
		{"no clusters", 8, 4096, 4096, 16, 4, false, want{}},
		{"rounds", 9, 8192, 128256, 16, 4, false, want{1, 3, 14, 5, 20, 2}},
	} {
		const hopper, declared = 227 << 10, 128
		d := planner(t, c.major, 132, hopper, declared)
		d.atOnce = [9]int{2: 66, 3: 43, 4: 30, 8: 15}
		m := &matrix{in: c.in, padded: c.out, groups: c.in / 128, widest: c.bits, unitGroups: 1, units128: c.in / 128, chunks: c.bits * c.in / 128}
		for i := range m.units128 {
			m.unitBlocks = append(m.unitBlocks, uint16(4*i))
		}
		p := &packed{x: tensor.New(tensor.F16, c.rows, c.in, nil), list: [mostMatrices]*matrix{m}, n: 1}
		if c.gate {
			p.list[1], p.n, p.then = m, 2, device.Gate
		}
		p.y[0] = tensor.New(tensor.F16, c.rows, c.out, nil)
		if c.out == 32000 {
			p.y[0].Type = tensor.F32
		}
		plan, ok := d.batchPlan(p)
		if got := (want{plan.shares, plan.cluster, plan.round, plan.owned, plan.each, plan.parts}); ok != (c.want.cluster > 0) || ok && (got != c.want || plan.shared+declared > hopper) {
			t.Errorf("%s: %v %+v, %d bytes of shared memory, want %+v", c.name, ok, got, plan.shared, c.want)
		}
	}
}

// No warp has a part of a tile that the plan has no room for, however units are shared.
func TestBatchParts(t *testing.T) {
	for _, counts := range [][]int{{32}, {33}, {7}, {1}, {86}, {32, 35, 33}} {
		for items := 1; items < 20; items++ {
			for cluster := 1; cluster <= batch_rows_most_blocks; cluster++ {
				p := &packed{n: len(counts)}
				for i, n := range counts {
					p.list[i] = &matrix{units128: n}
				}
				b := batchPlan{shares: 1, cluster: cluster, round: items}
				b.each = pieces(b.unitsOf(p, items), batch_rows_warps)
				room := b.partsOf(p)
				for rank := range cluster {
					at := 0
					for tile := range items {
						m := p.list[tile*len(counts)/items]
						n := m.units128*(rank+1)/cluster - m.units128*rank/cluster
						if n > 0 && (at+n-1)/b.each-at/b.each+1 > room {
							t.Fatalf("%v units, %d tiles, block %d of %d: room for %d parts", counts, items, rank, cluster, room)
						}
						at += n
					}
					if at > b.each*batch_rows_warps {
						t.Fatalf("%v units, %d tiles, block %d of %d: %d units, %d a warp", counts, items, rank, cluster, at, b.each)
					}
				}
			}
		}
	}
}
