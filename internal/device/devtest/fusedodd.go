package devtest

import (
	"fmt"

	"exl2/internal/device"
)

// An oddRowsCase is a fusedCase of a stream some of whose rows are unlike the others; its norm
// has no bias.
type oddRowsCase struct {
	fusedCase
	kind string
}

func oddRowsCases() (cases []testCase) {
	rms := device.Norm{Eps: 1e-5}
	for _, rows := range []int{1, 2, 3, 4, 8, 16} {
		c := fusedCase{rows, 256, 64, 672, "0.3:4b_128g/0.7:3b_64g", rms, device.SiLU, true, false}
		plain := c
		plain.biased = false
		for _, one := range []oddRowsCase{{c, "zeros"}, {plain, "zeros"}, {c, "tiny"}, {plain, "outliers"}, {c, "huge"}, {c, "no number"}} {
			name := fmt.Sprintf("%s rows=%d biased=%v", one.kind, rows, one.biased)
			cases = append(cases, testCase{name: name, limit: fusedLimit, build: one.build})
		}
	}
	return cases
}

func (c oddRowsCase) build(f *fixture) func(device.Device) { return c.buildOf(f, c.stream(), false) }

// stream returns the elements of the stream.
func (c oddRowsCase) stream() values {
	last, v := c.rows-1, noise(1)
	row := func(factor float32) values {
		return func(i int) float32 {
			if i/c.hidden == last {
				return factor * v(i)
			}
			return v(i)
		}
	}
	switch c.kind {
	case "zeros":
		return withRow(v, last, c.hidden, 0)
	case "tiny":
		return row(1e-12)
	case "huge":
		return row(1e12)
	case "outliers":
		return func(i int) float32 {
			if r := i / c.hidden; i%c.hidden == 7*r+3 {
				return 3000
			}
			return v(i)
		}
	default:
		return withAt(v, infinity, last*c.hidden+5)
	}
}
