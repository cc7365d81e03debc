package sensitivity

import (
	"context"
	"fmt"

	"exl2/internal/model"
	"exl2/internal/score"
)

// Sensitivities runs the head over the reference and every variant and returns
// for each matrix the divergence of the model's output per unit of the
// matrix's error. It calls step with the matrix's key after every row of every
// variant.
func (m *Measurer) Sensitivities(ctx context.Context, step func(key string)) (map[string]float64, error) {
	head, err := m.Loader.Load(m.Dev, m.Loader.Head())
	if err != nil {
		return nil, err
	}
	defer head.Free()
	sums := make([]float64, len(m.Variants))
	err = m.Pass.Each(ctx, m.Reference.X, func(s *model.State, row int) error {
		reference, err := m.logits(head)
		if err != nil {
			return err
		}
		for i, v := range m.Variants {
			if err := ctx.Err(); err != nil {
				return err
			}
			if err := v.X.Load(m.Dev, s.At(model.Stream), row); err != nil {
				return err
			}
			logits, err := m.logits(head)
			if err != nil {
				return err
			}
			sums[i] += divergence(reference, logits)
			step(v.Key)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("sensitivities: %w", err)
	}
	tokens := float64(m.Reference.X.Rows * m.Pass.Length)
	out := map[string]float64{}
	for i, v := range m.Variants {
		out[v.Key] = relative(sums[i]/tokens, v.Error)
	}
	return out, nil
}

// logits returns the logits of the rows that are in the pass.
func (m *Measurer) logits(head *model.Module) ([]score.Row, error) {
	var all [][]float32
	err := m.Pass.Logits(head, func(_ int, rows [][]float32) { all = append(all, rows...) })
	out := make([]score.Row, len(all))
	score.Each(len(all), func(i int) { out[i] = score.NewRow(all[i]) })
	return out, err
}

// divergence sums KL(reference ‖ q) over rows, in order.
func divergence(reference, q []score.Row) float64 {
	kl := make([]float64, len(q))
	score.Each(len(q), func(i int) { kl[i] = score.Divergence(reference[i], q[i]) })
	sum := 0.0
	for _, v := range kl {
		sum += v
	}
	return sum
}
