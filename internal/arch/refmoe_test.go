package arch_test

import (
	"cmp"
	"math"
	"slices"

	"exl2/internal/arch"
	"exl2/internal/device"
)

// mixture is a mixture of experts at one position.
func (r reference) mixture(l int, x []float64) []float64 {
	m, n := r.MoE, r.Names
	logits := r.linear(l, 0, n.Router, x)
	chosen, weight := r.choose(l, logits)
	in := x
	if m.Latent > 0 {
		in = r.linear(l, 0, n.LatentIn, x)
	}
	out := make([]float64, len(in))
	for i, e := range chosen {
		if m.Early {
			add(out, r.expert(l, e, n.ExpertGate, n.ExpertUp, n.ExpertDown, scaled(in, weight[i])), 1)
			continue
		}
		add(out, r.expert(l, e, n.ExpertGate, n.ExpertUp, n.ExpertDown, in), weight[i])
	}
	if m.Latent > 0 {
		out = r.linear(l, 0, n.LatentOut, out)
	}
	if m.Shared > 0 {
		f := 1.0
		if m.SharedGated {
			w := r.vector(n.Layer(l, n.SharedRouter) + ".weight")
			f = sigmoid(product(w, x, 1)[0])
		}
		add(out, r.expert(l, 0, n.SharedGate, n.SharedUp, n.SharedDown, x), f)
	}
	return scaled(out, orOne(m.Scale))
}

// apart is a mixture whose experts, router and shared expert, which reads in, have norms of their own (MoE.Apart).
func (r reference) apart(l int, x, in stream) stream {
	n := r.Names
	scale, each := r.vector(n.Layer(l, n.RouterScale)), r.vector(n.Layer(l, n.ExpertScales))
	read := r.part(l, n.NormExpertIn, x)
	shared, mixed := make(stream, len(x)), make(stream, len(x))
	for p, v := range x {
		routed := normalize(v, nil, nil, r.Norm)
		for i := range routed {
			routed[i] *= scale[i] / math.Sqrt(float64(r.Hidden))
		}
		chosen, weight := r.choose(l, r.linear(l, 0, n.Router, routed))
		mixed[p] = make([]float64, r.Hidden)
		for i, e := range chosen {
			add(mixed[p], r.expert(l, e, n.ExpertGate, n.ExpertUp, n.ExpertDown, read[p]), weight[i]*each[e])
		}
		shared[p] = r.expert(l, 0, n.SharedGate, n.SharedUp, n.SharedDown, in[p])
	}
	out := r.part(l, n.NormShared, shared)
	for p, v := range r.part(l, n.NormExpertOut, mixed) {
		add(out[p], v, 1)
	}
	return out
}

// choose returns the experts and their weights.
func (r reference) choose(l int, logits []float64) (chosen []int, weight []float64) {
	g := r.MoE.Routing
	if g.Score == device.SparseMixer {
		return sparseMixer(logits, float64(g.Jitter))
	}
	scores := slices.Clone(logits)
	switch g.Score {
	case device.SoftmaxAll:
		scores = softmax(logits)
	case device.Sigmoid:
		for i := range scores {
			scores[i] = sigmoid(scores[i])
		}
	}
	by := slices.Clone(scores)
	if g.Correction {
		add(by, r.vector(r.Names.Layer(l, r.Names.Correction)), 1)
	}
	chosen = best(within(by, g), r.MoE.TopK)
	sum := 0.0
	for _, e := range chosen {
		weight, sum = append(weight, scores[e]), sum+scores[e]
	}
	if g.Score == device.SoftmaxTop {
		weight = softmax(weight)
	}
	if g.Renorm {
		weight = scaled(weight, 1/(sum+float64(g.RenormEps)))
	}
	return chosen, scaled(weight, orOne(g.Scale))
}

// within leaves only the experts of the best groups.
func within(by []float64, g arch.Routing) []float64 {
	if g.Groups < 2 {
		return by
	}
	size := len(by) / g.Groups
	scores := make([]float64, g.Groups)
	for i := range scores {
		group := by[i*size:][:size]
		top := best(group, 2)
		scores[i] = group[top[0]]
		if !g.GroupMax {
			scores[i] += group[top[1]]
		}
	}
	keep := best(scores, g.TopGroups)
	out := slices.Clone(by)
	for e := range out {
		if !slices.Contains(keep, e/size) {
			out[e] = math.Inf(-1)
		}
	}
	return out
}

// best returns the indices of the k largest.
func best(v []float64, k int) []int {
	order := make([]int, len(v))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(v[b], v[a]) })
	return order[:k]
}

func softmax(v []float64) []float64 {
	y, sum, most := make([]float64, len(v)), 0.0, slices.Max(v)
	for i, e := range v {
		y[i] = math.Exp(e - most)
		sum += y[i]
	}
	return scaled(y, 1/sum)
}

func sparseMixer(logits []float64, jitter float64) (chosen []int, weight []float64) {
	left := slices.Clone(logits)
	for range 2 {
		e := best(left, 1)[0]
		m := left[e]
		sum := 0.0
		for i, x := range logits {
			if !math.IsInf(left[i], -1) && (m-x)/max(math.Abs(x), m) <= 2*jitter {
				sum += math.Exp(x - m)
			}
		}
		chosen, weight = append(chosen, e), append(weight, 1/sum)
		left[e] = math.Inf(-1)
	}
	return chosen, weight
}
