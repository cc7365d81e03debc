package arch

import (
	"slices"
	"strconv"
	"strings"
)

// Tensors that nothing runs, by their names.

// masks are the tables of early GPT-2, GPT-NeoX and their like that say which positions
// are seen, and the number that the scores of others get, which is often beyond fp16.
var masks = []string{".attn.bias", ".attn.masked_bias", ".attention.bias", ".attention.masked_bias"}

// ahead are what names of layers begin with that predict further tokens, where these are not behind the last (Qwen3-Next, MiMo).
var ahead = []string{"mtp.", "model.mtp_layers.", "model.mtp."}

// Unused reports whether a tensor of the source is one that nothing reads:
// frequencies and masks, which follow from the configuration, and layers behind the last,
// which predict further tokens, or are more than the configuration speaks of.
func (s Spec) Unused(name string) bool {
	if strings.HasSuffix(name, ".rotary_emb.inv_freq") || slices.ContainsFunc(ahead, func(begin string) bool { return strings.HasPrefix(name, begin) }) {
		return true
	}
	n, ok := s.layerOf(name)
	return ok && (n >= s.Layers || s.borrowed(name, n) || slices.ContainsFunc(masks, func(end string) bool { return strings.HasSuffix(name, end) }))
}

// Stray returns the first of tensors' names that is of a layer which the configuration does
// not speak of, not as one that predicts further tokens either; or "".
func (s Spec) Stray(names []string) string {
	for _, name := range names {
		if s.behind(name, s.Layers+s.Further) {
			return name
		}
	}
	return ""
}

// InLayer reports whether a tensor is of a layer that the configuration speaks of, and not of
// what pictures see there, or of an indexer.
func (s Spec) InLayer(name string) bool {
	n, ok := s.layerOf(name)
	return ok && n < s.Layers && !s.Passed(n) && !s.pictures(name, n) && !s.borrowed(name, n) && !s.indexes(name, n)
}

// borrowed reports whether a tensor of a layer is of keys and values that the layer does not use, as it borrows others.
func (s Spec) borrowed(name string, layer int) bool {
	if s.Lender(layer) == layer {
		return false
	}
	return slices.ContainsFunc([]string{s.Names.K, s.Names.V, s.Names.KNorm}, func(part string) bool {
		return strings.HasPrefix(name, s.Names.Layer(layer, part)+".")
	})
}

// indexes reports whether a tensor of a layer is of an indexer.
func (s Spec) indexes(name string, layer int) bool {
	return s.Indexer != "" && strings.HasPrefix(name, s.Names.Layer(layer, s.Indexer))
}

// pictures reports whether a tensor of a layer is of an expert that pictures see, or of an adapter.
func (s Spec) pictures(name string, layer int) bool {
	if s.Adapters && (strings.Contains(name, ".lora_A.") || strings.Contains(name, ".lora_B.")) {
		return true
	}
	before, _, _ := strings.Cut(s.Names.Layer(layer, s.Names.ExpertUp), "*")
	rest, ok := strings.CutPrefix(name, before)
	number, _, _ := strings.Cut(rest, ".")
	n, err := strconv.Atoi(number)
	return s.MoE.Pictures > 0 && ok && err == nil && n >= s.MoE.Experts
}

// behind reports whether a tensor is of a layer that has the given number or a
// later one.
func (s Spec) behind(name string, layer int) bool {
	n, ok := s.layerOf(name)
	return ok && n >= layer
}

// layerOf returns the number of the layer that a tensor is of, and whether it is of any.
func (s Spec) layerOf(name string) (int, bool) {
	before, _, _ := strings.Cut(s.Names.Layers, "*")
	rest, ok := strings.CutPrefix(name, before)
	number, _, inside := strings.Cut(rest, ".")
	n, err := strconv.Atoi(number)
	return n, ok && inside && err == nil
}
