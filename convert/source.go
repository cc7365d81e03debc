package convert

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"exl2/internal/arch"
	"exl2/internal/exl2"
	"exl2/internal/model"
	"exl2/internal/safetensors"
)

// configName is the file that makes a folder a model.
const configName = "config.json"

// source is the model to be converted.
type source struct {
	dir     string
	loader  *model.Loader
	files   *safetensors.Set
	witness *witness           // through which all tensors are read
	shapes  []model.LinearSpec // of the decoder, that are quantized
	odd     []model.LinearSpec // that EXL2 cannot hold, and that stay as they are
	tied    bool               // the head is the embedding's table, unless folding has changed that

	quantized map[string]bool // linears by name
	exact     map[string]bool // tensors that keep their type: a correction's last bits decide who is chosen
	others    []other         // to be copied
	record    record          // of the source as it is now
	read      bool            // all of it, in this run
}

// openSource opens a model and refuses what cannot be converted.
func openSource(o *Options) (*source, error) {
	l, files, err := model.Open(o.Source)
	if err != nil {
		return nil, err
	}
	s := &source{dir: o.Source, files: files, loader: l, witness: newWitness(files), tied: l.Spec.Tied}
	l.Decode = true // to be quantized anew
	if err := l.Use(s.witness); err != nil {
		files.Close()
		return nil, fmt.Errorf("%s: %w", o.Source, err)
	}
	l.Spec.ScaleRope(o.RopeScale, o.RopeAlpha)
	longest := max(o.Data.Length, o.Data.MeasureLength)
	l.Spec.SetContext(longest)
	if err = l.CheckLength(longest); err == nil {
		err = s.check()
	}
	if err == nil && o.Fold == FoldRotation && !l.Spec.Rotates() {
		err = fmt.Errorf("%w: --fold rotation: the residual stream of %s cannot be rotated; leave --fold out", ErrRefused, l.Spec.Arch)
	}
	if err != nil {
		files.Close()
		return nil, fmt.Errorf("%s: %w", o.Source, err)
	}
	return s, nil
}

func (s *source) check() error {
	if s.loader.Quantized() {
		return fmt.Errorf("%w: the model is EXL2 already; convert its fp16 original", ErrRefused)
	}
	s.quantized, s.exact = map[string]bool{}, map[string]bool{}
	for _, m := range s.loader.Layout {
		for _, v := range m.Vectors {
			s.exact[v.Name] = true
		}
		for _, l := range m.Linears {
			if s.quantized[l.Name] = l.Packable(); !l.Packable() {
				s.odd = append(s.odd, l)
			} else if m.Kind != model.Head {
				s.shapes = append(s.shapes, l)
			}
		}
	}
	return s.checkOdd()
}

// checkOdd refuses a model if EXL2 cannot hold its head, or most of the rest.
func (s *source) checkOdd() error {
	odd := 0
	for _, l := range s.odd {
		odd += l.In * l.Out
		if l.Role == arch.Head || odd > s.weights() {
			return fmt.Errorf("%w: %s has %d inputs; EXL2 needs a multiple of %d up to %d", ErrRefused, l.Name, l.In, exl2.Align, 1<<16)
		}
	}
	return nil
}

// variants returns how many variants the decoder's matrices are measured with: one
// of each, one of those that experts have in the same place.
func (s *source) variants() int {
	n := 0
	for _, m := range s.shapes {
		if m.Expert == 0 {
			n++
		}
	}
	return n
}

// weights returns the number of weights of the decoder's matrices.
func (s *source) weights() int {
	n := 0
	for _, m := range s.shapes {
		n += m.In * m.Out
	}
	return n
}

func (s *source) close() {
	s.witness.pending.Wait() // nobody may have asked for the last ones
	s.files.Close()
}

// used leaves out tensors that nothing reads.
func (s *source) used(names []string) []string {
	return slices.DeleteFunc(names, s.loader.Spec.Unused)
}

// readingStage is what progress calls inspect.
const readingStage = "read the source"

// inspect loads every module and reads what no module has, so that what is
// missing, cannot be converted, or is not what it was stops the job before any
// work. copies says that modules have copies of what they are loaded from.
func (s *source) inspect(ctx context.Context, copies bool, load func(model.ModuleSpec) (*model.Module, error), p Progress) error {
	for _, l := range s.odd {
		p.Warn(fmt.Sprintf("%s has %d inputs, and EXL2 needs a multiple of %d up to %d: it stays as it is", l.Name, l.In, exl2.Align, 1<<16))
	}
	p.Start(readingStage, len(s.loader.Layout)+1)
	defer s.witness.release()
	for i, spec := range s.loader.Layout {
		s.farAhead(i)
		m, err := load(spec)
		if err != nil {
			return err
		}
		m.Free()
		if copies {
			s.witness.reuse()
		}
		p.Step(spec.Name, "")
		if err := ctx.Err(); err != nil {
			return err
		}
	}
	for _, name := range s.used(s.files.Names()) {
		if s.witness.sums[name] == "" {
			if _, err := s.witness.Get(name); err != nil {
				return err
			}
		}
	}
	p.Step("the rest", "")
	return nil
}

// another returns the source for another reader: a loader is for one.
func (s *source) another() *source {
	other, loader := *s, *s.loader
	other.witness, other.loader = s.witness.another(), &loader
	loader.Use(other.witness)
	return &other
}

// ahead is that of the source for a module that is not on the shelf.
func (r *run) ahead(place int) {
	if layout := r.src.loader.Layout; place >= 0 && place < len(layout) && !r.shelf.has(layout[place]) {
		r.src.ahead(place)
	}
}

// readAhead is how many weights are read ahead, if modules are smaller than that.
const readAhead = 1 << 28

// farAhead is ahead for several modules.
func (s *source) farAhead(place int) {
	weights := 0
	for i := place; i < len(s.loader.Layout); i++ {
		for _, l := range s.loader.Layout[i].Linears {
			weights += l.In * l.Out
		}
		if i > place && weights > readAhead {
			return
		}
		s.ahead(i)
	}
}

// ahead begins to read the weights of the module at a place of the layout, if
// there is one.
func (s *source) ahead(place int) {
	if place < 0 || place >= len(s.loader.Layout) {
		return
	}
	m := s.loader.Layout[place]
	var names []string
	for _, l := range m.Linears {
		names = append(names, l.Name+".weight", l.Name+".bias")
	}
	for _, n := range m.Norms {
		names = append(names, n.Name+".weight")
	}
	if m.Kind == model.Embedding {
		names = append(names, m.Table+".weight")
	}
	s.witness.Ahead(names)
}

// kept lists the tensors that the finished model has as they are, or as parts of
// what the source has.
func (s *source) kept() []string {
	var list []string
	for _, name := range s.used(s.loader.Files.Names()) {
		if key, ok := strings.CutSuffix(name, ".weight"); !ok || !s.quantized[key] {
			list = append(list, name)
		}
	}
	return list
}
