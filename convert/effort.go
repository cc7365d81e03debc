package convert

import (
	"math"
	"time"

	"exl2/internal/arch"
	"exl2/internal/device"
	"exl2/internal/profile"
	"exl2/internal/sensitivity"
	"exl2/internal/tensor"
)

// Shares of a large product's rate that the parts of a job reach, as --profile shows them
// for llama2-7b on an H200, and for testdata's tiny on two cores.
type shares struct {
	passes     float64 // of text, forward, with moments
	backward   float64
	candidates float64 // GPTQ of many candidates at once
	codes      float64 // everything that is done once for the codes of a matrix
	training   float64 // small models less on a GPU, larger ones more
	sampling   float64 // of text by the source, a token of all rows at a time
}

var onGPU, onCPU = shares{0.6, 0.2, 0.08, 0.05, 0.25, 0.14}, shares{0.6, 0.28, 0.1, 0.12, 0.6, 0.44}

func (r *run) shares() shares {
	if r.ownMemory() {
		return onGPU
	}
	return onCPU
}

// operations returns the floating-point operations of the phases that are not done, each as
// many as a large product would do in its time.
func (r *run) operations() float64 {
	n, s := 0.0, r.shares()
	if !r.measured {
		n += r.measureOperations(s)
	}
	if r.weighs(r.synthetic) {
		n += r.weighing(r.synthetic)
	}
	if len(r.unfinished()) > 0 && r.opts.Quality.compensates() {
		n += r.traceOperations(s)
	}
	n += 2 * float64(r.trainedWeights()) * float64(r.sampledTokens()) / s.sampling
	each := r.quantizeOperations(s)
	if r.opts.trains() {
		each += trainingOperations * float64(r.trainedWeights()) * r.trainedTokens() / s.training
	}
	return n + float64(len(r.unfinished()))*each
}

// sampledTokens returns how many tokens the source has to write still.
func (r *run) sampledTokens() (n int) {
	if len(r.unfinished()) == 0 {
		return 0
	}
	if r.tokens.synthetic == nil {
		n += r.synthetic * r.opts.Data.Length
	}
	if r.opts.trains() && r.tokens.training == nil {
		n += r.trainingRowsWanted() * r.schooling().length
	}
	return n
}

// measureOperations: passes of the base rows; of the probe rows forth and back, of
// the options, and of a module's variants; and every candidate's quantization.
func (r *run) measureOperations(s shares) float64 {
	d, weights := r.opts.Data, float64(r.src.weights())
	tokens := float64(len(r.tokens.measure) * d.MeasureLength)
	probes := float64(min(probeRows, len(r.tokens.measure)) * d.MeasureLength)
	variants := float64(r.src.variants()) / float64(len(r.src.loader.Decoder())) // of a module
	n := (2*weights*tokens + 2*weights*probes*(9+variants+1)) / s.passes
	n += 2 * weights * probes * 2 / s.backward
	candidates := float64(len(sensitivity.Recipes(arch.Q)))
	for _, m := range r.src.shapes {
		in, out := float64(m.In), float64(m.Out)
		n += in * in * tokens / s.passes
		n += (candidates + 2) * (in*in*out + 200*in*out) / s.candidates
	}
	head := float64(r.src.loader.Spec.Hidden * r.src.loader.Spec.Vocab)
	return n + 2*2*head*probes/s.backward
}

// traceOperations: the rows that gradients are followed for, forth and back.
func (r *run) traceOperations(s shares) float64 {
	weights := float64(r.src.weights() + r.src.loader.Spec.Hidden*r.src.loader.Spec.Vocab)
	tokens := float64(len(r.traced()) * r.opts.Data.Length)
	return 2 * weights * tokens * (1/s.passes + 2/s.backward)
}

// quantizeOperations: two streams through every sublayer, some parts of it several times;
// moments; factors, one quantization, its descents, and compensation, which is some eight products of the
// inputs' moments by the weights.
func (r *run) quantizeOperations(s shares) float64 {
	tokens := float64(r.calibrationRows() * r.opts.Data.Length)
	n := 2 * 2 * 2.2 * float64(r.src.weights()) * tokens / s.passes
	products := 3 + 3*float64(r.opts.Quality.descents())
	if r.opts.Quality.compensates() {
		products += 8
	}
	for _, m := range r.src.shapes {
		in, out := float64(m.In), float64(m.Out)
		n += 1.5*in*in*tokens/s.passes + products*in*in*out/s.codes
	}
	return n
}

// Sides of the products that devices' speed is measured by: on a GPU a large one, if there is
// room for it.
const sideOnCPU, sideOnGPU = 512, 8192

// side returns that of the device.
func (r *run) side() int {
	if n := r.opts.on().product; n > 0 {
		return n
	}
	d, own := r.dev.(device.MemoryInfo)
	if !own {
		return sideOnCPU
	}
	n := sideOnGPU
	for n > sideOnCPU && 3*n*n*r.dev.Activation().Size() > r.freeOf(d) {
		n /= 2
	}
	return n
}

// speed measures how many operations a second the device does in a product of
// some size.
func (r *run) speed() float64 {
	d, n := r.dev, r.side()
	x, w, y := d.Alloc(d.Activation(), n, n), d.Alloc(d.Activation(), n, n), d.Alloc(d.Activation(), n, n)
	defer func() { d.Free(x); d.Free(w); d.Free(y) }()
	best := time.Duration(1 << 62)
	for range 3 {
		d.Sync()
		start := time.Now()
		d.MatMul(y, x, w, tensor.Tensor{})
		d.Sync()
		best = min(best, time.Since(start))
	}
	return 2 * math.Pow(float64(n), 3) / max(best.Seconds(), 1e-9)
}

// rates are what the device can do: products, and bytes of its memory.
func (r *run) rates() profile.Rates {
	rates := profile.Rates{Flops: r.speed(), Bytes: math.Inf(1)}
	if m, ok := r.dev.(device.Meter); ok {
		rates.Bytes = m.Bandwidth()
	}
	return rates
}
