package convert

import (
	"fmt"
	"math"
	"slices"

	"exl2/internal/exl2"
	"exl2/internal/model"
	"exl2/internal/profile"
	"exl2/internal/quant"
	"exl2/internal/stream"
	"exl2/internal/tensor"
)

// headReport is what is known once the head is quantized.
type headReport struct {
	Perplexity Perplexity `json:"perplexity"`
	Reference  Perplexity `json:"reference_perplexity"`
}

// head quantizes the head matrix, writes it, and computes the perplexity of
// the calibration rows in both streams.
func (q *quantizing) head() error {
	source, err := q.run.shelf.load(q.run.src.loader.Head())
	if err != nil {
		return err
	}
	defer source.Free()
	work := source.Twin()
	defer work.Free()
	packed, err := q.steps(source, work, func(l *model.Linear) (exl2.Recipe, error) { return q.build.plan.head(l.Name) })
	if err != nil {
		return fmt.Errorf("quantize %s: %w", work.Name, err)
	}
	if err := q.write(work.Name, packed); err != nil {
		return err
	}
	q.run.progress.Step(q.build.stage.what(source.ModuleSpec), fmt.Sprintf("%.3f bits per weight", packed[0].matrix.BitsPerWeight(source.Linears[0].Out)))
	report, err := q.perplexities(source, work)
	if err == nil {
		err = q.settle() // head.json says that all modules are there
	}
	if err != nil {
		return err
	}
	return q.run.job.WriteJSON(q.build.file("head.json"), report)
}

// perplexities scores the first rows of both streams; like ExLlamaV2, as many
// as were asked for measuring.
func (q *quantizing) perplexities(source, work *model.Module) (*headReport, error) {
	defer q.run.profile.On("quantize: perplexity", profile.Work{})()
	rows := min(q.run.opts.Data.MeasureRows, len(q.run.tokens.quantize)) // of those that were given, which come first
	n := rows * q.pass.Length
	s := quant.NewScalars(q.run.dev, 2*n)
	defer s.Free()
	quantized, reference := s.Take(n), s.Take(n)
	err := q.run.likelihoods(quantized, q.pass, q.x, work, rows)
	if err == nil {
		err = q.run.likelihoods(reference, q.passR, q.r, source, rows)
	}
	if err != nil {
		return nil, err
	}
	if err := s.Fetch(); err != nil {
		return nil, err
	}
	r := &headReport{Perplexity: perplexity(s.Values(quantized), rows), Reference: perplexity(s.Values(reference), rows)}
	if math.IsNaN(float64(r.Perplexity)) || math.IsNaN(float64(r.Reference)) {
		return nil, fmt.Errorf("%s: logits are NaN or infinite", work.Name)
	}
	return r, nil
}

// perplexity returns that of log-likelihoods, the last of each row being of no token.
func perplexity(logs []float64, rows int) Perplexity {
	return Perplexity(math.Exp(-sum(logs) / float64(max(len(logs)-rows, 1))))
}

// likelihoods scores the first rows of hidden states, some positions at a time; the last
// position of each predicts nothing that is known.
func (r *run) likelihoods(logs tensor.Tensor, p *stream.Pass, x *stream.Store, head *model.Module, rows int) error {
	d, n := r.dev, p.Length
	lists := p.Scratch(rows, tensor.I32, 1, n)
	defer lists.Free()
	return p.Side(r.ctx, rows, func(l *stream.Lane, row int) error {
		s, err := l.Load(x, row, 1)
		if err != nil {
			return err
		}
		ids := lists.Of(l)
		d.Upload(ids, tensor.BytesOf(append(slices.Clone(r.tokens.quantize[row][1:]), -1)))
		for lo := 0; lo < n; lo += stream.LogitRows {
			hi := min(lo+stream.LogitRows, n)
			part := s.Slice(lo, hi)
			head.Forward(part)
			d.LogLikelihood(logs.Columns(row*n+lo, row*n+hi), part.At(model.Logits), ids.Columns(lo, hi))
		}
		return nil
	})
}
