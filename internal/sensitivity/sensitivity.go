package sensitivity

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"

	"exl2/internal/device"
	"exl2/internal/exl2"
	"exl2/internal/model"
	"exl2/internal/quant"
	"exl2/internal/stream"
	"exl2/internal/tensor"
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
	probes map[*model.Linear]*probed
	sums   *quant.Scalars
}

// probed is a matrix and what stands for it.
type probed struct {
	linear       *model.Linear
	packed       model.Quantized
	square, loss tensor.Tensor   // places of -tr(WᵀHW) and tr(ΔᵀHΔ)
	changes      []tensor.Tensor // places of the changes of the likelihood, by probe row
}

// SensitivitiesOf finds the sensitivities of the matrices of the module that is
// specified, the one that the last of Inputs is in front of, by their keys, and
// moves Gradient in front of it.
//
// Quantizing a matrix changes its outputs by Δy, and to first order the
// log-likelihood of the labels by Σ g·Δy over positions. As the labels are drawn
// from the model's own distribution, half of that sum's mean square is the
// divergence, to second order: it is the Fisher information in that direction.
// The square of a sum over a whole row tells too little: windows of some positions
// count by themselves.
func (m *Measurer) SensitivitiesOf(ctx context.Context, spec model.ModuleSpec) (map[string]float64, error) {
	module, err := m.Loader.Load(m.Dev, spec)
	if err != nil {
		return nil, err
	}
	defer module.Free()
	if !module.CanRunBack() {
		return nil, fmt.Errorf("%s: no backward pass is known of this module on %s", spec.Name, m.Dev.Name())
	}
	b := &back{Measurer: m, ctx: ctx, module: module, probes: map[*model.Linear]*probed{}}
	defer b.free()
	out, err := b.run()
	if err != nil {
		return nil, fmt.Errorf("sensitivities of %s: %w", spec.Name, err)
	}
	m.drop()
	return out, nil
}

// window is how many positions' changes of the likelihood are summed before they
// are squared.
const window = 8

// windows returns how many windows a row has.
func (b *back) windows() int { return (b.Pass.Length + window - 1) / window }

func (b *back) run() (map[string]float64, error) {
	b.sums = quant.NewScalars(b.Dev, len(b.module.AllLinears())*(2+len(b.Probes)*b.windows()))
	if err := b.quantize(); err != nil {
		return nil, err
	}
	if err := b.change(); err != nil {
		return nil, err
	}
	if err := b.sums.Fetch(); err != nil {
		return nil, err
	}
	out := map[string]float64{}
	for _, l := range b.module.AllLinears() {
		v, err := b.sensitivity(b.probes[l])
		if err != nil {
			return nil, fmt.Errorf("%s: %w", l.Name, err)
		}
		out[l.Name] = v
	}
	return out, nil
}

// quantize stores every matrix by the probe's recipe, on the moments of the probe
// rows.
func (b *back) quantize() error {
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
		p := &probed{linear: l, square: b.sums.Take(1), loss: b.sums.Take(1)}
		for range b.Probes {
			p.changes = append(p.changes, b.sums.Take(b.windows()))
		}
		target := f.Target(l.W.(model.Dense).Tensor)
		target.Square(p.square)
		r := quant.Quantize([]*quant.Target{target}, []exl2.Recipe{probe}, p.loss)[0]
		p.packed = model.Quantized{Matrix: r.Matrix()}
		r.Free()
		target.Free()
		b.probes[l] = p
	}
	return nil
}

// change moves Gradient in front of the module, and finds on the way by how much
// each matrix changes the likelihood.
func (b *back) change() error {
	g := model.NewGradients(b.Pass.State, b.Loader.Spec)
	defer g.Free()
	return b.Pass.Each(b.ctx, b.last(), func(s *model.State, row int) error {
		if err := b.Gradient.Load(b.Dev, g.At(model.Stream), row); err != nil {
			return err
		}
		b.module.Backward(s, g, nil, func(l *model.Linear, x, dy tensor.Tensor) {
			b.probes[l].change(b.Dev, row, x, dy)
		})
		return b.Gradient.Save(b.Dev, g.At(model.Stream), row)
	})
}

// change stores Σ dy·Δy for the windows of a row.
func (p *probed) change(d device.Quantize, row int, x, dy tensor.Tensor) {
	y, was := d.Alloc(tensor.F32, dy.Rows, dy.Cols), d.Alloc(tensor.F32, dy.Rows, dy.Cols)
	defer d.Free(y)
	defer d.Free(was)
	p.linear.Product(d, y, x, p.packed)
	p.linear.Product(d, was, x, p.linear.W)
	d.AddScaled(y, was, -1)
	d.Dot(p.changes[row], y, dy)
}

// sensitivity returns the divergence a token over the error that causes it.
func (b *back) sensitivity(p *probed) (float64, error) {
	sum := 0.0
	for _, at := range p.changes {
		for _, v := range b.sums.Values(at) {
			sum += v * v
		}
	}
	if math.IsNaN(sum) || math.IsInf(sum, 0) {
		return 0, fmt.Errorf("gradients are NaN or infinite behind this matrix")
	}
	divergence := sum / float64(2*len(b.Probes)*b.Pass.Length)
	return relative(divergence, relative(b.sums.Values(p.loss)[0], -b.sums.Values(p.square)[0])), nil
}

func (b *back) free() {
	for _, p := range b.probes {
		b.Dev.FreeEXL2(p.packed.Matrix)
	}
	if b.sums != nil {
		b.sums.Free()
	}
}
