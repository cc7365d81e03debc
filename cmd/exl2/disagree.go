package main

import (
	"fmt"
	"path/filepath"
	"slices"

	"exl2/internal/model"
	"exl2/internal/regular"
	"exl2/internal/safetensors"
)

// small lists the tensors of a module beside matrices.
func small(m model.ModuleSpec) []string {
	var names []string
	for _, table := range []string{m.Positions, m.Inputs} {
		if table != "" {
			names = append(names, table+".weight")
		}
	}
	for _, n := range m.Norms {
		names = append(names, n.Tensors()...)
	}
	for _, v := range m.Vectors {
		names = append(names, v.Name)
	}
	for _, l := range m.Matrices() {
		if l.Biased {
			names = append(names, l.Name+".bias")
		}
	}
	return names
}

// disagreements lists where the weights are not what config.json says, which
// is what loading would refuse, all of it.
func disagreements(dir string, l *model.Loader, files *safetensors.Set) ([]string, error) {
	var list []string
	say := func(format string, args ...any) { list = append(list, fmt.Sprintf(format, args...)) }
	checkTensor := func(name string, want []int) {
		info, ok := l.Files.Info(name)
		switch {
		case !ok:
			say("%s is missing", name)
		case want != nil && !slices.Equal(info.Shape, want):
			say("%s has the shape %v, config.json says %v", name, info.Shape, want)
		case !model.Holds(info.DType):
			say("%s is %s, want F16, BF16 or F32", name, info.DType)
		}
	}
	spec := l.Spec
	checkTensor(spec.Names.Embed+".weight", []int{spec.Vocab, spec.TableWidth()})
	for _, module := range l.Layout {
		for _, name := range small(module) {
			checkTensor(name, nil)
		}
		for _, s := range module.Fixed {
			checkTensor(s.Name+".weight", []int{s.Out, s.In})
		}
		for _, s := range module.Linears {
			m, err := l.Matrix(s)
			switch {
			case err != nil:
				say("%v", err)
			case m == nil && !(spec.Tied && s.Name == spec.Names.Head):
				checkTensor(s.Name+".weight", []int{s.Out, s.In})
			}
		}
	}
	if name := spec.Stray(files.Names()); name != "" {
		say("there are weights of layers such as %s, config.json says %d layers", name, spec.Layers)
	}
	var config struct {
		Quantization struct {
			Method string `json:"quant_method"`
		} `json:"quantization_config"`
	}
	if err := regular.OptionalJSON(filepath.Join(dir, "config.json"), &config); err != nil {
		return nil, err
	}
	if exl2 := config.Quantization.Method == "exl2"; exl2 && !l.Quantized() {
		say("config.json says EXL2, the weights are not quantized")
	}
	return list, nil
}
