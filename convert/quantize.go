package convert

import (
	"fmt"
	"math"

	"exl2/internal/device"
	"exl2/internal/exl2"
	"exl2/internal/job"
	"exl2/internal/model"
	"exl2/internal/profile"
	"exl2/internal/quant"
	"exl2/internal/sensitivity"
	"exl2/internal/stream"
	"exl2/internal/tensor"
)

// quantize quantizes every sublayer and the head.
func (b *build) quantize() error {
	q, err := b.newQuantizing()
	if err != nil {
		return err
	}
	defer q.close()
	if err := b.run.walk(q, b.checkpoint(), b.stage); err != nil {
		return err
	}
	return q.head()
}

// quantizing is the phase that works through the modules for one target. It
// carries two streams of hidden states: behind the source's modules, and behind
// what they have become. The first tells what the second has drifted from.
type quantizing struct {
	build *build
	run   *run // the build's

	pass     *stream.Pass // of the quantized model
	passR    *stream.Pass // of the reference
	x, r     *stream.Store
	dx       *stream.Scratch // for differences of what linears read
	coverage []int           // of the experts of the last module
	columns  columns         // of the module that is worked on
	moments  *momentsAhead
	holds    bool // a sweep holds activations on the device

	mark, prepared *device.Mark   // of what is fetched beside other work, or nil
	packing        *packing       // of the site before, or nil
	packed         []packedMatrix // of the module, as far as they have come

	stock   quant.Stock // of modules that are written
	writing chan error  // gives what became of the module that is being written; nil if none is
}

// newQuantizing allocates the hidden states.
func (b *build) newQuantizing() (*quantizing, error) {
	r, length, spec := b.run, b.run.opts.Data.Length, b.run.src.loader.Spec
	most := r.together(length)
	q := &quantizing{build: b, run: r, pass: stream.NewPass(r.dev, spec, length, most), passR: stream.NewPass(r.dev, spec, length, most)}
	q.dx = q.pass.Scratch(r.calibrationRows(), r.dev.Activation(), most*length, r.src.loader.Width())
	q.moments = &momentsAhead{run: r}
	place, rows, floats := r.place(r.quantizeStreams()), r.calibrationRows(), length*spec.Handed()
	q.holds = r.memory.Held
	if f, ok := r.dev.(device.Fetcher); ok {
		packed, prepared := f.NewMark(), f.NewMark()
		q.mark, q.prepared = &packed, &prepared
	}
	var err error
	if q.x, err = place.Store(rows, floats); err == nil {
		q.r, err = place.Store(rows, floats)
	}
	if err != nil {
		q.close()
		return nil, err
	}
	return q, nil
}

func (q *quantizing) close() {
	q.settle()
	if q.packing != nil {
		q.packing.Free()
	}
	q.moments.close()
	q.pass.Free()
	q.passR.Free()
	q.dx.Free()
	for _, s := range q.stores() {
		if s.Hidden != nil {
			s.Hidden.Close()
		}
	}
}

func (q *quantizing) stores() []job.Store {
	return []job.Store{{Name: "quantized", Hidden: q.x}, {Name: "reference", Hidden: q.r}}
}

func (q *quantizing) embed(e *model.Module) error {
	if err := q.pass.Embed(q.run.ctx, e, q.run.tokens.calibration(), q.x); err != nil {
		return err
	}
	return q.passR.Embed(q.run.ctx, e, q.run.tokens.calibration(), q.r)
}

// resume has nothing to do: what is quantized is in files.
func (q *quantizing) resume([]model.ModuleSpec) error { return nil }

// step quantizes a module, writes it, and moves both streams behind it.
func (q *quantizing) step(spec model.ModuleSpec) (note string, err error) {
	end := q.run.profile.On("quantize: load", profile.Work{})
	source, err := q.run.shelf.load(spec)
	end()
	if err != nil {
		return "", err
	}
	defer source.Free()
	work := source.Twin()
	defer work.Free()
	packed, err := q.steps(source, work, q.planned)
	if err != nil {
		return "", fmt.Errorf("quantize %s: %w", work.Name, err)
	}
	e := moduleError{Key: work.Name, Coverage: q.coverage}
	if e.Error, err = q.distance(); err != nil {
		return "", fmt.Errorf("quantize %s: %w", work.Name, err)
	}
	if err := q.settle(); err != nil {
		return "", err
	}
	q.start(e, packed)
	return fmt.Sprintf("error %.4f", e.Error), nil
}

// mine: a target has one worker.
func (q *quantizing) mine(model.ModuleSpec) bool { return true }

func (q *quantizing) planned(l *model.Linear) (exl2.Recipe, error) {
	return q.build.plan.recipe(l.Name)
}

// steps quantizes the linears of work step by step, each step on inputs that
// come from the quantized linears before it, and puts them in their places.
func (q *quantizing) steps(source, work *model.Module, recipe func(*model.Linear) (exl2.Recipe, error)) ([]packedMatrix, error) {
	q.packed = nil
	s := &sweep{quantizing: q, source: source, work: work}
	defer s.close()
	if err := s.cover(); err != nil {
		return nil, err
	}
	q.coverage = s.coverage
	if q.run.opts.Quality.compensates() {
		var err error
		if q.columns, err = q.moments.next(work.Name); err != nil {
			return nil, err
		}
	}
	for n := range work.Steps {
		if work.Kind == model.Head && len(work.Steps[n].Sites) == 0 {
			break // logits are computed in parts, by others
		}
		if err := s.quantize(n, recipe); err != nil {
			return nil, err
		}
	}
	err := q.collect()
	return q.packed, err
}

func freeAll(list []*quant.Hessian) {
	for _, h := range list {
		h.Free()
	}
}

// damping is that of Hessians while quantizing (docs/algorithm.md, "Damping and factor").
var damping = quant.Damping{Own: 0.2, Mean: 0.05}

// site quantizes the linears of one site, whose Hessian it frees.
func (q *quantizing) site(h *quant.Hessian, site model.Site, recipe func(*model.Linear) (exl2.Recipe, error)) error {
	k := float64(site.Linears[0].In)
	corrections := q.corrections(h, site.Linears)
	defer corrections.Free()
	end := q.run.profile.On("quantize: factor", profile.Work{Flops: 4.0 / 3 * k * k * k})
	h.Damp(damping)
	f, err := h.Factor()
	end()
	if err != nil {
		return err
	}
	defer f.Free()
	if f.Nearest {
		q.run.progress.Warn(sensitivity.NearestWarning(site.Linears))
	}
	if err := q.run.ctx.Err(); err != nil {
		return err
	}
	return q.matrices(f, site.Linears, corrections, recipe)
}

func (q *quantizing) corrections(h *quant.Hessian, linears []*model.Linear) *quant.Corrections {
	weights, numbers := make([]tensor.Tensor, len(linears)), 0.0
	for i, l := range linears {
		weights[i] = l.W.(model.Dense).Tensor
		numbers += float64(l.In) * float64(l.Out)
	}
	defer q.run.profile.On("quantize: target", profile.Work{Flops: 2 * float64(linears[0].In) * numbers})()
	return h.Corrections(weights)
}

// matrices quantizes the linears of a site, side by side, and puts the results in
// their places.
func (q *quantizing) matrices(f *quant.Factor, linears []*model.Linear, corrections *quant.Corrections, recipe func(*model.Linear) (exl2.Recipe, error)) (err error) {
	d, p := q.run.dev, q.run.profile
	if err := q.collect(); err != nil {
		return err
	}
	recipes, weights := make([]exl2.Recipe, len(linears)), 0.0
	for i, l := range linears {
		if recipes[i], err = recipe(l); err != nil {
			return fmt.Errorf("%s: %w", l.Name, err)
		}
		weights += float64(l.In) * float64(l.Out)
	}
	k := float64(linears[0].In)
	end := p.On("quantize: target", profile.Work{Flops: 2 * k * weights})
	targets := f.Corrected(corrections)
	for _, t := range targets {
		defer t.Free()
	}
	corrections.Free()
	end()
	loss := d.Alloc(tensor.F64, 1, len(linears))
	defer d.Free(loss)
	ready := q.prepare(targets, linears)
	defer ready.Free()
	end = p.On("quantize: gptq", profile.Work{Flops: k * weights})
	list := quant.Quantize(targets, recipes, loss)
	defer func() {
		for _, r := range list {
			r.Free()
		}
	}()
	end()
	descents := q.run.opts.Quality.descents()
	end = p.On("quantize: descent", profile.Work{Flops: descentProducts(descents) * 2 * k * weights})
	quant.Descend(list, descents)
	end()
	q.compensate(ready, list, linears)
	defer p.On("quantize: pack", profile.Work{Bytes: 2 * weights})()
	packed := make([]device.Matrix, len(linears))
	device.SideBySide(d, len(list), func(i int) { packed[i] = list[i].Matrix() })
	for i, l := range linears {
		l.Replace(d, q.weight(packed[i]))
	}
	out := &packing{Packing: quant.NewPacking(list, packed, q.mark), linears: linears}
	for i, l := range linears {
		q.unpack(l, packed[i])
	}
	q.packing = out
	if q.mark == nil {
		return q.collect()
	}
	return nil
}

// weight returns what a packed matrix is multiplied as. A GPU decodes it, as so many rows are
// multiplied by it.
func (q *quantizing) weight(packed device.Matrix) model.Weight {
	if q.run.ownMemory() {
		return model.Unpacked{Matrix: packed}
	}
	return model.Quantized{Matrix: packed}
}

// unpack has a linear's packed matrix stay decoded, where there is room for what linears read, too.
func (q *quantizing) unpack(l *model.Linear, packed device.Matrix) {
	if d := q.run.dev; q.holds && q.run.ownMemory() {
		w := device.Blank(d, tensor.F16, l.Out, l.In)
		d.Decode(w, packed)
		l.Replace(d, model.Dense{Tensor: w})
	}
}

// columnDamp is how much of the mean of columns' moments is added to each one's own.
const columnDamp = 0.1

// prepare prepares for compensation where moments of columns are known.
func (q *quantizing) prepare(targets []*quant.Target, linears []*model.Linear) *quant.Preparation {
	defer q.run.profile.On("quantize: compensation", profile.Work{})()
	known := make([]*quant.Columns, len(linears))
	for i, l := range linears {
		known[i] = q.columns[l.Name]
	}
	return quant.Prepare(targets, known, columnDamp, q.prepared)
}

// compensate has columns make up for each other's errors.
func (q *quantizing) compensate(p *quant.Preparation, list []*quant.Result, linears []*model.Linear) {
	flops := 0.0
	for _, l := range linears {
		if q.columns[l.Name] != nil {
			flops += 8 * float64(l.In) * float64(l.In) * float64(l.Out)
		}
	}
	if flops == 0 {
		return
	}
	defer q.run.profile.On("quantize: compensation", profile.Work{Flops: flops})()
	p.Compensate(list)
}

// distance returns ‖x - r‖/‖r‖ over both streams as they are now.
func (q *quantizing) distance() (float64, error) {
	defer q.run.profile.On("quantize: distance", profile.Work{Bytes: 8 * float64(q.x.Rows*q.x.Floats)})()
	d, rows := q.run.dev, q.x.Rows
	s := quant.NewScalars(d, 2*rows)
	defer s.Free()
	diffs, squares := s.Take(rows), s.Take(rows)
	err := q.pairs((*stream.Lane).Borrow, (*stream.Lane).Borrow, func(wave []pair) error {
		return eachPair(wave, func(p pair) error {
			last := p.row + p.n
			d.Distances(diffs.Columns(p.row, last), squares.Columns(p.row, last), p.x.State.At(model.Residual), p.r.State.At(model.Residual))
			return nil
		})
	})
	if err == nil {
		err = s.Fetch()
	}
	if err != nil {
		return 0, err
	}
	diff, square := sum(s.Values(diffs)), sum(s.Values(squares))
	switch {
	case math.IsNaN(diff) || math.IsInf(diff, 0):
		return 0, fmt.Errorf("hidden states are NaN or infinite behind this module")
	case square == 0:
		return 0, nil
	}
	return math.Sqrt(diff / square), nil
}

func sum(values []float64) float64 {
	s := 0.0
	for _, v := range values {
		s += v
	}
	return s
}
