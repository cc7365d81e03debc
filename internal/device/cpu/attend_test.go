package cpu

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"exl2/internal/device"
	"exl2/internal/tensor"
)

// attendCase is runs of span positions, one sequence each, from start on.
type attendCase struct {
	device.Attend
	name     string
	start    []int
	span     int
	pageRows int
	pages    int // of a sequence
	shuffled bool
	sinks    []float32
}

var attendCases = []attendCase{
	{name: "one token", start: []int{0}, span: 1, pageRows: 16, pages: 1, Attend: device.Attend{Heads: 2, KVHeads: 2, HeadDim: 32, Scale: 0.2}},
	{name: "decode, shared heads", start: []int{300, 17}, span: 1, pageRows: 32, pages: 10, shuffled: true, Attend: device.Attend{Heads: 6, KVHeads: 2, HeadDim: 48, Scale: 0.15}},
	{name: "prefill in order", start: []int{0}, span: 300, pageRows: 512, pages: 1, Attend: device.Attend{Heads: 4, KVHeads: 2, HeadDim: 64, Scale: 0.125}},
	{name: "prefill in shuffled pages", start: []int{0, 45}, span: 150, pageRows: 16, pages: 13, shuffled: true, Attend: device.Attend{Heads: 2, KVHeads: 1, HeadDim: 40, Scale: 0.125}},
	{name: "window", start: []int{0, 70}, span: 200, pageRows: 64, pages: 5, shuffled: true, Attend: device.Attend{Heads: 2, KVHeads: 2, HeadDim: 16, Scale: 0.3, Window: 50}},
	{name: "window of one", start: []int{5}, span: 40, pageRows: 64, pages: 1, Attend: device.Attend{Heads: 2, KVHeads: 1, HeadDim: 16, Scale: 0.3, Window: 1}},
	{name: "soft cap", start: []int{3}, span: 70, pageRows: 128, pages: 1, Attend: device.Attend{Heads: 3, KVHeads: 3, HeadDim: 24, Scale: 2, Softcap: 5}},
	{name: "sinks", start: []int{3}, span: 40, pageRows: 128, pages: 1, sinks: []float32{2, -1, 30}, Attend: device.Attend{Heads: 3, KVHeads: 1, HeadDim: 24, Scale: 0.5, Window: 9}},
	{name: "temperature", start: []int{3}, span: 70, pageRows: 128, pages: 1, Attend: device.Attend{Heads: 3, KVHeads: 3, HeadDim: 24, Scale: 0.5, Temperature: 0.4, TemperatureSpan: 8}},
	{name: "large scores", start: []int{0}, span: 65, pageRows: 128, pages: 1, Attend: device.Attend{Heads: 1, KVHeads: 1, HeadDim: 32, Scale: 100}},
}

// seen lists the weights of the positions that a row sees with one head.
func (c attendCase) seen(q []float64, keys []grid, head, seq, pos int) (first int, weights []float64) {
	if c.Window > 0 {
		first = max(0, pos-c.Window+1)
	}
	largest, sum := math.Inf(-1), 0.0
	for p := first; p <= pos; p++ {
		s := 0.0
		for i := range c.HeadDim {
			s += q[head*c.HeadDim+i] * keys[seq].at(p, head/(c.Heads/c.KVHeads)*c.HeadDim+i)
		}
		if c.Temperature != 0 {
			s *= 1 + float64(c.Temperature)*math.Log(1+math.Floor(float64(pos)/float64(c.TemperatureSpan)))
		}
		if s *= float64(c.Scale); c.Softcap != 0 {
			s = float64(c.Softcap) * math.Tanh(s/float64(c.Softcap))
		}
		weights, largest = append(weights, s), max(largest, s)
	}
	if c.sinks != nil {
		sum = math.Exp(float64(c.sinks[head]) - largest)
	}
	for i, s := range weights {
		weights[i] = math.Exp(s - largest)
		sum += weights[i]
	}
	for i := range weights {
		weights[i] /= sum
	}
	return first, weights
}

// Attend is softmax(scale·q·Kᵀ)·V over the positions that a row sees, wherever
// their pages lie; what lies in other positions, NaN here, does not matter.
func TestAttend(t *testing.T) {
	for _, c := range attendCases {
		t.Run(c.name, func(t *testing.T) {
			d, sequences := open(t), len(c.start)
			kv, total := c.KVHeads*c.HeadDim, sequences*c.pages
			order := make([]int32, total)
			for i := range order {
				order[i] = int32(i)
			}
			if c.shuffled {
				rand.New(rand.NewPCG(1, 2)).Shuffle(total, func(i, j int) { order[i], order[j] = order[j], order[i] })
			}
			memory := d.NewCache(device.CacheShape{Layers: 2, Pages: total, PageRows: c.pageRows, K: kv, V: kv})
			for _, x := range slices.Concat(memory.(*cache).k, memory.(*cache).v) {
				for i := range x {
					x[i] = float32(math.NaN())
				}
			}
			table := indexTensor(d, order...).Reshape(sequences, c.pages)
			var keys, values []grid
			var pos, seq []int32
			for s, start := range c.start {
				n := start + c.span
				k, v := normal(uint64(s), n, kv), normal(uint64(s)+10, n, kv)
				keys, values = append(keys, k), append(values, v)
				all, same := make([]int32, n), make([]int32, n)
				for i := range all {
					all[i], same[i] = int32(i), int32(s)
				}
				d.Store(memory, 1, upload(d, k), upload(d, v), device.Batch{Pos: indexTensor(d, all...), Seq: indexTensor(d, same...), Table: table, Span: n})
				pos, seq = append(pos, all[start:]...), append(seq, same[start:]...)
			}
			q := normal(20, len(pos), c.Heads*c.HeadDim)
			want := newGrid(q.rows, q.cols)
			for r := range q.rows {
				for h := range c.Heads {
					first, weights := c.seen(q.v[r*q.cols:(r+1)*q.cols], keys, h, int(seq[r]), int(pos[r]))
					for i, w := range weights {
						for j := range c.HeadDim {
							at := r*q.cols + h*c.HeadDim + j
							want.v[at] += w * values[seq[r]].at(first+i, h/(c.Heads/c.KVHeads)*c.HeadDim+j)
						}
					}
				}
			}
			batch := device.Batch{Pos: indexTensor(d, pos...), Seq: indexTensor(d, seq...), Table: table, Span: c.span}
			if c.sinks != nil {
				c.Sinks = d.Alloc(tensor.F32, 1, c.Heads)
				d.Upload(c.Sinks, tensor.BytesOf(c.sinks))
			}
			y := d.Alloc(tensor.F32, q.rows, q.cols)
			d.Attend(y, upload(d, q), memory, 1, c.Attend, batch)
			got := download(d, y)
			near(t, got, want, 1e-4)
			inPlace := upload(d, q)
			d.Attend(inPlace, inPlace, memory, 1, c.Attend, batch)
			if !slices.Equal(download(d, inPlace).v, got.v) {
				t.Error("in place, the result is another")
			}
		})
	}
}
