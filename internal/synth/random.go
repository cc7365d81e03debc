package synth

import (
	"hash/fnv"
	"math"
	"math/rand/v2"
	"sync"

	"exl2/internal/half"
	"exl2/internal/parallel"
	"exl2/internal/tensor"
)

// deviation is the standard deviation of weights, as models are initialized.
const deviation = 0.02

// run is how many elements come from one generator. Runs are independent, so
// they can be made on any number of cores.
const run = 1 << 16

// quantiles has, for every 16-bit number, the normal variate of that rank.
var quantiles = sync.OnceValue(func() *[1 << 16]half.F16 {
	t := new([1 << 16]half.F16)
	for i := range t {
		p := (float64(i) + 0.5) / (1 << 16)
		t[i] = half.ToF16(float32(deviation * math.Sqrt2 * math.Erfinv(2*p-1)))
	}
	return t
})

// generator returns the random numbers of one run of a tensor.
func (m *Model) generator(name string, n int) *rand.PCG {
	h := fnv.New64a()
	h.Write([]byte(name))
	return rand.NewPCG(m.seed, h.Sum64()+uint64(n)*0x9e3779b97f4a7c15)
}

// runs calls f for every run of n elements on all cores.
func (m *Model) runs(name string, n int, f func(r *rand.PCG, lo, hi int)) {
	parallel.Runs(n, run, func(lo, hi int) { f(m.generator(name, lo/run), lo, hi) })
}

// normal makes n normal variates as F16.
func (m *Model) normal(name string, n int) []byte {
	out, table := make([]half.F16, n), quantiles()
	m.runs(name, n, func(r *rand.PCG, lo, hi int) {
		for i := lo; i < hi; i += 4 {
			bits := r.Uint64()
			for k := i; k < min(i+4, hi); k++ {
				out[k] = table[bits&0xffff]
				bits >>= 16
			}
		}
	})
	return tensor.BytesOf(out)
}

// words makes n random 32-bit words.
func (m *Model) words(name string, n int) []byte {
	out := make([]uint32, n)
	m.runs(name, n, func(r *rand.PCG, lo, hi int) {
		for i := lo; i < hi; i += 2 {
			bits := r.Uint64()
			out[i] = uint32(bits)
			if i+1 < hi {
				out[i+1] = uint32(bits >> 32)
			}
		}
	})
	return tensor.BytesOf(out)
}

// permutation makes a random permutation of n rows.
func (m *Model) permutation(name string, n int) []byte {
	out := make([]int32, n)
	for i, p := range rand.New(m.generator(name, 0)).Perm(n) {
		out[i] = int32(p)
	}
	return tensor.BytesOf(out)
}
