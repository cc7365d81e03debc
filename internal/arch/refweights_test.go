package arch_test

import (
	"encoding/binary"
	"math"
	"slices"
	"testing"

	"exl2/internal/arch"
	"exl2/internal/half"
	"exl2/internal/safetensors"
)

// weights reads tensors and remembers them.
type weights struct {
	t    *testing.T
	file *safetensors.File
	read map[string]array
}

type array struct {
	v     []float64
	shape []int
}

func (w weights) tensor(name string) ([]float64, []int) {
	w.t.Helper()
	a, ok := w.read[name]
	if !ok {
		a = w.load(name)
		w.read[name] = a
	}
	return a.v, a.shape
}

func (w weights) load(name string) array {
	w.t.Helper()
	x, err := w.file.Get(name)
	if err != nil {
		w.t.Fatal(err)
	}
	var v []float64
	switch x.DType {
	case "F16":
		for i := 0; i < len(x.Data); i += 2 {
			v = append(v, float64(half.F16(binary.LittleEndian.Uint16(x.Data[i:])).Float32()))
		}
	case "F32":
		for i := 0; i < len(x.Data); i += 4 {
			v = append(v, float64(math.Float32frombits(binary.LittleEndian.Uint32(x.Data[i:]))))
		}
	case "I32":
		for i := 0; i < len(x.Data); i += 4 {
			v = append(v, float64(int32(binary.LittleEndian.Uint32(x.Data[i:]))))
		}
	default:
		w.t.Fatalf("%s: type %s", name, x.DType)
	}
	return array{v, x.Shape}
}

func (w weights) vector(name string) []float64 {
	v, _ := w.tensor(name)
	return v
}

// outs returns the outputs of a layer's matrix.
func (r reference) outs(l int, part string) int {
	n, a := r.Names, r.AttnOf(l)
	switch part {
	case n.Q:
		return a.Heads * a.HeadDim
	case n.K:
		return a.KVHeads * a.HeadDim
	case n.V:
		return a.KVHeads * a.ValueWidth()
	case n.Q1:
		return r.Latent.QRank
	case n.Q2:
		return a.Heads * a.HeadDim
	case n.KV1:
		return r.Latent.KVRank + r.Latent.Rope
	case n.KV2:
		return a.Heads * (r.Latent.Nope + r.Latent.Value)
	case n.Gate, n.Up:
		return r.MLPWidth(l)
	case n.ExpertGate, n.ExpertUp:
		return r.MoE.Width
	case n.SharedGate, n.SharedUp:
		return r.MoE.Shared
	case n.Router:
		return r.MoE.Experts
	case n.LatentIn:
		return r.MoE.Latent
	case n.ExpertDown:
		return r.MoE.Reads(r.Hidden)
	case n.AttnGate:
		return a.Gates()
	case n.PerLayerGate:
		return r.PerLayer.Size
	case n.DeltaQ, n.DeltaK:
		return r.Delta.Keys()
	case n.DeltaV, n.DeltaZ:
		return r.Delta.Values()
	case n.DeltaA, n.DeltaB:
		return r.Delta.ValueHeads
	}
	return r.Hidden // o, down
}

// biased reports whether a layer's matrix has a bias.
func (r reference) biased(part string) bool {
	n, a := r.Names, r.Attn
	switch part {
	case n.Q1, n.KV1, n.Q, n.K, n.V, n.AttnGate:
		return a.BiasQKV
	case n.Q2, n.KV2, n.DeltaB:
		return false
	case n.DeltaQ, n.DeltaK, n.DeltaV, n.DeltaZ, n.DeltaA:
		return r.Delta.BiasIn
	case n.DeltaO:
		return r.Delta.BiasO
	case n.ShortB, n.ShortC, n.ShortX, n.ShortO:
		return r.Short.Bias
	case n.O:
		return a.BiasO
	case n.PerLayerGate, n.PerLayerOut:
		return false
	case n.Router:
		return r.MoE.Routing.Bias
	}
	return r.MLP.Bias
}

// linear is x·wᵀ + bias of a matrix, of expert e if it is an expert's.
func (r reference) linear(l, e int, part string, x []float64) []float64 {
	out := r.outs(l, part)
	i := slices.IndexFunc(r.Stored, func(s arch.Stored) bool {
		_, there := r.file.Info(r.Names.Layer(l, arch.Expert(s.Weight, e)))
		return there && slices.Contains(s.Holds, part)
	})
	if i < 0 {
		name := r.Names.Layer(l, arch.Expert(part, e))
		w, shape := r.tensor(name + ".weight")
		if !slices.Equal(shape, []int{out, len(x)}) {
			r.t.Fatalf("%s is %v, want [%d %d]", name, shape, out, len(x))
		}
		y := product(w, x, out)
		if r.biased(part) {
			add(y, r.vector(name+".bias"), 1)
		}
		return y
	}
	return r.fromStored(l, e, r.Stored[i], part, x)
}

// fromStored is linear for a matrix that is part of a tensor: all outputs of the
// tensor are computed, and those of the matrix taken.
func (r reference) fromStored(l, e int, s arch.Stored, part string, x []float64) []float64 {
	all := 0
	for _, p := range s.Holds {
		all += r.outs(l, p)
	}
	w, _ := r.tensor(r.Names.Layer(l, arch.Expert(s.Weight, e)))
	var b []float64
	if s.Bias != "" {
		b = r.vector(r.Names.Layer(l, arch.Expert(s.Bias, e)))
	}
	if s.Stacked || s.Flat {
		w = w[e*all*len(x):][:all*len(x)]
		if b != nil {
			b = b[e*all:][:all]
		}
	}
	if s.Transposed {
		turned := make([]float64, len(w))
		for i := range len(x) {
			for o := range all {
				turned[o*len(x)+i] = w[i*all+o]
			}
		}
		w = turned
	}
	y := product(w, x, all)
	if b != nil {
		add(y, b, 1)
	}
	var mine []float64
	for i, e := range y {
		if r.holder(l, s, i) == part {
			mine = append(mine, e)
		}
	}
	return mine
}

// holder returns whose output i of a stored tensor is.
func (r reference) holder(l int, s arch.Stored, i int) string {
	switch s.Order {
	case arch.Alternating:
		return s.Holds[i%len(s.Holds)]
	case arch.ByGroup:
		all := 0
		for _, p := range s.Holds {
			all += r.outs(l, p) / s.Groups
		}
		i %= all
		for _, p := range s.Holds {
			if i < r.outs(l, p)/s.Groups {
				return p
			}
			i -= r.outs(l, p) / s.Groups
		}
	case arch.ByHead:
		group := r.Attn.Heads / r.Attn.KVHeads
		return s.Holds[max(0, i/r.Attn.HeadDim%(group+2)-group+1)]
	}
	for _, p := range s.Holds {
		if i < r.outs(l, p) {
			return p
		}
		i -= r.outs(l, p)
	}
	return ""
}
