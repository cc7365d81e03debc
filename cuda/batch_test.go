package cuda

import (
	"testing"

	"exl2/internal/device"
	"exl2/internal/tensor"
)

// Clusters share the units of a tile, and warps the units of a round, in such a way that the busiest has the
// least to do, and that there is room for what blocks send each other; fewer rows have other kernels.
func TestBatchPlan(t *testing.T) {
	type want struct{ launches, cluster, round, owned, each, parts int }
	for _, c := range []struct {
		name          string
		major         int
		in, out, rows int
		bits          int
		then          device.Then
		want          want
	}{
		{"sixteen rows", 9, 4096, 4096, 16, 4, device.Put, want{1, 2, 2, 1, 2, 8}},
		{"pairs of tiles", 9, 4096, 11008, 16, 4, device.Gate, want{1, 3, 8, 3, 11, 2}},
		{"long rows", 9, 11008, 4096, 12, 4, device.Put, want{1, 3, 3, 1, 6, 6}},
		{"few rows of narrow codes", 9, 4096, 4096, 8, 2, device.Put, want{1, 2, 2, 1, 2, 8}},
		{"of wider ones", 9, 4096, 4096, 8, 4, device.Put, want{1, 2, 2, 1, 2, 8}},
		{"few rows of wide ones", 9, 4096, 4096, 8, 6, device.Put, want{1, 2, 2, 1, 2, 8}},
		{"many rows of wide ones", 9, 4096, 4096, 16, 6, device.Put, want{1, 2, 2, 1, 2, 8}},
		{"a head of wide ones", 9, 4096, 32000, 8, 6, device.Put, want{1, 2, 16, 8, 16, 1}},
		{"one row", 9, 4096, 4096, 1, 2, device.Put, want{}},
		{"too many rows", 9, 4096, 4096, 17, 4, device.Put, want{}},
		{"no clusters", 8, 4096, 4096, 16, 4, device.Put, want{}},
		{"rounds", 9, 8192, 128256, 16, 4, device.Put, want{1, 3, 14, 5, 20, 2}},
		{"rows that are too long", 9, 14336, 4096, 16, 4, device.Add, want{2, 2, 2, 1, 4, 7}},
		{"much too long", 9, 28672, 8192, 16, 6, device.Add, want{4, 3, 6, 2, 8, 4}},
		{"of which nothing is added up", 9, 14336, 4096, 16, 4, device.Put, want{}},
		{"eight of them", 9, 32768, 8192, 8, 6, device.Add, want{}},
	} {
		const hopper, declared = 227 << 10, 128
		d := planner(t, c.major, 132, hopper, declared)
		d.atOnce = [9]int{2: 66, 3: 43, 4: 30, 8: 15}
		m := &matrix{in: c.in, padded: c.out, groups: c.in / 128, widest: c.bits, unitGroups: 1, units128: c.in / 128, chunks: c.bits * c.in / 128}
		for i := range m.units128 {
			m.unitBlocks = append(m.unitBlocks, uint16(4*i))
		}
		p := &packed{x: tensor.New(tensor.F16, c.rows, c.in, nil), list: [mostMatrices]*matrix{m}, n: 1, then: c.then}
		if c.then == device.Gate {
			p.list[1], p.n = m, 2
		}
		p.y[0] = tensor.New(tensor.F16, c.rows, c.out, nil)
		if c.out == 32000 {
			p.y[0].Type = tensor.F32
		}
		plan, ok := d.batchPlan(p)
		if got := (want{plan.launches, plan.cluster, plan.round, plan.owned, plan.each, plan.parts}); ok != (c.want.launches > 0) || ok && (got != c.want || plan.shared+declared > hopper) {
			t.Errorf("%s: %v %+v, %d bytes of shared memory, want %+v", c.name, ok, got, plan.shared, c.want)
		}
	}
}

// No warp has a part of a tile that the plan has no room for, however units are divided among launches, blocks and warps.
func TestBatchParts(t *testing.T) {
	for _, counts := range [][]int{{32}, {33}, {7}, {1}, {86}, {32, 35, 33}} {
		p := &packed{n: len(counts)}
		for i, n := range counts {
			p.list[i] = &matrix{units128: n}
		}
		for items := 1; items < 20; items++ {
			for launches := 1; launches <= 3; launches++ {
				for cluster := 1; cluster <= batch_rows_most_blocks; cluster++ {
					b := batchPlan{launches: launches, cluster: cluster, round: items}
					b.each = pieces(b.unitsOf(p, items), batch_rows_warps)
					checkParts(t, p, &b)
				}
			}
		}
	}
}

// checkParts checks that of each block.
func checkParts(t *testing.T, p *packed, b *batchPlan) {
	t.Helper()
	room, blocks := b.partsOf(p), b.blocks()
	for i := range blocks {
		at := 0
		for tile := range b.round {
			m := p.list[tile*p.n/b.round]
			n := m.units128*(i+1)/blocks - m.units128*i/blocks
			if n > 0 && (at+n-1)/b.each-at/b.each+1 > room {
				t.Fatalf("%d tiles of %d units and others, block %d of %d: room for %d parts", b.round, m.units128, i, blocks, room)
			}
			at += n
		}
		if at > b.each*batch_rows_warps {
			t.Fatalf("%d tiles, block %d of %d: %d units, %d a warp", b.round, i, blocks, at, b.each)
		}
	}
}

// As long as a matrix has groups of one block, products of several rows are made by kernels for any.
func TestBatchKernels(t *testing.T) {
	d := hopperFake(t)
	check := func(moment string, any bool) {
		t.Helper()
		for _, rows := range []int{5, 8, 9, 16} {
			if k := d.batchKernelFor(rows); k.any != any || k.rows < rows || k.rows > 8 && rows <= 8 {
				t.Errorf("%s, %d rows: %v for %d, any: %v", moment, rows, k.name, k.rows, k.any)
			}
		}
	}
	d.FreeEXL2(d.LoadEXL2(codedMatrix(256, 64, 64), 64))
	check("groups of two blocks", false)
	other, fine := d.LoadEXL2(codedMatrix(256, 64, 96), 64), d.LoadEXL2(codedMatrix(256, 64, 32), 64)
	check("groups of one and of three blocks", true)
	d.FreeEXL2(fine)
	check("of three", false)
	d.FreeEXL2(other)
	check("none", false)
}
