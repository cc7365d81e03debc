package sensitivity

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"

	"exl2/internal/device"
	"exl2/internal/exl2"
	"exl2/internal/model"
	"exl2/internal/profile"
	"exl2/internal/quant"
	"exl2/internal/stream"
	"exl2/internal/tensor"
)

// Turn makes room for Gradient, in the place of Base, which is not needed on the
// way back.
func (m *Measurer) Turn() (err error) {
	if m.Base != nil {
		m.Base.Close()
	}
	m.Gradient, err = m.store(len(m.Probes))
	return err
}

// Head begins the way back: it draws a label for every position of the probe rows
// from the model's own distribution, and sets Gradient to that of their negative
// log-likelihoods, in front of the head.
func (m *Measurer) Head(ctx context.Context) error {
	head, err := m.Load(m.Loader.Head())
	if err != nil {
		return err
	}
	defer head.Free()
	if err := m.Turn(); err != nil {
		return err
	}
	n, length := len(m.Probes), m.Pass.Length
	gradients := m.gradients()
	defer gradients.free()
	randoms := m.Pass.Scratch(n, tensor.F32, 1, length)
	defer randoms.Free()
	defer m.Profile.On(m.wayBack()+"head", profile.Work{Flops: 4 * float64(n*length) * float64(m.Loader.Spec.Hidden) * float64(m.Loader.Spec.Vocab)})()
	all := m.gather(head)
	defer all.free()
	err = m.Pass.Waves(ctx, m.Inputs[len(m.Inputs)-1], func(w stream.Wave) error {
		return all.wave(w, func(l *stream.Lane, row int, see *sight) error {
			g, random := gradients[l.Number], randoms.Of(l)
			m.Dev.Upload(random, tensor.BytesOf(labelNumbers(row, length)))
			m.Dev.Clear(g.At(model.Stream))
			for lo := 0; lo < length; lo += stream.LogitRows {
				hi := min(lo+stream.LogitRows, length)
				part, gradients := l.State.Slice(lo, hi), g.Slice(lo, hi)
				head.BackwardThrough(part, gradients, func() {
					m.Dev.Copy(gradients.At(model.Logits), part.At(model.Logits))
					m.Dev.SampleBack(gradients.At(model.Logits), random.Columns(lo, hi))
				}, see.through)
			}
			return m.Gradient.Save(m.Dev, g.At(model.Stream), row)
		})
	})
	if err != nil {
		return err
	}
	return all.pass()
}

// gradients is a state for the gradients of every lane.
type gradients []*model.State

func (m *Measurer) gradients() gradients {
	list := make(gradients, m.Pass.Lanes(len(m.Probes)))
	device.SideBySide(m.Dev, len(list), func(i int) { list[i] = model.NewGradients(m.Pass.State(), m.Loader.Spec, m.Pass.Length) })
	return list
}

func (list gradients) free() {
	for _, g := range list {
		g.Free()
	}
}

// labelSeed is the seed of the numbers that labels are drawn by: "exl2" in ASCII.
const labelSeed = 0x65786c32

// labelNumbers returns what the labels of a row are drawn by.
func labelNumbers(row, n int) []float32 {
	r := rand.New(rand.NewPCG(labelSeed, uint64(row)))
	list := make([]float32, n)
	for i := range list {
		list[i] = r.Float32()
	}
	return list
}

// window is how many positions' changes of the likelihood are summed before they
// are squared.
const window = 8

// windows returns how many windows a row has.
func (m *Measurer) windows() int { return (m.Pass.Length + window - 1) / window }

// Sensitivities finds what unit errors of the matrices of the module that is
// specified, the last one that Inputs has both sides of, cost in divergence of the
// model's output, nats a token, by the keys of variants (measure.Table.VariantKey).
// It moves Gradient in front of the module.
//
// A quantized matrix changes the stream behind its module by Δ, and to first order
// the log-likelihood of the labels by Σ g·Δ over positions. As the labels are drawn
// from the model's own distribution, half of that sum's mean square is the
// divergence, to second order: it is the Fisher information in that direction. One
// square of a whole row tells little; windows of some positions count by themselves.
func (m *Measurer) Sensitivities(ctx context.Context, spec model.ModuleSpec) (map[string]float64, error) {
	var out map[string]float64
	err := m.throughBack(ctx, spec, func(h *half) (err error) {
		out, err = h.sensitivities()
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("sensitivities of %s: %w", spec.Name, err)
	}
	return out, nil
}

// SkipBack moves Gradient in front of a module that somebody else works on.
func (m *Measurer) SkipBack(ctx context.Context, spec model.ModuleSpec) error {
	return m.throughBack(ctx, spec, func(*half) error { return nil })
}

// throughBack moves Gradient in front of a module, after some work on it.
func (m *Measurer) throughBack(ctx context.Context, spec model.ModuleSpec, work func(h *half) error) error {
	h, err := m.open(ctx, spec)
	if err != nil {
		return err
	}
	defer h.free()
	n := len(m.Inputs)
	h.before, h.after = m.Inputs[n-2], m.Inputs[n-1]
	h.rows, h.only = h.before, []exl2.Recipe{probe}
	if err = work(h); err == nil {
		err = h.back()
	}
	if err != nil {
		return err
	}
	h.after.Close()
	m.Inputs = m.Inputs[:n-1]
	return nil
}

// sensitivities quantizes every matrix by the probe's recipe, on the moments of the
// probe rows, and lets one variant after another change the likelihood.
func (h *half) sensitivities() (map[string]float64, error) {
	if err := h.tables(); err != nil {
		return nil, err
	}
	groups := h.groups()
	s := quant.NewScalars(h.Dev, len(groups)*len(h.Probes)*h.windows())
	defer s.Free()
	changes := make([]tensor.Tensor, len(groups))
	for i := range groups {
		changes[i] = s.Take(len(h.Probes) * h.windows())
	}
	if err := h.changes(groups, changes); err != nil {
		return nil, err
	}
	if err := s.Fetch(); err != nil {
		return nil, err
	}
	out := map[string]float64{}
	for i, group := range groups {
		v, err := h.sensitivity(group, s.Values(changes[i]))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", group[0].table.VariantKey(), err)
		}
		out[group[0].table.VariantKey()] = v
	}
	return out, nil
}

// changes stores Σ g·Δ for all windows of the probe rows, of every group.
func (h *half) changes(groups [][]*matrixWork, sums []tensor.Tensor) error {
	variants := make([]*model.Module, len(groups))
	for i, group := range groups {
		variants[i] = h.with(group, func(w *matrixWork) model.Weight { return w.packed[probe.String()] })
		defer variants[i].Free()
	}
	d, n, rows := h.Dev, h.windows(), len(h.Probes)
	defer h.stage("variants", h.forwardCost(len(groups)*rows))()
	runs, run := h.Pass.Rows(rows)
	scratch := h.Pass.Scratch(len(groups)*runs, tensor.F32, min(rows, h.Pass.Most)*h.Pass.Length, h.Loader.Spec.Handed())
	defer scratch.Free()
	return h.Pass.Side(h.ctx, len(groups)*runs, func(l *stream.Lane, i int) error {
		lo, hi := run(i % runs)
		s, err := l.Load(h.before, lo, hi-lo)
		if err != nil {
			return err
		}
		variants[i/runs].Forward(s)
		x := s.At(model.Stream)
		y := scratch.Of(l).Slice(0, x.Rows)
		if err := h.after.Load(d, y, lo); err != nil {
			return err
		}
		d.AddScaled(x, y, -1)
		if err := h.Gradient.Load(d, y, lo); err != nil {
			return err
		}
		for row := lo; row < hi; row++ {
			at, end := (row-lo)*h.Pass.Length, (row-lo+1)*h.Pass.Length
			d.Dot(sums[i/runs].Columns(row*n, (row+1)*n), x.Slice(at, end), y.Slice(at, end))
		}
		return nil
	})
}

// sensitivity returns the divergence a token over the error that causes it.
func (h *half) sensitivity(group []*matrixWork, changes []float64) (float64, error) {
	sum, e := 0.0, 0.0
	for _, v := range changes {
		sum += v * v
	}
	if math.IsNaN(sum) || math.IsInf(sum, 0) {
		return 0, fmt.Errorf("gradients are NaN or infinite behind this module")
	}
	for _, w := range group {
		e += w.table.VariantShare() * w.table.Candidates[0].Error
	}
	return relative(sum/float64(2*len(h.Probes)*h.Pass.Length), e), nil
}

// back moves Gradient in front of the module. Where its own backward pass is not
// known, what passes it by is all: the stream is what it was and what is added.
func (h *half) back() error {
	if !h.module.CanRunBack() {
		if !h.warned {
			h.Warn(h.module.Name + " and modules like it: gradients pass by, as how they go through is not known; sensitivities in front of it are too small")
		}
		h.warned = true
		return nil
	}
	gradients := h.gradients()
	defer gradients.free()
	defer h.Profile.On(h.wayBack()+"backward", profile.Work{Flops: 2 * h.forwardCost(len(h.Probes)).Flops})() // forward once more, and back
	all := h.gather(h.module)
	defer all.free()
	err := h.Pass.Waves(h.ctx, h.before, func(w stream.Wave) error {
		return all.wave(w, func(l *stream.Lane, row int, see *sight) error {
			g := gradients[l.Number]
			if err := h.Gradient.Load(h.Dev, g.At(model.Stream), row); err != nil {
				return err
			}
			h.module.BackwardThrough(l.State, g, nil, see.through)
			return h.Gradient.Save(h.Dev, g.At(model.Stream), row)
		})
	})
	if err != nil {
		return err
	}
	return all.pass()
}

// Back moves Gradient in front of the module that is specified, the last one that
// Inputs has both sides of, and does no more on the way than Columns asks for.
func (m *Measurer) Back(ctx context.Context, spec model.ModuleSpec) error {
	if err := m.SkipBack(ctx, spec); err != nil {
		return fmt.Errorf("gradients of %s: %w", spec.Name, err)
	}
	return nil
}
