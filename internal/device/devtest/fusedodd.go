package devtest

import (
	"fmt"

	"exl2/internal/device"
	"exl2/internal/tensor"
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

func (c oddRowsCase) build(f *fixture) func(device.Device) {
	return c.buildOf(f, oddRows(c.kind, c.rows, c.hidden), false)
}

// oddMixtureCases are mixtures of such rows.
func oddMixtureCases() (cases []testCase) {
	for _, rows := range []int{1, 3} {
		for _, kind := range []string{"zeros", "tiny", "huge", "outliers", "no number"} {
			c := rowMixtureCase{
				rows: rows, experts: 8, chosen: 3, hidden: 256, width: 96,
				recipes: []string{"1:4b_128g", "0.3:5b_128g/0.7:3b_64g"}, t: tensor.F16,
				norm: device.Norm{Eps: 1e-5}, act: device.SiLU, r: device.Routing{Renorm: true},
				shared: true, biased: true,
			}
			cases = append(cases, testCase{name: fmt.Sprintf("%s rows=%d", kind, rows), limit: rowMixtureLimit, build: func(f *fixture) func(device.Device) {
				return c.buildOf(f, oddRows(kind, rows, c.hidden))
			}})
		}
	}
	return cases
}

// oddRows returns the elements of rows, of which the last one is odd, or all.
func oddRows(kind string, rows, cols int) values {
	last, v := rows-1, noise(1)
	row := func(factor float32) values {
		return func(i int) float32 {
			if i/cols == last {
				return factor * v(i)
			}
			return v(i)
		}
	}
	switch kind {
	case "zeros":
		return withRow(v, last, cols, 0)
	case "tiny":
		return row(1e-12)
	case "huge":
		return row(1e12)
	case "outliers":
		return func(i int) float32 {
			if r := i / cols; i%cols == 7*r+3 {
				return 3000
			}
			return v(i)
		}
	default:
		return withAt(v, infinity, last*cols+5)
	}
}
