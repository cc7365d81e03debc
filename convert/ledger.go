package convert

import (
	"slices"

	"exl2/internal/arch"
	"exl2/internal/device"
	"exl2/internal/exl2"
	"exl2/internal/model"
	"exl2/internal/quant"
	"exl2/internal/sensitivity"
	"exl2/internal/stream"
	"exl2/internal/tensor"
)

// A ledger adds up what is on a device while a module is worked on, in the order in
// which that comes and goes.
type ledger struct {
	now   int // bytes
	total int // the most, with the workspace of operations
}

func (l *ledger) take(bytes int) {
	l.now += bytes
	l.use(0)
}

func (l *ledger) give(bytes int) { l.now -= bytes }

// use counts workspace that an operation takes for itself.
func (l *ledger) use(workspace int) {
	l.total = max(l.total, l.now+workspace)
}

// atOnce counts what comes and goes.
func (l *ledger) atOnce(bytes, workspace int) {
	l.take(bytes)
	l.use(workspace)
	l.give(bytes)
}

// A job's work on a device, as far as memory goes.
type work struct {
	spec        arch.Spec
	dev         device.Quantize
	length      int  // of rows
	most        int  // rows at a time
	batch       int  // bytes that candidates of a matrix may take, with the work on them
	moments     int  // bytes of moments that are gathered together
	compensates bool // columns make up for each other's errors
	unpacks     bool // quantized matrices are decoded when they are multiplied by
	holds       bool // and stay so
	fetched     int  // bytes of packed matrices that are on their way to the host
}

func square(k int) int { return 4 * k * k }

func (w *work) wide(l model.LinearSpec) int { return 4 * l.In * exl2.Pad(l.Out) }

// state is the activations of a pass, and its cache.
func (w *work) state() int {
	z, c := stream.Size(w.spec, w.length, w.most)
	return model.Bytes(w.spec, z, w.dev.Activation()) + model.CacheBytes(w.dev, w.spec, c)
}

// sites groups the linears of a module by what they read.
func sites(m model.ModuleSpec) (list [][]model.LinearSpec) {
	same := map[arch.Role]arch.Role{arch.K: arch.Q, arch.V: arch.Q, arch.Up: arch.Gate}
	for _, l := range m.Linears {
		if n := len(list); n > 0 {
			first := list[n-1][0]
			if same[l.Role] == first.Role && l.In == first.In && l.Expert == first.Expert {
				list[n-1] = append(list[n-1], l)
				continue
			}
		}
		list = append(list, []model.LinearSpec{l})
	}
	return list
}

// factor counts what factoring moments takes, which leaves both factors.
func (w *work) factor(l *ledger, k int) {
	moments := square(k)
	l.take(moments) // in stored order
	l.give(moments) // as they were
	l.take(moments)
	l.use(w.dev.QuantizeWorkspace(k, exl2.Align, 1))
}

// measure counts the way to the head, or, with one recipe for each matrix, the first
// part of the way back.
func (w *work) measure(l *ledger, m model.ModuleSpec, recipes func(arch.Role) (all, kept []exl2.Recipe)) {
	packed := 0
	list := sites(m)
	for lo := 0; lo < len(list); {
		hi := sensitivity.Together(len(list), lo, w.moments, func(i int) int { return list[i][0].In })
		for _, s := range list[lo:hi] {
			l.take(square(s[0].In))
			l.use(w.dev.QuantizeWorkspace(s[0].In, exl2.Align, 1))
		}
		for _, s := range list[lo:hi] {
			w.factor(l, s[0].In)
			for _, x := range s {
				all, kept := recipes(x.Role)
				packed += w.candidates(l, x, all, kept)
			}
			l.give(2 * square(s[0].In))
		}
		lo = hi
	}
	l.atOnce(4*w.most*w.length*w.spec.Handed(), 0) // what variants' outputs are compared with
	l.give(packed)
}

// head counts measuring the head: one candidate after another, and what each changes.
func (w *work) head(l *ledger, m model.ModuleSpec) {
	x := m.Linears[0]
	k, n := x.In, exl2.Pad(x.Out)
	l.take(square(k))
	l.use(w.dev.QuantizeWorkspace(k, exl2.Align, 1))
	w.factor(l, k)
	l.take(w.wide(x))
	l.atOnce(w.wide(x), w.dev.QuantizeWorkspace(k, n, 1))
	l.atOnce(k*n, w.dev.QuantizeWorkspace(k, n, 1))
	packed := packedSize(exl2.Uniform(exl2.Widths[len(exl2.Widths)-1], 32), x)
	l.atOnce(k*n, 2*packed)
	l.atOnce(packed+2*4*min(stream.LogitRows, w.length)*x.Out, 0)
	l.give(w.wide(x) + 2*square(k))
}

// candidates counts the recipes of a matrix, and returns what stays of those that are
// kept.
func (w *work) candidates(l *ledger, x model.LinearSpec, all, kept []exl2.Recipe) (stays int) {
	k, n := x.In, exl2.Pad(x.Out)
	l.take(w.wide(x))
	l.atOnce(w.wide(x), w.dev.QuantizeWorkspace(k, n, 1))
	count := min(sensitivity.BatchFor(w.dev, w.batch, k, n), len(all))
	for _, r := range kept {
		stays += packedSize(r, x)
	}
	l.take(stays)
	l.atOnce(count*k*n, w.dev.QuantizeWorkspace(k, n, count))
	l.give(w.wide(x))
	return stays
}

// packedSize is about what a matrix takes on a device.
func packedSize(r exl2.Recipe, x model.LinearSpec) int { return r.Size(x.In, x.Out) / 8 }

// back counts the backward pass through a module: the gradients of its activations,
// what steps keep, and operands of products.
func (w *work) back(l *ledger, m model.ModuleSpec) {
	z, _ := stream.Size(w.spec, w.length, 1)
	operands := 0
	for _, x := range m.Linears {
		operands = max(operands, 2*x.In*x.Out+4*w.length*x.Out)
	}
	l.atOnce(model.Bytes(w.spec, z, tensor.F32)+2*4*w.length*w.spec.Handed()+model.BackBytes(w.dev, w.spec, 1, w.length), operands)
}

// trace counts the backward pass through a module that gathers the moments of its
// columns, of both halves of the rows.
func (w *work) trace(l *ledger, m model.ModuleSpec) {
	moments, scaled, length := 0, 0, w.length
	if m.Kind == model.Head {
		length = min(stream.LogitRows, length)
	}
	for _, x := range m.Linears {
		if x.Expert > 0 {
			continue
		}
		for lo := 0; lo < x.Out; lo += quant.Span {
			moments += 2 * square(min(quant.Span, x.Out-lo))
		}
		scaled = max(scaled, 4*length*x.Out, 2*x.Out*min(quant.Span, exl2.Pad(x.Out)))
	}
	l.take(moments + scaled)
	w.back(l, m)
	l.give(moments + scaled)
}

// steps groups the sites of a module by when they run.
func steps(m model.ModuleSpec) (list [][][]model.LinearSpec) {
	var first, down [][]model.LinearSpec
	for _, s := range sites(m) {
		switch role := s[0].Role; {
		case !m.Mixture() || role == arch.Q || role == arch.O:
			list = append(list, [][]model.LinearSpec{s})
		case role == arch.Down:
			down = append(down, s)
		default:
			first = append(first, s)
		}
	}
	for _, step := range [][][]model.LinearSpec{first, down} {
		if step != nil {
			list = append(list, step)
		}
	}
	return list
}

// quantize counts a module's way through quantizing; held is what the rows of a step
// take that linears of so many inputs read, in both streams, or 0.
func (w *work) quantize(l *ledger, m model.ModuleSpec, packed func(model.LinearSpec) int, held func(columns int) int) {
	before, matrices, joined := 0, 0, 0
	for i, step := range steps(m) {
		hold := 0
		if i > 0 {
			joined = w.joined(steps(m)[i-1], joined)
		}
		if m.Kind != model.Experts && m.Kind != model.Parallel && m.Kind != model.Head {
			hold = held(step[0][0].In)
		}
		l.take(hold)
		for lo := 0; lo < len(step); {
			hi := sensitivity.Together(len(step), lo, w.moments, func(i int) int { return 2 * step[i][0].In })
			for _, s := range step[lo:hi] {
				l.take(w.allMoments(m, s))
				l.use(joined + w.dev.QuantizeWorkspace(s[0].In, exl2.Align, 1))
			}
			if lo == 0 && i > 0 {
				l.give(before)
			}
			for _, s := range step[lo:hi] {
				matrices += w.site(l, m, s, packed)
			}
			lo = hi
		}
		before = hold
	}
	l.give(before + matrices + w.fetched)
	w.fetched = 0
}

// joined is what the weights of steps take that both streams are multiplied by, of this one, and, if
// nothing is held, of those before.
func (w *work) joined(step [][]model.LinearSpec, before int) (bytes int) {
	if !w.unpacks {
		return 0
	}
	if !w.holds {
		bytes = before
	}
	if len(step) > 1 {
		return bytes
	}
	streams := 2
	if len(step[0]) == 1 { // the source's is there, and so is what is held
		streams = 1
		if w.holds {
			streams = 0
		}
	}
	for _, x := range step[0] {
		bytes += streams * 2 * x.In * x.Out
	}
	return bytes
}

// allMoments are the Hessian of a site, and the drift, or what the stream will lack.
func (w *work) allMoments(m model.ModuleSpec, s []model.LinearSpec) int {
	if w.adds(m, s) {
		return square(s[0].In) + w.wide(s[0])
	}
	return 2 * square(s[0].In)
}

// adds reports whether the output of a site is added to the stream as it is.
func (w *work) adds(m model.ModuleSpec, s []model.LinearSpec) bool {
	behind, factors := model.NormOut, []float32{w.spec.Residual, w.spec.Attn.ValueScale, w.spec.Delta.Scales.O}
	switch {
	case s[0].Role == arch.Down && !m.Mixture():
		behind, factors = model.NormMLPOut, []float32{w.spec.Residual, w.spec.MLP.Scale}
	case s[0].Role != arch.O || w.spec.Beside:
		return false
	}
	normed := func(n model.NormSpec) bool { return n.Place == behind }
	return !slices.ContainsFunc(factors, func(f float32) bool { return f != 0 && f != 1 }) && !slices.ContainsFunc(m.Norms, normed)
}

// site counts what quantizing the linears of a site takes, whose moments are there,
// and returns what its matrices take from then on.
func (w *work) site(l *ledger, m model.ModuleSpec, s []model.LinearSpec, packed func(model.LinearSpec) int) (stays int) {
	k, wide, columns, each := s[0].In, 0, 0, []int(nil)
	l.give(w.fetched)
	for _, x := range s {
		wide, columns, each = wide+w.wide(x), columns+exl2.Pad(x.Out), append(each, exl2.Pad(x.Out))
		stays += packed(x)
	}
	moments, tile := w.allMoments(m, s)-square(k), min(columns, quant.CorrectedColumns)
	switch {
	case w.adds(m, s): // whose correction is gathered
		w.factor(l, k)
		l.atOnce(2*wide, w.dev.QuantizeWorkspace(k, columns, 1)) // it becomes a target
	case quant.Early(k, columns):
		l.take(wide)
		l.atOnce(wide, w.dev.QuantizeWorkspace(k, columns, 1))
		l.give(moments)
		w.factor(l, k)
		l.atOnce(2*wide, w.dev.QuantizeWorkspace(k, columns, 1)) // a correction becomes a target
	default:
		w.factor(l, k)
		l.take(wide)
		l.atOnce(2*4*k*tile, w.dev.QuantizeWorkspace(k, tile, 1))
		l.give(moments)
	}
	codes := k*columns + k*columns/exl2.Align // and scales
	l.take(codes)
	w.improve(l, k, each, s[0].Expert == 0)
	l.take(2 * stays) // packed, and as the device likes it
	last := s[len(s)-1]
	l.use(2*last.In*last.Out + 2*4*min(k, quant.VerifiedRows(exl2.Pad(last.Out)))*exl2.Pad(last.Out))
	l.give(codes + wide + 2*square(k))
	w.fetched = stays
	return w.unpack(l, s, stays)
}

// improve counts GPTQ of matrices of so many columns each, descent, and compensation, which
// is prepared before.
func (w *work) improve(l *ledger, k int, each []int, compensates bool) {
	columns := 0
	for _, n := range each {
		columns += n
	}
	gptq := w.dev.QuantizeWorkspace(k, columns, 1)
	if !w.compensates || !compensates {
		l.use(gptq)
		return
	}
	prepared, more, bytes, block := quant.CompensateBytes(k, each)
	workspace := w.dev.QuantizeWorkspace(k, block, 1)
	if _, repeats := w.dev.(device.Repeater); repeats {
		workspace += 2 * 4 * k * block // what is repeated keeps all of its memory
	}
	l.atOnce(prepared, max(more, gptq, bytes+workspace))
}

// unpack counts what matrices are multiplied as, and returns what stays of that.
func (w *work) unpack(l *ledger, s []model.LinearSpec, packed int) (stays int) {
	if !w.unpacks {
		return packed
	}
	for _, x := range s {
		stays += 2 * x.In * x.Out
	}
	if !w.holds {
		l.use(stays) // a matrix at a time
		return packed
	}
	l.take(stays)
	l.give(packed)
	return stays
}
