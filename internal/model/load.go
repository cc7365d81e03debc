package model

import (
	"fmt"
	"slices"

	"exl2/internal/arch"
	"exl2/internal/device"
	"exl2/internal/exl2"
	"exl2/internal/prequant"
	"exl2/internal/safetensors"
	"exl2/internal/tensor"
)

// Files is where a Loader finds tensors; a *safetensors.Set is one.
type Files interface {
	Get(name string) (safetensors.Tensor, error)
	Has(name string) bool
	Info(name string) (safetensors.Info, bool)
	Names() []string
}

// A Loader makes the modules of a model from its files, one at a time.
type Loader struct {
	Spec   arch.Spec
	Layout []ModuleSpec // of Spec
	Files  Files        // with a tensor for every matrix, however the source keeps them, folded (Fold)

	// Scheme says how others have quantized the model, if they have. Its matrices
	// stay packed where devices can multiply by them, unless Decode is set, which
	// quantizing needs.
	Scheme *prequant.Scheme
	Decode bool

	// Strict refuses weights that are NaN or infinite. It reads them all.
	Strict bool

	unfused *unfused // what Files shows, or folds
	folding *folded  // or nil
}

// NewLoader returns a Loader of the model that spec describes, in files that are
// as it says.
func NewLoader(spec arch.Spec, f Files) *Loader {
	spec.Resolve(f.Has)
	spec.Orient(func(name string) []int {
		info, _ := f.Info(name)
		return info.Shape
	})
	l := &Loader{Spec: spec, Layout: Layout(spec)}
	l.show(newUnfused(l.Spec, l.Layout, f))
	return l
}

// Use has the loader find tensors in f, which may be quantized by its Scheme.
func (l *Loader) Use(f Files) error {
	shown, err := prequant.Show(l.Scheme, f)
	if err != nil {
		return err
	}
	if shown != nil {
		if err := l.dropBiases(shown); err != nil {
			return err
		}
		f = shown
	}
	l.show(newUnfused(l.Spec, l.Layout, f))
	return l.refuseBiases()
}

// show has the loader find tensors in u, folded if it folds.
func (l *Loader) show(u *unfused) {
	l.unfused, l.Files = u, u
	if l.folding != nil {
		f := *l.folding
		f.Files, l.Files = u, &f
	}
}

// Fused reports whether a tensor is part of one of the source, whose memory it
// shares.
func (l *Loader) Fused(name string) bool {
	_, ok := l.unfused.parts[name]
	return ok
}

// Embedding and Head return the first and the last module of the layout.
func (l *Loader) Embedding() ModuleSpec { return l.Layout[0] }

// Head is documented with Embedding.
func (l *Loader) Head() ModuleSpec { return l.Layout[len(l.Layout)-1] }

// Decoder lists the modules between the two: sublayers.
func (l *Loader) Decoder() []ModuleSpec { return l.Layout[1 : len(l.Layout)-1] }

// Width returns the most inputs that a linear has.
func (l *Loader) Width() int {
	most := 0
	for _, m := range l.Layout {
		for _, x := range m.Matrices() {
			most = max(most, x.In)
		}
	}
	return most
}

// CheckLength refuses sequences that are longer than the model's table of learned
// positions, or than what is known of its attention.
func (l *Loader) CheckLength(positions int) error {
	if most := l.Spec.Bound; most > 0 && positions > most {
		return fmt.Errorf("%d positions, and how %s attends to more than %d is not known; ask for fewer tokens, or a shorter context", positions, l.Spec.Arch, most)
	}
	if most := l.Spec.Learned; most > 0 && positions > most {
		return fmt.Errorf("%d positions, and the model has learned %d; ask for fewer tokens, or a shorter context", positions, most)
	}
	return nil
}

// Load makes a module of the layout on d.
func (l *Loader) Load(d device.Device, spec ModuleSpec) (*Module, error) {
	return l.LoadBeside(d, &Module{ModuleSpec: spec})
}

// LoadBeside makes the same module as another one on d, and copies matrices from its
// device, where that can be.
func (l *Loader) LoadBeside(d device.Device, other *Module) (*Module, error) {
	b := builder{Loader: l, dev: d, beside: other, dense: map[string]tensor.Tensor{}}
	defer l.unfused.forget()
	spec := other.ModuleSpec
	m := &Module{ModuleSpec: spec, dev: d, dense: b.dense}
	builders[spec.Kind](&b, m)
	if b.err == nil {
		b.err = d.Sync()
	}
	if b.err != nil {
		m.Free()
		return nil, fmt.Errorf("load %s: %w", spec.Name, b.err)
	}
	return m, nil
}

// builders make the steps of a module by its kind.
var builders = map[Kind]func(b *builder, m *Module){
	Embedding: (*builder).embedding, Attention: (*builder).attention, MLP: (*builder).mlp, Experts: (*builder).experts,
	Parallel: (*builder).parallel, Head: (*builder).head,
}

// LoadAll makes every module on d.
func (l *Loader) LoadAll(d device.Device) ([]*Module, error) {
	return l.All(l.On(d))
}

// On returns what loads a module to a device.
func (l *Loader) On(d device.Device) func(ModuleSpec) (*Module, error) {
	return func(spec ModuleSpec) (*Module, error) { return l.Load(d, spec) }
}

// All returns all modules, each as load does.
func (l *Loader) All(load func(ModuleSpec) (*Module, error)) ([]*Module, error) {
	var list []*Module
	for _, spec := range l.Layout {
		m, err := load(spec)
		if err != nil {
			for _, m := range list {
				m.Free()
			}
			return nil, err
		}
		list = append(list, m)
	}
	return list, nil
}

// Quantized reports whether matrices of the model are EXL2.
func (l *Loader) Quantized() bool {
	for _, m := range l.Decoder() {
		if slices.ContainsFunc(m.Linears, func(x LinearSpec) bool { return l.Files.Has(x.Name + "." + exl2.SuffixWords) }) {
			return true
		}
	}
	return false
}

// Matrix reads a linear's EXL2 matrix, or returns nil if the linear is not
// quantized.
func (l *Loader) Matrix(s LinearSpec) (*exl2.Matrix, error) {
	if !l.Files.Has(s.Name + "." + exl2.SuffixWords) {
		return nil, nil
	}
	m, err := ReadMatrix(l.Files, s.Name)
	if err == nil && (m.In != s.In || m.Out != exl2.Pad(s.Out)) {
		err = fmt.Errorf("%s: EXL2 matrix of %d x %d, want %d x %d", s.Name, m.In, m.Out, s.In, exl2.Pad(s.Out))
	}
	return m, err
}

// ReadMatrix reads the EXL2 matrix of the given name.
func ReadMatrix(f Files, name string) (*exl2.Matrix, error) {
	m, err := exl2.Parse(func(suffix string) (exl2.Tensor, error) {
		t, err := f.Get(name + "." + suffix)
		return exl2.Tensor{Suffix: suffix, DType: t.DType, Shape: t.Shape, Data: t.Data}, err
	})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return m, nil
}

// known are the features that this package interprets.
var known = []arch.Feature{
	arch.PostNorms, arch.NoPreNorms, arch.NormBiases, arch.PlainNorms, arch.VariedNorms, arch.ParallelBlocks,
	arch.HeadNorms, arch.HeadNormsOwn, arch.HeadNormsAll, arch.HeadNormBiases, arch.HeadNormsLate, arch.HeadNormsPlain, arch.HeadNormsRoped, arch.EmbeddingNorm,
	arch.HeadBias, arch.HeadUnitRows, arch.LearnedPosition, arch.LearnedFrom, arch.SinePositions, arch.MixtureNorms, arch.EmbeddingWeight, arch.FirstLayerBare, arch.LinearNormed, arch.LinearBeside, arch.ScaledMLP, arch.ScaledStates, arch.BareStates, arch.NarrowTable, arch.DeepHead, arch.NormedSums, arch.NoFinalNorm, arch.UngatedMLP, arch.SquaredAct, arch.ClampedMLP, arch.ClippedQKV,
	arch.AttentionSinks, arch.SinksInWindows, arch.NarrowValues, arch.ScaledValues, arch.AttentionTemp, arch.LatentAttention, arch.GatedAttention, arch.GatedHeads, arch.XIELUs, arch.VariedClamps, arch.LinearAttention, arch.StateSpaces, arch.Convolutions, arch.BoundAttention, arch.DynamicRope, arch.FusedTensors, arch.TransposedInput,
	arch.Experts, arch.SharedExperts, arch.SharedGates, arch.EarlyWeights, arch.LatentExperts, arch.ScaledExperts, arch.ParallelExperts, arch.DenseLayers, arch.StackedExperts, arch.PictureExperts, arch.PictureRows, arch.VariedWidths, arch.NoAttention,
	arch.RouterTop, arch.RouterSigmoid, arch.RouterMixer, arch.RouterGroups, arch.RouterBias, arch.RouterCorrected,
	arch.VariedHeads, arch.ValueNorms, arch.KeyValues, arch.ScaledLayers, arch.ApartExperts, arch.LayerInputs, arch.BorrowedKeys,
}

// Open opens the model in a folder; the files are the caller's to close.
func Open(dir string) (*Loader, *safetensors.Set, error) {
	config, err := arch.ReadConfig(dir)
	if err != nil {
		return nil, nil, err
	}
	spec, err := arch.For(config)
	if err != nil {
		return nil, nil, err
	}
	if err := spec.Require(known...); err != nil {
		return nil, nil, fmt.Errorf("%s: %w", dir, err)
	}
	scheme, err := prequant.Read(dir, config)
	if err != nil {
		return nil, nil, err
	}
	files, err := safetensors.OpenDir(dir, exl2.IsCodes)
	if err != nil {
		return nil, nil, err
	}
	l := NewLoader(spec, files)
	l.Scheme = scheme
	if err := l.Use(files); err != nil {
		files.Close()
		return nil, nil, fmt.Errorf("%s: %w", dir, err)
	}
	return l, files, nil
}
