package prequant

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"exl2/internal/affine"
	"exl2/internal/arch"
	"exl2/internal/parallel"
	"exl2/internal/safetensors"
)

// Source is the files of a model as they are.
type Source interface {
	Get(name string) (safetensors.Tensor, error)
	Has(name string) bool
	Info(name string) (safetensors.Info, bool)
	Names() []string
}

// Files shows the files of a model as if its matrices were not quantized: x.weight,
// BF16 or F16, in the place of x.qweight, x.qzeros, ... Weights are [out, in],
// whatever the architecture's own form is; of stacked experts they have one more
// dimension in front.
type Files struct {
	source Source
	shown  map[string]decodable // by name, "x.weight"
	names  []string

	held parallel.Memo[safetensors.Tensor] // of the source, that Expert has read
}

// A decodable is a weight and what it is when it is decoded.
type decodable struct {
	weight
	as safetensors.Info
}

// A weight is a quantized tensor of the source.
type weight interface {
	// info is what the weight is when it is not quantized. It checks all shapes.
	info() (safetensors.Info, error)
	// parts are the tensors that it is made of.
	parts() []string
	// data decodes all of it.
	data() ([]byte, error)
	// form says how it is stored, in a word or two.
	form() string
}

// A packed weight can be multiplied by as it is.
type packed interface {
	weight
	// outline is the matrix without its codes, scales and zeros.
	outline() (*affine.Matrix, error)
	matrix() (*affine.Matrix, error)
}

// Show returns the files of a model that is quantized by a scheme. Without one it
// returns nil, or an error if there are tensors that only a scheme explains.
func Show(s *Scheme, source Source) (*Files, error) {
	names := source.Names()
	if err := foreign(names, source); err != nil {
		return nil, err
	}
	if s == nil {
		return nil, unexplained(names, source)
	}
	f := &Files{source: source, shown: map[string]decodable{}}
	hidden := map[string]bool{}
	for _, name := range names {
		w, module := s.find(f, name)
		if w == nil {
			continue
		}
		if s.plain(module) {
			return nil, fmt.Errorf("%s is quantized, and the configuration lists %s among the modules that are not; correct one of them", name, module)
		}
		info, err := w.info()
		if err != nil {
			return nil, err
		}
		f.shown[info.Name] = decodable{w, info}
		for _, part := range w.parts() {
			hidden[part] = true
		}
	}
	if len(f.shown) == 0 {
		return nil, fmt.Errorf("the configuration says %s, and no tensor is quantized; if so, remove what it says from config.json, quantize_config.json or hf_quant_config.json", s)
	}
	for _, name := range names {
		if !hidden[name] && !s.drops(name) {
			f.names = append(f.names, name)
		}
	}
	f.names = append(f.names, slices.Collect(maps.Keys(f.shown))...)
	slices.Sort(f.names)
	return f, nil
}

// find returns the quantized weight that a tensor is the first part of, and its
// module, or nil.
func (s *Scheme) find(f *Files, name string) (w weight, module string) {
	is := func(suffix string) (ok bool) {
		module, ok = strings.CutSuffix(name, suffix)
		return ok
	}
	switch {
	case s.Method == GPTQ && is(".qweight"):
		return &gptq{f, s, module}, module
	case s.Method == AWQ && is(".qweight"):
		return &awq{f, s, module}, module
	case s.Method == Compressed && is(".weight_packed"):
		if info, _ := f.source.Info(name); info.DType == "U8" {
			return &fp4{f, s, module}, module
		}
		return &compressed{f, s, module}, module
	case s.Method == MXFP4 && is("_blocks"):
		return &mxfp4{f, module}, module
	case s.bytes() && is(".weight"):
		info, _ := f.source.Info(name)
		if bytewise[info.DType] != nil {
			return &scaled{f, s, module}, module
		}
		if s.Method == ModelOpt && info.DType == "U8" {
			return &fp4{f, s, module}, module
		}
	}
	return nil, ""
}

// bytes reports whether a scheme may have weights of bytes, with scales for their inputs,
// too.
func (s *Scheme) bytes() bool {
	return s.Method == FP8 || s.Method == Compressed || s.Method == ModelOpt
}

// drops reports whether a tensor is of no use without quantized activations and
// caches.
func (s *Scheme) drops(name string) bool {
	return s.bytes() && slices.ContainsFunc([]string{".input_scale", ".input_global_scale", ".activation_scale", ".output_scale", ".k_scale", ".v_scale", ".q_scale", ".input_zero_point"},
		func(end string) bool { return strings.HasSuffix(name, end) })
}

// strangers are the tensors by which formats that are not read can be told, whatever a
// configuration says of them: the end of a name, and the type of what is called a weight.
var strangers = []struct{ end, dtype, format string }{
	{".weight", "U32", "MLX"}, {".weight", "F8_E5M2", "FP8 as e5m2"}, {".W_q", "", "HQQ"}, {".weight._data", "", "quanto"}, {".SCB", "", "bitsandbytes"},
	{".quant_state.bitsandbytes__nf4", "", "bitsandbytes"}, {".quant_state.bitsandbytes__fp4", "", "bitsandbytes"}, {".trellis", "", "EXL3"}, {".codebooks", "", "AQLM"},
}

// foreign refuses such tensors.
func foreign(names []string, source Source) error {
	for _, name := range names {
		if info, _ := source.Info(name); info.DType == "F8_E4M3" && len(info.Shape) == 3 {
			return fmt.Errorf("%w: %s is several matrices as FP8, which are read apart only; use the model's original", arch.ErrUnsupported, name)
		}
		for _, s := range strangers {
			if !strings.HasSuffix(name, s.end) {
				continue
			}
			if info, _ := source.Info(name); s.dtype == "" || s.dtype == info.DType {
				return fmt.Errorf("%w: %s is of %s, which is not read; use the model's original", arch.ErrUnsupported, name, s.format)
			}
		}
	}
	return nil
}

// unexplained refuses quantized tensors of models whose configuration does not
// say how.
func unexplained(names []string, source Source) error {
	for _, name := range names {
		info, _ := source.Info(name)
		switch {
		case strings.HasSuffix(name, ".qweight"):
			return fmt.Errorf("%s is quantized, as by GPTQ or AWQ, and neither config.json's quantization_config nor quantize_config.json says how", name)
		case strings.HasSuffix(name, ".weight_packed"), strings.HasSuffix(name, "_blocks") && info.DType == "U8", strings.HasSuffix(name, ".weight") && (bytewise[info.DType] != nil || info.DType == "U8"):
			return fmt.Errorf("%s is quantized (%s), and config.json has no quantization_config that says how", name, info.DType)
		}
	}
	return nil
}

// Names returns the names of the tensors, sorted.
func (f *Files) Names() []string { return slices.Clone(f.names) }

// Has reports whether there is a tensor.
func (f *Files) Has(name string) bool {
	_, ok := f.Info(name)
	return ok
}

// Info returns what a tensor's header would say.
func (f *Files) Info(name string) (safetensors.Info, bool) {
	if w, ok := f.shown[name]; ok {
		return w.as, true
	}
	if _, ok := slices.BinarySearch(f.names, name); !ok {
		return safetensors.Info{}, false
	}
	return f.source.Info(name)
}

// Get returns a tensor.
func (f *Files) Get(name string) (safetensors.Tensor, error) {
	w, ok := f.shown[name]
	if !ok {
		return f.source.Get(name)
	}
	data, err := w.data()
	return safetensors.Tensor{Info: w.as, Data: data}, err
}

// Decoded reports whether a tensor is one that is shown in the place of others.
func (f *Files) Decoded(name string) bool {
	_, ok := f.shown[name]
	return ok
}

// Matrix returns the matrix that a tensor is decoded from, nil if there is none
// that devices can multiply by.
func (f *Files) Matrix(name string) (*affine.Matrix, error) {
	p, ok := f.shown[name].weight.(packed)
	if !ok {
		return nil, nil
	}
	return p.matrix()
}

// Outline returns what Matrix does without codes, scales and zeros.
func (f *Files) Outline(name string) (*affine.Matrix, error) {
	p, ok := f.shown[name].weight.(packed)
	if !ok {
		return nil, nil
	}
	return p.outline()
}

// Stored returns the bits that an element of a decoded tensor takes in the files, and
// in what form: "GPTQ 4b_128g".
func (f *Files) Stored(name string) (bits float64, form string) {
	w := f.shown[name]
	bytes, elements := int64(0), 1
	for _, part := range w.parts() {
		info, _ := f.source.Info(part)
		n, _ := info.Bytes()
		bytes += n
	}
	for _, n := range w.as.Shape {
		elements *= n
	}
	return 8 * float64(bytes) / float64(elements), w.form()
}

// Expert returns one expert of a tensor that holds several, and whether it can
// without decoding them all.
func (f *Files) Expert(name string, expert int) (safetensors.Tensor, bool, error) {
	w, ok := f.shown[name].weight.(*mxfp4)
	if !ok {
		return safetensors.Tensor{}, false, nil
	}
	t, err := w.expert(expert)
	return t, true, err
}

// Hide leaves out a tensor.
func (f *Files) Hide(name string) {
	if i, ok := slices.BinarySearch(f.names, name); ok {
		f.names = slices.Delete(f.names, i, i+1)
	}
}

// Forget drops what Expert has kept of the source.
func (f *Files) Forget() { f.held.Clear() }

// want returns the header of a part, which must have a type and a shape; -1 is any
// size.
func (f *Files) want(name, dtype string, shape ...int) (safetensors.Info, error) {
	info, ok := f.source.Info(name)
	if !ok {
		return info, fmt.Errorf("%s is missing", name)
	}
	same := len(shape) == len(info.Shape)
	for i := range shape {
		same = same && (shape[i] < 0 || shape[i] == info.Shape[i])
	}
	if !same || dtype != "" && info.DType != dtype {
		return info, fmt.Errorf("%s is %s %v, want %s", name, info.DType, info.Shape, wanted(dtype, shape))
	}
	return info, nil
}

// wanted is the text of a type and a shape.
func wanted(dtype string, shape []int) string {
	text := make([]string, len(shape))
	for i, n := range shape {
		if text[i] = fmt.Sprint(n); n < 0 {
			text[i] = "*"
		}
	}
	return strings.TrimSpace(fmt.Sprintf("%s [%s]", dtype, strings.Join(text, " ")))
}

// formOf is the form of a packed weight: method, bits and the rows of its groups.
func formOf(method string, w packed) string {
	m, err := w.outline()
	if err != nil {
		return method
	}
	text := fmt.Sprintf("%s %db_%dg", method, m.Bits, slices.Max(m.Rows))
	if m.Perm != nil {
		text += " ordered"
	}
	return text
}
