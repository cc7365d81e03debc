package distill

import (
	"slices"

	"exl2/internal/device"
	"exl2/internal/model"
	"exl2/internal/tensor"
)

// mostGraded returns the elements of the weights whose gradients are there at once: of
// linears that read the same.
func (t *Trainer) mostGraded() (most int) {
	for _, m := range t.student {
		for _, site := range m.Sites() {
			n := 0
			for _, l := range site.Linears {
				n += l.In * l.Out
			}
			most = max(most, n)
		}
	}
	return most
}

// Bytes is the memory that New takes on a device, about.
func Bytes(d device.Device, l *model.Loader, p Plan) int {
	n, most, activation := 0, 0, d.Activation().Size()
	for _, m := range l.Layout {
		n += l.Beside(m)
		var sizes []int
		for _, x := range m.Linears {
			n += x.In * x.Out * (2*activation + 3*4) // both models' weights; latents and moments
			sizes = append(sizes, x.In*x.Out)
		}
		slices.Sort(sizes)
		together := 0 // at most three read the same
		for _, size := range sizes[max(0, len(sizes)-3):] {
			together += size
		}
		most = max(most, together)
	}
	z := model.Size{Rows: p.Batch * p.Length, Logits: min(logitRows, p.Batch*p.Length)}
	n += 4*most + l.Spec.Vocab*l.Spec.Hidden*activation + 4*z.Rows*l.Spec.Hidden*len(l.Layout) + 4*z.Logits*l.Spec.Vocab
	if p.Keep { // with what is overwritten: streams, and heads in front of their norms
		n += (len(l.Layout) - 2) * (model.Bytes(l.Spec, model.Size{Rows: z.Rows}, d.Activation()) + z.Rows*(4*l.Spec.Hidden+activation*l.Spec.Attn.Heads*l.Spec.Attn.HeadDim*2))
	}
	n += model.CacheBytes(d, l.Spec, model.CacheSize{Layers: 1, Sequences: p.Batch, Positions: p.Length})
	return n + model.Bytes(l.Spec, z, d.Activation()) + 2*model.Bytes(l.Spec, z, tensor.F32)
}
