package cuda

import (
	"testing"

	"exl2/internal/device"
	"exl2/internal/tensor"
)

// Clusters share the rows of x in such a way that the busiest has the least to do, and that
// there is room; GPUs without clusters have room for fewer rows.
func TestRowsPlan(t *testing.T) {
	const hopper, ampere, small, declared = 227 << 10, 99 << 10, 48 << 10, 128
	type want struct{ warps, cluster, clusters, round int }
	for _, c := range []struct {
		name          string
		major, shared int
		in, out, rows int
		gate          bool
		want          want
	}{
		{"two rows", 9, hopper, 4096, 4096, 2, false, want{16, 2, 66, 2}},
		{"sixteen", 9, hopper, 4096, 4096, 16, false, want{16, 2, 66, 2}},
		{"pairs of tiles", 9, hopper, 4096, 11008, 16, true, want{16, 3, 43, 16}},
		{"long rows", 9, hopper, 11008, 4096, 8, false, want{16, 2, 66, 2}},
		{"sixteen of them", 9, hopper, 11008, 4096, 16, false, want{16, 3, 43, 3}},
		{"longer ones", 9, hopper, 28672, 8192, 8, false, want{16, 4, 30, 9}},
		{"sixteen of these", 9, hopper, 28672, 8192, 16, false, want{16, 8, 15, 4}},
		{"a head", 9, hopper, 4096, 32000, 8, false, want{16, 2, 66, 16}},
		{"few columns", 9, hopper, 4096, 32, 8, false, want{16, 8, 1, 1}},
		{"no clusters", 8, ampere, 4096, 4096, 8, false, want{8, 1, 128, 1}},
		{"nor room", 8, small, 4096, 4096, 8, false, want{}},
		{"too many rows", 9, hopper, 4096, 4096, 17, false, want{}},
	} {
		d := planner(t, c.major, 132, c.shared, declared)
		d.atOnce = [9]int{2: 66, 3: 43, 4: 30, 8: 15}
		m := &matrix{in: c.in, padded: c.out, groups: c.in / 128, widest: 4, unitGroups: 1, units128: c.in / 128}
		for i := range m.units128 {
			m.unitBlocks = append(m.unitBlocks, uint16(4*i))
		}
		p := &packed{x: tensor.New(tensor.F16, c.rows, c.in, nil), list: [mostMatrices]*matrix{m}, n: 1}
		if c.gate {
			p.list[1], p.n, p.then = m, 2, device.Gate
		}
		plan, ok := d.rowsPlan(p)
		if got := (want{plan.warps, plan.cluster, plan.clusters, plan.round}); ok != (c.want.warps > 0) || ok && (got != c.want || plan.shared+declared > c.shared) {
			t.Errorf("%s: %v %+v, %d bytes of shared memory, want %+v", c.name, ok, got, plan.shared, c.want)
		}
	}
}

// How many clusters run is known of GPUs that have clusters but little shared memory, too.
func TestClustersOfSmallBlocks(t *testing.T) {
	for _, shared := range []int{227 << 10, 99 << 10} {
		d := planner(t, 12, 170, shared, 128)
		if n := d.clusters(2); n < 1 || d.Sync() != nil {
			t.Errorf("%d bytes of shared memory: %d clusters, %v", shared, n, d.Sync())
		}
	}
}

// A block brings what it needs of x for any matrix: their units may begin at different
// blocks.
func TestStagedBlocks(t *testing.T) {
	one := &matrix{in: 256, units128: 2, unitBlocks: []uint16{0, 4}}
	two := &matrix{in: 256, units128: 3, unitBlocks: []uint16{0, 1, 5}}
	for _, c := range []struct {
		list       []*matrix
		i, cluster int
		from, to   int
	}{
		{[]*matrix{one}, 0, 1, 0, 8}, {[]*matrix{one}, 1, 2, 4, 8}, {[]*matrix{one}, 0, 4, 0, 0}, {[]*matrix{one}, 1, 4, 0, 4},
		{[]*matrix{two}, 0, 1, 0, 9}, {[]*matrix{two}, 2, 3, 5, 9}, {[]*matrix{one, two}, 0, 2, 0, 4}, {[]*matrix{one, two}, 1, 2, 1, 9},
	} {
		p := &packed{n: len(c.list)}
		copy(p.list[:], c.list)
		if from, to := p.stagedBlocks(c.i, c.cluster); from != c.from || to != c.to {
			t.Errorf("block %d of %d: blocks %d to %d, want %d to %d", c.i, c.cluster, from, to, c.from, c.to)
		}
	}
}

// Matrices whose units begin at the same blocks share what warps bring of x; behind all is the unit of warps that have none.
func TestAreas(t *testing.T) {
	of := func(blocks ...uint16) *matrix { return &matrix{units128: len(blocks), unitBlocks: blocks} }
	for _, c := range []struct {
		list  []*matrix
		want  [mostMatrices + 1]area
		units int
	}{
		{[]*matrix{of(0, 4)}, [mostMatrices + 1]area{mostMatrices: {0, 2}}, 2},
		{[]*matrix{of(0, 4), of(0, 4)}, [mostMatrices + 1]area{mostMatrices: {0, 2}}, 2},
		{[]*matrix{of(0, 4), of(0, 1, 5), of(0, 4)}, [mostMatrices + 1]area{{}, {1, 2}, {}, mostMatrices: {0, 5}}, 5},
		{[]*matrix{of(0, 4), of(0, 1, 5), of(0, 1, 5)}, [mostMatrices + 1]area{{}, {1, 2}, {1, 2}, mostMatrices: {0, 5}}, 5},
		{[]*matrix{of(0, 4), of(make([]uint16, 513)...)}, [mostMatrices + 1]area{}, 0},
	} {
		p := &packed{n: len(c.list)}
		copy(p.list[:], c.list)
		if list, units := p.areas(); list != c.want || units != c.units {
			t.Errorf("%v, %d units, want %v, %d", list, units, c.want, c.units)
		}
	}
}

// Two rows to four that are in order are by digits where there is room for them.
func TestDigitsOfRows(t *testing.T) {
	for _, c := range []struct {
		in, out, widest, groups, rows int
		ordered                       bool
		want                          kernel
		round                         int
	}{
		{4096, 12288, 4, 1, 2, true, kernel_qmatmul_two, 4}, {4096, 12288, 4, 1, 3, true, kernel_qmatmul_four, 4}, {4096, 12288, 4, 1, 5, true, kernel_qmatmul_more, 2},
		{4096, 12288, 4, 1, 2, false, kernel_qmatmul_more, 2}, {11008, 4096, 4, 1, 4, true, kernel_qmatmul_four, 2}, {11008, 4096, 3, 2, 4, true, kernel_qmatmul_four, 2},
		{11008, 4096, 4, 1, 2, true, kernel_qmatmul_two, 2}, {11008, 4096, 6, 1, 2, true, kernel_qmatmul_two_wide, 2}, {11008, 4096, 6, 1, 4, true, kernel_qmatmul_four, 2}, {11008, 4096, 8, 1, 4, true, kernel_qmatmul_few, 2}, {4096, 32000, 6, 1, 4, true, kernel_qmatmul_four, 4},
	} {
		d := planner(t, 9, 132, 227<<10, 384)
		m := &matrix{in: c.in, padded: c.out, groups: c.in * c.groups / 128, widest: c.widest, unitGroups: c.groups, units128: c.in / 128}
		for i := range m.units128 {
			m.unitBlocks = append(m.unitBlocks, uint16(4*i))
		}
		p := &packed{x: tensor.New(tensor.F16, c.rows, c.in, nil), ordered: c.ordered, list: [mostMatrices]*matrix{m}, n: 1}
		plan, ok := d.plan(p.needs(d.sms), c.rows)
		if !ok || plan.name != c.want || plan.round != c.round || plan.shared+384 > 227<<10 {
			t.Errorf("%+v: kernel %s with sums of %d tiles and %d bytes", c, kernels[plan.name].name, plan.round, plan.shared)
		}
	}
}
