package model

import "exl2/internal/exl2"

// Beside returns the bytes that a module has on a device beside its tensors as files
// have them: norms and other vectors in F32, frequencies, a table of sines, and what latent attention
// makes of its weight.
func (l *Loader) Beside(m ModuleSpec) int {
	n := 0
	for _, x := range m.Norms {
		n += 4 * x.Elements()
	}
	for _, v := range m.Vectors {
		if !v.Host {
			n += 4 * v.Cols
		}
	}
	if m.Kind == Embedding && l.Spec.Sinusoids {
		n += 4 * l.Spec.Learned * l.Spec.Hidden
	}
	if m.Kind != Attention && m.Kind != Parallel || !l.Spec.Caches(m.Layer) {
		return n
	}
	if l.Spec.Rope != nil {
		n += 4 * (l.Spec.Rope(m.Layer).Dims / 2)
	}
	return n + l.absorbed(m)
}

// absorbed returns the bytes of [absorbed] of a module.
func (l *Loader) absorbed(m ModuleSpec) int {
	a, heads := l.Spec.Latent, l.Spec.Attn.Heads
	if a.KVRank == 0 {
		return 0
	}
	kv, _ := m.Linear(l.Spec.Names.KV2, 0)
	if l.Files.Has(kv.Name+"."+exl2.SuffixWords) || !l.Decode && l.outline(kv) != nil {
		return 2 * (kv.In*kv.Out + heads*a.KVRank*a.Nope) // decoded, and its keys
	}
	info, _ := l.Files.Info(kv.Name + ".weight")
	return heads * a.KVRank * a.Nope * max(floatTypes[info.DType].Size(), 2)
}
