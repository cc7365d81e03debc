package devtest

import (
	"fmt"

	"exl2/internal/device"
	"exl2/internal/exl2"
	"exl2/internal/tensor"
)

// A columnCase is a block of columns of a matrix [k, wide]: n of m that are in an order of
// their own, from first on.
type columnCase struct {
	wide, m, first, n int
	recipe            string
}

var columnCases = [][]columnCase{
	{{96, 96, 0, 64, "1:4b_128g"}},
	{{96, 96, 32, 64, "1:4b_128g"}},
	{{160, 128, 64, 32, "0.5:6b_64g/0.5:3b_32g"}},
	{{320, 300, 64, 64, "1:3b_32g"}, {96, 96, 32, 64, "0.3:5b_128g/0.7:3b_64g"}, {1088, 1024, 0, 64, "1:2b_64g"}},
}

func columnsName(k int, list []columnCase) string {
	name := fmt.Sprintf("%d rows:", k)
	for _, c := range list {
		name += fmt.Sprintf(" %d of %d from %d, %s", c.n, c.m, c.first, c.recipe)
	}
	return name
}

// takeColumnsCases bring columns of codes and targets to a matrix of their own.
func takeColumnsCases() (cases []testCase) {
	for _, k := range []int{32, 480, 1120} {
		for _, list := range columnCases {
			cases = append(cases, testCase{name: columnsName(k, list), limit: exact, direct: true, build: func(f *fixture) func(device.Device) {
				var blocks []device.ColumnBlock
				for i, c := range list {
					of := f.coded(quantizedParts(k, c.wide, c.recipe))
					groups := len(of.Groups)
					blocks = append(blocks, device.ColumnBlock{
						Of: of, Cols: f.list("cols", shuffled(i, c.wide)[:c.n]), First: c.first,
						Target: f.in("target", tensor.F32, k, c.m, noise(i+3)), Feed: f.in("feed", tensor.F32, c.n, c.m, noise(4)),
						Part: device.Coding{
							Groups: of.Groups, Largest: of.Largest, W: f.out("W", tensor.F32, k, c.n),
							Codes: f.bytesOut("part's codes", k, c.n, unwritten(k*c.n)), Scales: f.bytesOut("part's scales", groups, c.n, unwritten(groups*c.n)),
						},
					})
				}
				return quantizing(func(d device.Quantize) { d.TakeColumns(blocks) })
			}})
		}
	}
	return cases
}

// putColumnsCases put codes back, and change the targets behind.
func putColumnsCases() (cases []testCase) {
	limit := limit{rms: 2e-5, rel: 1e-5, nmse: 1e-10, why: "sums in float32, in another order"}
	for _, k := range []int{32, 480, 1120} {
		for _, list := range columnCases {
			cases = append(cases, testCase{name: columnsName(k, list), limit: exact, direct: true, build: func(f *fixture) func(device.Device) {
				var blocks []device.ColumnBlock
				for i, c := range list {
					of := f.coded(quantizedParts(k, c.wide, c.recipe))
					of.Codes = f.bytesOut("codes", k, c.wide, unwritten(k*c.wide))
					part := f.coded(quantizedBy(noise(i+5), k, c.n, c.recipe))
					part.W = f.in("W", tensor.F32, k, c.n, noise(i+5))
					target := f.inOut("target", tensor.F32, k, c.m, noise(i+3))
					f.within(limit)
					blocks = append(blocks, device.ColumnBlock{
						Of: of, Cols: f.list("cols", shuffled(i, c.wide)[:c.n]), First: c.first, Part: part,
						Target: target, Feed: f.in("feed", tensor.F32, c.n, c.m, noise(4)),
					})
				}
				return quantizing(func(d device.Quantize) { d.PutColumns(blocks) })
			}})
		}
	}
	return cases
}

func feedsCases() (cases []testCase) {
	limit := limit{rms: 1e-4, rel: 1e-5, nmse: 1e-9, why: "inverses of blocks and sums in float32, in another order"}
	for _, sides := range [][]int{{32}, {64}, {96}, {300, 1024, 128}, {1024, 768, 32, exl2.Pad(1000)}} {
		for _, n := range []int{32, 64} {
			cases = append(cases, testCase{name: fmt.Sprintf("%d, blocks of %d", sides, n), limit: limit, direct: true, build: func(f *fixture) func(device.Device) {
				var list []device.Feed
				for _, side := range sides {
					list = append(list, device.Feed{Feed: f.out("feed", tensor.F32, side, side), U: f.in("U", tensor.F32, side, side, triangle(side))})
				}
				return quantizing(func(d device.Quantize) { d.Feeds(list, n) })
			}})
		}
	}
	return cases
}

// Factors of several sizes at once, one of which there is not.
func inverseFactorsCases() (cases []testCase) {
	limit := limit{rms: 1e-3, rel: 1e-3, nmse: 1e-7, why: "a factorization and an inverse, at a condition of some hundreds"}
	for _, sides := range [][]int{{}, {33}, {128, 128, 128}, {300, 1, 544, 129}} {
		for _, spoilt := range []bool{false, true} {
			cases = append(cases, testCase{name: fmt.Sprintf("%d, first spoilt %v", sides, spoilt), limit: exact, direct: true, build: func(f *fixture) func(device.Device) {
				var inverses []device.Inverse
				for i, k := range sides {
					m, within := moments(k, 0.05), limit
					if spoilt && i == 0 {
						m[k*k-1], within.any = -1, true
					}
					u := f.out("u", tensor.F32, k, k)
					f.within(within)
					inverses = append(inverses, device.Inverse{U: u, H: f.in("h", tensor.F32, k, k, list(m...)), OK: f.intsOut("ok", 1, 1, []int32{-7})})
				}
				return quantizing(func(d device.Quantize) { d.InverseFactors(inverses, 0.5) })
			}})
		}
	}
	return cases
}

func byNormsCases() (cases []testCase) {
	for _, c := range []struct {
		rows, n, cols int
		x             tensor.Type
	}{{0, 32, 64, activation}, {1, 1, 1, activation}, {33, 100, 300, activation}, {70, 1000, 4096, activation}, {9, 64, 777, residual}} {
		cases = append(cases, testCase{name: fmt.Sprintf("%d rows of %d by %v of %d", c.rows, c.n, typeName(c.x), c.cols), limit: limit{rel: 2e-7, why: "sums in float64, in another order"}, build: func(f *fixture) func(device.Device) {
			y, dy, x := f.out("y", tensor.F32, c.rows, c.n), f.in("dy", tensor.F32, c.rows, c.n, noise(1)), f.in("x", c.x, c.rows, c.cols, noise(2))
			return quantizing(func(d device.Quantize) { d.ByNorms(y, dy, x) })
		}})
	}
	return cases
}

// joinCases join moments of which some columns have much in common, some little, and
// some nothing.
func joinCases() (cases []testCase) {
	limit := limit{rel: ulp, abs: 1e-6, why: "rounded to fp16"}
	of := func(seed, side int, common float32) values {
		v := noise(seed)
		return func(at int) float32 {
			i, j := at/side, at%side
			if i == j {
				return float32(i%5) * (2 + v(at))
			}
			return common*noise(99)(min(i, j)*side+max(i, j)) + v(min(i, j)*side+max(i, j))
		}
	}
	for _, c := range []struct {
		name   string
		wide   int
		sides  []int
		common float32
	}{{"one column", 32, []int{1}, 1}, {"a span", 64, []int{64}, 2}, {"a short span", 64, []int{50}, 2}, {"spans", 96, []int{96, 96, 33}, 1}, {"nothing in common", 96, []int{96}, 0}, {"wide", 1024, []int{1024, 700}, 1}} {
		cases = append(cases, testCase{name: c.name, limit: limit, direct: true, build: func(f *fixture) func(device.Device) {
			var a, b []tensor.Tensor
			n := 0
			for i, side := range c.sides {
				a, b = append(a, f.in("a", tensor.F32, side, side, of(2*i, side, c.common))), append(b, f.in("b", tensor.F32, side, side, of(2*i+1, side, c.common)))
				n += side
			}
			dst := f.out("dst", tensor.F16, n, c.wide)
			return quantizing(func(d device.Quantize) { d.JoinMoments(dst, a, b) })
		}})
	}
	return cases
}
