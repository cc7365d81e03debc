package fold

import (
	"context"
	"fmt"
	"math"

	"exl2/internal/arch"
	"exl2/internal/device"
	"exl2/internal/model"
	"exl2/internal/quant"
	"exl2/internal/stream"
	"exl2/internal/tensor"
)

const (
	// StreamOutlier is by how many octaves a channel of what writes the stream has to
	// differ from the others for a rotation to be tried.
	StreamOutlier = 3.0
	// marginAll is what the mean error of all matrices has to fall to: of a model without
	// outliers it falls to 0.95, or does not, with the text and the number of tokens.
	marginAll = 0.93
	// layers is how many layers stand for all when a rotation is judged.
	layers = 4
)

// Stream returns by how many octaves the root mean square of a channel is above the median, at
// most, in the matrices of a module that write the stream; 0 if there are none.
func Stream(d device.Quantize, m *model.Module) (float64, error) {
	most := 0.0
	for _, l := range m.AllLinears() {
		if l.Role != arch.O && l.Role != arch.Down || l.Expert >= experts {
			continue
		}
		squares, err := outputs(d, l.W.(model.Dense).Tensor)
		if err != nil {
			return 0, err
		}
		octaves := make([]float64, 0, len(squares))
		for _, v := range squares {
			if v > 0 {
				octaves = append(octaves, math.Log2(v)/2)
			}
		}
		if n := len(octaves); n > 0 {
			middle := median(octaves)
			for _, v := range octaves {
				most = max(most, v-middle)
			}
		}
	}
	return most, nil
}

// outputs returns the sums of the squares of the outputs' weights of w, [out, in].
func outputs(d device.Quantize, w tensor.Tensor) ([]float64, error) {
	s := quant.NewScalars(d, w.Rows)
	defer s.Free()
	t := d.Alloc(tensor.F32, min(tile, w.Rows), w.Cols)
	defer d.Free(t)
	for lo := 0; lo < w.Rows; lo += tile {
		part := w.Slice(lo, min(lo+tile, w.Rows))
		some := t.Slice(0, part.Rows)
		d.Copy(some, part)
		d.Dot(s.Take(part.Rows), some, some)
	}
	err := s.Fetch()
	return s.All(), err
}

// Rotates reports whether a model, folded so, loses less with its stream rotated: by the
// geometric mean over all matrices of some layers, and the head. After each module step is
// called.
func (p *Prober) Rotates(ctx context.Context, tokens [][]int32, folds model.Folding, step func(module string)) (bool, error) {
	plain, rotated := *p.Loader, *p.Loader
	for _, l := range []*model.Loader{&plain, &rotated} {
		if err := l.Fold(folds); err != nil {
			return false, err
		}
	}
	if !rotated.Rotate() {
		return false, nil
	}
	x, err := p.embed(ctx, tokens)
	if err != nil {
		return false, err
	}
	defer x.Close()
	sum, n := 0.0, 0
	for i, spec := range p.Loader.Layout[1:] {
		if spec.Kind == model.Head || p.sampled(spec.Layer) {
			a, err := p.judged(ctx, &plain, i+1, x)
			if err != nil {
				return false, fmt.Errorf("fold %s: %w", spec.Name, err)
			}
			turned, err := p.turned(&rotated, x)
			if err != nil {
				return false, err
			}
			b, err := p.judged(ctx, &rotated, i+1, turned)
			turned.Close()
			if err != nil {
				return false, fmt.Errorf("rotate %s: %w", spec.Name, err)
			}
			for name, v := range a {
				if b[name] > 0 && v > 0 {
					sum, n = sum+math.Log(b[name]/v), n+1
				}
			}
		}
		if spec.Kind != model.Head {
			if err := p.forward(ctx, spec, x); err != nil {
				return false, err
			}
		}
		step(spec.Name)
	}
	return n > 0 && math.Exp(sum/float64(n)) < marginAll, nil
}

// sampled reports whether a layer is one of those that stand for all, evenly spread.
func (p *Prober) sampled(layer int) bool {
	all := p.Loader.Spec.Layers
	n := min(layers, all)
	for i := range n {
		if layer == (2*i+1)*all/(2*n) {
			return true
		}
	}
	return false
}

// judged returns the errors of the module at a place of a loader's layout.
func (p *Prober) judged(ctx context.Context, l *model.Loader, place int, x *stream.Store) (map[string]float64, error) {
	m, err := l.Load(p.Dev, l.Layout[place])
	if err != nil {
		return nil, err
	}
	defer m.Free()
	return p.errors(ctx, m, x)
}

// turned returns rows of the stream as a rotated model has them.
func (p *Prober) turned(l *model.Loader, x *stream.Store) (*stream.Store, error) {
	y, err := stream.Place{}.Store(x.Rows, x.Floats)
	if err != nil {
		return nil, err
	}
	row := make([]float32, x.Floats)
	for i := 0; i < x.Rows && err == nil; i++ {
		if err = x.Read(row, i); err == nil {
			l.RotateRows(row)
			err = y.Write(row, i)
		}
	}
	return y, err
}
