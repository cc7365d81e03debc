package convert

import (
	"errors"
	"maps"
	"slices"

	"golang.org/x/sync/errgroup"

	"exl2/internal/model"
	"exl2/internal/profile"
	"exl2/internal/quant"
	"exl2/internal/safetensors"
	"exl2/internal/sensitivity"
	"exl2/internal/stream"
	"exl2/internal/tensor"
)

// Gradients are followed for as many of the calibration rows as have so many tokens,
// and no more than so many rows.
const traceTokens, traceRows = 16384, 16

// A tracing is the phase that finds the moments of columns: some rows go through the
// source to the head, and gradients back.
type tracing struct {
	run      *run
	measurer *sensitivity.Measurer
	columns  columns        // of the module that is worked on
	saving   errgroup.Group // modules before it
}

// savedAtOnce is how many modules' moments are made and written beside the passes.
const savedAtOnce = 4

// trace finds the moments of columns, unless they are there.
func (r *run) trace() error {
	if !r.opts.Quality.compensates() || len(r.unfinished()) == 0 {
		return nil
	}
	if done, err := r.hasColumns(); done || err != nil {
		return err
	}
	if err := r.job.Folder("trace"); err != nil {
		return err
	}
	t := &tracing{run: r, columns: columns{}, measurer: &sensitivity.Measurer{
		Dev: r.dev, Loader: r.src.loader, Pass: stream.NewPass(r.dev, r.src.loader.Spec, r.opts.Data.Length, 1), Warn: r.progress.Warn,
		Load: r.shelf.load, Profile: r.profile, Place: r.place(r.traceStreams()), Probes: r.traced(),
	}}
	t.saving.SetLimit(savedAtOnce)
	defer t.measurer.Pass.Free()
	defer t.measurer.Close()
	err := t.pass()
	return errors.Join(err, t.saving.Wait())
}

// traced lists the calibration rows that gradients are followed for.
func (r *run) traced() []int {
	return spread(len(r.tokens.quantize), min(traceRows, max(2, traceTokens/r.opts.Data.Length)))
}

// traceStreams returns the bytes of hidden states and gradients that tracing carries.
func (r *run) traceStreams() int {
	if !r.opts.Quality.compensates() {
		return 0
	}
	return len(r.traced()) * (len(r.src.loader.Layout) + 1) * r.opts.Data.Length * r.src.loader.Spec.Handed() * 4
}

// hasColumns reports whether the moments of all modules are there.
func (r *run) hasColumns() (bool, error) {
	for _, m := range r.src.loader.Layout[1:] {
		if found, err := r.job.Has(columnsFile(m.Name)); err != nil || !found {
			return false, err
		}
	}
	return true, nil
}

// pass goes to the head and back.
func (t *tracing) pass() error {
	r := t.run
	layout, decoder := r.src.loader.Layout, r.src.loader.Decoder()
	r.progress.Start("trace gradients", len(layout)-1+len(decoder))
	e, err := r.src.loader.Load(r.dev, r.src.loader.Embedding())
	if err != nil {
		return err
	}
	defer e.Free()
	if err := t.measurer.EmbedProbes(r.ctx, e, r.tokens.quantize); err != nil {
		return err
	}
	end := r.profile.On("trace: forward", profile.Work{})
	for _, spec := range decoder {
		if err := t.measurer.Advance(r.ctx, spec); err != nil {
			return err
		}
		r.progress.Step(spec.Name, "")
	}
	end()
	for _, spec := range slices.Backward(layout[1:]) {
		if err := t.back(spec); err != nil {
			return err
		}
		r.progress.Step(spec.Name, "")
	}
	return nil
}

// back moves the gradients in front of a module, and has its moments kept, unless an
// earlier run has done so.
func (t *tracing) back(spec model.ModuleSpec) error {
	kept, err := t.run.job.Has(columnsFile(spec.Name))
	if err != nil {
		return err
	}
	t.measurer.Columns = func(name string, c *quant.Columns) { t.columns[name] = c }
	if kept {
		t.measurer.Columns = nil
	}
	if spec.Kind == model.Head {
		err = t.measurer.Head(t.run.ctx)
	} else {
		err = t.measurer.Back(t.run.ctx, spec)
	}
	if err != nil {
		return err
	}
	if kept {
		return nil
	}
	list := t.columns
	t.columns = columns{}
	t.saving.Go(func() error { return t.save(spec.Name, list) })
	return nil
}

// save keeps the moments of a module.
func (t *tracing) save(module string, list columns) error {
	defer t.run.profile.Beside("trace: write")()
	names := slices.Sorted(maps.Keys(list))
	infos := make([]safetensors.Info, len(names))
	for i, name := range names {
		c := list[name]
		infos[i] = safetensors.Info{Name: name, DType: safetensors.F16, Shape: []int{len(c.B) / c.Span, c.Span}}
	}
	w, err := t.run.job.CreateTensors(columnsFile(module), infos)
	if err != nil {
		return err
	}
	defer w.Abort()
	for _, info := range infos {
		if err := w.Write(info.Name, tensor.BytesOf(list[info.Name].B)); err != nil {
			return err
		}
	}
	return w.Commit()
}
