package model

import (
	"strings"

	"exl2/internal/arch"
	"exl2/internal/device"
)

// A moduleLayout is a module's spec in the making.
type moduleLayout struct {
	arch.Spec
	m ModuleSpec
}

func (y *moduleLayout) attention() {
	n, a, norms, borrows := y.Names, y.AttnOf(y.m.Layer), y.NormsOf(y.m.Layer), y.Lender(y.m.Layer) != y.m.Layer
	y.layerNorm(NormIn, norms.NormIn)
	if !y.Caches(y.m.Layer) {
		y.recurrent()
		y.layerNorm(NormOut, norms.NormAttnOut)
		return
	}
	if y.Latent.KVRank > 0 {
		y.latent()
	} else {
		y.linear(arch.Q, n.Q, y.Hidden, a.Queries(), a.BiasQKV)
		if !borrows {
			y.linear(arch.K, n.K, y.Hidden, a.Keys(), a.BiasQKV)
		}
		if !borrows && !a.KeyValues {
			y.linear(arch.V, n.V, y.Hidden, a.KVHeads*a.ValueWidth(), a.BiasQKV)
		}
		if a.Gate != arch.NoGates {
			y.linear(arch.V, n.AttnGate, y.Hidden, a.Gates(), a.BiasQKV && a.Gate == arch.EachColumn)
		}
		if y.Beside {
			y.deltaFirst(arch.K)
		}
		y.linear(arch.O, n.O, a.Heads*a.ValueWidth(), y.Hidden, a.BiasO)
		if y.Beside {
			y.deltaRest()
		}
	}
	y.headNorm(NormQuery, n.QNorm, a.Heads)
	if !borrows {
		y.headNorm(NormKey, n.KNorm, a.KVHeads)
	}
	if a.ValueNorm && !borrows {
		y.norm(NormSpec{Place: NormValue, Name: parent(n.O) + ".v_norm", Norm: y.Spec.Norm, Rows: 1, Cols: a.HeadDim, Plain: true})
	}
	y.layerNorm(NormOut, norms.NormAttnOut)
	if y.Sinks(y.m.Layer) {
		y.vector(VectorSpec{Name: n.Sinks, Cols: a.Heads})
	}
}

// vector adds numbers whose name is inside the layer.
func (y *moduleLayout) vector(v VectorSpec) {
	v.Name = y.Names.Layer(y.m.Layer, v.Name)
	y.m.Vectors = append(y.m.Vectors, v)
}

// latent adds the matrices and norms of latent attention. Their roles are those
// of the matrices whose place they take.
func (y *moduleLayout) latent() {
	n, a, l := y.Names, y.Attn, y.Latent
	wide := a.Heads * a.HeadDim
	norm := device.Norm{Eps: l.NormEps}
	if l.QRank > 0 {
		y.linear(arch.Q, n.Q1, y.Hidden, l.QRank, a.BiasQKV)
		y.norm(NormSpec{Place: NormQLatent, Name: n.QLatentNorm, Norm: norm, Rows: 1, Cols: l.QRank})
		y.linear(arch.Q, n.Q2, l.QRank, wide, false)
	} else {
		y.linear(arch.Q, n.Q, y.Hidden, wide, false)
	}
	y.linear(arch.K, n.KV1, y.Hidden, l.KVRank+l.Rope, a.BiasQKV)
	y.norm(NormSpec{Place: NormKVLatent, Name: n.KVLatentNorm, Norm: norm, Rows: 1, Cols: l.KVRank})
	y.linear(arch.V, n.KV2, l.KVRank, a.Heads*(l.Nope+l.Value), false)
	y.linear(arch.O, n.O, a.Heads*l.Value, y.Hidden, a.BiasO)
}

func (y *moduleLayout) feedForward() {
	n, norms := y.Names, y.NormsOf(y.m.Layer)
	y.layerNorm(NormMLPIn, norms.NormMLPIn)
	if y.Sparse(y.m.Layer) {
		y.experts()
	} else {
		y.mlp(0, n.Gate, n.Up, n.Down, y.Hidden, y.MLPWidth(y.m.Layer))
	}
	if y.MLP.XIELU {
		y.xielu()
	}
	y.layerNorm(NormMLPOut, norms.NormMLPOut)
	if size := y.PerLayer.Size; size > 0 {
		y.add(&y.m.Fixed, LinearSpec{Role: arch.Router, Part: n.PerLayerGate, In: y.Hidden, Out: size})
		y.add(&y.m.Fixed, LinearSpec{Role: arch.Router, Part: n.PerLayerOut, In: size, Out: y.Hidden})
		y.layerNorm(NormPerLayer, n.NormPerLayer)
	}
	if y.LayerScale {
		y.m.Vectors = append(y.m.Vectors, VectorSpec{Name: n.Layer(y.m.Layer, n.LayerScale), Cols: 1, Host: true})
	}
}

// xielu adds the numbers of an activation function.
func (y *moduleLayout) xielu() {
	for _, part := range []string{y.Names.XIELUPositive, y.Names.XIELUNegative} {
		y.vector(VectorSpec{Name: part, Cols: 1, Host: true})
	}
	for _, part := range []string{y.Names.XIELUBeta, y.Names.XIELULeast} {
		y.vector(VectorSpec{Name: part, Cols: 1, Dims: []int{}, Host: true})
	}
}

// mlp adds the matrices of one MLP, of an expert or not, which reads so many columns, and gives as many.
func (y *moduleLayout) mlp(expert int, gate, up, down string, reads, width int) {
	add := func(r arch.Role, part string, in, out int) {
		y.add(&y.m.Linears, LinearSpec{Role: r, Part: part, Expert: expert, In: in, Out: out, Biased: y.MLP.Bias})
	}
	if !y.MLP.Ungated {
		add(arch.Gate, gate, reads, width)
	}
	add(arch.Up, up, reads, width)
	add(arch.Down, down, width, reads)
}

func (y *moduleLayout) experts() {
	n, m := y.Names, y.MoE
	y.add(&y.m.Fixed, LinearSpec{Role: arch.Router, Part: n.Router, In: y.Hidden, Out: m.Experts, Biased: m.Routing.Bias})
	if m.Routing.Correction {
		v := VectorSpec{Name: n.Correction, Cols: m.Experts}
		if m.Pictures > 0 {
			v.Dims = []int{2, m.Experts}
		}
		y.vector(v)
	}
	if m.Latent > 0 {
		y.linear(arch.Up, n.LatentIn, y.Hidden, m.Latent, false)
	}
	for e := range m.Experts {
		y.mlp(e, n.ExpertGate, n.ExpertUp, n.ExpertDown, m.Reads(y.Hidden), m.Width)
	}
	if m.Shared > 0 {
		y.mlp(0, n.SharedGate, n.SharedUp, n.SharedDown, y.Hidden, m.Shared)
	}
	if m.Latent > 0 {
		y.linear(arch.Down, n.LatentOut, m.Latent, y.Hidden, false)
	}
	if m.Apart {
		y.layerNorm(NormExpertIn, n.NormExpertIn)
		y.layerNorm(NormExpertOut, n.NormExpertOut)
		y.layerNorm(NormShared, n.NormShared)
		y.vector(VectorSpec{Name: n.RouterScale, Cols: y.Hidden})
		y.vector(VectorSpec{Name: n.ExpertScales, Cols: m.Experts})
	}
	if m.SharedGated {
		y.add(&y.m.Fixed, LinearSpec{Role: arch.Router, Part: n.SharedRouter, In: y.Hidden, Out: 1})
	}
}

func (y *moduleLayout) linear(r arch.Role, part string, in, out int, biased bool) {
	y.add(&y.m.Linears, LinearSpec{Role: r, Part: part, In: in, Out: out, Biased: biased})
}

// add names a linear and adds it to a list.
func (y *moduleLayout) add(list *[]LinearSpec, l LinearSpec) {
	l.Name = y.Names.Layer(y.m.Layer, arch.Expert(l.Part, l.Expert))
	*list = append(*list, l)
}

// layerNorm adds a norm of the stream in a layer, if the architecture has it.
func (y *moduleLayout) layerNorm(p Place, part string) {
	if part != "" {
		y.streamNorm(p, y.Names.Layer(y.m.Layer, part), y.StreamNorm(part))
	}
}

func (y *moduleLayout) streamNorm(p Place, name string, norm device.Norm) {
	y.m.Norms = append(y.m.Norms, NormSpec{Place: p, Name: name, Norm: norm, Rows: 1, Cols: y.Hidden, Bias: y.NormBias, Plain: y.NormPlain})
}

// headNorm adds a norm of heads, if the architecture has it.
func (y *moduleLayout) headNorm(p Place, part string, heads int) {
	s := NormSpec{Place: p, Name: part, Norm: y.Spec.Norm, Rows: 1, Cols: y.AttnOf(y.m.Layer).HeadDim, Bias: y.Attn.QKNorm.Bias, Plain: y.Attn.QKNorm.Plain}
	if !y.HeadNorms(y.m.Layer) {
		return
	}
	switch y.Attn.QKNorm.Over {
	case arch.EachHeadsOwn:
		s.Rows = heads
	case arch.AllHeads:
		s.Cols *= heads
	}
	y.norm(s)
}

// norm adds a norm whose name is inside the layer.
func (y *moduleLayout) norm(s NormSpec) {
	s.Name = y.Names.Layer(y.m.Layer, s.Name)
	y.m.Norms = append(y.m.Norms, s)
}

// parent returns name without its last part.
func parent(name string) string {
	if i := strings.LastIndexByte(name, '.'); i >= 0 {
		return name[:i]
	}
	return name
}
