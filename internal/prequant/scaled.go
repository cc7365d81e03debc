package prequant

import (
	"fmt"
	"slices"
	"sync/atomic"

	"exl2/internal/half"
	"exl2/internal/parallel"
	"exl2/internal/safetensors"
	"exl2/internal/tensor"
)

// A scaled weight is bytes, [out, in], and factors that they are multiplied by: one,
// one for each output, or one for each block, the last ones perhaps less. The
// products are rounded to BF16, as in the checkpoints that such models were made
// from.
type scaled struct {
	files  *Files
	scheme *Scheme
	module string
}

// bytewise are the numbers of types of one byte.
var bytewise = map[string]*[256]float32{"F8_E4M3": &e4m3, "I8": &int8s}

// factor returns the name of the factors' tensor. Whatever they are called, they
// multiply.
func (w *scaled) factor() (string, error) {
	for _, end := range []string{".weight_scale_inv", ".weight_scale"} {
		if w.files.source.Has(w.module + end) {
			return w.module + end, nil
		}
	}
	return "", fmt.Errorf("%s.weight is quantized, and neither weight_scale_inv nor weight_scale is there", w.module)
}

func (w *scaled) form() string {
	info, _ := w.files.source.Info(w.module + ".weight")
	name, _ := w.factor()
	factors, _ := w.files.source.Info(name)
	b, _ := w.blocks(info.Shape, factors)
	return fmt.Sprintf("%s %dx%d", info.DType, b[0], b[1])
}

func (w *scaled) parts() []string {
	name, _ := w.factor()
	return []string{w.module + ".weight", name}
}

func (w *scaled) info() (safetensors.Info, error) {
	info, err := w.files.want(w.module+".weight", "", -1, -1)
	if err != nil {
		return info, err
	}
	name, err := w.factor()
	if err != nil {
		return info, err
	}
	if w.files.source.Has(w.module + ".weight_zero_point") {
		return info, fmt.Errorf("%s.weight_zero_point: bytes with zeros are not read; use the model's original", w.module)
	}
	factors, _ := w.files.source.Info(name)
	if _, err := w.blocks(info.Shape, factors); err != nil {
		return info, err
	}
	info.DType = safetensors.BF16
	return info, nil
}

// blocks returns the rows and columns that share a factor.
func (w *scaled) blocks(shape []int, factors safetensors.Info) (b [2]int, err error) {
	out, in := shape[0], shape[1]
	is := func(shape ...int) bool { return slices.Equal(shape, factors.Shape) }
	b = w.scheme.Block
	switch {
	case out == 0 || in == 0:
	case is() || is(1) || is(1, 1) && (out > 1 || b == [2]int{}):
		return [2]int{out, in}, nil
	case is(out) || is(out, 1) && b[0] < 2:
		return [2]int{1, in}, nil
	case b[0] > 0 && is((out+b[0]-1)/b[0], (in+b[1]-1)/b[1]):
		return b, nil
	}
	return b, fmt.Errorf("%s is %v for a weight %v in blocks of %v", factors.Name, factors.Shape, shape, b)
}

func (w *scaled) data() ([]byte, error) {
	t, err := w.files.source.Get(w.module + ".weight")
	if err != nil {
		return nil, err
	}
	name, err := w.factor()
	if err != nil {
		return nil, err
	}
	f, err := w.files.source.Get(name)
	if err != nil {
		return nil, err
	}
	block, err := w.blocks(t.Shape, f.Info)
	if err != nil {
		return nil, err
	}
	factors, err := toF32(f)
	if err != nil {
		return nil, err
	}
	values, in := bytewise[t.DType], t.Shape[1]
	across := (in + block[1] - 1) / block[1]
	dst := make([]half.BF16, len(t.Data))
	var bad atomic.Int64
	parallel.Runs(t.Shape[0], 16, func(lo, hi int) {
		for r := lo; r < hi; r++ {
			for b := range across {
				factor := factors[r/block[0]*across+b]
				for i := r*in + b*block[1]; i < r*in+min(in, (b+1)*block[1]); i++ {
					if !put(dst, i, values[t.Data[i]]*factor) {
						bad.Store(int64(i) + 1)
					}
				}
			}
		}
	})
	if i := bad.Load(); i > 0 {
		return nil, fmt.Errorf("%s: element %d is NaN or infinite: the source is damaged", t.Name, i-1)
	}
	return tensor.BytesOf(dst), nil
}
