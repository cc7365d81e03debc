package convert

import (
	"exl2/internal/arch"
	"fmt"
	"path/filepath"
	"time"

	"exl2/internal/model"
	"exl2/internal/stream"
	"exl2/internal/tensor"
	"exl2/measure"
)

// An Estimate says what a job will take.
type Estimate struct {
	Memory int           // bytes, of host and device together
	Disk   int           // bytes in the job's folder and the outputs'
	Time   time.Duration // of the phases that are not done
}

// String says it in a line.
func (e Estimate) String() string {
	return fmt.Sprintf("about %s of memory, %s on disk, %v", size(e.Memory), size(e.Disk), e.Time.Round(time.Second))
}

func size(bytes int) string {
	if bytes < 1e9 {
		return fmt.Sprintf("%.0f MB", float64(bytes)/1e6)
	}
	return fmt.Sprintf("%.1f GB", float64(bytes)/1e9)
}

// announce estimates the job, tells the user, and refuses one that does not fit
// the disk.
func (r *run) announce() error {
	e := r.estimate()
	r.progress.Note("this will take " + e.String())
	free, ok := freeDisk(filepath.Dir(r.job.dir))
	if need := e.Disk; ok && need > free {
		return fmt.Errorf("%w: the job needs about %s on disk, %s has %s free; give another --out-dir or fewer --dataset-rows",
			ErrRefused, size(need), filepath.Dir(r.job.dir), size(free))
	}
	return nil
}

// estimate counts bytes and operations.
func (r *run) estimate() Estimate {
	streams := max(r.measureStreams(), r.quantizeStreams())
	e := Estimate{Memory: r.workspace(), Disk: streams} // a checkpoint holds the streams once more
	if r.spill(streams) == "" {
		e.Memory += streams
	} else {
		e.Disk += streams
	}
	for _, t := range r.opts.Targets {
		e.Disk += 2 * r.src.outputBytes(t.Bits) // modules in the job, and the model
	}
	e.Time = time.Duration(r.operations() / r.speed() * float64(time.Second))
	return e
}

// measureStreams returns the bytes of hidden states that measuring carries.
func (r *run) measureStreams() int {
	rows := len(r.tokens.measure) + min(probeRows, len(r.tokens.measure))*(len(r.src.shapes)+2)
	return rows * r.opts.Data.MeasureLength * r.src.loader.Spec.Hidden * 4
}

// quantizeStreams returns the bytes of hidden states that quantizing carries.
func (r *run) quantizeStreams() int {
	return 2 * len(r.tokens.quantize) * r.opts.Data.Length * r.src.loader.Spec.Hidden * 4
}

// workspace returns the bytes that working on the widest half-block takes:
// Hessians and factors, the weight in several forms, activations.
func (r *run) workspace() int {
	spec, length := r.src.loader.Spec, max(r.opts.Data.Length, r.opts.Data.MeasureLength)
	inputs, weights := 0, spec.Hidden*spec.Vocab
	for _, m := range r.src.shapes {
		inputs, weights = max(inputs, m.In), max(weights, m.In*m.Out)
	}
	z, c := stream.Size(length)
	state := model.Bytes(spec, z, r.dev.Activation()) + model.CacheBytes(r.dev, spec, c)
	return 7*4*inputs*inputs + 4*4*weights + 2*state + 100<<20
}

// outputBytes returns the size of a finished model.
func (s *source) outputBytes(bits float64) int {
	spec := s.loader.Spec
	head := headRecipes[8].Size(spec.Hidden, spec.Vocab)
	return int(bits*float64(s.weights()))/8 + head/8 + 2*spec.Vocab*spec.Hidden
}

// operations returns the floating-point operations of the phases that are not
// done.
func (r *run) operations() float64 {
	n := 0.0
	if r.opts.Measurement == "" && !r.job.has("measurement.json") {
		n += r.measureOperations()
	}
	for _, t := range r.opts.Targets {
		if !r.job.has(t.Text + "/done.json") {
			n += r.quantizeOperations()
		}
	}
	return n
}

// measureOperations: passes of the base rows, of the variants through half of
// the model on average, and of the options; and every candidate's quantization.
func (r *run) measureOperations() float64 {
	d, weights := r.opts.Data, float64(r.src.weights())
	tokens := float64(len(r.tokens.measure) * d.MeasureLength)
	probes := float64(min(probeRows, len(r.tokens.measure)) * d.MeasureLength)
	n := 2*weights*tokens + 2*weights*probes*(float64(len(r.src.shapes))/2+20)
	candidates := float64(len(measure.Recipes(arch.Q)))
	for _, m := range r.src.shapes {
		in, out := float64(m.In), float64(m.Out)
		n += 2*in*in*tokens/2 + candidates*(in*in*out+200*in*out)
	}
	head := float64(r.src.loader.Spec.Hidden * r.src.loader.Spec.Vocab)
	return n + 2*head*probes*float64(len(r.src.shapes))
}

// quantizeOperations: two streams through every half-block, some parts of it
// several times; moments; one quantization and its descents.
func (r *run) quantizeOperations() float64 {
	tokens := float64(len(r.tokens.quantize) * r.opts.Data.Length)
	n := 2 * 2 * 2.2 * float64(r.src.weights()) * tokens
	for _, m := range r.src.shapes {
		in, out := float64(m.In), float64(m.Out)
		n += 2*1.5*in*in*tokens/2 + (4+2*descents)*in*in*out
	}
	return n
}

// speed measures how many operations a second the device does in a product of
// some size.
func (r *run) speed() float64 {
	const n = 512
	d := r.dev
	x, w, y := d.Alloc(d.Activation(), n, n), d.Alloc(tensor.F32, n, n), d.Alloc(d.Activation(), n, n)
	defer func() { d.Free(x); d.Free(w); d.Free(y) }()
	best := time.Duration(1 << 62)
	for range 3 {
		start := time.Now()
		d.MatMul(y, x, w, tensor.Tensor{})
		d.Sync()
		best = min(best, time.Since(start))
	}
	return 2 * n * n * n / max(best.Seconds(), 1e-9)
}
