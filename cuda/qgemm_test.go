package cuda

import (
	"testing"

	"exl2/internal/device"
	"exl2/internal/tensor"
)

// Clusters share the units of 256 columns in such a way that the busiest has least to do, and that there are slots enough beside the sums that meet.
func TestQGEMMPlan(t *testing.T) {
	type want struct{ rows, cluster, clusters, slots int }
	for _, c := range []struct {
		name           string
		in, rows, bits int
		outs           []int
		want           want
	}{
		{"queries, keys and values", 4096, 64, 4, []int{4096, 4096, 4096}, want{64, 2, 48, 4}},
		{"one matrix", 4096, 32, 4, []int{4096}, want{32, 6, 16, 7}},
		{"long rows", 11008, 64, 4, []int{4096}, want{64, 6, 16, 3}},
		{"a gate and what it opens", 4096, 64, 4, []int{11008, 11008}, want{64, 4, 30, 4}},
		{"rows in whole eights", 4096, 33, 4, []int{4096}, want{48, 6, 16, 6}},
		{"many rows, of which more blocks would have two slots", 11008, 128, 4, []int{4096}, want{128, 5, 16, 3}},
		{"wide codes", 4096, 128, 8, []int{4096}, want{128, 6, 16, 2}},
		{"no more clusters than columns", 4096, 17, 4, []int{256}, want{32, 8, 1, 7}},
		{"fewer units than blocks", 128, 17, 4, []int{4096}, want{32, 2, 16, 8}},
	} {
		const hopper, declared = 227 << 10, 192
		d := planner(t, 9, 132, hopper, declared)
		d.target, d.atOnce = "sm_90a", [9]int{2: 66, 3: 39, 4: 30, 5: 22, 6: 17, 7: 15, 8: 15}
		p := &packed{x: tensor.New(tensor.F16, c.rows, c.in, nil), n: len(c.outs)}
		for i, out := range c.outs {
			p.list[i] = &matrix{in: c.in, out: out, padded: out, widest: c.bits, units128: c.in / 128}
		}
		plan, ok := d.qgemmPlan(p)
		if got := (want{plan.rows, plan.cluster, plan.clusters, plan.slots}); !ok || got != c.want || plan.shared+declared > hopper {
			t.Errorf("%s: %v %+v, %d bytes of shared memory, want %+v", c.name, ok, got, plan.shared, c.want)
		}
	}
}

// What Hopper multiplies by seventeen rows to 128 is neither turned nor of an activation that its order does not know.
func TestTakesSome(t *testing.T) {
	for _, c := range []struct {
		name string
		rows int
		then device.Then
		act  device.Act
		want bool
	}{
		{"seventeen rows", 17, device.Put, 0, true},
		{"as many as there are", 128, device.Add, 0, true},
		{"rows for tiles", 129, device.Put, 0, false},
		{"heads that turn", 64, device.Turn, 0, false},
		{"a gate", 64, device.Gate, device.ReLU, true},
		{"a gate of another function", 64, device.Gate, device.Logistic, false},
	} {
		d := planner(t, 9, 132, 227<<10, 192)
		d.target, d.atOnce = "sm_90a", [9]int{2: 66, 3: 39, 4: 30, 5: 22, 6: 17, 7: 15, 8: 15}
		m := &matrix{in: 4096, out: 4096, padded: 4096, widest: 4, units128: 32}
		p := &packed{x: tensor.New(tensor.F16, c.rows, 4096, nil), list: [mostMatrices]*matrix{m, m}, n: 2, then: c.then, act: c.act}
		if got := d.takesSome(p); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
		if d.target = "sm_90"; d.takesSome(p) {
			t.Errorf("%s: without code for Hopper", c.name)
		}
	}
}
