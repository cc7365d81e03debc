package convert

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"

	"exl2/internal/half"
	"exl2/internal/model"
	"exl2/internal/parallel"
	"exl2/internal/safetensors"
	"exl2/internal/tensor"
	"exl2/internal/tokenweight"
)

// Tokens of calibration rows weigh as much as a power of the squared norm of the
// gradient there. It is found for so many tokens at a time, and for all of them, where
// there are rows that the source writes and it takes no more than so many operations.
const (
	weightPower      = 0.25
	weightSeed       = calibrationSeed + 2 // of labels
	weighedTogether  = 4096
	weightOperations = 4 // for each weight and token: there, and back to the inputs
	weightBudget     = 4e15
)

// weightsName is the job's file with the roots of the weights of tokens: F16
// [rows, tokens] by the names of what sites read first.
const weightsName = "weights.safetensors"

// weighs reports whether tokens get weights, with so many rows that the source writes.
func (r *run) weighs(synthetic int) bool {
	return r.opts.Quality.compensates() && len(r.unfinished()) > 0 && synthetic > 0 && r.weighing(synthetic) <= weightBudget
}

// weighing returns the operations that take.
func (r *run) weighing(synthetic int) float64 {
	tokens := float64((len(r.tokens.quantize) + synthetic) * r.opts.Data.Length)
	return weightOperations * float64(r.trainedWeights()) * tokens
}

// weighMemory is what weighing takes, the model included.
func (r *run) weighMemory() int {
	return tokenweight.Bytes(r.dev, r.src.loader, r.weighedRows(), r.opts.Data.Length) + r.sourceBytes()
}

// weighedRows is how many rows are weighed at a time.
func (r *run) weighedRows() int { return max(1, weighedTogether/r.opts.Data.Length) }

// weighTokens finds the weights of tokens, unless an earlier run has.
func (r *run) weighTokens() error {
	kept, err := r.job.Has(weightsName)
	if err != nil || len(r.unfinished()) == 0 {
		return err
	}
	if !kept {
		if !r.weighs(r.synthetic) {
			return nil
		}
		if err := r.findWeights(); errors.Is(err, tokenweight.ErrNoWayBack) {
			return nil
		} else if err != nil {
			return err
		}
	}
	return r.readWeights()
}

// findWeights finds the weights of tokens, and writes them.
func (r *run) findWeights() error {
	defer r.profile.Off("weigh tokens")()
	w, err := tokenweight.New(r.dev, r.src.loader, r.shelf.load, r.weighedRows(), r.opts.Data.Length)
	if err != nil {
		return err
	}
	defer w.Close()
	rows, done := r.tokens.calibration(), 0
	const steps = 20
	r.progress.Start("weigh tokens", steps)
	squares, err := w.Squares(r.ctx, rows, weightSeed, func(n int) {
		for ; done < n*steps/len(rows); done++ {
			r.progress.Step(fmt.Sprintf("%d rows of %d tokens", len(rows), len(rows[0])), "")
		}
	})
	if err != nil {
		return err
	}
	return r.writeWeights(squares)
}

func (r *run) writeWeights(squares map[string][]float64) error {
	names := slices.Sorted(maps.Keys(squares))
	infos, roots := make([]safetensors.Info, len(names)), make([][]half.F16, len(names))
	for i, name := range names {
		infos[i] = safetensors.Info{Name: name, DType: safetensors.F16, Shape: []int{r.calibrationRows(), r.opts.Data.Length}}
	}
	parallel.For(len(names), func(i int) {
		roots[i] = make([]half.F16, len(squares[names[i]]))
		half.NarrowF16(roots[i], tokenweight.Roots(squares[names[i]], weightPower))
	})
	out, err := r.job.CreateTensors(weightsName, infos)
	if err != nil {
		return err
	}
	defer out.Abort()
	for i, name := range names {
		if err := out.Write(name, tensor.BytesOf(roots[i])); err != nil {
			return err
		}
	}
	return out.Commit()
}

// readWeights reads the roots of the weights of tokens, for all workers.
func (r *run) readWeights() error {
	f, err := r.job.OpenTensors(weightsName)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	names := f.Names()
	roots, errs := make([][]float32, len(names)), make([]error, len(names))
	parallel.For(len(names), func(i int) { roots[i], errs[i] = r.readRoots(f, names[i]) })
	if err := errors.Join(errs...); err != nil {
		return err
	}
	weights := map[string][]float32{}
	for i, name := range names {
		weights[name] = roots[i]
	}
	for _, w := range append(r.workers, r) {
		w.weights = weights
	}
	return nil
}

// readRoots reads those of a site.
func (r *run) readRoots(f *safetensors.File, name string) ([]float32, error) {
	info, _ := f.Info(name)
	if info.DType != safetensors.F16 || !slices.Equal(info.Shape, []int{r.calibrationRows(), r.opts.Data.Length}) {
		return nil, r.job.Damaged(weightsName, fmt.Errorf("%s is %s %v", name, info.DType, info.Shape))
	}
	stored := make([]half.F16, info.Shape[0]*info.Shape[1])
	roots := make([]float32, len(stored))
	err := f.ReadInto(tensor.BytesOf(stored), name)
	half.WidenF16(roots, stored)
	return roots, err
}

// A pondered site has weights of tokens.
type pondered struct {
	*sweep
	roots []float32 // of all tokens; nil where all weigh the same
}

// ponder returns what a site's tokens weigh.
func (s *sweep) ponder(site model.Site) pondered {
	return pondered{s, s.run.weights[site.Linears[0].Name]}
}

// scale multiplies rows of a wave by the roots of their weights, in place.
func (p pondered) scale(wave []pair, rows []tensor.Tensor) {
	if p.roots == nil {
		return
	}
	d := p.run.dev
	for _, at := range wave {
		x := rows[at.x.Number]
		wide, w := d.Alloc(tensor.F32, x.Rows, x.Cols), d.Alloc(tensor.F32, x.Rows, 1)
		d.Upload(w, tensor.BytesOf(p.roots[at.row*p.pass.Length:(at.row+at.n)*p.pass.Length]))
		d.Copy(wide, x)
		d.ByNorms(wide, wide, w)
		d.Copy(x, wide)
		d.Free(wide)
		d.Free(w)
	}
}

// copies returns copies of rows of a wave that may be scaled; free frees them.
func (p pondered) copies(wave []pair, rows []tensor.Tensor) (list []tensor.Tensor, free func()) {
	if p.roots == nil {
		return rows, func() {}
	}
	d := p.run.dev
	list = make([]tensor.Tensor, len(rows))
	for _, at := range wave {
		x := rows[at.x.Number]
		list[at.x.Number] = d.Alloc(x.Type, x.Rows, x.Cols)
		d.Copy(list[at.x.Number], x)
	}
	p.scale(wave, list)
	return list, func() {
		for _, x := range list {
			d.Free(x)
		}
	}
}
