package measure

import (
	"context"
	"fmt"
	"math/rand/v2"

	"exl2/internal/exl2"
	"exl2/internal/model"
	"exl2/internal/stream"
	"exl2/internal/tensor"
	"exl2/quant"
)

// EmbedProbes puts the first of Inputs behind the embedding.
func (m *Measurer) EmbedProbes(ctx context.Context, e *model.Module, tokens [][]int32) error {
	rows := make([][]int32, len(m.Probes))
	for i, p := range m.Probes {
		rows[i] = tokens[p]
	}
	x, err := m.store(len(rows))
	if err != nil {
		return err
	}
	m.Inputs = append(m.Inputs, x)
	return m.Pass.Embed(ctx, e, rows, x)
}

// Advance brings Inputs behind a module that has been measured before.
func (m *Measurer) Advance(ctx context.Context, spec model.ModuleSpec) error {
	module, err := m.Loader.Load(m.Dev, spec)
	if err != nil {
		return err
	}
	defer module.Free()
	x, err := m.store(len(m.Probes))
	if err != nil {
		return err
	}
	before := m.last()
	m.Inputs = append(m.Inputs, x)
	return m.Pass.Forward(ctx, module, before, x)
}

// Turn makes room for Gradient, in the place of Base, which is not needed on the
// way back.
func (m *Measurer) Turn() (err error) {
	m.Base.Close()
	m.Gradient, err = m.store(len(m.Probes))
	return err
}

// labelSeed is the seed of the numbers that labels are drawn by; "exl2" in ASCII.
const labelSeed = 0x65786c32

// Head begins the way back: it draws a label for every position of the probe rows from the model's own
// distribution, and sets Gradient to that of their negative log-likelihoods, in
// front of the head.
func (m *Measurer) Head(ctx context.Context) error {
	head, err := m.Loader.Load(m.Dev, m.Loader.Head())
	if err != nil {
		return err
	}
	defer head.Free()
	if err := m.Turn(); err != nil {
		return err
	}
	g := model.NewGradients(m.Pass.State, m.Loader.Spec)
	defer g.Free()
	random := m.Dev.Alloc(tensor.F32, 1, m.Pass.Length)
	defer m.Dev.Free(random)
	err = m.Pass.Each(ctx, m.last(), func(s *model.State, row int) error {
		m.Dev.Upload(random, tensor.BytesOf(labelNumbers(row, m.Pass.Length)))
		m.Dev.Clear(g.At(model.Stream))
		for lo := 0; lo < m.Pass.Length; lo += stream.LogitRows {
			hi := min(lo+stream.LogitRows, m.Pass.Length)
			part, gradients := s.Slice(lo, hi), g.Slice(lo, hi)
			head.Backward(part, gradients, func() {
				m.Dev.Copy(gradients.At(model.Logits), part.At(model.Logits))
				m.Dev.SampleBack(gradients.At(model.Logits), random.Columns(lo, hi))
			}, nil)
		}
		return m.Gradient.Save(m.Dev, g.At(model.Stream), row)
	})
	m.drop()
	return err
}

// last returns the last of Inputs.
func (m *Measurer) last() *stream.Store { return m.Inputs[len(m.Inputs)-1] }

// drop frees the last of Inputs.
func (m *Measurer) drop() {
	m.last().Close()
	m.Inputs = m.Inputs[:len(m.Inputs)-1]
}

// labelNumbers returns what the labels of a row are drawn by.
func labelNumbers(row, n int) []float32 {
	r := rand.New(rand.NewPCG(labelSeed, uint64(row)))
	list := make([]float32, n)
	for i := range list {
		list[i] = r.Float32()
	}
	return list
}

// back is the work on one half-block on the way back.
type back struct {
	*Measurer
	ctx    context.Context
	module *model.Module
	list   []*deviating
	sums   *quant.Scalars
}

// deviating is a matrix that differs from the source's.
type deviating struct {
	linear *model.Linear
	quant.Deviation
	square, loss tensor.Tensor // places of -tr(WᵀHW) and tr(ΔᵀHΔ), both damped
	costs        tensor.Tensor // places of the costs of every probe row
}

// SensitivitiesOf finds the sensitivities of the matrices of the module that is
// specified, the one that the last of Inputs is in front of, by their keys, and
// moves Gradient in front of it. To second order, errors Δ of a matrix with inputs x and gradients
// g of its outputs change the model's output by half of
//
//	E[(x·Δ·gᵀ)²] ≈ tr(E[gᵀg]·Δᵀ·E[xᵀx]·Δ) nats a token:
//
// labels that are drawn from the model's distribution make that the Fisher
// information (Martens, Grosse 2015, section 2), with their factors for it.
func (m *Measurer) SensitivitiesOf(ctx context.Context, spec model.ModuleSpec) (map[string]float64, error) {
	module, err := m.Loader.Load(m.Dev, spec)
	if err != nil {
		return nil, err
	}
	defer module.Free()
	if !module.CanRunBack() {
		return nil, fmt.Errorf("%s: no backward pass is known of this module on %s", spec.Name, m.Dev.Name())
	}
	b := &back{Measurer: m, ctx: ctx, module: module}
	defer b.free()
	out, err := b.run()
	if err != nil {
		return nil, fmt.Errorf("sensitivities of %s: %w", spec.Name, err)
	}
	m.drop()
	return out, nil
}

func (b *back) run() (map[string]float64, error) {
	b.sums = quant.NewScalars(b.Dev, len(b.module.AllLinears())*(2+len(b.Probes)))
	if err := b.deviate(); err != nil {
		return nil, err
	}
	if err := b.costs(); err != nil {
		return nil, err
	}
	if err := b.sums.Fetch(); err != nil {
		return nil, err
	}
	out := map[string]float64{}
	for _, d := range b.list {
		out[d.linear.Name] = b.sensitivity(d)
	}
	return out, nil
}

// deviate quantizes every matrix by the probe's recipe, on the moments of the
// probe rows.
func (b *back) deviate() error {
	sites := b.module.Sites()
	hessians := make([]*quant.Hessian, len(sites))
	for i, s := range sites {
		hessians[i] = quant.NewHessian(b.Dev, s.Linears[0].In)
		defer hessians[i].Free()
	}
	err := b.Pass.Each(b.ctx, b.last(), func(s *model.State, _ int) error {
		b.module.Forward(s)
		for i, h := range hessians {
			h.Add(s.At(sites[i].Reads))
		}
		return nil
	})
	if err != nil {
		return err
	}
	for i, s := range sites {
		if err := b.site(hessians[i], s); err != nil {
			return err
		}
	}
	return nil
}

// site quantizes the matrices of one site.
func (b *back) site(h *quant.Hessian, s model.Site) error {
	f, err := h.Factor()
	if err != nil {
		return err
	}
	defer f.Free()
	for _, l := range s.Linears {
		if err := b.ctx.Err(); err != nil {
			return err
		}
		d := &deviating{linear: l, square: b.sums.Take(1), loss: b.sums.Take(1), costs: b.sums.Take(len(b.Probes))}
		target := f.Target(l.W.(model.Dense).Tensor)
		target.Square(d.square)
		r := quant.Quantize([]*quant.Target{target}, []exl2.Recipe{probe}, d.loss)[0]
		d.Deviation = r.Deviation()
		r.Free()
		target.Free()
		b.list = append(b.list, d)
	}
	return nil
}

// costs moves Gradient in front of the module and gathers the costs of all
// deviations on the way.
func (b *back) costs() error {
	g := model.NewGradients(b.Pass.State, b.Loader.Spec)
	defer g.Free()
	return b.Pass.Each(b.ctx, b.last(), func(s *model.State, row int) error {
		if err := b.Gradient.Load(b.Dev, g.At(model.Stream), row); err != nil {
			return err
		}
		b.module.Backward(s, g, nil, func(l *model.Linear, _, dy tensor.Tensor) {
			for _, d := range b.list {
				if d.linear == l {
					d.Cost(d.costs.Columns(row, row+1), dy)
				}
			}
		})
		return b.Gradient.Save(b.Dev, g.At(model.Stream), row)
	})
}

// sensitivity returns the cost a token over the error of a deviation.
func (b *back) sensitivity(d *deviating) float64 {
	n := float64(len(b.Probes) * b.Pass.Length)
	cost := 0.0
	for _, v := range b.sums.Values(d.costs) {
		cost -= v / (2 * n * n)
	}
	e := relative(b.sums.Values(d.loss)[0], -b.sums.Values(d.square)[0])
	return relative(max(cost, 0), e)
}

func (b *back) free() {
	for _, d := range b.list {
		d.Free()
	}
	if b.sums != nil {
		b.sums.Free()
	}
}
