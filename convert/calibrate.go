package convert

import (
	"fmt"

	"exl2/calib"
	"exl2/infer/tokenizer"
	"exl2/internal/arch"
	"exl2/internal/regular"
	"exl2/internal/safetensors"
	"exl2/internal/tensor"
)

// tokens are the calibration rows of a job; none for a phase that it lacks.
type tokens struct {
	quantize, measure   [][]int32
	synthetic, training [][]int32 // that the source has written
}

// The files that a job keeps its calibration rows in.
const (
	quantizeTokens = "calib.safetensors"
	measureTokens  = "measure/calib.safetensors"
)

// calibrate finds the calibration rows that the job needs: those that an earlier
// run has kept, or new ones.
func (r *run) calibrate() (err error) {
	d := r.opts.Data
	if r.fresh {
		r.warnOfLength()
	}
	if len(r.opts.Targets) > 0 {
		if r.tokens.quantize, err = r.calibrated(quantizeTokens, d.Rows, d.Length); err != nil {
			return err
		}
		if err := r.planSynthetic(); err != nil {
			return err
		}
	}
	if r.opts.Measurement == "" {
		r.tokens.measure, err = r.calibrated(measureTokens, d.MeasureRows, d.MeasureLength)
	}
	return err
}

// warnOfLength warns of rows that are longer than what the model is made for, unless its
// positions are scaled, or the user scales them.
func (r *run) warnOfLength() {
	spec, o := r.src.loader.Spec, r.opts
	longest := max(o.Data.Length, o.Data.MeasureLength)
	if spec.Rope == nil || o.RopeScale != 1 || o.RopeAlpha != 1 || longest <= spec.MaxPositions {
		return
	}
	for layer := range spec.Layers {
		if spec.Rope(layer).Scaling.Kind != arch.Unscaled {
			return
		}
	}
	r.progress.Warn(fmt.Sprintf("rows of %d tokens are longer than the %[2]d positions that the model is made for, behind which its text says little; --length %[2]d and --measurement-length %[2]d stay within", longest, spec.MaxPositions))
}

// calibrated returns n rows.
func (r *run) calibrated(name string, n, length int) ([][]int32, error) {
	kept, err := r.had(name)
	if err != nil {
		return nil, err
	}
	if !kept {
		return r.rows(n, length)
	}
	return r.keptRows(name)
}

// had reports whether an earlier run has left a file of the job.
func (r *run) had(name string) (bool, error) {
	if r.fresh {
		return false, nil
	}
	return r.job.Has(name)
}

// keptRows reads the rows of a file of the job; fs.ErrNotExist is in the chain of the
// error if there is none.
func (r *run) keptRows(name string) ([][]int32, error) {
	f, err := r.job.OpenTensors(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return readTokens(f, "tokens")
}

// saveTokens keeps the calibration rows in the job.
func (r *run) saveTokens() error {
	for _, s := range []struct {
		name string
		rows [][]int32
	}{{quantizeTokens, r.tokens.quantize}, {measureTokens, r.tokens.measure}} {
		if s.rows == nil {
			continue
		}
		if kept, err := r.job.Has(s.name); err != nil || kept {
			if err != nil {
				return err
			}
			continue
		}
		if err := r.writeTokens(s.name, s.rows); err != nil {
			return err
		}
	}
	return nil
}

// writeTokens writes rows to a job's file.
func (r *run) writeTokens(name string, rows [][]int32) error {
	w, err := r.job.CreateTensors(name, []safetensors.Info{{Name: "tokens", DType: safetensors.I32, Shape: []int{len(rows), len(rows[0])}}})
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

// readTokens reads rows from a job's file.
func readTokens(f *safetensors.File, name string) ([][]int32, error) {
	info, ok := f.Info(name)
	if !ok || info.DType != safetensors.I32 || len(info.Shape) != 2 || info.Shape[0] < 1 || info.Shape[1] < 1 {
		return nil, fmt.Errorf("%s: tokens are %s %v, want I32 of two dimensions", f.Path(), info.DType, info.Shape)
	}
	ids := make([]int32, info.Shape[0]*info.Shape[1])
	if err := f.ReadInto(tensor.BytesOf(ids), name); err != nil {
		return nil, err
	}
	rows := make([][]int32, info.Shape[0])
	for i := range rows {
		rows[i] = ids[i*info.Shape[1] : (i+1)*info.Shape[1]]
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
	s, err := r.openText()
	if err != nil {
		return nil, err
	}
	if !s.HasTokens() {
		t, err := tokenizer.Load(r.src.dir)
		if err != nil {
			return nil, err
		}
		c.Tokenizer = t.Plain(r.ctx)
	}
	rows, err := calib.Rows(s, c)
	if damage := s.Damage(); err == nil && damage != "" {
		r.progress.Warn(damage)
	}
	return rows, err
}

// openText opens the calibration data, once for all rows: it may be a pipe.
func (r *run) openText() (s *calib.Source, err error) {
	if r.text == nil {
		r.text, err = regular.Await(r.ctx, func() (*calib.Source, error) { return calib.Open(r.opts.Data.File, r.opts.Data.Column) })
		if err != nil {
			return nil, err
		}
		r.progress.Note(r.text.Describe())
	}
	return r.text, nil
}
