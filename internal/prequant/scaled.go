package prequant

import (
	"fmt"
	"slices"

	"exl2/internal/half"
	"exl2/internal/parallel"
	"exl2/internal/safetensors"
	"exl2/internal/tensor"
)

// A scaled weight is bytes, [out, in], and factors that they are multiplied by: one,
// one for each output, one for each group of an output's inputs (MXFP8 has powers of
// two for 32), or one for each block, the last ones perhaps less. The products are
// rounded to BF16, as in the checkpoints that such models were made from.
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
	block, err := w.blocks(info.Shape, factors)
	if err == nil {
		kind := "float"
		if info.DType == "I8" {
			kind = "int"
		}
		err = w.scheme.fits(stored{info.Name, 8, kind, [2]int(info.Shape), block, middle})
	}
	if err != nil {
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
	case is(out) || is(out, 1) && (b[0] < 2 || out > 1):
		return [2]int{1, in}, nil
	}
	if b[0] > 0 {
		down, across := (out+b[0]-1)/b[0], (in+b[1]-1)/b[1]
		if is(down, across) || is(down, 1, across, 1) {
			return b, nil
		}
	} else if n := len(factors.Shape); n == 2 && is(out, factors.Shape[1]) {
		if group := w.scheme.groupOf(in, factors.Shape[1]); group > 0 {
			return [2]int{1, group}, nil
		}
	}
	return b, w.misfit(shape, factors)
}

// misfit says what factors do not fit.
func (w *scaled) misfit(shape []int, factors safetensors.Info) error {
	what := fmt.Sprintf("blocks of %v", w.scheme.Block)
	if w.scheme.Group > 0 {
		what = fmt.Sprintf("groups of %d", w.scheme.Group)
	}
	return fmt.Errorf("%s is %v for a weight %v in %s", factors.Name, factors.Shape, shape, what)
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
	factors, err := factorsOf(f)
	if err != nil {
		return nil, err
	}
	values, in := bytewise[t.DType], t.Shape[1]
	across := (in + block[1] - 1) / block[1]
	dst := make([]half.BF16, len(t.Data))
	var bad damage
	parallel.Runs(t.Shape[0], 16, func(lo, hi int) {
		for r := lo; r < hi; r++ {
			for b := range across {
				factor := factors[r/block[0]*across+b]
				for i := r*in + b*block[1]; i < r*in+min(in, (b+1)*block[1]); i++ {
					bad.put(dst, i, values[t.Data[i]]*factor)
				}
			}
		}
	})
	return tensor.BytesOf(dst), bad.err(t.Name)
}
