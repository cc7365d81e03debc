package convert

import (
	"fmt"

	"exl2/calib"
	"exl2/internal/safetensors"
	"exl2/internal/tensor"
	"exl2/internal/tokenizer"
)

// tokens are the calibration rows of a job; none for a phase that it lacks.
type tokens struct{ quantize, measure [][]int32 }

// calibrate returns the calibration rows that the job needs.
func (r *run) calibrate() (t tokens, err error) {
	d := r.opts.Data
	if len(r.opts.Targets) > 0 {
		if t.quantize, err = r.saved("calib.safetensors", d.Rows, d.Length); err != nil {
			return t, err
		}
	}
	if r.opts.Measurement == "" {
		t.measure, err = r.saved("measure/calib.safetensors", d.MeasureRows, d.MeasureLength)
	}
	return t, err
}

// saved returns n rows: those of an earlier run in a file of the job, or new
// ones, which it writes there.
func (r *run) saved(name string, n, length int) ([][]int32, error) {
	path := r.job.path(name)
	if !r.job.has(name) {
		rows, err := r.rows(n, length)
		if err != nil {
			return nil, err
		}
		return rows, writeTokens(path, rows)
	}
	f, err := safetensors.Open(path)
	if err != nil {
		return nil, fmt.Errorf("%w; --restart begins again", err)
	}
	defer f.Close()
	return readTokens(f, "tokens")
}

// writeTokens writes rows to a job's file.
func writeTokens(path string, rows [][]int32) error {
	w, err := safetensors.Create(path, []safetensors.Info{{Name: "tokens", DType: safetensors.I32, Shape: []int{len(rows), len(rows[0])}}})
	if err != nil {
		return err
	}
	defer w.Abort()
	if err := w.Write("tokens", tensor.BytesOf(flatten(rows))); err != nil {
		return err
	}
	return w.Commit()
}

func flatten(rows [][]int32) []int32 {
	var all []int32
	for _, r := range rows {
		all = append(all, r...)
	}
	return all
}

func readTokens(f *safetensors.File, name string) ([][]int32, error) {
	t, err := f.Get(name)
	if err != nil {
		return nil, err
	}
	if t.DType != safetensors.I32 || len(t.Shape) != 2 || t.Shape[1] < 1 {
		return nil, fmt.Errorf("%s: tokens are %s %v, want I32 of two dimensions", name, t.DType, t.Shape)
	}
	ids := make([]int32, t.Shape[0]*t.Shape[1])
	copy(tensor.BytesOf(ids), t.Data)
	rows := make([][]int32, t.Shape[0])
	for i := range rows {
		rows[i] = ids[i*t.Shape[1] : (i+1)*t.Shape[1]]
	}
	return rows, nil
}

// rows cuts rows of the calibration data.
func (r *run) rows(n, length int) ([][]int32, error) {
	c := calib.Cut{Vocab: r.src.loader.Spec.Vocab, Rows: n, Length: length}
	if r.opts.Data.File == "" {
		t, err := tokenizer.Load(r.src.dir)
		if err != nil {
			return nil, err
		}
		c.Tokenizer = t.Plain(r.ctx)
		return calib.BuiltinRows(c, t.Special)
	}
	s, err := calib.Open(r.opts.Data.File, r.opts.Data.Column)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	if !s.HasTokens() {
		t, err := tokenizer.Load(r.src.dir)
		if err != nil {
			return nil, err
		}
		c.Tokenizer = t.Plain(r.ctx)
	}
	return calib.Rows(s, c)
}
