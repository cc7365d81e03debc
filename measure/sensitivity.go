package measure

import (
	"context"
	"fmt"
	"sync"

	"exl2/internal/model"
	"exl2/internal/score"
)

// Sensitivities runs the head over the reference and every variant and returns
// for each matrix the divergence of the model's output per unit of the
// matrix's error. It calls step with the matrix's key after every row of every
// variant.
func (m *Measurer) Sensitivities(ctx context.Context, step func(key string)) (map[string]float64, error) {
	head, err := m.Loader.Load(m.Dev, m.Loader.Modules()-1)
	if err != nil {
		return nil, err
	}
	defer head.Free()
	sums := make([]float64, len(m.Variants))
	err = m.Pass.Each(ctx, m.Reference.X, func(_ *model.State, row, n int) error {
		reference, err := m.logits(head, m.Reference, row, n)
		if err != nil {
			return err
		}
		for i, v := range m.Variants {
			if err := ctx.Err(); err != nil {
				return err
			}
			logits, err := m.logits(head, v, row, n)
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

// logits returns the logits of n rows of a variant.
func (m *Measurer) logits(head model.Module, v *Variant, row, n int) ([][]float32, error) {
	if err := v.X.Load(m.Dev, m.Pass.State.X, row); err != nil {
		return nil, err
	}
	var all [][]float32
	err := m.Pass.Logits(head, func(_ int, rows [][]float32) { all = append(all, rows...) })
	return all, err
}

// divergence sums KL(reference ‖ q) over rows, in order.
func divergence(reference, q [][]float32) float64 {
	kl := make([]float64, len(q))
	var wait sync.WaitGroup
	const part = 64
	for lo := 0; lo < len(q); lo += part {
		wait.Go(func() {
			for i := lo; i < min(lo+part, len(q)); i++ {
				kl[i] = score.Divergence(reference[i], q[i])
			}
		})
	}
	wait.Wait()
	sum := 0.0
	for _, v := range kl {
		sum += v
	}
	return sum
}
