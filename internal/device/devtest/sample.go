package devtest

import (
	"slices"

	"exl2/internal/device"
	"exl2/internal/sampling"
	"exl2/internal/tensor"
)

// sampleCases are of logits that leave no doubt how a filter decides: devices may
// differ in the last bits of probabilities.
func sampleCases() (cases []testCase) {
	type settings = sampling.Settings
	for _, c := range []struct {
		name       string
		rows, cols int
		s          settings
		v          values
	}{
		{"no rows", 0, 10, settings{}, noise(1)},
		{"greedy", 3, 1000, settings{}, noise(1)},
		{"greedy, vocabulary", 1, 128256, settings{}, noise(2)},
		{"greedy, ties", 2, 5000, settings{}, list(0, 1, 0.5, 1)},
		{"one column", 2, 1, settings{Temperature: 1}, noise(3)},
		{"few columns", 5, 7, settings{Temperature: 0.7}, noise(4)},
		{"temperature", 4, 32000, settings{Temperature: 1}, noise(5)},
		{"hot", 2, 128256, settings{Temperature: 100}, noise(6)},
		{"cold", 2, 50257, settings{Temperature: 0.01}, noise(7)},
		{"top-k 1", 3, 5000, settings{Temperature: 2, TopK: 1}, noise(8)},
		{"top-k 40", 3, 128256, settings{Temperature: 0.2, TopK: 40}, noise(9)},
		{"top-k of ties", 2, 6000, settings{Temperature: 1, TopK: 100}, list(0, 1, 0.5, 1)},
		{"top-k beyond the columns", 2, 300, settings{Temperature: 1, TopK: 1000}, noise(10)},
		{"top-p", 3, 128256, settings{Temperature: 0.1, TopP: 0.9}, noise(11)},
		{"top-p of the hot", 2, 32000, settings{Temperature: 5, TopP: 0.5}, noise(12)},
		{"top-k and top-p", 3, 50257, settings{Temperature: 0.3, TopK: 50, TopP: 0.8}, noise(13)},
		{"min-p", 3, 32000, settings{Temperature: 0.2, MinP: 0.1}, noise(14)},
		{"typical", 3, 32000, settings{Temperature: 0.2, Typical: 0.7}, noise(15)},
		{"typical of what top-k leaves", 2, 32000, settings{Temperature: 0.2, TopK: 200, Typical: 0.5}, noise(16)},
		{"all filters", 4, 128256, settings{Temperature: 0.3, TopK: 400, TopP: 0.95, MinP: 0.01, Typical: 0.9}, noise(17)},
		{"all equal", 2, 3000, settings{Temperature: 1, TopK: 5, TopP: 0.5}, constant(-3)},
		{"penalties", 3, 5000, settings{Repetition: 1.5, Frequency: 0.25, Presence: 0.5}, noise(18)},
		{"penalties and all filters", 3, 32000, settings{Temperature: 0.3, TopK: 300, TopP: 0.9, MinP: 0.02, Typical: 0.9, Repetition: 1.2, Frequency: 0.125, Presence: 0.25}, noise(19)},
		{"not finite", 4, 3000, settings{Temperature: 1, TopP: 0.5}, withAt(noise(20), nan, 10, 2999, 6005, 6004)},
		{"infinite", 2, 3000, settings{}, withAt(noise(21), infinity, 4000)},
	} {
		cases = append(cases, testCase{name: c.name, limit: exact, build: func(f *fixture) func(device.Device) {
			out := f.intsOut("out", 2, c.rows, repeat(-7, 2*c.rows))
			x := f.in("x", residual, c.rows, c.cols, c.v)
			row := c.s.Row()
			s := device.Sampling{Settings: f.in("settings", tensor.F32, c.rows, sampling.Columns, func(i int) float32 { return row[i%sampling.Columns] })}
			positions, seeds := make([]int32, c.rows), make([]int32, 2*c.rows)
			for r := range positions {
				positions[r], seeds[2*r], seeds[2*r+1] = int32(100*r+7), int32(mix(30, r)), int32(mix(31, r))
			}
			pos := f.ints("pos", 1, c.rows, positions)
			s.Seeds = f.ints("seeds", c.rows, 2, seeds)
			if c.s.Repetition > 0 {
				seen := slices.Repeat([]int32{3, 0, 1, 0, 0, 2, 0}, c.rows*c.cols/7+1)
				s.Seen = f.intsOut("seen", c.rows, c.cols, seen[:c.rows*c.cols])
			}
			s.Greedy, s.Unfiltered = c.s.Temperature == 0, !c.s.Selects()
			return func(d device.Device) { d.Sample(out, x, pos, s) }
		}})
	}
	return append(cases, positionCases()...)
}

// positionCases choose at each of many positions, and with each of many seeds.
func positionCases() (cases []testCase) {
	const rows, cols = 200, 50
	for _, c := range []struct {
		name string
		of   func(r int) (position, seed int32)
	}{
		{"many positions", func(r int) (int32, int32) { return int32(r), 5 }},
		{"many seeds", func(r int) (int32, int32) { return 5, int32(r) }},
	} {
		cases = append(cases, testCase{name: c.name, limit: exact, build: func(f *fixture) func(device.Device) {
			out := f.intsOut("out", 2, rows, repeat(-7, 2*rows))
			x := f.in("x", residual, rows, cols, constant(1))
			positions, seeds := make([]int32, rows), make([]int32, 2*rows)
			for r := range rows {
				positions[r], seeds[2*r] = c.of(r)
			}
			s := device.Sampling{Settings: f.in("settings", tensor.F32, rows, sampling.Columns, func(i int) float32 { return sampling.Settings{Temperature: 1}.Row()[i%sampling.Columns] })}
			s.Seeds = f.ints("seeds", rows, 2, seeds)
			pos := f.intsOut("pos", 1, rows, positions)
			s.Next, s.Advance = f.intsOut("next", 1, rows, repeat(-7, rows)), true
			return func(d device.Device) { d.Sample(out, x, pos, s) }
		}})
	}
	return cases
}
