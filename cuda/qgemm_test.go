package cuda

import (
	"slices"
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

// What Hopper multiplies by seventeen rows to 128 is not turned, and activated without a gate by ReLU alone.
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
		{"a ReLU without one", 64, device.SelfGate, device.ReLU, true},
		{"another function without one", 64, device.Activate, device.GELU, false},
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

// What is activated is of a gate and what it opens, of one size, or of one matrix, and by a function that kernels of products have.
func TestActivates(t *testing.T) {
	small, large := &matrix{out: 96}, &matrix{out: 128}
	for _, c := range []struct {
		name string
		then device.Then
		act  device.Act
		list []*matrix
		want bool
	}{
		{"a gate", device.Gate, device.ReLU, []*matrix{small, small}, true},
		{"a gate alone", device.Gate, device.SiLU, []*matrix{small}, false},
		{"a gate of another size", device.Gate, device.SiLU, []*matrix{small, large}, false},
		{"a gate of another function", device.Gate, device.Logistic, []*matrix{small, small}, false},
		{"one", device.Activate, device.GELU, []*matrix{large}, true},
		{"one by itself", device.SelfGate, device.ReLU, []*matrix{large}, true},
		{"one of another function", device.SelfGate, device.Softplus, []*matrix{large}, false},
		{"two without a gate", device.Activate, device.GELU, []*matrix{small, small}, false},
	} {
		p := &packed{then: c.then, act: c.act, n: len(c.list)}
		copy(p.list[:], c.list)
		if got := p.activates(); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}

// Products of seventeen rows to 128 are an order and one launch, of a gate, too, which is opened by the order of what reads it, or, where that is not given, by
// a kernel of its own. Nothing is done where one of several cannot be.
func TestSomeProducts(t *testing.T) {
	const rows, hidden, width = 64, 256, 512
	normed, product := "qgemm_order_rms", "qgemm_hopper_64"
	for _, c := range []struct {
		name string
		list func(d *Device, p map[string]device.Products) []device.Products
		want []string
	}{
		{"several of a norm", func(_ *Device, p map[string]device.Products) []device.Products { return []device.Products{p["put"]} }, []string{normed, product}},
		{"added to the stream", func(_ *Device, p map[string]device.Products) []device.Products { return []device.Products{p["add"]} }, []string{"qgemm_order_f16", product}},
		{"a gate", func(_ *Device, p map[string]device.Products) []device.Products { return []device.Products{p["gate"]} }, []string{normed, product, "act_mul_silu_f16"}},
		{"a gate and what reads it", func(_ *Device, p map[string]device.Products) []device.Products {
			gate := p["gate"]
			gate.Next = p["down"].List[0].W
			return []device.Products{gate, p["down"]}
		}, []string{normed, product, "qgemm_order_f16"}},
		{"a gate, and another of which codes are not known", func(d *Device, p map[string]device.Products) []device.Products {
			other := p["add"]
			other.List = []device.Product{{Y: other.List[0].Y, W: &affineMatrix{}}}
			return []device.Products{p["gate"], other}
		}, nil},
	} {
		d := hopperFake(t)
		d.shared = 227 << 10
		stream, some, acted := d.Alloc(tensor.F32, rows, hidden), d.Alloc(tensor.F16, rows, hidden), d.Alloc(tensor.F16, rows, width)
		scale := d.Alloc(tensor.F32, 1, hidden)
		of := func(out int, then device.Then, names ...string) (p device.Products) {
			p = device.Products{X: stream, Scale: scale, Then: then}
			for i := range names {
				l := device.Product{W: orderedMatrix(d, hidden, out)}
				if then != device.Gate || i == 0 {
					l.Y = d.Alloc(tensor.F16, rows, out)
				}
				p.List = append(p.List, l)
			}
			return p
		}
		p := map[string]device.Products{
			"put":  of(hidden, device.Put, "q", "k", "v"),
			"add":  {X: some, Then: device.Add, List: []device.Product{{Y: stream, W: orderedMatrix(d, hidden, hidden)}}},
			"gate": of(width, device.Gate, "gate", "up"),
			"down": {X: acted, Sorted: true, Then: device.Add, List: []device.Product{{Y: stream, W: orderedMatrix(d, width, hidden)}}},
		}
		d.trail.clear()
		if got := d.Products(c.list(d, p)...); got != (c.want != nil) || !slices.Equal(d.trail.names, c.want) || d.err != nil {
			t.Errorf("%s: %v, %v, %v, want %v", c.name, got, d.trail.names, d.err, c.want)
		}
	}
}
