package convert

import (
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"

	"exl2/internal/fold"
	"exl2/internal/model"
	"exl2/internal/stream"
	"exl2/measure"
)

// Fold says which channels of the source are scaled before it is measured. "" is
// FoldAuto.
type Fold string

// What can be folded.
const (
	FoldAuto  Fold = "auto"  // what differs much from the others and pays, by measured errors
	FoldNone  Fold = "none"  // nothing
	FoldNorms Fold = "norms" // all that differs much
)

// Foldings lists the values that Options.Fold can have.
var Foldings = []Fold{FoldAuto, FoldNone, FoldNorms}

func (f Fold) check() error {
	if f == "" || slices.Contains(Foldings, f) {
		return nil
	}
	var names []string
	for _, known := range Foldings {
		names = append(names, string(known))
	}
	return fmt.Errorf("fold: %q, want one of %s", string(f), strings.Join(names, ", "))
}

// String returns the name.
func (f Fold) String() string {
	if f == "" {
		return string(FoldAuto)
	}
	return string(f)
}

// Folded counts what of the source is scaled, and what could be.
type Folded struct {
	Norms      int `json:"norms"`
	OfNorms    int `json:"of_norms"`
	Matrices   int `json:"matrices"`
	OfMatrices int `json:"of_matrices"`
}

// String says it in a line.
func (f Folded) String() string {
	return fmt.Sprintf("folded: channels of %d of %d norms and %d of %d matrices", f.Norms, f.OfNorms, f.Matrices, f.OfMatrices)
}

// foldingName is the job's file with what is scaled.
const foldingName = "folding.json"

// looking returns what loads modules while the source is read: it looks for channels
// that differ from the others.
func (r *run) looking() func(model.ModuleSpec) (*model.Module, error) {
	if !r.finds() {
		return r.shelf.load
	}
	r.uneven = map[string]model.Folding{}
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

// finds reports whether it is this run that finds what to scale.
func (r *run) finds() bool {
	return !r.measured && r.opts.Measurement == "" && r.opts.Fold != FoldNone
}

func (r *run) look(m *model.Module) error {
	f, err := fold.Uneven(r.dev, r.src.loader, m)
	if err == nil && len(f) > 0 {
		r.uneven[m.Name] = f
	}
	return err
}

// checkFolds refuses a measurement of a model that was scaled otherwise.
func (r *run) checkFolds() error {
	if len(r.given.folds) == 0 {
		return nil
	}
	if r.opts.Fold == FoldNone {
		return fmt.Errorf("%w: --fold none: %s was measured with %d norms and matrices folded; leave --fold out, or measure again", ErrRefused, r.opts.Measurement, len(r.given.folds))
	}
	trial := *r.src.loader
	f, err := expand(&trial, r.given.folds)
	if err == nil {
		err = trial.Fold(f)
	}
	if err != nil {
		return fmt.Errorf("measurement %s: %w: it is another model's", r.opts.Measurement, err)
	}
	return nil
}

// fold scales the source, as an earlier run has found, or the measurement says, or this
// run finds.
func (r *run) fold(report *Report) error {
	found, err := r.job.ReadJSON(foldingName, &r.folds)
	if err == nil && !found {
		if r.folds, err = r.findFolds(); err == nil {
			err = r.job.WriteJSON(foldingName, r.folds)
		}
	}
	if err != nil || len(r.folds) == 0 {
		return err
	}
	f, err := expand(r.src.loader, r.folds)
	if err == nil {
		err = r.src.loader.Fold(f)
	}
	if err != nil {
		return r.job.Damaged(foldingName, err)
	}
	r.shelf.free() // modules that are not folded
	report.Folded = r.folded()
	r.progress.Note(report.Folded.String())
	return nil
}

// findFolds finds what to scale.
func (r *run) findFolds() ([]measure.Fold, error) {
	switch {
	case r.given != nil:
		return r.given.folds, nil
	case r.measured:
		return nil, r.job.Damaged(foldingName, fs.ErrNotExist)
	case r.opts.Fold == FoldNone:
		return nil, nil
	case r.uneven == nil:
		if err := r.lookAtAll(); err != nil {
			return nil, err
		}
	}
	chosen := model.Folding{}
	if r.opts.Fold == FoldNorms {
		for _, f := range r.uneven {
			maps.Copy(chosen, f)
		}
	} else if len(r.uneven) > 0 {
		var err error
		if chosen, err = r.probe(); err != nil {
			return nil, err
		}
	}
	return r.src.holdable(chosen)
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
const foldRows = 8

// probe chooses what pays.
func (r *run) probe() (model.Folding, error) {
	defer r.profile.Off("fold")()
	length := r.opts.Data.MeasureLength
	p := &fold.Prober{Dev: r.dev, Loader: r.src.loader, Load: r.shelf.load, Damping: damping, Pass: stream.NewPass(r.dev, r.src.loader.Spec, length, 1)}
	defer p.Pass.Free()
	var tokens [][]int32
	for _, row := range spread(len(r.tokens.measure), foldRows) {
		tokens = append(tokens, r.tokens.measure[row])
	}
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
