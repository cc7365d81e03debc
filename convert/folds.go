package convert

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"exl2/internal/model"
	"exl2/measure"
)

// fitting leaves out, of what is to be looked at, places where fp16 could not hold what
// becomes of them.
func (s *source) fitting(candidates map[string]model.Folding) error {
	trial := *s.loader
	all := model.Folding{}
	for _, f := range candidates {
		maps.Copy(all, f)
	}
	if err := trial.Fold(all); err != nil {
		return err
	}
	for _, m := range trial.Layout {
		for _, place := range m.Folds(trial.Spec) {
			if all[place.Name] == nil {
				continue
			}
			fits, err := fitsFolded(&trial, place)
			if err != nil {
				return err
			}
			if !fits {
				delete(candidates[m.Name], place.Name)
			}
		}
	}
	return nil
}

// listed lists what is folded, in the order of the layout.
func (s *source) listed(f model.Folding) (list []measure.Fold) {
	for _, m := range s.loader.Layout {
		for _, place := range m.Folds(s.loader.Spec) {
			if x := compact(place.Name, f[place.Name]); len(x.Channels) > 0 {
				list = append(list, x)
			}
		}
	}
	return list
}

// rotatable refuses a rotation that fp16 cannot hold.
func (s *source) rotatable(f folding) error {
	trial := *s.loader
	if err := f.apply(&trial); err != nil {
		return err
	}
	for _, name := range trial.Rotated() {
		t, err := trial.Files.Get(name)
		if err == nil && holdable(t) != nil {
			err = fmt.Errorf("%s: %w", name, model.ErrTooLarge)
		}
		if errors.Is(err, model.ErrTooLarge) {
			err = fmt.Errorf("%w: --fold rotation: %w; leave --fold out", ErrRefused, err)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// fitsFolded reports whether all numbers of a place can be held by fp16.
func fitsFolded(l *model.Loader, place model.Fold) (bool, error) {
	names := []string{place.Name + ".weight", place.Name + ".bias"}
	for _, x := range place.Reads {
		names = append(names, x.Name+".weight")
	}
	for _, name := range names {
		if !l.Files.Has(name) {
			continue
		}
		t, err := l.Files.Get(name)
		if err != nil {
			return false, err
		}
		if holdable(t) != nil {
			return false, nil
		}
	}
	return true, nil
}

// compact lists the channels that are scaled.
func compact(key string, e []int8) measure.Fold {
	f := measure.Fold{Key: key}
	for i, v := range e {
		if v != 0 {
			f.Channels, f.Exponents = append(f.Channels, i), append(f.Exponents, int(v))
		}
	}
	return f
}

// expand turns what a file says into exponents of all channels.
func expand(l *model.Loader, list []measure.Fold) (model.Folding, error) {
	channels := map[string]int{}
	for _, m := range l.Layout {
		for _, place := range m.Folds(l.Spec) {
			channels[place.Name] = place.Channels
		}
	}
	f := model.Folding{}
	for _, x := range list {
		n, ok := channels[x.Key]
		if !ok {
			return nil, fmt.Errorf("%s cannot be folded", x.Key)
		}
		e := make([]int8, n)
		for i, c := range x.Channels {
			if c < 0 || c >= n {
				return nil, fmt.Errorf("%s has %d channels, and %d is folded", x.Key, n, c)
			}
			e[c] = int8(x.Exponents[i])
		}
		f[x.Key] = e
	}
	return f, nil
}

// apply does it to a source.
func (f folding) apply(l *model.Loader) error {
	folds, err := expand(l, f.Folds)
	if err == nil {
		err = l.Fold(folds)
	}
	if err == nil && f.Rotated && !l.Rotate() {
		err = fmt.Errorf("the residual stream of %s cannot be rotated", l.Spec.Arch)
	}
	return err
}

// withoutNorms leaves out what a rotation does by itself.
func (s *source) withoutNorms(list []measure.Fold) []measure.Fold {
	norms := map[string]bool{}
	for _, m := range s.loader.Layout {
		for _, n := range m.Norms {
			norms[n.Name] = true
		}
	}
	return slices.DeleteFunc(list, func(f measure.Fold) bool { return norms[f.Key] })
}

// Folded counts what of the source is scaled, and what could be.
type Folded struct {
	Norms      int  `json:"norms"`
	OfNorms    int  `json:"of_norms"`
	Matrices   int  `json:"matrices"`
	OfMatrices int  `json:"of_matrices"`
	Rotated    bool `json:"rotated"` // the residual stream, which takes the place of scaling norms
}

// String says it in a line.
func (f Folded) String() string {
	text := fmt.Sprintf("folded: channels of %d of %d norms and %d of %d matrices", f.Norms, f.OfNorms, f.Matrices, f.OfMatrices)
	if f.Rotated {
		text = fmt.Sprintf("folded: the residual stream is rotated, %d norms are 1; channels of %d of %d matrices", f.OfNorms, f.Matrices, f.OfMatrices)
	}
	return text
}

// folded counts.
func (r *run) folded() *Folded {
	c, scaled := &Folded{Rotated: r.folding.Rotated}, map[string]bool{}
	for _, f := range r.folding.Folds {
		scaled[f.Key] = true
	}
	for _, m := range r.src.loader.Layout {
		for _, place := range m.Folds(r.src.loader.Spec) {
			some, of := &c.Matrices, &c.OfMatrices
			if place.Norm {
				some, of = &c.Norms, &c.OfNorms
			}
			*of++
			if scaled[place.Name] {
				*some++
			}
		}
	}
	return c
}
