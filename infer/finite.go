package infer

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"exl2/internal/parallel"
)

// ErrNotFinite is in the chain of errors about logits that are NaN or infinite:
// weights are damaged, or activations overflow.
var ErrNotFinite = errors.New("logits are not finite")

// finite refuses rows of logits that have NaN or infinite ones. Everything that
// comes from a model passes through here.
func finite(rows [][]float32) error {
	bad := make([]int, len(rows))
	parallel.For(len(rows), func(i int) { bad[i] = slices.IndexFunc(rows[i], notFinite) })
	for i, id := range bad {
		if id >= 0 {
			return fmt.Errorf("%w: that of token %d in row %d of %d is %v; weights are damaged, or activations overflow", ErrNotFinite, id, i, len(rows), rows[i][id])
		}
	}
	return nil
}

func notFinite(v float32) bool {
	const exponent = 0x7f800000 // all ones in NaN and the infinities
	return math.Float32bits(v)&exponent == exponent
}
