package cpu

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"exl2/internal/device"
	"exl2/internal/exl2"
	"exl2/internal/tensor"
)

// A problem is a weight and the factor of its inputs.
type problem struct {
	w, u, h grid
	device.Factor
}

func newProblem(d *Device, k, n int) problem {
	p := problem{w: normal(2, k, n), h: positive(k)}
	p.H, p.U = upload(d, p.h), d.Alloc(tensor.F32, k, k)
	d.InverseFactor(p.U, p.H, 0, d.Alloc(tensor.I32, 1, 1))
	p.u = download(d, p.U)
	weights := newGrid(1, k)
	for i := range k {
		weights.v[i] = 1 / (p.u.at(i, i) * p.u.at(i, i))
	}
	p.Importance = upload(d, weights)
	return p
}

// gptqCases are matrices of one group, of several, of several blocks, and of
// several widths.
var gptqCases = []struct {
	k, n   int
	recipe string
}{
	{32, 32, "1:4b_32g"}, {96, 64, "1:3b_128g"}, {96, 96, "1:2b_32g"}, {160, 160, "0.1:8b_32g/0.9:5b_64g"},
	{352, 64, "0.2:6b_128g/0.8:2b_96g"}, {544, 32, "0.3:4b_96g/0.7:3b_32g"},
}

// Row by row, codes are the nearest to what the errors of all earlier rows have
// left, at scales that cost no more than any others there; the loss is the sum
// of the squared errors.
func TestGPTQ(t *testing.T) {
	for _, c := range gptqCases {
		t.Run(fmt.Sprintf("%+v", c), func(t *testing.T) {
			d := open(t)
			p := newProblem(d, c.k, c.n)
			coding := newCoding(d, p.w, exl2.MustRecipe(c.recipe).Groups(c.k))
			loss := d.Alloc(tensor.F64, 1, 1)
			d.GPTQ([]device.Coding{coding}, p.Factor, loss)
			near(t, download(d, coding.W), p.w, 0)
			want := p.follow(t, d, coding)
			if got := elements[float64](loss)[0]; math.Abs(got-want) > 1e-3*want {
				t.Errorf("loss %v, want %v", got, want)
			}
		})
	}
}

// follow checks a result of GPTQ step by step, and returns its loss.
func (p problem) follow(t *testing.T, d *Device, c device.Coding) (loss float64) {
	w, codes, importance := grid{p.w.rows, p.w.cols, slices.Clone(p.w.v)}, elements[uint8](c.Codes), download(d, p.Importance).v
	for g, group := range c.Groups {
		end := group.Row + group.Rows
		rows := grid{group.Rows, w.cols, w.v[group.Row*w.cols : end*w.cols]}
		s, cost1 := scales(c, g), 0.0
		for col := range w.cols {
			cost1 += cost(rows, col, importance[group.Row:end], group.Bits, s[col])
		}
		if least := leastCost(rows, importance[group.Row:end], group.Bits); cost1 > 1.001*least {
			t.Errorf("group %d: scales cost %v, others %v", g, cost1, least)
		}
		for i := group.Row; i < end; i++ {
			for col := range w.cols {
				code := codes[i*w.cols+col]
				if !isNearest(code, group.Bits, w.at(i, col), s[col]) {
					t.Fatalf("row %d, column %d: %v has code %d at scale %v", i, col, w.at(i, col), code, s[col])
				}
				e := (w.at(i, col) - value(code, group.Bits, s[col])) / p.u.at(i, i)
				loss += e * e
				for j := i + 1; j < w.rows; j++ {
					w.set(j, col, w.at(j, col)-p.u.at(i, j)*e)
				}
			}
		}
	}
	return loss
}

// Each row's codes become the best with the others fixed.
func TestDescend(t *testing.T) {
	for _, c := range gptqCases {
		for _, passes := range []int{0, 1, 3} {
			t.Run(fmt.Sprintf("%+v, %d passes", c, passes), func(t *testing.T) {
				d := open(t)
				p := newProblem(d, c.k, c.n)
				coding := newCoding(d, p.w, exl2.MustRecipe(c.recipe).Groups(c.k))
				fill(coding, 0.5)
				before := slices.Clone(elements[uint8](coding.Codes))
				d.Descend([]device.Coding{coding}, p.Factor, passes)
				if passes == 0 && !slices.Equal(elements[uint8](coding.Codes), before) {
					t.Error("codes change in no pass")
				}
				if passes == 1 {
					p.followDescent(t, coding, before)
				}
				if first, last := p.objective(coding, before), p.objective(coding, elements[uint8](coding.Codes)); passes > 0 && !(last < first) {
					t.Errorf("the loss goes from %v to %v", first, last)
				}
			})
		}
	}
}

// Codes of two rows change together where the loss falls by it, and by as much as every
// step promises.
func TestPairs(t *testing.T) {
	for _, c := range gptqCases {
		t.Run(fmt.Sprintf("%+v", c), func(t *testing.T) {
			d := open(t)
			p := newProblem(d, c.k, c.n)
			coding := newCoding(d, p.w, exl2.MustRecipe(c.recipe).Groups(c.k))
			fill(coding, 0.5)
			d.Descend([]device.Coding{coding}, p.Factor, 8)
			before := slices.Clone(elements[uint8](coding.Codes))
			d.Pairs([]device.Coding{coding}, p.Factor)
			want := p.pairs(coding, before)
			differ := 0
			for i, code := range elements[uint8](coding.Codes) {
				if code != want[i] {
					differ++
				}
			}
			if differ > len(want)/200 {
				t.Errorf("%d of %d codes are not those of the definition", differ, len(want))
			}
			first, last := p.objective(coding, before), p.objective(coding, elements[uint8](coding.Codes))
			t.Logf("the loss goes from %.5g to %.5g", first, last)
			if !(last < first) {
				t.Errorf("the loss goes from %v to %v", first, last)
			}
		})
	}
}

// pairs is the definition of Pairs in float64.
func (p problem) pairs(c device.Coding, before []uint8) []uint8 {
	codes := slices.Clone(before)
	n, k := p.w.cols, p.w.rows
	for first := 0; first < k; first += device.PairRows {
		end := min(k, first+device.PairRows)
		r := p.h.times(p.residual(c, codes))
		for col := range n {
			x := pairDefinition{problem: p, c: c, codes: codes, r: r, col: col}
			for i := first; i < end; i++ {
				for _, to := range x.neighbours(i) {
					x.largest = max(x.largest, math.Abs(to.d))
				}
			}
			for i := first; i < end; i++ {
				x.visit(i, first, end)
			}
		}
	}
	return codes
}

// pairDefinition is one column.
type pairDefinition struct {
	problem
	c     device.Coding
	codes []uint8
	r     grid // H·(W-V)
	col   int

	largest float64 // change of a code of the window
}

// A neighbour is a code beside another, and what it changes.
type neighbour struct {
	code uint8
	d    float64
}

func (x *pairDefinition) neighbours(i int) [2]neighbour {
	at, g := i*x.w.cols+x.col, slices.IndexFunc(x.c.Groups, func(g exl2.Group) bool { return i < g.Row+g.Rows })
	bits, s, now := x.c.Groups[g].Bits, scales(x.c, g)[x.col], int(x.codes[at])
	beside := func(code int) neighbour {
		code = min(max(code, 0), 1<<bits-1)
		return neighbour{uint8(code), value(uint8(code), bits, s) - value(uint8(now), bits, s)}
	}
	return [2]neighbour{beside(now + 1), beside(now - 1)}
}

// better returns the better neighbour of a code, and what it gains.
func (x *pairDefinition) better(i int, r float64) (code uint8, d, gain float64) {
	gain = math.Inf(-1)
	for _, to := range x.neighbours(i) {
		if won := to.d * (2*r - to.d*x.h.at(i, i)); won > gain {
			code, d, gain = to.code, to.d, won
		}
	}
	return code, d, gain
}

// visit tries to change a row.
func (x *pairDefinition) visit(i, first, end int) {
	code, d, own := x.better(i, x.r.at(i, x.col))
	if d == 0 {
		return
	}
	need := d*d*x.h.at(i, i)/1024 - own
	reach := 0.0
	for j := first; j < end; j++ {
		if j != i {
			reach = max(reach, math.Abs(x.h.at(i, j)))
		}
	}
	if need > 2*math.Abs(d)*reach*x.largest {
		return
	}
	most, partner := max(need, 0), -1
	for j := first; j < end; j++ {
		if _, v, gain := x.better(j, x.r.at(j, x.col)-x.h.at(i, j)*d); j != i && v != 0 && gain > most {
			most, partner = gain, j
		}
	}
	if partner < 0 && need >= 0 {
		return
	}
	x.change(i, code, d, first, end)
	if partner >= 0 {
		code, d, _ := x.better(partner, x.r.at(partner, x.col))
		x.change(partner, code, d, first, end)
	}
}

func (x *pairDefinition) change(i int, code uint8, d float64, first, end int) {
	x.codes[i*x.w.cols+x.col] = code
	for j := first; j < end; j++ {
		x.r.set(j, x.col, x.r.at(j, x.col)-x.h.at(i, j)*d)
	}
}

// residual returns W - V for some codes.
func (p problem) residual(c device.Coding, codes []uint8) grid {
	r := newGrid(p.w.rows, p.w.cols)
	for g, group := range c.Groups {
		for col, s := range scales(c, g) {
			for i := group.Row; i < group.Row+group.Rows; i++ {
				r.set(i, col, p.w.at(i, col)-value(codes[i*r.cols+col], group.Bits, s))
			}
		}
	}
	return r
}

// objective is tr((W-V)ᵀH(W-V)).
func (p problem) objective(c device.Coding, codes []uint8) (sum float64) {
	r := p.residual(c, codes)
	for i, v := range p.h.times(r).v {
		sum += v * r.v[i]
	}
	return sum
}

// followDescent checks one pass step by step.
func (p problem) followDescent(t *testing.T, c device.Coding, before []uint8) {
	after := elements[uint8](c.Codes)
	rest := p.h.times(p.residual(c, before))
	for g, group := range c.Groups {
		s := scales(c, g)
		for i := group.Row; i < group.Row+group.Rows; i++ {
			for col := range rest.cols {
				at := i*rest.cols + col
				old := value(before[at], group.Bits, s[col])
				if best := old + rest.v[at]/p.h.at(i, i); !isNearest(after[at], group.Bits, best, s[col]) {
					t.Fatalf("row %d, column %d: %v has code %d at scale %v", i, col, best, after[at], s[col])
				}
				change := value(after[at], group.Bits, s[col]) - old
				for j := i + 1; j < rest.rows; j++ {
					rest.set(j, col, rest.at(j, col)-p.h.at(i, j)*change)
				}
			}
		}
	}
}

// Every matrix of a list is quantized as it would be alone, on any number of
// cores.
func TestQuantizeLists(t *testing.T) {
	d := open(t)
	const k = 352
	p, narrow := newProblem(d, k, 96), normal(3, k, 32)
	run := func(cores int, list ...int) (codings []device.Coding, losses []float64) {
		defer setCores(cores)()
		for _, i := range list {
			w := p.w
			if i%2 == 1 {
				w = narrow // columns may differ in number
			}
			codings = append(codings, newCoding(d, w, exl2.MustRecipe(gptqCases[i].recipe).Groups(k)))
		}
		loss := d.Alloc(tensor.F64, 1, len(list))
		d.GPTQ(codings, p.Factor, loss)
		d.Descend(codings, p.Factor, 2)
		return codings, elements[float64](loss)
	}
	all := []int{0, 1, 2, 3, 4, 5, 4}
	for _, cores := range []int{1, 2, 7} {
		together, losses := run(cores, all...)
		for i, which := range all {
			alone, loss := run(1, which)
			if !slices.Equal(elements[uint8](alone[0].Codes), elements[uint8](together[i].Codes)) ||
				!slices.Equal(elements[uint8](alone[0].Scales), elements[uint8](together[i].Scales)) || loss[0] != losses[i] {
				t.Errorf("%d cores: %s differs from what it is alone", cores, gptqCases[which].recipe)
			}
		}
	}
	if d.GPTQ(nil, p.Factor, d.Alloc(tensor.F64, 1, 0)); d.Sync() != nil {
		t.Error("an empty list fails")
	}
}
