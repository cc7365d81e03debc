package distill

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"

	"exl2/internal/device"
	"exl2/internal/device/devtest"
	"exl2/internal/exl2"
	"exl2/internal/half"
	"exl2/internal/model"
	"exl2/internal/parallel"
	"exl2/internal/tensor"
)

// open loads a golden model.
func open(t testing.TB, name string) *model.Loader {
	t.Helper()
	l, files, err := model.Open(filepath.Join("..", "..", "testdata", "golden", "arch", name))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { files.Close() })
	l.Spec.SetContext(16)
	return l
}

// rounded returns what finds a matrix of a model, each rounded to nearest by a recipe.
func rounded(t testing.TB, d device.Device, l *model.Loader, recipe string) func(name string) (*exl2.Matrix, error) {
	t.Helper()
	all := map[string]*exl2.Matrix{}
	for _, spec := range l.Layout[1:] {
		m, err := l.Load(d, spec)
		if err != nil {
			t.Fatal(err)
		}
		for _, x := range m.AllLinears() {
			if w := x.W.(model.Dense).Tensor; x.Packable() {
				data := make([]byte, w.Bytes())
				d.Download(data, w)
				all[x.Name] = nearestCodes(tensor.Widen(w.Type, data), x.In, x.Out, exl2.MustRecipe(recipe))
			}
		}
		m.Free()
	}
	return func(name string) (*exl2.Matrix, error) { return all[name], nil }
}

// nearestCodes rounds w, [out, in], with scales of every column's largest magnitude.
func nearestCodes(w []float32, in, out int, r exl2.Recipe) *exl2.Matrix {
	n := exl2.Pad(out)
	q := &exl2.Quantized{In: in, Out: n, Groups: r.Groups(in), Codes: make([]uint8, in*n)}
	for i := range in {
		q.Perm = append(q.Perm, int32((i*5+3)%in))
	}
	q.Scales, q.ScaleMax = make([]uint8, len(q.Groups)*n), make([]half.F16, len(q.Groups))
	most := float32(0)
	for _, x := range w {
		most = max(most, float32(math.Abs(float64(x))))
	}
	parallel.For(len(q.Groups), func(g int) {
		of := q.Groups[g]
		zero := float32(int(1) << (of.Bits - 1))
		q.ScaleMax[g] = half.ToF16(most / zero)
		table := exl2.ScaleTable(q.ScaleMax[g])
		for o := range out {
			q.Scales[g*n+o] = uint8(11 + o%5)
			s := table[q.Scales[g*n+o]].Float32()
			for k := of.Row; k < of.Row+of.Rows; k++ {
				code := min(max(float32(math.RoundToEven(float64(w[o*in+int(q.Perm[k])]/s))), -zero), zero-1)
				q.Codes[k*n+o] = uint8(code + zero)
			}
		}
	})
	return q.Pack()
}

func randomRows(n, length, vocab int) (rows [][]int32) {
	r := rand.New(rand.NewPCG(1, 2))
	for range n {
		row := make([]int32, length)
		for i := range row {
			row[i] = r.Int32N(int32(vocab))
		}
		rows = append(rows, row)
	}
	return rows
}

func download(d device.Device, x tensor.Tensor) []float32 {
	data := make([]byte, x.Bytes())
	d.Download(data, x)
	return tensor.Widen(x.Type, data)
}

// The gradient of every latent, as rounding passes it on, is the slope of the
// divergence along weights that are not rounded.
func TestGradients(t *testing.T) {
	for _, name := range []string{"llama", "gemma2", "qwen2", "phi", "qwen2_moe", "cohere", "deepseek_v3", "nemotron", "olmo2"} {
		t.Run(name, func(t *testing.T) {
			d, l := devtest.CPU(t), open(t, name)
			p := Plan{Batch: 2, Length: 16, Steps: 1, Rate: 0, FromCodes: true, Fit: Fit{Keep: true}}
			x, err := New(d, l, p, rounded(t, d, l, "0.5:5b_32g/0.5:4b_32g"))
			if err != nil {
				t.Fatal(err)
			}
			defer x.Close()
			rows := randomRows(2, 16, l.Spec.Vocab)
			x.step(rows, 0, 1) // moments are now a tenth of gradients; nothing has moved
			for _, latent := range x.latents {
				limit := 0.02
				if l.Spec.MoE.Experts > 0 {
					limit = 0.15 // the choice of experts is taken as given
				}
				checkSlope(t, x, latent, rows, limit)
			}
		})
	}
}

// checkSlope moves a matrix's weights along its gradient, by a little.
func checkSlope(t *testing.T, x *Trainer, l *latent, rows [][]int32, limit float64) {
	t.Helper()
	grad, scale := download(x.dev, l.first), download(x.dev, l.Scale)
	group := make([]int32, l.Group.Cols)
	x.dev.Download(tensor.BytesOf(group), l.Group)
	w, in, groups := download(x.dev, l.weight()), l.linear.In, l.Scale.Cols
	square := 0.0
	for i, g := range grad {
		grad[i] = 10 * g
		square += float64(grad[i]) * float64(grad[i])
	}
	if square == 0 {
		return // of experts that no row has chosen
	}
	at := func(step float64) float64 {
		moved := slices.Clone(w)
		for i, g := range grad {
			moved[i] += float32(step/math.Sqrt(square)*float64(g)) * scale[i/in*groups+int(group[i%in])]
		}
		x.dev.Upload(l.weight(), tensor.BytesOf(moved))
		kl, err := x.Divergence(rows)
		if err != nil {
			t.Fatal(err)
		}
		return kl * float64(len(rows)*len(rows[0])) // gradients are of sums
	}
	const step = 0.02
	got, want := (at(step)-at(-step))/(2*step), math.Sqrt(square)
	at(0)
	if !(math.Abs(got-want) <= limit*want+1e-4) {
		t.Errorf("%s: the slope is %v, the gradient says %v", l.linear.Name, got, want)
	}
}

// Latents begin at the codes, and give them back; what they stand for is what the
// packed matrix decodes to.
func TestLatents(t *testing.T) {
	for _, drawn := range []bool{false, true} {
		d, l := devtest.CPU(t), open(t, "llama")
		find := rounded(t, d, l, "0.25:6b_32g/0.75:3b_32g")
		x, err := New(d, l, Plan{Batch: 1, Length: 8, FromCodes: !drawn}, find)
		if err != nil {
			t.Fatal(err)
		}
		for i, latent := range x.latents {
			name, m, err := x.Matrix(i)
			if err != nil {
				t.Fatal(err)
			}
			want, _ := find(name)
			if !slices.Equal(m.Words, want.Words) {
				t.Errorf("%s: other codes than it began with", name)
			}
			decoded, w := want.Decode(), download(d, latent.weight())
			for o := range latent.linear.Out {
				for k := range m.In {
					if got := decoded[int(m.InvPerm[k])*m.Out+o].Float32(); got != w[o*m.In+k] {
						t.Fatalf("%s: weight %d, %d is %v, decoded %v", name, o, k, w[o*m.In+k], got)
					}
				}
			}
		}
		x.Close()
	}
}

// Training makes a model that is nearer to its source, on rows that it has not seen,
// and is the same every time, wherever what it needs is kept.
func TestTrain(t *testing.T) {
	var first []uint32
	for _, c := range []struct {
		fit  Fit
		late bool // copies end as late as they may
	}{
		{fit: Fit{}}, {fit: Fit{Keep: true}}, {fit: Fit{Keep: true, Recall: 32}}, {fit: Fit{Keep: true, Recall: 20}}, {fit: Fit{Lean: true}},
		{fit: Fit{Lean: true, Away: 1}}, {Fit{Lean: true, Away: 3}, true}, {Fit{Lean: true, Away: 4}, true}, {fit: Fit{Lean: true, Away: 9}},
	} {
		t.Run(fmt.Sprintf("%+v", c), func(t *testing.T) {
			l := open(t, "llama")
			d := &devtest.Carrying{Quantize: devtest.CPU(t), Host: devtest.CPU(t), Late: c.late}
			rows := randomRows(40, 16, l.Spec.Vocab)
			p := Plan{Batch: 4, Length: 16, Steps: 60, Rate: 0.02, Fit: c.fit, Rows: rows[:32], HeldOut: rows[32:]}
			x, err := New(d, l, p, rounded(t, d, l, "1:3b_32g"))
			if err != nil {
				t.Fatal(err)
			}
			defer x.Close()
			r, err := x.Train(context.Background(), Follower{Checked: func(int, float64) {}, Pause: func() error { return nil }})
			if err != nil {
				t.Fatal(err)
			}
			if !(r.After < 0.8*r.Before) {
				t.Errorf("divergence %v, was %v", r.After, r.Before)
			}
			var words []uint32
			for i := range x.Matrices() {
				_, m, err := x.Matrix(i)
				if err != nil {
					t.Fatal(err)
				}
				words = append(words, m.Words...)
			}
			if first != nil && !slices.Equal(first, words) {
				t.Error("other codes than the first time")
			}
			first = words
		})
	}
}

// Training that does harm begins again with a lower rate, and if that does not help the
// codes from before stay.
func TestHarm(t *testing.T) {
	for _, c := range []struct {
		rate      float64
		kept      bool
		attempted bool
	}{{0.02, false, false}, {0.5, false, true}, {1000, true, true}} {
		d, l := devtest.CPU(t), open(t, "llama")
		rows := randomRows(40, 16, l.Spec.Vocab)
		p := Plan{Batch: 4, Length: 16, Steps: 60, Rate: c.rate, Rows: rows[:32], HeldOut: rows[32:]}
		find := rounded(t, d, l, "1:3b_32g")
		x, err := New(d, l, p, find)
		if err != nil {
			t.Fatal(err)
		}
		r, err := x.Train(context.Background(), Follower{Checked: func(int, float64) {}, Pause: func() error { return nil }})
		if err != nil {
			t.Fatal(err)
		}
		if r.Kept != c.kept || r.After > r.Before || r.Kept != (r.After == r.Before) || (r.Rate < c.rate) != c.attempted {
			t.Errorf("rate %v: %+v", c.rate, *r)
		}
		for i := range x.Matrices() {
			name, m, err := x.Matrix(i)
			if err != nil {
				t.Fatal(err)
			}
			if want, _ := find(name); r.Kept && !slices.Equal(m.Words, want.Words) {
				t.Errorf("rate %v: %s has other codes", c.rate, name)
			}
		}
		x.Close()
	}
}
