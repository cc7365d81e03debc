package convert

import (
	"errors"
	"fmt"

	"exl2/internal/half"
	"exl2/internal/parallel"
	"exl2/internal/quant"
	"exl2/internal/safetensors"
	"exl2/internal/tensor"
)

// columnsFile is the job's file with the moments of the columns of a module's
// matrices: F16 [outputs, span] by name, their mean on the diagonal 1.
func columnsFile(module string) string { return "trace/" + module + ".safetensors" }

// columns is the moments of the columns of a module's matrices, by name.
type columns map[string]*quant.Columns

// normalized rounds moments to F16, the mean of the diagonal 1.
func normalized(c *quant.Columns) []byte {
	n, sum := len(c.B)/c.Span, 0.0
	for i := range n {
		sum += float64(c.B[i*c.Span+i%c.Span])
	}
	if !(sum > 0) {
		sum = float64(n)
	}
	out := make([]half.F16, len(c.B))
	for i, v := range c.B {
		out[i] = half.ToF16(float32(min(float64(v)/sum*float64(n), half.MaxF16)))
	}
	return tensor.BytesOf(out)
}

// columnsOf reads the moments of a module.
func (r *run) columnsOf(module string) (columns, error) {
	f, err := r.job.OpenTensors(columnsFile(module))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	names := f.Names()
	found, errs := make([]*quant.Columns, len(names)), make([]error, len(names))
	parallel.For(len(names), func(i int) { found[i], errs[i] = r.readColumns(f, module, names[i]) })
	list := columns{}
	for i, name := range names {
		list[name] = found[i]
	}
	return list, errors.Join(errs...)
}

// readColumns reads the moments of a matrix.
func (r *run) readColumns(f *safetensors.File, module, name string) (*quant.Columns, error) {
	info, _ := f.Info(name)
	if info.DType != safetensors.F16 || len(info.Shape) != 2 || info.Shape[1] < 1 || info.Shape[1] > quant.Span {
		return nil, r.job.Damaged(columnsFile(module), fmt.Errorf("%s is %s %v", name, info.DType, info.Shape))
	}
	raw := make([]half.F16, info.Shape[0]*info.Shape[1])
	if err := f.ReadInto(tensor.BytesOf(raw), name); err != nil {
		return nil, err
	}
	c := &quant.Columns{Span: info.Shape[1], B: make([]float32, len(raw))}
	parallel.Runs(len(raw), 1<<16, func(lo, hi int) {
		for i, v := range raw[lo:hi] {
			c.B[lo+i] = v.Float32()
		}
	})
	return c, nil
}
