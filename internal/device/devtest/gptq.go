package devtest

import (
	"fmt"

	"exl2/internal/device"
	"exl2/internal/exl2"
	"exl2/internal/tensor"
)

// Limits where a sum in another order may round a code otherwise, which then
// changes the rest of its column.
const codeShare = 0.05

var (
	mostCodes = limit{share: codeShare, why: "sums in another order may round a code otherwise, which changes the rest of its column"}
	sameLoss  = limit{rel: 1e-9, why: "sums in float64, in another order"}
	nearLoss  = limit{rel: 1e-3, why: "as good a result"}
)

type gptqCase struct {
	name    string
	k, n    int
	w       values
	factor  func(k int) (u, h values)
	recipes []string
	codes   limit
	loss    limit

	one bool // the codings are of one matrix
}

// gptqCases: of one group, where operations are ordered, and of several with
// sums that need no rounding, every bit is the same.
func gptqCases() (cases []testCase) {
	list := []gptqCase{
		{"several groups", 96, 64, coarse(1), integers, []string{"1:4b_32g"}, exact, sameLoss, false},
		{"several blocks", 704, 96, coarse(2), integers, []string{"1:4b_128g"}, exact, sameLoss, false},
		{"several widths", 544, 64, coarse(3), integers, []string{"0.1:6b_96g/0.4:5b_64g/0.5:3b_32g"}, exact, sameLoss, false},
		{"a list", 352, 160, coarse(4), integers, []string{"1:4b_32g", "0.2:6b_128g/0.8:4b_96g", "1:5b_128g", "0.05:8b_32g/0.95:3b_64g"}, exact, sameLoss, false},
		{"one matrix", 1056, 96, coarse(9), integers, []string{"1:3b_64g", "0.5:4b_64g/0.5:3b_64g", "1:4b_64g", "0.75:4b_64g/0.25:3b_64g", "0.9:4b_64g/0.1:2b_32g", "1:4b_64g"}, exact, sameLoss, true},
		{"realistic", 256, 128, noise(5), realistic, []string{"1:4b_128g"}, mostCodes, nearLoss, false},
		{"realistic", 544, 96, noise(6), realistic, []string{"0.1:4b_32g/0.9:3b_32g"}, mostCodes, nearLoss, false},
		{"a realistic list", 352, 224, noise(7), realistic, []string{"0.05:6b_32g/0.2:3b_64g/0.75:2b_64g", "1:8b_128g", "0.1:5b_64g/0.9:4b_64g"}, mostCodes, nearLoss, false},
	}
	for _, bits := range exl2.Widths {
		for _, rows := range []int{32, 128} {
			list = append(list, gptqCase{"one group", rows, 96, noise(8), realistic, []string{fmt.Sprintf("1:%db_%dg", bits, rows)}, exact, sameLoss, false})
		}
	}
	for _, c := range list {
		cases = append(cases, testCase{name: fmt.Sprintf("%s %dx%d %v", c.name, c.k, c.n, c.recipes), limit: c.codes, direct: true, build: c.build})
	}
	return append(cases, testCase{name: "no matrix", limit: exact, direct: true, build: gptqCase{k: 32, n: 32, factor: integers}.build})
}

func (c gptqCase) build(f *fixture) func(device.Device) {
	var list []device.Coding
	for i, r := range c.recipes {
		list = append(list, f.coding(fmt.Sprint(i), c.w, c.k, c.n, r))
		if c.one {
			list[i].W = list[0].W
		}
	}
	u, h := c.factor(c.k)
	x := f.factor(c.k, u, h)
	loss := f.out("loss", tensor.F64, 1, len(list))
	f.within(c.loss)
	return quantizing(func(d device.Quantize) { d.GPTQ(list, x, loss) })
}

type descendCase struct {
	name    string
	k, n    int
	w       values
	factor  func(k int) (u, h values)
	recipes []string
	passes  int
	codes   limit

	op func(d device.Quantize, list []device.Coding, f device.Factor) // if not Descend
}

func descendCases() (cases []testCase) {
	for _, c := range []descendCase{
		{"no pass", 96, 64, noise(1), realistic, []string{"1:4b_32g"}, 0, exact, nil},
		{"no matrix", 32, 32, noise(1), integers, nil, 1, exact, nil},
		{"one group", 64, 96, coarse(2), integers, []string{"1:4b_64g"}, 1, exact, nil},
		{"several groups", 352, 64, coarse(3), integers, []string{"0.2:5b_96g/0.8:3b_32g"}, 1, exact, nil},
		{"several blocks, passes", 704, 96, coarse(4), integers, []string{"1:4b_128g"}, 3, exact, nil},
		{"a list", 544, 64, coarse(5), integers, []string{"1:6b_128g", "0.1:5b_32g/0.9:4b_96g", "1:3b_64g"}, 2, exact, nil},
		{"narrow ones", 544, 64, coarse(8), integers, []string{"1:4b_64g", "1:3b_64g", "1:2b_128g", "0.3:5b_96g/0.7:3b_32g", "1:6b_32g"}, 2, exact, nil},
		{"realistic", 256, 128, noise(6), realistic, []string{"1:4b_128g"}, 2, mostCodes, nil},
		{"a realistic list", 544, 96, noise(7), realistic, []string{"0.1:4b_32g/0.9:3b_32g", "1:2b_64g"}, 1, mostCodes, nil},
	} {
		name := fmt.Sprintf("%s %dx%d %v passes=%d", c.name, c.k, c.n, c.recipes, c.passes)
		cases = append(cases, testCase{name: name, limit: c.codes, direct: true, build: func(f *fixture) func(device.Device) { return c.build(f, false) }})
		if c.passes == 2 {
			cases = append(cases, testCase{name: name + " ready", limit: c.codes, direct: true, build: func(f *fixture) func(device.Device) { return c.build(f, true) }})
		}
	}
	return cases
}

func pairsCases() (cases []testCase) {
	for _, c := range []descendCase{
		{"no matrix", 32, 32, noise(1), integers, nil, 0, exact, nil},
		{"one group", 64, 96, coarse(2), integers, []string{"1:4b_64g"}, 0, exact, nil},
		{"groups across windows", 352, 64, coarse(3), integers, []string{"0.2:5b_96g/0.8:3b_32g"}, 0, exact, nil},
		{"a list", 544, 64, coarse(5), integers, []string{"1:6b_128g", "0.1:5b_32g/0.9:4b_96g", "1:3b_64g"}, 0, exact, nil},
		{"narrow ones", 544, 64, coarse(8), integers, []string{"1:4b_64g", "1:3b_64g", "1:2b_128g", "0.3:5b_96g/0.7:3b_32g", "1:6b_32g"}, 0, exact, nil},
		{"many windows", 1376, 64, coarse(9), integers, []string{"1:4b_64g", "0.3:5b_96g/0.7:3b_32g"}, 0, exact, nil},
		{"realistic", 256, 128, noise(6), realistic, []string{"1:4b_128g"}, 0, mostCodes, nil},
		{"a realistic list", 544, 96, noise(7), realistic, []string{"0.1:4b_32g/0.9:3b_32g", "1:2b_64g"}, 0, mostCodes, nil},
	} {
		c.op = func(d device.Quantize, list []device.Coding, f device.Factor) { d.Pairs(list, f) }
		name := fmt.Sprintf("%s %dx%d %v", c.name, c.k, c.n, c.recipes)
		cases = append(cases, testCase{name: name, limit: c.codes, direct: true, build: func(f *fixture) func(device.Device) { return c.build(f, true) }})
		if len(c.recipes) > 2 {
			again := c
			again.op = twice
			cases = append(cases, testCase{name: name + " again", limit: c.codes, direct: true, build: func(f *fixture) func(device.Device) { return again.build(f, true) }})
		}
	}
	return cases
}

// twice improves codes, and repeats that.
func twice(d device.Quantize, list []device.Coding, f device.Factor) {
	again, free := device.Repeat(d, func() {
		d.Descend(list, f, 1)
		d.Pairs(list, f)
	})
	again()
	free()
}

// build begins with the nearest codes.
func (c descendCase) build(f *fixture, ready bool) func(device.Device) {
	var list []device.Coding
	for i, r := range c.recipes {
		q := quantizedBy(c.w, c.k, c.n, r)
		x := f.coded(q)
		x.W = f.in("W", tensor.F32, c.k, c.n, c.w)
		x.Codes = f.bytesOut(fmt.Sprint(i, " codes"), c.k, c.n, q.Codes)
		list = append(list, x)
	}
	u, h := c.factor(c.k)
	x := f.factor(c.k, u, h)
	f.score = func(results map[string][]byte) (sum float64) {
		for i, r := range c.recipes {
			q := quantizedBy(c.w, c.k, c.n, r)
			q.Codes = results[fmt.Sprint(i, " codes")]
			sum += objective(q, c.w, h)
		}
		return sum
	}
	return quantizing(func(d device.Quantize) {
		x := x
		if ready {
			x.Ready = d.ReadyToDescend(x)
			defer d.Free(x.Ready)
		}
		if c.op != nil {
			c.op(d, list, x)
			return
		}
		d.Descend(list, x, c.passes)
	})
}

// objective is tr((W-V)ᵀH(W-V)).
func objective(q *exl2.Quantized, w, h values) (sum float64) {
	k, n := q.In, q.Out
	e := make([]float64, k*n)
	for i, g := range q.Groups {
		table := exl2.ScaleTable(q.ScaleMax[i])
		for at := g.Row * n; at < (g.Row+g.Rows)*n; at++ {
			scale := table[q.Scales[i*n+at%n]]
			e[at] = float64(w(at)) - float64(exl2.Value(q.Codes[at], g.Bits, scale).Float32())
		}
	}
	row := make([]float64, n)
	for i := range k {
		clear(row)
		for j := range k {
			if f := float64(h(i*k + j)); f != 0 {
				for c := range n {
					row[c] += f * e[j*n+c]
				}
			}
		}
		for c := range n {
			sum += row[c] * e[i*n+c]
		}
	}
	return sum
}
