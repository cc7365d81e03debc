package prequant

import (
	"fmt"
	"slices"

	"exl2/internal/half"
	"exl2/internal/parallel"
	"exl2/internal/safetensors"
	"exl2/internal/tensor"
)

// An mxfp4 weight is that of stacked experts, [experts, out, in], in blocks of 32
// inputs (OCP Microscaling Formats, version 1.0; gpt-oss's checkpoints):
//
//	x_blocks  U8 [experts, out, in/32, 16]   e2m1, two a byte, the first in the low bits
//	x_scales  U8 [experts, out, in/32]       e8m0
//
// BF16 holds every product.
type mxfp4 struct {
	files *Files
	name  string
}

func (w *mxfp4) form() string { return "MXFP4" }

func (w *mxfp4) parts() []string { return []string{w.name + "_blocks", w.name + "_scales"} }

const mxBlock = 32

func (w *mxfp4) info() (safetensors.Info, error) {
	info, err := w.files.want(w.name+"_blocks", "U8", -1, -1, -1, mxBlock/2)
	if err != nil {
		return info, err
	}
	if _, err := w.files.want(w.name+"_scales", "U8", info.Shape[:3]...); err != nil {
		return info, err
	}
	return safetensors.Info{Name: w.name, DType: safetensors.BF16, Shape: []int{info.Shape[0], info.Shape[1], info.Shape[2] * mxBlock}}, nil
}

func (w *mxfp4) data() ([]byte, error) {
	info, err := w.info()
	if err != nil {
		return nil, err
	}
	return w.decode(info, 0, info.Shape[0])
}

// expert returns one of the experts, [out, in].
func (w *mxfp4) expert(i int) (safetensors.Tensor, error) {
	info, err := w.info()
	if err != nil {
		return safetensors.Tensor{}, err
	}
	if i >= info.Shape[0] {
		return safetensors.Tensor{}, fmt.Errorf("%s: expert %d of %d", w.name, i, info.Shape[0])
	}
	data, err := w.decode(info, i, i+1)
	info.Shape = slices.Clone(info.Shape[1:])
	return safetensors.Tensor{Info: info, Data: data}, err
}

// decode decodes experts lo to hi.
func (w *mxfp4) decode(info safetensors.Info, lo, hi int) ([]byte, error) {
	blocks, err := w.files.held.Get(w.name+"_blocks", w.files.source.Get)
	if err != nil {
		return nil, err
	}
	scales, err := w.files.held.Get(w.name+"_scales", w.files.source.Get)
	if err != nil {
		return nil, err
	}
	each := info.Shape[1] * info.Shape[2] / mxBlock // blocks of an expert
	codes, exponents := blocks.Data[lo*each*mxBlock/2:hi*each*mxBlock/2], scales.Data[lo*each:hi*each]
	if i := slices.Index(exponents, 255); i >= 0 {
		return nil, fmt.Errorf("%s: element %d is NaN: the source is damaged", scales.Name, lo*each+i)
	}
	dst := make([]half.BF16, len(exponents)*mxBlock)
	parallel.Runs(len(exponents), 1024, func(lo, hi int) {
		for b := lo; b < hi; b++ {
			scale := e8m0(exponents[b])
			for i, c := range codes[b*mxBlock/2 : (b+1)*mxBlock/2] {
				dst[b*mxBlock+2*i] = half.ToBF16(e2m1[c&15] * scale)
				dst[b*mxBlock+2*i+1] = half.ToBF16(e2m1[c>>4] * scale)
			}
		}
	})
	return tensor.BytesOf(dst), nil
}
