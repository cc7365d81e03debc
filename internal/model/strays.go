package model

import (
	"fmt"
	"slices"
	"strings"

	"exl2/internal/exl2"
	"exl2/internal/tensor"
)

// Warnings says what of the model's folder nothing reads that might mean something:
// fields of config.json, layers of the files, and matrices and norms of a layer.
func (l *Loader) Warnings() []string {
	list := l.NotKnown()
	if most := l.Spec.Bound; most > 0 {
		list = append(list, fmt.Sprintf("sequences of more than %d positions are refused: how %s attends to more is not known", most, l.Spec.Arch))
	}
	if name := l.Spec.Stray(l.Files.Names()); name != "" {
		list = append(list, fmt.Sprintf("there are weights of layers that nothing reads, such as %s: config.json says %d layers", name, l.Spec.Layers))
	}
	if name := l.unread(); name != "" {
		list = append(list, fmt.Sprintf("there are weights that nothing reads, such as %s: by config.json the architecture %s has none of that name", name, l.Spec.Arch))
	}
	if name := l.twofold(); name != "" {
		list = append(list, fmt.Sprintf("there are matrices both as EXL2 and as they were, such as %s: the former are read, as in ExLlamaV2", name))
	}
	return list
}

// twofold returns the first linear that the files have as an EXL2 matrix and as a weight, or "".
func (l *Loader) twofold() string {
	for _, m := range l.Layout {
		for _, x := range m.Matrices() {
			if l.Files.Has(x.Name+"."+exl2.SuffixWords) && l.Files.Has(x.Name+".weight") {
				return x.Name
			}
		}
	}
	return ""
}

// NotKnown says which fields of the model's configurations are not understood, a line for each.
func (l *Loader) NotKnown() []string {
	var list []string
	if w := l.Spec.Warning(); w != "" {
		list = append(list, w)
	}
	if l.Scheme != nil && l.Scheme.Warning != "" {
		list = append(list, l.Scheme.Warning)
	}
	return list
}

// unread returns the first tensor of a layer that is called a weight and that no module has, or "".
// What goes by another name (frequencies, masks, scales of caches) may be anything.
func (l *Loader) unread() string {
	known := map[string]bool{}
	for _, m := range l.Layout {
		for _, x := range m.Matrices() {
			known[x.Name+".weight"] = true
		}
		for _, n := range m.Norms {
			for _, name := range n.Tensors() {
				known[name] = true
			}
		}
		for _, v := range m.Vectors {
			known[v.Name] = true
		}
	}
	for _, name := range l.Files.Names() {
		if strings.HasSuffix(name, ".weight") && l.Spec.InLayer(name) && !known[name] {
			return name
		}
	}
	return ""
}

// refuseBiases refuses biases that the files have of a linear or norm that has none
// by the configuration: other programs would add them. Those that are zero, and add
// nothing, are hidden.
func (l *Loader) refuseBiases() error {
	zero := map[string]bool{}
	for _, m := range l.Layout {
		for _, name := range l.unbiased(m) {
			if !l.Files.Has(name) {
				continue
			}
			if err := l.checkZero(l.Files, name); err != nil {
				return err
			}
			zero[name] = true
		}
	}
	l.unfused.names = slices.DeleteFunc(l.unfused.names, func(name string) bool { return zero[name] })
	return nil
}

// unbiased lists the biases that the module does not have, of its own matrices and of
// those that the source keeps several in.
func (l *Loader) unbiased(m ModuleSpec) []string {
	var list []string
	for _, t := range l.Spec.Stored {
		if whole, ok := strings.CutSuffix(t.Weight, ".weight"); ok && t.Bias == "" {
			list = append(list, l.Spec.Names.Layer(m.Layer, whole+".bias"))
		}
	}
	for _, x := range m.Matrices() {
		if !x.Biased {
			list = append(list, x.Name+".bias")
		}
	}
	for _, n := range m.Norms {
		if !n.Bias {
			list = append(list, n.Name+".bias")
		}
	}
	return list
}

// checkZero refuses a bias that is not zero everywhere.
func (l *Loader) checkZero(f Files, name string) error {
	t, err := f.Get(name)
	if err != nil {
		return err
	}
	kind, ok := floatTypes[t.DType]
	if !ok {
		return fmt.Errorf("%s is %s, want F16, BF16 or F32", name, t.DType)
	}
	for i, v := range tensor.Widen(kind, t.Data) {
		if v != 0 {
			return fmt.Errorf("%s: element %d is %v, and by config.json the architecture %s has no such bias", name, i, v, l.Spec.Arch)
		}
	}
	return nil
}
