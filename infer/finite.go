package infer

import (
	"errors"
	"fmt"
	"math"
)

// ErrNotFinite is in the chain of errors about logits that are NaN or infinite:
// weights are damaged, or activations overflow.
var ErrNotFinite = errors.New("logits are not finite")

// finite refuses rows of logits that have NaN or infinite ones. Everything that
// comes from a model passes through here.
func finite(rows [][]float32) error {
	const exponent = 0x7f800000 // all ones in NaN and the infinities
	for i, row := range rows {
		for id, v := range row {
			if math.Float32bits(v)&exponent == exponent {
				return fmt.Errorf("%w: that of token %d in row %d of %d is %v; weights are damaged, or activations overflow", ErrNotFinite, id, i, len(rows), v)
			}
		}
	}
	return nil
}
