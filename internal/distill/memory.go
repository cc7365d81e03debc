package distill

import (
	"slices"

	"exl2/internal/arch"
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

// elements lists those of a module's linears.
func elements(m model.ModuleSpec) (list []int, sum int) {
	for _, x := range m.Linears {
		list = append(list, x.In*x.Out)
		sum += x.In * x.Out
	}
	return list, sum
}

// mostOf returns the elements of the largest module between embedding and head.
func mostOf(l *model.Loader) (most int) {
	for _, m := range l.Decoder() {
		_, n := elements(m)
		most = max(most, n)
	}
	return most
}

// LatentBytes are those of a weight's latent and its two moments.
const (
	LatentBytes = 4 + 2*2
	scaleShare  = 16 // weights for a byte of scales
)

// Bytes is the memory that New takes on a device, about, and of the host's for what is
// away.
func Bytes(d device.Device, l *model.Loader, p Plan) (own, host int) {
	most, activation := 0, d.Activation().Size()
	for i, m := range l.Layout {
		own += l.Beside(m)
		list, n := elements(m)
		own += n / scaleShare
		switch away := i > 0 && i <= p.Away && i < len(l.Layout)-1; {
		case away:
			host += n * (activation + LatentBytes)
		case p.Lean && i < len(l.Layout)-1:
			own += n * (activation + LatentBytes)
		default:
			own += n * (2*activation + LatentBytes)
		}
		slices.Sort(list)
		together := 0
		for _, size := range list[max(0, len(list)-readers(l.Spec)):] {
			together += size
		}
		most = max(most, together)
	}
	if p.Lean {
		own += mostOf(l) * activation
	}
	if p.Away > 0 {
		own += mostOf(l) * slotsEach * LatentBytes
	}
	return own + 4*most + 4*p.Recall*p.Length*l.Spec.Handed() + passBytes(d, l, p), host
}

// readers is how many matrices read the same at most, experts' aside.
func readers(s arch.Spec) int {
	n := 3
	if s.Attn.Gate != arch.NoGates {
		n++
	}
	switch {
	case s.Beside:
		return n + 4
	case s.Recurrent():
		return 4
	}
	return n
}

// Choose returns the quickest way of keeping things that takes no more than so much of the
// device's memory, and of the host's, and what it takes; or the one that takes least, and
// false. No more rows are recalled than the plan says.
func Choose(d device.Device, l *model.Loader, p Plan, own, host int) (f Fit, takesOwn, takesHost int, fits bool) {
	list := []Fit{{Keep: true, Recall: p.Recall}, {Keep: true}, {}, {Lean: true}}
	if _, ok := d.(device.Carrier); ok {
		for away := range l.Decoder() {
			list = append(list, Fit{Lean: true, Away: away + 1})
		}
	}
	for _, f = range list {
		p.Fit = f
		if takesOwn, takesHost = Bytes(d, l, p); takesOwn <= own && takesHost <= host {
			return f, takesOwn, takesHost, true
		}
	}
	return f, takesOwn, takesHost, false
}

// passBytes is what streams, activations and gradients take.
func passBytes(d device.Device, l *model.Loader, p Plan) int {
	activation := d.Activation()
	z := model.Size{Rows: p.Batch * p.Length, Logits: min(logitRows, p.Batch*p.Length)}
	n := l.Spec.Vocab*l.Spec.Hidden*activation.Size() + 4*z.Rows*l.Spec.Handed()*len(l.Layout) + 4*z.Logits*l.Spec.Vocab
	if p.Keep { // with what is overwritten: streams, and heads in front of their norms
		n += (len(l.Layout) - 2) * (model.Bytes(l.Spec, model.Size{Rows: z.Rows}, activation) + z.Rows*(4*l.Spec.Hidden+activation.Size()*model.KeptColumns(l.Spec)))
	}
	n += model.CacheBytes(d, l.Spec, model.SharedCache(l.Spec, p.Batch, p.Length)) + model.BackBytes(d, l.Spec, p.Batch, p.Length)
	return n + model.Bytes(l.Spec, z, activation) + model.Bytes(l.Spec, z, tensor.F32)*3/2 // gradients, and workspace
}
