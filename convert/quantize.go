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
	decoder := q.src.loader.Decoder()
	q.progress.Start("quantize "+q.target.Text, len(decoder)+1)
	for i, spec := range decoder {
		key := spec.Name
		if i+1 < next {
			q.progress.Skip(key)
			continue
		}
		e, err := q.halfBlock(spec)
		if err != nil {
			return err
		}
		if q.checkpoint.due() {
			if err := q.checkpoint.write(i+2, q.stores()); err != nil {
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
	q.pass, q.passR = stream.NewPass(q.dev, spec, d.Length), stream.NewPass(q.dev, spec, d.Length)
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
	embedding, err := q.src.loader.Load(q.dev, q.src.loader.Embedding())
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
	f, next, err := q.checkpoint.open(len(q.src.loader.Layout) - 1)
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

// halfBlock quantizes a module, writes it, and moves both streams behind it.
func (q *quantizer) halfBlock(spec model.ModuleSpec) (e moduleError, err error) {
	source, err := q.src.loader.Load(q.dev, spec)
	if err != nil {
		return e, err
	}
	defer source.Free()
	work, err := q.src.loader.Load(q.dev, spec)
	if err != nil {
		return e, err
	}
	defer work.Free()
	packed, err := q.steps(source, work, q.planned)
	if err != nil {
		return e, fmt.Errorf("quantize %s: %w", work.Name, err)
	}
	if err := q.writeModule(work.Name, packed); err != nil {
		return e, err
	}
	if err := q.passR.Forward(q.ctx, source, q.r, q.r); err != nil {
		return e, err
	}
	if err := q.pass.Forward(q.ctx, work, q.x, q.x); err != nil {
		return e, err
	}
	e = moduleError{Key: work.Name}
	if e.Error, err = q.distance(); err != nil {
		return e, fmt.Errorf("quantize %s: %w", work.Name, err)
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
func (q *quantizer) steps(source, work *model.Module, recipe func(*model.Linear) (exl2.Recipe, error)) ([]packedMatrix, error) {
	var list []packedMatrix
	for n := range work.Steps {
		hessians, err := q.hessians(source.Steps[:n+1], work.Steps[:n+1])
		if err != nil {
			return nil, err
		}
		for i, site := range work.Steps[n].Sites {
			packed, err := q.site(hessians[i], site, recipe)
			if err != nil {
				freeAll(hessians[i+1:])
				return nil, err
			}
			list = append(list, packed...)
		}
	}
	return list, nil
}

func freeAll(list []*quant.Hessian) {
	for _, h := range list {
		h.Free()
	}
}

// site quantizes the linears of one site, whose Hessian it frees.
func (q *quantizer) site(h *quant.Hessian, site model.Site, recipe func(*model.Linear) (exl2.Recipe, error)) ([]packedMatrix, error) {
	f, err := h.Factor()
	if err != nil {
		return nil, err
	}
	defer f.Free()
	if f.Plain {
		q.progress.Warn(measure.PlainWarning(site.Linears))
	}
	var list []packedMatrix
	for _, l := range site.Linears {
		if err := q.ctx.Err(); err != nil {
			return nil, err
		}
		m, err := q.matrix(f, l, recipe)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", l.Name, err)
		}
		list = append(list, packedMatrix{l.Name, m})
	}
	return list, nil
}

// hessians gathers the moments of what the last of the steps computes, in both
// streams.
func (q *quantizer) hessians(source, work []model.Step) ([]*quant.Hessian, error) {
	last := len(work) - 1
	var list []*quant.Hessian
	for _, site := range work[last].Sites {
		list = append(list, quant.NewHessian(q.dev, site.Linears[0].In))
	}
	if len(list) == 0 {
		return nil, nil
	}
	err := q.pass.Each(q.ctx, q.x, func(s *model.State, row int) error {
		return q.passR.At(q.r, row, func(ref *model.State) error {
			runTo(work, s)
			runTo(source, ref)
			for i, site := range work[last].Sites {
				q.gather(list[i], site, s, ref)
			}
			return nil
		})
	})
	if err != nil {
		freeAll(list)
		return nil, err
	}
	return list, nil
}

// runTo runs steps up to where the linears of the last one read.
func runTo(steps []model.Step, s *model.State) {
	for i := range steps {
		steps[i].Run(s)
		if i+1 < len(steps) {
			steps[i].Multiply(s)
		}
	}
}

// gather adds what a site reads in both streams.
func (q *quantizer) gather(h *quant.Hessian, site model.Site, s, ref *model.State) {
	x := s.At(site.Reads)
	h.Add(x)
	dx := q.dx.Reshape(x.Rows, x.Cols)
	q.dev.Copy(dx, x)
	q.dev.AddScaled(dx, ref.At(site.Reads), -1)
	h.AddDrift(dx, x)
	if site.Adds {
		q.dev.Copy(q.dr, ref.At(model.Stream))
		q.dev.AddScaled(q.dr, s.At(model.Stream), -1)
		h.AddResidual(x, q.dr)
	}
}

// matrix quantizes one linear and puts the result in its place.
func (q *quantizer) matrix(f *quant.Factor, l *model.Linear, recipe func(*model.Linear) (exl2.Recipe, error)) (*exl2.Matrix, error) {
	r, err := recipe(l)
	if err != nil {
		return nil, err
	}
	t := f.Target(l.W.(model.Dense).Tensor)
	defer t.Free()
	loss := q.dev.Alloc(tensor.F64, 1, 1)
	defer q.dev.Free(loss)
	list := quant.Quantize([]*quant.Target{t}, []exl2.Recipe{r}, loss)
	defer list[0].Free()
	quant.Descend(list, descents)
	packed := list[0].Matrix()
	l.Replace(q.dev, model.Quantized{Matrix: packed})
	return list[0].Download(packed)
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
