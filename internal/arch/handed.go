package arch

// PerLayer describes inputs of each layer beside the stream (Gemma 4 E2B, E4B; models/gemma4/modeling_gemma4.py). With
// e = table[ids]·EmbedScale, by layers of Size columns,
//
//	input = (RMS(e·PerLayerModelᵀ/√hidden) + PerLayerTable[ids]·√Size)/√2, weights PerLayerNorm, [Size]
//
// and each layer, behind its MLP, does x += norm((act(x·PerLayerGateᵀ)·input[layer])·PerLayerOutᵀ), the norm being
// NormPerLayer, before the stream is scaled.
type PerLayer struct {
	Size int // 0: none
	Rows int // of the table
}

// Lender returns the layer whose keys and values a layer attends to: itself, or an earlier one.
func (s Spec) Lender(layer int) int {
	if s.KeysOf == nil {
		return layer
	}
	return s.KeysOf(layer)
}

// Lends reports whether later layers attend to a layer's keys and values.
func (s Spec) Lends(layer int) bool {
	for l := layer + 1; s.KeysOf != nil && l < s.Layers; l++ {
		if s.KeysOf(l) == layer {
			return true
		}
	}
	return false
}

// Handed is how many columns go from layer to layer: the stream's, then the inputs of each layer, then
// keys and values that are lent.
func (s Spec) Handed() int {
	_, end := s.Lent(s.Layers)
	return end
}

// Input returns the columns of a layer's input among those.
func (s Spec) Input(layer int) (first, end int) {
	return s.Hidden + layer*s.PerLayer.Size, s.Hidden + (layer+1)*s.PerLayer.Size
}

// Lent returns the columns of the keys that a layer lends, behind which stand those of its values.
func (s Spec) Lent(layer int) (first, end int) {
	first = s.Hidden + s.Layers*s.PerLayer.Size
	for l := 0; s.KeysOf != nil && l < layer; l++ {
		if s.Lends(l) {
			first += 2 * s.AttnOf(l).Keys()
		}
	}
	if layer >= s.Layers {
		return first, first
	}
	return first, first + s.AttnOf(layer).Keys()
}
