package sensitivity

import (
	"context"
	"fmt"
	"math"
	"slices"

	"exl2/internal/device"
	"exl2/internal/exl2"
	"exl2/internal/model"
	"exl2/internal/profile"
	"exl2/internal/quant"
	"exl2/internal/stream"
	"exl2/internal/tensor"
	"exl2/measure"
)

// headDraws is how many labels are drawn for every position of the probe rows to
// find what storing the head in fewer bits costs.
const headDraws = 4

// HeadTable quantizes the head by some recipes, on the moments of Base, which stands
// in front of it, and finds what each costs in divergence of the model's output. Of
// more recipes it finds the errors only; with the sensitivity, the geometric mean of
// divergence over error of the others, they tell the divergence as well: it is in
// proportion to them.
//
// It is the Fisher information in the direction of the change, as in Sensitivities;
// a change of the head concerns no position but its own, so a window is a position,
// and logits and their gradients are all there is to it.
func (m *Measurer) HeadTable(ctx context.Context, recipes, more []exl2.Recipe) (*measure.Table, error) {
	h, err := m.open(ctx, m.Loader.Head())
	if err != nil {
		return nil, err
	}
	defer h.free()
	h.rows, h.before = m.Base, m.Inputs[len(m.Inputs)-1]
	site := h.sites[0]
	if err := h.moments(h.sites, true); err != nil {
		return nil, err
	}
	f, err := site.hessian.Factor()
	site.hessian = nil
	if err != nil {
		return nil, err
	}
	defer f.Free()
	if f.Nearest {
		m.Warn(NearestWarning(site.Linears))
	}
	w := site.work[0]
	defer h.stage("head", profile.Work{Flops: 2 * float64(len(recipes)) * h.forwardCost(len(h.Probes)).Flops})()
	if err := h.headCandidates(f, w, recipes, more); err != nil {
		return nil, fmt.Errorf("%s: %w", w.linear.Name, err)
	}
	w.table.Module = HeadModule(m.Loader.Spec.Names.Head)
	return &w.table, nil
}

// HeadModule is what ExLlamaV2's measurements call the module of the head matrix.
func HeadModule(head string) string { return head + ".linear" }

// headBatch returns how many candidates of the head are quantized at once: one on a
// device with memory of its own, as the head may be the largest matrix of all.
func (h *half) headBatch(w *matrixWork) int {
	if _, own := h.Dev.(device.MemoryInfo); own {
		return 1
	}
	return BatchFor(h.Dev, h.Work, w.linear.In, exl2.Pad(w.linear.Out))
}

// headCandidates measures candidates, some at a time.
func (h *half) headCandidates(f *quant.Factor, w *matrixWork, recipes, more []exl2.Recipe) error {
	all := slices.Concat(recipes, more)
	target := f.Target(w.dense.Tensor)
	defer target.Free()
	s := quant.NewScalars(h.Dev, len(recipes)*headDraws*h.positions()+len(all)+1)
	defer s.Free()
	square, losses := s.Take(1), s.Take(len(all))
	changes := make([]tensor.Tensor, len(recipes))
	target.Square(square)
	var err error
	batch := h.headBatch(w)
	for lo := 0; lo < len(all); lo += batch {
		hi := min(lo+batch, len(all))
		list := quant.Quantize(slices.Repeat([]*quant.Target{target}, hi-lo), all[lo:hi], losses.Columns(lo, hi))
		for i, q := range list {
			if lo+i >= len(recipes) || err != nil {
				q.Free()
				continue
			}
			packed := q.Matrix()
			q.Free()
			changes[lo+i] = s.Take(headDraws * h.positions())
			err = h.headChange(w, model.Quantized{Matrix: packed}, changes[lo+i])
			h.Dev.FreeEXL2(packed)
		}
		if err != nil {
			return err
		}
	}
	if err := s.Fetch(); err != nil {
		return err
	}
	ratio, known := 0.0, 0
	for i, r := range all {
		c := measure.Candidate{Recipe: r.String(), Bits: r.Size(w.linear.In, w.linear.Out), Error: relative(s.Values(losses)[i], -s.Values(square)[0])}
		if i < len(recipes) {
			c.Divergence = halfMeanSquare(s.Values(changes[i]))
			if c.Divergence > 0 && c.Error > 0 {
				ratio, known = ratio+math.Log(c.Divergence/c.Error), known+1
			}
		}
		w.table.Candidates = append(w.table.Candidates, c)
	}
	w.table.Sensitivity = math.Exp(ratio / float64(max(known, 1)))
	return nil
}

func halfMeanSquare(values []float64) float64 {
	sum := 0.0
	for _, v := range values {
		sum += v * v
	}
	return sum / float64(2*len(values))
}

// positions counts those of the probe rows.
func (h *half) positions() int { return len(h.Probes) * h.Pass.Length }

// headChange stores what a quantized head changes the log-likelihoods of labels by,
// position by position, draw after draw.
func (h *half) headChange(w *matrixWork, packed model.Weight, sums tensor.Tensor) error {
	d, length, vocab, rows := h.Dev, h.Pass.Length, h.Loader.Spec.Vocab, len(h.Probes)
	part := min(stream.LogitRows, length)
	parts := (length + part - 1) / part
	n := rows * parts
	logits, gradients, randoms := h.Pass.Scratch(n, tensor.F32, part, vocab), h.Pass.Scratch(n, tensor.F32, part, vocab), h.Pass.Scratch(n, tensor.F32, headDraws, part)
	numbers := make([][]float32, headDraws*rows)
	for i := range numbers {
		numbers[i] = labelNumbers(i, length)
	}
	defer func() { logits.Free(); gradients.Free(); randoms.Free() }()
	changed := h.with([]*matrixWork{w}, func(*matrixWork) model.Weight { return packed })
	defer changed.Free()
	return h.Pass.Side(h.ctx, n, func(l *stream.Lane, i int) error {
		row, lo := i/parts, i%parts*part
		hi := min(lo+part, length)
		whole, err := l.Load(h.before, row, 1)
		if err != nil {
			return err
		}
		s, want, g, random := whole.Slice(lo, hi), logits.Of(l).Slice(0, hi-lo), gradients.Of(l).Slice(0, hi-lo), randoms.Of(l).Reshape(1, headDraws*part)
		var drawn []float32
		for draw := range headDraws {
			drawn = append(drawn, numbers[row+draw*rows][lo:hi]...)
		}
		d.Upload(random.Columns(0, len(drawn)), tensor.BytesOf(drawn))
		h.module.Forward(s)
		d.Copy(want, s.At(model.Logits))
		changed.Forward(s)
		change := s.At(model.Logits)
		d.AddScaled(change, want, -1)
		for draw := range headDraws {
			d.Copy(g, want)
			d.SampleBack(g, random.Columns(draw*(hi-lo), (draw+1)*(hi-lo)))
			at := (draw*rows + row) * length
			d.Dot(sums.Columns(at+lo, at+hi), change, g)
		}
		return nil
	})
}
