package convert

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"

	"exl2/internal/fold"
	"exl2/internal/model"
	"exl2/internal/stream"
	"exl2/measure"
)

// Fold says what is done to the source, without changing what it computes, before it is
// measured. "" is FoldAuto.
type Fold string

// What can be folded.
const (
	FoldAuto     Fold = "auto"     // what pays, by measured errors
	FoldNone     Fold = "none"     // nothing
	FoldNorms    Fold = "norms"    // all channels of norms, and of matrices, that differ much are scaled
	FoldRotation Fold = "rotation" // the residual stream is rotated, and matrices' channels scaled where it pays
)

// Foldings lists the values that Options.Fold can have.
var Foldings = []Fold{FoldAuto, FoldNone, FoldNorms, FoldRotation}

func (f Fold) check() error { return oneOf("fold", f, Foldings) }

// String returns the name.
func (f Fold) String() string {
	if f == "" {
		return string(FoldAuto)
	}
	return string(f)
}

// folding is what is done to the source, as the job's file has it.
type folding struct {
	Rotated bool           `json:"rotated"`
	Folds   []measure.Fold `json:"folds"`
}

func (f folding) none() bool { return !f.Rotated && len(f.Folds) == 0 }

// foldingName is the job's file with that.
const foldingName = "folding.json"

// looking returns what loads modules while the source is read: it looks for channels
// that differ from the others.
func (r *run) looking() func(model.ModuleSpec) (*model.Module, error) {
	if r.measured || r.opts.Measurement != "" || r.opts.Fold == FoldNone {
		return r.shelf.load
	}
	r.uneven, r.stream = map[string]model.Folding{}, 0
	return func(spec model.ModuleSpec) (*model.Module, error) {
		m, err := r.shelf.load(spec)
		if err != nil {
			return nil, err
		}
		if err := r.look(m); err != nil {
			m.Free()
			return nil, err
		}
		return m, nil
	}
}

// look notes channels of a module, and of the stream behind it, that differ.
func (r *run) look(m *model.Module) error {
	f, err := fold.Uneven(r.dev, r.src.loader, m)
	if err != nil {
		return err
	}
	if len(f) > 0 {
		r.uneven[m.Name] = f
	}
	octaves, err := fold.Stream(r.dev, m)
	r.stream = max(r.stream, octaves)
	return err
}

// checkFolds refuses a measurement of a model to which something else was done.
func (r *run) checkFolds() error {
	f := r.given.folding
	if r.opts.Fold == FoldRotation && !f.Rotated {
		return fmt.Errorf("%w: --fold rotation: %s was measured without rotation; leave --fold out, or measure again", ErrRefused, r.opts.Measurement)
	}
	if f.none() {
		return nil
	}
	if r.opts.Fold == FoldNone {
		return fmt.Errorf("%w: --fold none: %s was measured with %d norms and matrices folded, rotated: %v; leave --fold out, or measure again", ErrRefused, r.opts.Measurement, len(f.Folds), f.Rotated)
	}
	trial := *r.src.loader
	if err := f.apply(&trial); err != nil {
		return fmt.Errorf("%w: measurement %s: %w: it is another model's", ErrRefused, r.opts.Measurement, err)
	}
	return nil
}

// fold does to the source what an earlier run has found, or the measurement says, or this
// run finds.
func (r *run) fold(report *Report) error {
	found, err := r.job.ReadJSON(foldingName, &r.folding)
	if err == nil && !found {
		if r.folding, err = r.findFolding(); err == nil {
			err = r.job.WriteJSON(foldingName, r.folding)
		}
	}
	if err != nil || r.folding.none() {
		return err
	}
	if err := r.folding.apply(r.src.loader); err != nil {
		return r.job.Damaged(foldingName, err)
	}
	r.shelf.free() // modules that are as they were
	report.Folded = r.folded()
	r.progress.Note(report.Folded.String())
	return nil
}

// findFolding finds what to do to the source.
func (r *run) findFolding() (f folding, err error) {
	switch {
	case r.given != nil:
		return r.given.folding, nil
	case r.measured:
		return f, r.job.Damaged(foldingName, fs.ErrNotExist)
	case r.opts.Fold == FoldNone:
		return f, nil
	case r.uneven == nil:
		if err := r.lookAtAll(); err != nil {
			return f, err
		}
	}
	if err := r.src.fitting(r.uneven); err != nil {
		return f, err
	}
	chosen := model.Folding{}
	if r.opts.Fold == FoldNorms {
		for _, f := range r.uneven {
			maps.Copy(chosen, f)
		}
	} else if len(r.uneven) > 0 {
		if chosen, err = r.probe(); err != nil {
			return f, err
		}
	}
	f.Folds = r.src.listed(chosen)
	if f.Rotated, err = r.rotates(f); err != nil || !f.Rotated {
		return f, err
	}
	turned := folding{true, r.src.withoutNorms(slices.Clone(f.Folds))}
	if err = r.src.rotatable(turned); err == nil {
		return turned, nil
	}
	if f.Rotated = false; errors.Is(err, model.ErrTooLarge) && r.opts.Fold != FoldRotation {
		return f, nil
	}
	return f, err
}

// lookAtAll looks at a source that an earlier run has read.
func (r *run) lookAtAll() error {
	load := r.looking()
	r.progress.Start("look for outliers", len(r.src.loader.Layout))
	for i, spec := range r.src.loader.Layout {
		r.ahead(i + 1)
		m, err := load(spec)
		if err != nil {
			return err
		}
		m.Free()
		r.progress.Step(spec.Name, "")
		if err := r.ctx.Err(); err != nil {
			return err
		}
	}
	return nil
}

// foldRows is how many of the measurement rows are looked at, half of them to judge by.
const foldRows = 16

// prober returns what judges, and its rows of tokens. Its pass is to be freed.
func (r *run) prober() (*fold.Prober, [][]int32) {
	var tokens [][]int32
	for _, row := range spread(len(r.tokens.measure), foldRows) {
		tokens = append(tokens, r.tokens.measure[row])
	}
	return &fold.Prober{
		Dev: r.dev, Loader: r.src.loader, Load: r.shelf.load, Damping: damping,
		Pass: stream.NewPass(r.dev, r.src.loader.Spec, r.opts.Data.MeasureLength, 1),
	}, tokens
}

// probe chooses what pays of channels that differ.
func (r *run) probe() (model.Folding, error) {
	defer r.profile.Off("fold")()
	p, tokens := r.prober()
	defer p.Pass.Free()
	last := 0
	for i, m := range r.src.loader.Layout {
		if len(r.uneven[m.Name]) > 0 {
			last = i
		}
	}
	r.progress.Start("fold", last)
	return p.Choose(r.ctx, tokens, r.uneven, func(module string, chosen, of int) {
		note := ""
		if of > 0 {
			note = fmt.Sprintf("%d of %d places", chosen, of)
		}
		r.progress.Step(module, note)
	})
}

// rotates decides whether the stream is rotated beside what is folded.
func (r *run) rotates(f folding) (bool, error) {
	if r.opts.Fold == FoldRotation {
		return true, nil
	}
	outliers := len(r.uneven) > 0 || r.stream >= fold.StreamOutlier
	if r.opts.Fold == FoldNorms || !outliers || !r.src.loader.Spec.Rotates() {
		return false, nil
	}
	defer r.profile.Off("fold")()
	p, tokens := r.prober()
	defer p.Pass.Free()
	folds, err := expand(r.src.loader, f.Folds)
	if err != nil {
		return false, err
	}
	r.progress.Start("rotate", len(r.src.loader.Layout)-1)
	rotates, err := p.Rotates(r.ctx, tokens, folds, func(module string) { r.progress.Step(module, "") })
	if errors.Is(err, model.ErrTooLarge) {
		return false, nil
	}
	return rotates, err
}
