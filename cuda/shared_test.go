package cuda

import (
	"testing"

	"exl2/internal/affine"
	"exl2/internal/device"
	"exl2/internal/tensor"
)

// planner opens a fake GPU with some multiprocessors and shared memory, of which kernels
// declare some themselves.
func planner(t *testing.T, major, sms, shared, declared int) *Device {
	t.Helper()
	f := newFake()
	f.own, f.attr[attributeSharedOptIn], f.attr[attributeSMs] = int32(declared), int32(shared), int32(sms)
	d := f.open(t)
	d.major = major
	return d
}

// Whatever the columns are, operations want no more shared memory than there is beside
// what kernels declare themselves.
func TestSharedMemoryIsThere(t *testing.T) {
	const hopper, ampere, turing = 227 << 10, 99 << 10, 64 << 10
	const declared = 15 << 10 // as much as any whose launches are planned
	for _, c := range []struct{ major, sms, shared int }{{9, 132, hopper}, {9, 2, hopper}, {8, 84, ampere}, {7, 68, turing}, {12, 170, ampere}} {
		for in := 128; in <= 60<<10; in += 128 * (1 + in/2048) {
			d := planner(t, c.major, c.sms, c.shared, declared)
			mixRow(d, in)
			permuteRows(d, in)
			multiplyRows(d, in)
			multiplyAffine(d, in)
			if err := d.Sync(); err != nil {
				t.Fatalf("%+v, %d columns: %v", c, in, err)
			}
			d.Close()
		}
	}
}

// A matrix of some columns, with nothing in it, of which there may be several.
func emptyGroup(in, out, count int) *group {
	return &group{in: in, out: out, count: count, most: mostOf{in: in, units: in / 128, widest: 8, unitGroups: 4}}
}

// mixRow mixes a row, if one kernel may.
func mixRow(d *Device, in int) {
	const experts, chosen = 12, 8
	row := func(cols int) tensor.Tensor { return d.Alloc(tensor.F32, 1, cols) }
	half := func(rows, cols int) tensor.Tensor { return d.Alloc(tensor.F16, rows, cols) }
	to := device.Choice{Routes: device.Routes{Places: d.Alloc(tensor.I32, 1, chosen), Rows: d.Alloc(tensor.I32, 1, chosen)}, Logits: row(experts)}
	r := device.Router{Scale: row(in), W: half(experts, in)}
	width := min(in, 768)
	e := device.Experts{Groups: device.Groups{Gate: emptyGroup(in, width, experts), Up: emptyGroup(in, width, experts), Down: emptyGroup(width, in, experts)}, Gates: half(chosen, width), Ups: half(chosen, width)}
	d.Mixture(row(in), row(in), to, r, e)
	e.Clamp.Limit = 7
	d.Mixture(row(in), row(in), to, r, e)
	for times := 1; times <= 2; times++ {
		e.Whole = &device.Groups{Gate: wideGroup(in, width, 1, times, experts), Up: wideGroup(in, width, 1, times, experts), Down: wideGroup(width, in, times, 1, experts)}
		d.Mixture(row(in), row(in), to, r, e)
	}
}

// wideGroup is an empty group and one matrix more, with so many times the inputs and outputs.
func wideGroup(in, out, inputs, outputs, count int) *group {
	g := emptyGroup(in, out, count+1)
	g.last.in, g.last.out, g.last.units = in*inputs, out*outputs, inputs*g.most.units
	return g
}

// multiplyRows multiplies as many rows as one kernel may.
func multiplyRows(d *Device, in int) {
	for i, rows := range []int{1, 2, 3, 4, 5, 8, 9, 16} {
		m := fakeMatrix(d, in, 4096)
		m.widest, m.unitGroups, m.groups, m.chunks = []int{3, 4, 8}[(i+in/128)%3], 1+3*(i%2), in/32, in/128*4
		m.order, m.places, m.sorted = d.Alloc(tensor.F16, 1, in), d.Alloc(tensor.F16, 1, in), 1
		for u := range m.units128 {
			m.unitBlocks = append(m.unitBlocks, uint16(4*u))
		}
		p := packed{x: d.Alloc(tensor.F16, rows, in), ordered: i%2 == 0, then: device.Gate, n: 2}
		p.list[0], p.list[1], p.y[0] = m, m, d.Alloc(tensor.F16, rows, m.out)
		if d.takesPacked(&p) {
			d.multiplyPacked(&p)
		}
	}
}

// permuteRows puts many rows in another order, if there is room for one.
func permuteRows(d *Device, in int) {
	rows := 4 * d.sms
	if in*tensor.F16.Size() <= d.sharedFor(kernel_permute_1_f16) {
		d.permute(d.Alloc(tensor.F16, rows, in), d.Alloc(tensor.F16, rows, in), d.Alloc(tensor.I32, 1, in))
	}
}

// multiplyAffine multiplies rows by matrices of affine codes.
func multiplyAffine(d *Device, in int) {
	for _, bits := range affine.Widths {
		for _, rows := range []int{1, 9, affineRows} {
			m := &affineMatrix{in: in, out: 4096, bits: bits}
			m.multiply(d, d.Alloc(tensor.F16, rows, m.out), d.Alloc(tensor.F16, rows, in), tensor.Tensor{})
		}
	}
}

// What a block asks for makes shared memory of so much that others have room beside it, but not more of it.
func TestSharedBeside(t *testing.T) {
	for _, c := range []struct{ shared, others, want int }{
		{120 << 10, 11 << 10, 120 << 10},       // 132 KB, of which a block takes one for itself
		{120<<10 + 16, 11 << 10, 131<<10 + 16}, // and then 164
		{126592, 15824, 131<<10 + 16},          // gemma-2-9b
		{135808, 8720, 135808},                 // llama2-7b
		{90 << 10, 20 << 10, 99<<10 + 16},      // of 132
		{120 << 10, 40 << 10, 120 << 10},       // no size has that much more than the one before
		{120 << 10, 0, 120 << 10}, {0, 7 << 10, 0},
	} {
		if got := sharedBeside(c.shared, c.others); got != c.want {
			t.Errorf("%d beside %d: %d, want %d", c.shared, c.others, got, c.want)
		}
	}
}
