// Package tokenweight finds how much tokens matter: how much what a linear computes for
// a token changes what the model says.
//
// The nouns: a [Weigher] has a model on a device, all of it. The gradient of -log p(y),
// y drawn from the model, with respect to what the linears of a site compute for a token
// has a norm; the token's weight at the site is a power of it.
package tokenweight

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"slices"

	"exl2/internal/device"
	"exl2/internal/model"
	"exl2/internal/parallel"
	"exl2/internal/tensor"
)

// A Weigher has a model on a device, and room for a batch of rows.
type Weigher struct {
	dev           device.Quantize
	embed, head   *model.Module
	layers        []*model.Module // between them
	batch, length int

	columns map[*model.Linear]int // where norms has those of a linear
	sites   []site

	cache     *model.Cache
	state     *model.State
	gradients *model.State
	states    []*model.State // of layers
	one       tensor.Tensor  // ones, F32 [rows, 1]
	random    tensor.Tensor  // F32 [1, rows]
	norms     tensor.Tensor  // of gradients, F32 [rows, linears]
}

// A site is linears that read the same, by the name of the first.
type site struct {
	name    string
	columns []int // of their norms
}

// ErrNoWayBack says that there is no backward pass through a module on the device.
var ErrNoWayBack = errors.New("no backward pass is known")

// logitRows is how many positions get logits at a time, at most.
const logitRows = 2048

// New loads the modules of a model by load, for batches of so many rows of so many tokens.
func New(d device.Quantize, l *model.Loader, load func(model.ModuleSpec) (*model.Module, error), batch, length int) (*Weigher, error) {
	modules, err := l.All(load)
	if err != nil {
		return nil, err
	}
	last := len(modules) - 1
	w := &Weigher{dev: d, embed: modules[0], layers: modules[1:last], head: modules[last], batch: batch, length: length, columns: map[*model.Linear]int{}}
	for _, m := range modules[1:] {
		if !m.CanRunBack() {
			w.Close()
			return nil, ErrNoWayBack
		}
		w.list(m)
	}
	n := batch * length
	z := model.Size{Rows: n, Logits: min(logitRows, n)}
	w.cache = model.NewCache(d, l.Spec, model.SharedCache(l.Spec, batch, length))
	w.state = model.NewState(d, l.Spec, z, w.cache)
	w.gradients = model.NewGradients(w.state, l.Spec, n)
	w.gradients.Half = true
	for range w.layers {
		w.states = append(w.states, model.NewState(d, l.Spec, model.Size{Rows: n}, w.cache))
	}
	w.one, w.random = d.Alloc(tensor.F32, n, 1), d.Alloc(tensor.F32, 1, n)
	w.norms = d.Alloc(tensor.F32, n, len(w.columns))
	d.Upload(w.one, tensor.BytesOf(slices.Repeat([]float32{1}, n)))
	return w, d.Sync()
}

// list lists the sites of a module that see all tokens.
func (w *Weigher) list(m *model.Module) {
	for _, s := range m.Sites() {
		if s.Routed || !s.Packable() {
			continue
		}
		x := site{name: s.Linears[0].Name}
		for _, l := range s.Linears {
			if _, known := w.columns[l]; !known {
				w.columns[l] = len(w.columns)
			}
			x.columns = append(x.columns, w.columns[l])
		}
		w.sites = append(w.sites, x)
	}
}

// Close frees everything.
func (w *Weigher) Close() {
	for _, t := range []tensor.Tensor{w.one, w.random, w.norms} {
		w.dev.Free(t)
	}
	for _, s := range append(w.states, w.gradients, w.state) {
		if s != nil {
			s.Free()
		}
	}
	if w.cache != nil {
		w.cache.Free()
	}
	for _, m := range append(w.layers, w.head, w.embed) {
		m.Free()
	}
}

// Squares returns the squared norms of the gradients at every token of rows, one row
// after another, by the name of a site's first linear. Labels are drawn by the seed and
// the number of the row.
func (w *Weigher) Squares(ctx context.Context, rows [][]int32, seed uint64, progress func(rows int)) (map[string][]float64, error) {
	all := map[string][]float64{}
	for lo := 0; lo < len(rows); lo += w.batch {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		hi := min(lo+w.batch, len(rows))
		var numbers []float32
		for row := lo; row < hi; row++ {
			r := rand.New(rand.NewPCG(seed, uint64(row)))
			for range w.length {
				numbers = append(numbers, r.Float32())
			}
		}
		norms, err := w.pass(rows[lo:hi], numbers)
		if err != nil {
			return nil, err
		}
		found := make([][]float64, len(w.sites))
		parallel.For(len(w.sites), func(i int) { found[i] = w.sites[i].squares(norms, len(w.columns)) })
		for i, s := range w.sites {
			all[s.name] = append(all[s.name], found[i]...)
		}
		progress(hi)
	}
	return all, nil
}

// squares sums the squares of the norms of the site's linears, token by token.
func (s *site) squares(norms []float32, wide int) []float64 {
	list := make([]float64, len(norms)/wide)
	for i := range list {
		for _, c := range s.columns {
			v := float64(norms[i*wide+c])
			list[i] += v * v
		}
	}
	return list
}

// pass goes to the head and back with some rows, and returns the norms of gradients,
// [tokens, linears].
func (w *Weigher) pass(rows [][]int32, numbers []float32) ([]float32, error) {
	d, s, n := w.dev, w.state, len(rows)*w.length
	runs := make([]model.Run, len(rows))
	for i := range runs {
		runs[i].Sequence = i
	}
	s.Use(runs, w.length, slices.Concat(rows...))
	d.Upload(w.random.Columns(0, n), tensor.BytesOf(numbers))
	w.embed.Forward(s)
	x, kept := s.At(model.Stream), make([]model.Kept, len(w.layers))
	for i, m := range w.layers {
		w.states[i].Use(runs, w.length, nil)
		d.Copy(w.states[i].At(model.Stream), x)
		kept[i] = m.ForwardKept(w.states[i])
		x = w.states[i].At(model.Stream)
	}
	d.Copy(s.At(model.Stream), x)
	g := w.gradients.Slice(0, n)
	d.Clear(g.At(model.Stream))
	for lo := 0; lo < n; lo += logitRows {
		w.headBack(lo, min(lo+logitRows, n))
	}
	for i := len(w.layers) - 1; i >= 0; i-- {
		w.layers[i].BackwardKept(w.states[i], g, kept[i], w.through(0, n))
	}
	norms := make([]float32, n*w.norms.Cols)
	d.Download(tensor.BytesOf(norms), w.norms.Slice(0, n))
	return norms, d.Sync()
}

// headBack draws labels for positions, and sets the gradient in front of the head.
func (w *Weigher) headBack(lo, hi int) {
	part, gradients := w.state.Slice(lo, hi), w.gradients.Slice(lo, hi)
	w.head.BackwardThrough(part, gradients, func() {
		logits := gradients.At(model.Logits)
		w.dev.Copy(logits, part.At(model.Logits))
		w.dev.SampleBack(logits, w.random.Columns(lo, hi))
	}, w.through(lo, hi))
}

// through passes linears, and keeps the norms of what comes from tokens lo to hi.
func (w *Weigher) through(lo, hi int) model.Through {
	return func(d device.Backward, list []*model.Linear, dx tensor.Tensor, dys []tensor.Tensor, x tensor.Tensor) {
		for i, l := range list {
			if c, known := w.columns[l]; known && x.Rows == hi-lo {
				w.dev.ByNorms(w.norms.Slice(lo, hi).Columns(c, c+1), w.one.Slice(lo, hi), dys[i])
			}
		}
		model.PassBack(d, list, dx, dys, x)
	}
}

// most is what no token weighs more than, before the mean is made 1.
const most = 10

// Roots returns the square roots of the weights of tokens: (squares/mean)^power, no more
// than most, divided by their mean. It overwrites squares.
func Roots(squares []float64, power float64) []float32 {
	mean, total := 0.0, 0.0
	for _, v := range squares {
		mean += v / float64(len(squares))
	}
	for i, v := range squares {
		squares[i] = 1
		if mean > 0 {
			squares[i] = min(math.Pow(v/mean, power), most)
		}
		total += squares[i] / float64(len(squares))
	}
	roots := make([]float32, len(squares))
	for i, v := range squares {
		roots[i] = float32(math.Sqrt(v / total))
	}
	return roots
}

// Bytes is the memory of a Weigher on a device beside the model's weights, about.
func Bytes(d device.Device, l *model.Loader, batch, length int) int {
	activation, spec := d.Activation(), l.Spec
	z := model.Size{Rows: batch * length, Logits: min(logitRows, batch*length)}
	kept := z.Rows * (4*spec.Hidden + activation.Size()*model.KeptColumns(spec)) // what is overwritten
	n := (len(l.Layout) - 2) * (model.Bytes(spec, model.Size{Rows: z.Rows}, activation) + kept)
	n += model.CacheBytes(d, spec, model.SharedCache(spec, batch, length)) + model.BackBytes(d, spec, batch, length)
	linears := 0
	for _, m := range l.Layout {
		linears += len(m.Linears)
	}
	return n + model.Bytes(spec, z, activation) + model.Bytes(spec, z, tensor.F32)*3/2 + 4*z.Rows*(linears+2) // gradients, and workspace
}
