package convert

import (
	"fmt"
	"math"

	"exl2/internal/exl2"
	"exl2/internal/model"
	"exl2/internal/profile"
	"exl2/internal/score"
	"exl2/internal/stream"
)

// headReport is what is known once the head is quantized.
type headReport struct {
	Perplexity float64 `json:"perplexity"`
	Reference  float64 `json:"reference_perplexity"`
}

// head quantizes the head matrix, writes it, and computes the perplexity of
// the calibration rows in both streams.
func (q *quantizing) head() error {
	source, err := q.run.src.loader.Load(q.run.dev, q.run.src.loader.Head())
	if err != nil {
		return err
	}
	defer source.Free()
	work := source.Twin()
	defer work.Free()
	packed, err := q.steps(source, work, func(*model.Linear) (exl2.Recipe, error) { return headRecipes[q.build.plan.HeadBits], nil })
	if err != nil {
		return fmt.Errorf("quantize %s: %w", work.Name, err)
	}
	if err := q.write(work.Name, packed); err != nil {
		return err
	}
	q.run.progress.Step(work.Name, fmt.Sprintf("%.3f bits per weight", packed[0].matrix.BitsPerWeight()))
	report, err := q.perplexities(source, work)
	if err != nil {
		return err
	}
	return q.run.job.WriteJSON(q.build.file("head.json"), report)
}

// perplexities scores the first rows of both streams; like ExLlamaV2, as many
// as were asked for measuring.
func (q *quantizing) perplexities(source, work *model.Module) (*headReport, error) {
	defer q.run.profile.On("perplexity", profile.Work{})()
	var quantized, reference score.Likelihood
	for row := range min(q.run.opts.Data.MeasureRows, q.x.Rows) {
		if err := likelihood(&quantized, q.pass, q.x, work, row, q.run.tokens.quantize[row]); err != nil {
			return nil, err
		}
		if err := likelihood(&reference, q.passR, q.r, source, row, q.run.tokens.quantize[row]); err != nil {
			return nil, err
		}
	}
	r := &headReport{Perplexity: quantized.Perplexity(), Reference: reference.Perplexity()}
	if math.IsNaN(r.Perplexity) || math.IsNaN(r.Reference) {
		return nil, fmt.Errorf("%s: logits are NaN or infinite", work.Name)
	}
	// A model that rules the text out has no perplexity that JSON can hold.
	r.Perplexity, r.Reference = min(r.Perplexity, math.MaxFloat64), min(r.Reference, math.MaxFloat64)
	return r, nil
}

// likelihood scores one row of hidden states.
func likelihood(sum *score.Likelihood, p *stream.Pass, x *stream.Store, head *model.Module, row int, ids []int32) error {
	return p.At(x, row, func(*model.State) error {
		return p.Logits(head, func(first int, logits [][]float32) {
			known := min(len(logits), len(ids)-1-first) // the last position predicts nothing that is known
			logProb := make([]float64, known)
			score.Each(known, func(i int) { logProb[i] = score.NewRow(logits[i]).LogLikelihood(ids[first+i+1]) })
			for _, l := range logProb {
				sum.Add(l)
			}
		})
	})
}
