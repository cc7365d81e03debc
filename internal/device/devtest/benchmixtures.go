package devtest

import (
	"fmt"

	"exl2/internal/device"
	"exl2/internal/exl2"
	"exl2/internal/tensor"
)

// benchMixtures lists what mixtures of experts need, at the shape of qwen3-30b-a3b:
// 128 experts of 2048 x 768, of which a row sees eight.
func benchMixtures() (cases []benchCase) {
	const hidden, width, experts, chosen = 2048, 768, 128, 8
	for _, rows := range []int{1, 2, 8, 16, 64} {
		cases = append(cases, benchCase{name: fmt.Sprintf("Route/rows=%d", rows), build: func(d device.Device) (func(), int) {
			r := emptyRoutes(d, rows, experts, chosen)
			logits := filled(d, tensor.F32, rows, experts)
			return func() {
				d.Route(r, logits, tensor.Tensor{}, tensor.Tensor{}, tensor.Tensor{}, device.Routing{Renorm: true})
			}, logits.Bytes()
		}}, benchCase{name: fmt.Sprintf("Combine/rows=%d", rows), build: func(d device.Device) (func(), int) {
			r := someRoutes(d, rows, experts, chosen, 0)
			y, x := filled(d, tensor.F32, rows, hidden), filled(d, d.Activation(), rows*chosen, hidden)
			return func() { d.Combine(y, x, r.Places, r.Weights, 1) }, 2*y.Bytes() + x.Bytes()
		}},
			benchChoose(hidden, rows), benchMixExperts(hidden, width, rows))
	}
	for _, rows := range []int{1, 2, 8, 16, 64, 512, 2048} {
		cases = append(cases, benchGroup("GroupMul/two of 2048x768", hidden, width, rows, 2), benchGroup("GroupMul/768x2048", width, hidden, rows, 1))
	}
	return cases
}

// benchGroup is a product with the experts of some rows, of 128, others in each call.
func benchGroup(name string, in, out, rows, count int) benchCase {
	const experts, chosen = 128, 8
	var groups []device.Group
	calls := 0
	return benchCase{name: fmt.Sprintf("%s/rows=%d", name, rows), build: func(d device.Device) (func(), int) {
		if len(groups) == 0 {
			m := quantized(in, out, "1:4b_128g")
			for range count {
				groups = append(groups, loadGroup(d, m, experts))
			}
		}
		calls++
		r := someRoutes(d, rows, experts, chosen, calls*chosen)
		x := filled(d, d.Activation(), rows, in)
		index, from := r.Rows, x
		if count == 1 {
			index, from = tensor.Tensor{}, filled(d, d.Activation(), rows*chosen, in)
		}
		var ys []tensor.Tensor
		for range groups {
			ys = append(ys, d.Alloc(d.Activation(), rows*chosen, out))
		}
		return func() { d.GroupMul(ys, from, index, groups, r) }, count * min(rows*chosen, experts) * in * out / 2
	}}
}

// benchChoose is a norm, a router and the choice of experts.
func benchChoose(hidden, rows int) benchCase {
	const experts, chosen = 128, 8
	return benchCase{name: fmt.Sprintf("Choose/rows=%d", rows), build: func(d device.Device) (func(), int) {
		to := device.Choice{Routes: emptyRoutes(d, rows, experts, chosen), Logits: filled(d, tensor.F32, rows, experts)}
		x, y := filled(d, tensor.F32, rows, hidden), d.Alloc(d.Activation(), rows, hidden)
		r := device.Router{Norm: device.Norm{Eps: 1e-6}, Scale: filled(d, tensor.F32, 1, hidden), W: filled(d, tensor.F16, experts, hidden), Routing: device.Routing{Renorm: true}}
		return func() { d.Choose(to, y, x, r) }, r.W.Bytes()
	}}
}

// benchMixExperts is a mixture behind its choice, other experts in each call.
func benchMixExperts(hidden, width, rows int) benchCase {
	const experts, chosen = 128, 8
	var e device.Experts
	calls := 0
	return benchCase{name: fmt.Sprintf("MixExperts/rows=%d", rows), build: func(d device.Device) (func(), int) {
		if e.Gate == nil {
			in, out := quantized(hidden, width, "1:4b_128g"), quantized(width, hidden, "1:4b_128g")
			e = device.Experts{Groups: device.Groups{Gate: loadGroup(d, in, experts), Up: loadGroup(d, in, experts), Down: loadGroup(d, out, experts)}, Scale: 1}
		}
		calls++
		r, m, n := someRoutes(d, rows, experts, chosen, calls*chosen), e, rows*chosen
		m.Gates, m.Ups, m.Each = d.Alloc(d.Activation(), n, width), d.Alloc(d.Activation(), n, width), d.Alloc(d.Activation(), n, hidden)
		y, x := filled(d, tensor.F32, rows, hidden), filled(d, d.Activation(), rows, hidden)
		return func() { d.MixExperts(y, x, m, r) }, 3 * min(n, experts) * hidden * width / 2
	}}
}

// loadGroup makes a group of copies of a matrix.
func loadGroup(d device.Device, m *exl2.Matrix, n int) device.Group {
	var list []device.Matrix
	for range n {
		list = append(list, d.LoadEXL2(m, m.Out))
	}
	return d.Group(list, nil, nil)
}

// emptyRoutes allocates a choice of experts.
func emptyRoutes(d device.Device, rows, experts, chosen int) device.Routes {
	n := rows * chosen
	return device.Routes{
		Rows: d.Alloc(tensor.I32, 1, n), Experts: d.Alloc(tensor.I32, 1, n), First: d.Alloc(tensor.I32, 1, experts+1),
		Places: d.Alloc(tensor.I32, rows, chosen), Weights: d.Alloc(tensor.F32, rows, chosen),
	}
}

// someRoutes has every row see other experts, from one on.
func someRoutes(d device.Device, rows, experts, chosen, from int) device.Routes {
	r := emptyRoutes(d, rows, experts, chosen)
	f := &fixture{dev: d}
	logits := f.in("logits", tensor.F32, rows, experts, func(i int) float32 {
		row, e := i/experts, i%experts
		return -float32((e - from - row*chosen%experts + 2*experts) % experts)
	})
	d.Route(r, logits, tensor.Tensor{}, tensor.Tensor{}, tensor.Tensor{}, device.Routing{Renorm: true})
	return r
}
