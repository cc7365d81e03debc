package prequant

import (
	"fmt"
	"slices"

	"exl2/internal/half"
	"exl2/internal/parallel"
	"exl2/internal/safetensors"
	"exl2/internal/tensor"
)

// An fp4 weight is e2m1 numbers, [out, in], two a byte, the first in the low bits, and a
// scale for each group of an output's inputs. NVFP4 has scales in float8_e4m3fn for 16
// inputs, and one factor for all of the weight, which compressed-tensors divides by and
// Model Optimizer multiplies by; MXFP4 has powers of two for 32.
//
//	compressed-tensors          Model Optimizer
//	weight_packed               weight           U8 [out, in/2]
//	weight_scale                weight_scale     F8_E4M3 or U8 [out, in/group]
//	weight_global_scale         weight_scale_2   F32, one number, of NVFP4
//
// Products are rounded to BF16, which holds all of MXFP4's.
type fp4 struct {
	files  *Files
	scheme *Scheme
	module string
}

func (w *fp4) form() string {
	info, _ := w.files.source.Info(w.scales())
	if info.DType == nvfp4Scales {
		return "NVFP4"
	}
	return "MXFP4"
}

// nvfp4Scales is the type of NVFP4's scales.
const nvfp4Scales = "F8_E4M3"

func (w *fp4) codes() string {
	if w.scheme.Method == ModelOpt {
		return w.module + ".weight"
	}
	return w.module + ".weight_packed"
}

func (w *fp4) scales() string { return w.module + ".weight_scale" }

// factor returns the name of the factor of all of the weight.
func (w *fp4) factor() string {
	if w.scheme.Method == ModelOpt {
		return w.module + ".weight_scale_2"
	}
	return w.module + ".weight_global_scale"
}

func (w *fp4) parts() []string {
	list := []string{w.codes(), w.scales()}
	if w.files.source.Has(w.factor()) {
		list = append(list, w.factor())
	}
	return list
}

// info checks what there is; a group is of as many inputs as shapes say.
func (w *fp4) info() (safetensors.Info, error) {
	codes, err := w.files.want(w.codes(), "U8", -1, -1)
	if err != nil {
		return codes, err
	}
	out, in := codes.Shape[0], 2*codes.Shape[1]
	scales, err := w.files.want(w.scales(), "", out, -1)
	if err != nil {
		return codes, err
	}
	if w.scheme.groupOf(in, scales.Shape[1]) == 0 {
		return codes, fmt.Errorf("%s is %v for %d inputs in groups of %d", scales.Name, scales.Shape, in, w.scheme.Group)
	}
	for _, end := range []string{".weight_zero_point", ".pre_quant_scale"} {
		if w.files.source.Has(w.module + end) {
			return codes, fmt.Errorf("%s%s is not read; use the model's original", w.module, end)
		}
	}
	if err = w.factors(scales); err == nil {
		err = w.scheme.fits(stored{codes.Name, 4, "float", [2]int{out, in}, [2]int{1, in / scales.Shape[1]}, middle})
	}
	return safetensors.Info{Name: w.module + ".weight", DType: safetensors.BF16, Shape: []int{out, in}}, err
}

// factors checks that the scales are of a known type, and have a factor where they need one.
func (w *fp4) factors(scales safetensors.Info) error {
	one, there := w.files.source.Info(w.factor())
	bytes, _ := one.Bytes()
	switch {
	case !slices.Contains([]string{nvfp4Scales, "U8", "F8_E8M0"}, scales.DType):
		return fmt.Errorf("%s is %s, want F8_E4M3 or U8", scales.Name, scales.DType)
	case there != (scales.DType == nvfp4Scales):
		return fmt.Errorf("%s is %s, and %s is there: %v; NVFP4 has F8_E4M3 with it, MXFP4 U8 without", scales.Name, scales.DType, w.factor(), there)
	case there && (bytes != 4 || one.DType != safetensors.F32):
		return fmt.Errorf("%s is %s %v, want one F32", one.Name, one.DType, one.Shape)
	}
	return nil
}

func (w *fp4) data() ([]byte, error) {
	info, err := w.info()
	if err != nil {
		return nil, err
	}
	codes, err := w.files.source.Get(w.codes())
	if err != nil {
		return nil, err
	}
	scales, err := w.groupScales()
	if err != nil {
		return nil, err
	}
	group := len(codes.Data) * 2 / max(1, len(scales))
	dst := make([]half.BF16, len(codes.Data)*2)
	var bad damage
	parallel.Runs(len(scales), 1024, func(lo, hi int) {
		for g := lo; g < hi; g++ {
			for i := g * group; i < (g+1)*group; i++ {
				bad.put(dst, i, e2m1[codes.Data[i/2]>>(i%2*4)&15]*scales[g])
			}
		}
	})
	return tensor.BytesOf(dst), bad.err(info.Name)
}

// groupScales returns the factors of all groups.
func (w *fp4) groupScales() ([]float32, error) {
	t, err := w.files.source.Get(w.scales())
	if err != nil {
		return nil, err
	}
	scales, err := factorsOf(t)
	if err != nil || !w.files.source.Has(w.factor()) {
		return scales, err
	}
	one, err := w.files.source.Get(w.factor())
	if err != nil {
		return nil, err
	}
	factor := tensor.View[float32](one.Data)[0]
	for i := range scales {
		if w.scheme.Method == ModelOpt {
			scales[i] *= factor
		} else {
			scales[i] /= factor
		}
	}
	return scales, nil
}

// groupOf returns how many of the inputs share a scale, if there are n scales, or 0 if that
// is not what the scheme says.
func (s *Scheme) groupOf(in, n int) int {
	if n < 1 || in%n != 0 || !s.Varying && in/n != s.Group {
		return 0
	}
	return in / n
}
