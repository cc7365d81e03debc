package convert

import (
	"fmt"
	"math"

	"exl2/internal/exl2"
	"exl2/internal/model"
	"exl2/internal/safetensors"
	"exl2/internal/stream"
	"exl2/internal/tensor"
	"exl2/measure"
	"exl2/quant"
)

// descents is how many passes of coordinate descent follow GPTQ: the second
// still pays, the third hardly does (docs/benchmarks.md).
const descents = 2

// A quantizer works through the modules for one target. It carries two streams
// of hidden states: behind the source's modules, and behind what they have
// become. The first tells the quantizer what the second has drifted from.
type quantizer struct {
	*run
	target     Target
	plan       *plan
	checkpoint *checkpoint

	pass   *stream.Pass // of the quantized model
	passR  *stream.Pass // of the reference
	x, r   *stream.Store
	dx, dr tensor.Tensor // scratch for differences
}

// moduleError is how far a module's output is from the source's, relative to it.
type moduleError struct {
	Key   string  `json:"key"`
	Error float64 `json:"error"`
}

// file returns the name of one of the target's files in the job.
func (q *quantizer) file(name string) string { return q.target.Text + "/" + name }

// quantizeAll quantizes every half-block and the head.
func (q *quantizer) quantizeAll() error {
	next, err := q.start()
	if err != nil {
		return err
	}
	defer q.free()
	last := q.src.loader.Modules() - 1
	q.progress.Start("quantize "+q.target.Text, last)
	for i := 1; i < last; i++ {
		key := q.src.loader.ModuleName(i)
		if i < next {
			q.progress.Skip(key)
			continue
		}
		e, err := q.halfBlock(i)
		if err != nil {
			return err
		}
		if q.checkpoint.due() {
			if err := q.checkpoint.write(i+1, q.stores()); err != nil {
				return err
			}
		}
		q.progress.Step(key, fmt.Sprintf("error %.4f", e.Error))
	}
	return q.head()
}

// start makes the streams in front of the first module that is not quantized.
func (q *quantizer) start() (next int, err error) {
	d, spec := q.opts.Data, q.src.loader.Spec
	rows, floats := len(q.tokens.quantize), d.Length*spec.Hidden
	q.pass, q.passR = stream.NewPass(q.dev, spec, d.Length, 1), stream.NewPass(q.dev, spec, d.Length, 1)
	wide := max(spec.Hidden, spec.MLP.Width, spec.Attn.Heads*spec.Attn.HeadDim)
	q.dx = q.dev.Alloc(tensor.F32, d.Length, wide)
	q.dr = q.dev.Alloc(tensor.F32, d.Length, spec.Hidden)
	spill := q.spill(q.quantizeStreams())
	if q.x, err = stream.NewStore(rows, floats, spill); err != nil {
		return 0, err
	}
	if q.r, err = stream.NewStore(rows, floats, spill); err != nil {
		return 0, err
	}
	if next, err = q.resume(); err != nil || next > 0 {
		return next, err
	}
	embedding, err := q.src.loader.Load(q.dev, 0)
	if err != nil {
		return 0, err
	}
	defer embedding.Free()
	if err := q.pass.Embed(q.ctx, embedding, q.tokens.quantize, q.x); err != nil {
		return 0, err
	}
	return 1, q.passR.Embed(q.ctx, embedding, q.tokens.quantize, q.r)
}

func (q *quantizer) stores() []namedStore {
	return []namedStore{{"quantized", q.x}, {"reference", q.r}}
}

// resume restores the streams of an interrupted run, if there are any.
func (q *quantizer) resume() (next int, err error) {
	f, next, err := q.checkpoint.open(q.src.loader.Modules() - 1)
	if f == nil {
		return 0, err
	}
	defer f.Close()
	for _, s := range q.stores() {
		if err := restore(f, s); err != nil {
			return 0, err
		}
	}
	return next, nil
}

func (q *quantizer) free() {
	q.pass.Free()
	q.passR.Free()
	q.dev.Free(q.dx)
	q.dev.Free(q.dr)
	q.x.Close()
	q.r.Close()
}

// halfBlock quantizes module i, writes it, and moves both streams behind it.
func (q *quantizer) halfBlock(i int) (e moduleError, err error) {
	source, err := q.src.loader.Load(q.dev, i)
	if err != nil {
		return e, err
	}
	defer source.Free()
	work, err := q.src.loader.Load(q.dev, i)
	if err != nil {
		return e, err
	}
	defer work.Free()
	packed, err := q.steps(source, work, q.planned)
	if err != nil {
		return e, fmt.Errorf("quantize %s: %w", work.Name(), err)
	}
	if err := q.writeModule(work.Name(), packed); err != nil {
		return e, err
	}
	if err := q.passR.Forward(q.ctx, source, q.r, q.r); err != nil {
		return e, err
	}
	if err := q.pass.Forward(q.ctx, work, q.x, q.x); err != nil {
		return e, err
	}
	e = moduleError{Key: work.Name()}
	if e.Error, err = q.distance(); err != nil {
		return e, fmt.Errorf("quantize %s: %w", work.Name(), err)
	}
	return e, q.job.writeJSON(q.file(e.Key+".json"), e)
}

func (q *quantizer) planned(l *model.Linear) (exl2.Recipe, error) { return q.plan.recipe(l.Name) }

// A packedMatrix is a quantized matrix and its name.
type packedMatrix struct {
	key    string
	matrix *exl2.Matrix
}

// steps quantizes the linears of work step by step, each step on inputs that
// come from the quantized linears before it, and puts them in their places.
func (q *quantizer) steps(source, work model.Module, recipe func(*model.Linear) (exl2.Recipe, error)) ([]packedMatrix, error) {
	var list []packedMatrix
	for n, step := range work.Steps() {
		if len(step.Linears) == 0 {
			continue
		}
		h, err := q.hessian(source.Steps()[:n+1], work.Steps()[:n+1])
		if err != nil {
			return nil, err
		}
		f, err := h.Factor()
		h.Free()
		if err != nil {
			return nil, err
		}
		if f.Plain {
			q.progress.Warn(measure.PlainWarning(step.Linears))
		}
		for _, l := range step.Linears {
			if err := q.ctx.Err(); err != nil {
				f.Free()
				return nil, err
			}
			m, err := q.matrix(f, l, recipe)
			if err != nil {
				f.Free()
				return nil, fmt.Errorf("%s: %w", l.Name, err)
			}
			list = append(list, packedMatrix{l.Name, m})
		}
		f.Free()
	}
	return list, nil
}

// hessian gathers the moments of what the last of the steps computes, in both
// streams.
func (q *quantizer) hessian(source, work []model.Step) (*quant.Hessian, error) {
	last := work[len(work)-1]
	k := last.Linears[0].In
	h := quant.NewHessian(q.dev, k)
	return h, q.pass.Each(q.ctx, q.x, func(s *model.State, row, n int) error {
		return q.passR.At(q.r, row, n, func(ref *model.State) error {
			for i := range work {
				work[i].Run(s)
				source[i].Run(ref)
			}
			x := last.Reads(s)
			h.Add(x)
			dx := q.dx.Reshape(x.Rows, k)
			q.dev.Copy(dx, x)
			q.dev.AddScaled(dx, source[len(source)-1].Reads(ref), -1)
			h.AddDrift(dx, x)
			if last.Adds {
				dr := q.dr.Reshape(s.X.Rows, s.X.Cols)
				q.dev.Copy(dr, ref.X)
				q.dev.AddScaled(dr, s.X, -1)
				h.AddResidual(x, dr)
			}
			return nil
		})
	})
}

// matrix quantizes one linear and puts the result in its place.
func (q *quantizer) matrix(f *quant.Factor, l *model.Linear, recipe func(*model.Linear) (exl2.Recipe, error)) (*exl2.Matrix, error) {
	r, err := recipe(l)
	if err != nil {
		return nil, err
	}
	t := f.Target(l.W.(model.Dense).Tensor)
	defer t.Free()
	result := t.Quantize(r)
	defer result.Free()
	result.Descend(t, descents)
	m, err := result.Pack()
	if err != nil {
		return nil, err
	}
	l.Replace(q.dev, model.Quantized{Matrix: q.dev.LoadEXL2(m, l.Out)})
	return m, nil
}

// distance returns ‖x - r‖/‖r‖ over both streams as they are now.
func (q *quantizer) distance() (float64, error) {
	x, r := make([]float32, q.x.Floats), make([]float32, q.r.Floats)
	diff, square := 0.0, 0.0
	for row := range q.x.Rows {
		if err := q.x.Read(x, row); err != nil {
			return 0, err
		}
		if err := q.r.Read(r, row); err != nil {
			return 0, err
		}
		for i, v := range x {
			d := float64(v) - float64(r[i])
			diff += d * d
			square += float64(r[i]) * float64(r[i])
		}
	}
	if math.IsNaN(diff) || math.IsInf(diff, 0) {
		return 0, fmt.Errorf("hidden states are NaN or infinite behind this module")
	}
	if square == 0 {
		return 0, nil
	}
	return math.Sqrt(diff / square), nil
}

// writeModule writes the quantized matrices of a module to the job.
func (q *quantizer) writeModule(key string, list []packedMatrix) error {
	var infos []safetensors.Info
	data := map[string][]byte{}
	for _, p := range list {
		for _, t := range p.matrix.Tensors() {
			name := p.key + "." + t.Suffix
			infos = append(infos, safetensors.Info{Name: name, DType: t.DType, Shape: t.Shape})
			data[name] = t.Data
		}
	}
	w, err := safetensors.Create(q.job.path(q.file(key+".safetensors")), infos)
	if err != nil {
		return err
	}
	defer w.Abort()
	for _, i := range infos {
		if err := w.Write(i.Name, data[i.Name]); err != nil {
			return err
		}
	}
	return w.Commit()
}
