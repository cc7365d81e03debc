package fold

import (
	"context"
	"fmt"
	"math"

	"exl2/internal/device"
	"exl2/internal/exl2"
	"exl2/internal/model"
	"exl2/internal/quant"
	"exl2/internal/stream"
	"exl2/internal/tensor"
)

const (
	// margin is what an error has to fall to for folding to be chosen.
	margin = 0.97
	// columns is how many columns of a matrix are quantized at most.
	columns = 4096
	// experts is how many experts of a mixture stand for all.
	experts = 4
)

// recipe is what matrices are quantized by.
var recipe = exl2.Uniform(3, 64)

// A Prober brings rows through a model, and quantizes matrices on half of them to see
// how far their outputs are off on the others.
type Prober struct {
	Dev     device.Quantize
	Loader  *model.Loader
	Load    func(model.ModuleSpec) (*model.Module, error) // of Loader, on Dev
	Pass    *stream.Pass
	Damping quant.Damping
}

// Choose returns what pays of candidates, by module, given rows of tokens. After each
// module step is called with what of its places is chosen, and of how many.
func (p *Prober) Choose(ctx context.Context, tokens [][]int32, candidates map[string]model.Folding, step func(module string, chosen, of int)) (model.Folding, error) {
	x, err := p.embed(ctx, tokens)
	if err != nil {
		return nil, err
	}
	defer x.Close()
	chosen, left := model.Folding{}, len(candidates)
	for _, spec := range p.Loader.Layout[1:] {
		if err != nil || left == 0 {
			break
		}
		of := candidates[spec.Name]
		if len(of) > 0 {
			left--
		}
		var some model.Folding
		if some, err = p.module(ctx, spec, of, x); err != nil {
			return nil, fmt.Errorf("fold %s: %w", spec.Name, err)
		}
		for name, e := range some {
			chosen[name] = e
		}
		step(spec.Name, len(some), len(of))
	}
	return chosen, err
}

// embed returns rows of the stream behind the embedding.
func (p *Prober) embed(ctx context.Context, tokens [][]int32) (*stream.Store, error) {
	x, err := stream.Place{}.Store(len(tokens), p.Pass.Length*p.Loader.Spec.Handed())
	if err != nil {
		return nil, err
	}
	e, err := p.Load(p.Loader.Embedding())
	if err != nil {
		return nil, err
	}
	defer e.Free()
	return x, p.Pass.Embed(ctx, e, tokens, x)
}

// forward moves rows behind a module.
func (p *Prober) forward(ctx context.Context, spec model.ModuleSpec, x *stream.Store) error {
	m, err := p.Load(spec)
	if err != nil {
		return err
	}
	defer m.Free()
	return p.Pass.Forward(ctx, m, x, x)
}

// module chooses of a module's candidates, and moves x behind it.
func (p *Prober) module(ctx context.Context, spec model.ModuleSpec, of model.Folding, x *stream.Store) (model.Folding, error) {
	chosen := model.Folding{}
	m, err := p.Load(spec)
	if err != nil {
		return nil, err
	}
	defer m.Free()
	if len(of) > 0 {
		plain, err := p.errors(ctx, m, x)
		if err != nil {
			return nil, err
		}
		scaled, err := p.folded(ctx, spec, of, x)
		if err != nil {
			return nil, err
		}
		for _, place := range spec.Folds(p.Loader.Spec) {
			if e, ok := of[place.Name]; ok && gain(place, plain, scaled) < margin {
				chosen[place.Name] = e
			}
		}
	}
	if spec.Kind == model.Head {
		return chosen, nil
	}
	return chosen, p.Pass.Forward(ctx, m, x, x)
}

// folded returns the errors of a module with all candidates folded.
func (p *Prober) folded(ctx context.Context, spec model.ModuleSpec, of model.Folding, x *stream.Store) (map[string]float64, error) {
	l := *p.Loader
	if err := l.Fold(of); err != nil {
		return nil, err
	}
	for _, s := range l.Layout {
		if s.Name == spec.Name {
			spec = s // a tied head has a matrix of its own now
		}
	}
	m, err := l.Load(p.Dev, spec)
	if err != nil {
		return nil, err
	}
	defer m.Free()
	return p.errors(ctx, m, x)
}

// gain returns what the errors of a place's matrices are multiplied by, on average; of a
// matrix that is scaled those of its own count as much as those of what reads it.
func gain(place model.Fold, plain, scaled map[string]float64) float64 {
	sum, n := 0.0, 0
	for _, l := range place.Reads {
		if v := math.Log(scaled[l.Name] / plain[l.Name]); scaled[l.Name] > 0 && plain[l.Name] > 0 {
			sum, n = sum+v, n+1
		}
	}
	if n == 0 {
		return 1
	}
	sum /= float64(n)
	if own := scaled[place.Name] / plain[place.Name]; own > 0 {
		sum += math.Log(own)
	}
	return math.Exp(sum)
}

// errors returns, for the linears of a module, the squared error of their outputs on odd
// rows of x relative to their square. Those that have more inputs than even rows have tokens, which
// would be quantized by chance, are left out.
func (p *Prober) errors(ctx context.Context, m *model.Module, x *stream.Store) (map[string]float64, error) {
	sites := m.Sites()
	list := make([]*moments, len(sites))
	defer func() {
		for _, h := range list {
			h.free()
		}
	}()
	tokens := (x.Rows + 1) / 2 * p.Pass.Length
	for i, s := range sites {
		if s.Packable() && !(s.Routed && s.Expert >= experts) && tokens >= s.Linears[0].In && x.Rows > 1 {
			list[i] = p.moments(s)
		}
	}
	if err := p.gather(ctx, m, x, list); err != nil {
		return nil, err
	}
	out := map[string]float64{}
	for i, s := range sites {
		if list[i] == nil {
			continue
		}
		if err := p.judge(s, list[i], out); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// moments are those of a site's inputs in even rows, and in odd ones.
type moments [2]*quant.Hessian

func (p *Prober) moments(s model.Site) *moments {
	k := s.Linears[0].In
	h := &moments{quant.NewHessian(p.Dev, k), quant.NewHessian(p.Dev, k)}
	h[0].Damp(p.Damping)
	return h
}

func (h *moments) free() {
	if h != nil {
		h[0].Free()
		h[1].Free()
	}
}

// gather adds the moments of all rows at sites.
func (p *Prober) gather(ctx context.Context, m *model.Module, x *stream.Store, list []*moments) error {
	return p.Pass.Waves(ctx, x, func(w stream.Wave) error {
		at := 0
		for i := range m.Steps {
			w.Do(m.Steps[i].Run)
			for _, s := range m.Steps[i].Sites {
				list[at].add(w, s)
				at++
			}
			if m.Kind == model.Head {
				return nil
			}
			w.Do(m.Steps[i].Multiply)
		}
		return nil
	})
}

// add adds what a site reads in a wave; an expert is shown every token.
func (h *moments) add(w stream.Wave, s model.Site) {
	if h == nil {
		return
	}
	var halves [2][]tensor.Tensor
	for i, x := range w.Inputs(s, s.Routed) {
		half := (w.Row + i) % 2
		halves[half] = append(halves[half], x)
	}
	h[0].Add(halves[0]...)
	h[1].Add(halves[1]...)
}

// judge quantizes the linears of a site on even rows, and adds their errors on odd ones.
func (p *Prober) judge(s model.Site, h *moments, out map[string]float64) error {
	f, err := h[0].Factor()
	if err != nil {
		return err
	}
	defer f.Free()
	n := len(s.Linears)
	sums := quant.NewScalars(p.Dev, 3*n)
	defer sums.Free()
	losses, both := sums.Take(n), make([]tensor.Tensor, n)
	targets, recipes := make([]*quant.Target, n), make([]exl2.Recipe, n)
	for i, l := range s.Linears {
		w := l.W.(model.Dense).Tensor
		targets[i], recipes[i] = f.Target(w.Slice(0, min(w.Rows, columns))), recipe
		defer targets[i].Free()
	}
	for i, r := range quant.Quantize(targets, recipes, losses) {
		both[i] = sums.Take(2)
		r.Judge(h[1], both[i])
		r.Free()
	}
	if err := sums.Fetch(); err != nil {
		return err
	}
	for i, l := range s.Linears {
		if v := sums.Values(both[i]); v[1] != 0 {
			out[l.Name] = v[0] / v[1]
		}
	}
	return nil
}
