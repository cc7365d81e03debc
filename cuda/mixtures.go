package cuda

import (
	"exl2/internal/device"
	"exl2/internal/tensor"
)

type routeFunc func(d *Device, l launch, order, experts, first, places, weights, logits, correction, gate, scales tensor.Tensor,
	rows, count, chosen, columns int32, ld, ldg int64, score, groups, topGroups, groupMax, renorm int32, renormEps, scale, jitter float32)

type chooseFunc func(d *Device, l launch, ids, places, weights, logits, correction, gate, scales tensor.Tensor,
	rows, count, chosen, columns int32, ld, ldg int64, score, groups, topGroups, groupMax, renorm int32, renormEps, scale, jitter float32)

// routers are kernels by the experts that they take.
var routers = []struct {
	route   routeFunc
	choose  chooseFunc
	experts int
}{
	{(*Device).route_2, (*Device).route_choose_2, 64}, {(*Device).route_4, (*Device).route_choose_4, 128},
	{(*Device).route_8, (*Device).route_choose_8, 256}, {(*Device).route_16, (*Device).route_choose_16, 512},
}

// Route chooses experts for rows of logits and sorts the rows by expert.
func (d *Device) Route(to device.Routes, logits, correction, scales, gate tensor.Tensor, r device.Routing) {
	rows, experts, chosen, columns := logits.Rows, logits.Cols, to.Chosen(), to.Places.Cols
	want(to.Places.Rows == rows && to.Weights.Rows == rows && to.Weights.Cols == columns && to.Rows.Cols == rows*chosen &&
		to.Experts.Cols == rows*chosen && to.First.Cols == experts+1 && (chosen <= experts || rows == 0), "Route", to.Places, to.Rows, logits)
	want((correction.Nil() || correction.Cols == experts) && (gate.Nil() || gate.Rows == rows && to.Shared()) && (scales.Nil() || scales.Cols == experts), "Route", correction, gate)
	v := routers[len(routers)-1]
	if experts > v.experts || r.Groups > route_most_groups || chosen > route_most_groups {
		d.failWith("Route: %d of %d experts in %d groups, want at most %d of %d in %d; --devices cpu has no such limit",
			chosen, experts, r.Groups, route_most_groups, v.experts, route_most_groups)
		return
	}
	if rows == 0 {
		d.Clear(to.First)
		return
	}
	for _, w := range routers {
		if v = w; experts <= w.experts {
			break
		}
	}
	n := rows * chosen
	if n <= route_few_chosen {
		l := launch{blocks: dim{x: 1}, threads: dim{x: min(route_few_threads, max(32*rows, 256))}}
		l.shared = d.routeShared(r, experts, l.threads.x/32)
		v.route(d, l, to.Rows, to.Experts, to.First, to.Places, to.Weights, logits, correction, gate, scales, int32(rows), int32(experts), int32(chosen), int32(columns),
			int64(logits.Stride), int64(gate.Stride), int32(r.Score), int32(r.Groups), int32(r.TopGroups), flag(r.GroupMax), flag(r.Renorm), r.RenormEps, r.Scale, r.Jitter)
		return
	}
	ids := d.scratch(scratchStats, tensor.I32, 1, n)
	l := launch{blocks: dim{x: pieces(rows, route_choose_warps)}, threads: dim{x: 32 * route_choose_warps}, shared: d.routeShared(r, experts, route_choose_warps)}
	v.choose(d, l, ids, to.Places, to.Weights, logits, correction, gate, scales, int32(rows), int32(experts), int32(chosen), int32(columns),
		int64(logits.Stride), int64(gate.Stride), int32(r.Score), int32(r.Groups), int32(r.TopGroups), flag(r.GroupMax), flag(r.Renorm), r.RenormEps, r.Scale, r.Jitter)
	d.route_sort(launch{blocks: dim{x: experts}, threads: dim{x: route_sort_threads}}, to.Rows, to.Experts, to.First, to.Places, ids, int32(n), int32(chosen), int32(columns))
}

// routeShared returns the shared memory that ranking groups takes.
func (d *Device) routeShared(r device.Routing, experts, warps int) int {
	if r.Groups < 2 {
		return 0
	}
	return warps * experts * tensor.F32.Size()
}

// Gather is y[i] = x[rows[i]].
func (d *Device) Gather(y, x, rows tensor.Tensor) {
	want(y.Cols == x.Cols && rows.Cols == y.Rows && y.Type == x.Type, "Gather", y, x, rows)
	gather := d.gather_f16
	if x.Type == tensor.F32 {
		gather = d.gather_f32
	}
	gather(byRow(y.Rows, y.Cols, 256), y, x, rows, int32(y.Cols), int64(y.Stride), int64(x.Stride))
}

// Combine is y[r] += scale·Σ weights[r, k]·x[places[r, k]].
func (d *Device) Combine(y, x, places, weights tensor.Tensor, scale float32) {
	wantPlaces("Combine", y, x, places, weights)
	d.added(y)
	combine := d.combine_f16
	if x.Type == tensor.F32 {
		combine = d.combine_f32
	}
	combine(combineLaunch(y), y, x, places, weights, int64(y.Cols), int32(places.Cols), int64(y.Stride), int64(x.Stride), int64(places.Stride), int64(weights.Stride), scale)
}

// combineLeft is Combine behind kernels of MixExperts, which leaves y for its reader if that can be.
func (d *Device) combineLeft(y, x, places, weights tensor.Tensor, scale float32, reader *device.Products) {
	if reader != nil && y.Rows <= mostLinked && places.Cols <= combine_lanes && y.Cols%half_elements == 0 {
		l := combineLaunch(y)
		if to := d.leaves(y, reader, l.blocks.x*combine_threads/combine_lanes); !to.rows.Nil() {
			d.combine_left(l, y, x, places, weights, to.rows, to.squares, to.powers, to.places, to.scale,
				int32(y.Cols), int32(places.Cols), int64(y.Stride), int64(x.Stride), int64(places.Stride), int64(weights.Stride), scale, to.norm.Offset)
			return
		}
	}
	d.Combine(y, x, places, weights, scale)
}

// CombineBack is dx[places[r, k]] += scale·weights[r, k]·dy[r].
func (d *Device) CombineBack(dx, dy, places, weights tensor.Tensor, scale float32) {
	wantPlaces("CombineBack", dy, dx, places, weights)
	d.combine_back(combineLaunch(dy), dx, dy, places, weights, int64(dy.Cols), int32(places.Cols), int64(dx.Stride), int64(dy.Stride), int64(places.Stride), int64(weights.Stride), scale)
}

func wantPlaces(op string, y, x, places, weights tensor.Tensor) {
	want(y.Cols == x.Cols && places.Rows == y.Rows && (weights.Nil() || weights.Rows == y.Rows && weights.Cols == places.Cols), op, y, x, places, weights)
}

// combineLaunch returns a launch for all elements of rows.
func combineLaunch(y tensor.Tensor) launch {
	if y.Rows == 0 {
		return launch{}
	}
	return launch{blocks: dim{x: pieces(y.Cols, combine_threads*half_elements), y: y.Rows}, threads: dim{x: combine_threads}}
}
