package convert

import (
	"fmt"

	"exl2/internal/arch"
	"exl2/internal/device"
	"exl2/internal/distill"
	"exl2/internal/exl2"
	"exl2/internal/machine"
	"exl2/internal/model"
	"exl2/internal/sampled"
	"exl2/internal/sensitivity"
	"exl2/internal/stream"
)

// Memory is what a job plans to have in a GPU's memory, at most, and what it had.
type Memory struct {
	Device   string `json:"device"`
	Free     int    `json:"free"`                   // before the job
	Sample   int    `json:"sample,omitempty"`       // planned, while the source writes text, or weighs tokens, as a whole
	Measure  int    `json:"measure,omitempty"`      // planned, while measuring
	Quantize int    `json:"quantize,omitempty"`     // planned, while quantizing
	Train    int    `json:"train,omitempty"`        // planned, while codes are trained
	Away     int    `json:"modules_away,omitempty"` // how many modules are in the host's memory then
	Hidden   string `json:"hidden_states"`          // where they are kept: "gpu", "host" or "disk"
	Held     bool   `json:"activations_held"`       // between the steps of a module
	Weights  bool   `json:"weights_held"`           // of the whole source
	Peak     int    `json:"peak,omitempty"`         // what was in use at most
}

// Planned is the most of all phases.
func (m *Memory) Planned() int { return max(m.Sample, m.Measure, m.Quantize, m.Train) }

// memoryPlan says what is kept where, and what that takes of a device.
type memoryPlan struct {
	Memory
	batch   int // bytes that candidates of a matrix may take, with the work on them
	moments int // bytes of moments that are gathered together
	shelf   int // bytes of the source that stay on the device

	fit       distill.Fit // of training
	trainHost int         // bytes of the host's memory that training takes
}

// Bytes of candidates and moments at a time: usually, and with --low-memory.
const (
	usualBatch, leastBatch     = 64 << 30, 1 << 30
	usualMoments, leastMoments = 4 << 30, 1 << 30
	batchOnHost                = 8 // candidates at least
	usualOnHost                = 256 << 20
	heldOnHost                 = 2 << 30 // quantizing that takes less holds activations, too
)

// planMemory plans for the memory that is free on the device with least.
func (r *run) planMemory() error {
	free, own := 0, false
	for _, d := range r.devices {
		if m, ok := d.(device.MemoryInfo); ok {
			if n := r.freeOf(m); !own || n < free {
				free, own = n, true
			}
		}
	}
	if !own {
		r.memory = r.hostPlan()
		return r.planTraining(free, own)
	}
	room := free
	if !r.opts.LowMemory {
		room = free / 20 * 19 // what is freed does not always fit together
	}
	for _, p := range r.plans(r.opts.LowMemory) {
		if r.fill(p, free); p.Planned() <= room {
			r.memory = p
			p.Sample = r.sampleMemory()
			return r.planTraining(free, own)
		}
	}
	return r.tooLittle(free)
}

// plans lists what can be, the quickest first.
func (r *run) plans(low bool) (list []*memoryPlan) {
	if !low {
		for _, keep := range []memoryPlan{
			{Memory: Memory{Hidden: "gpu", Held: true, Weights: true}}, {Memory: Memory{Hidden: "gpu", Held: true}}, {Memory: Memory{Hidden: "gpu"}}, {},
		} {
			for batch := usualBatch; batch >= leastBatch; batch /= 2 {
				p := keep
				p.batch, p.moments = batch, usualMoments
				list = append(list, &p)
			}
		}
		return list
	}
	for batch := leastBatch; batch >= 1<<20; batch /= 4 {
		list = append(list, &memoryPlan{batch: batch, moments: leastMoments})
	}
	return list
}

// hostPlan is that of a device that uses the machine's memory.
func (r *run) hostPlan() *memoryPlan {
	p := &memoryPlan{moments: usualMoments, batch: usualOnHost}
	for _, m := range r.src.loader.Layout {
		for _, l := range m.Linears {
			n := exl2.Pad(l.Out)
			p.batch = max(p.batch, batchOnHost*l.In*n+r.dev.QuantizeWorkspace(l.In, n, batchOnHost))
		}
	}
	rows := 2 * r.calibrationRows() * r.opts.Data.Length * r.src.loader.Width() * r.dev.Activation().Size()
	p.Held = r.hostHolds(rows)
	if r.fill(p, 0); p.Held && p.Quantize > max(p.Measure, heldOnHost) {
		p.Held = false
		r.fill(p, 0)
	}
	return p
}

// fill adds what a plan takes.
func (r *run) fill(p *memoryPlan, free int) {
	p.Device, p.Free = r.dev.Name(), free
	if p.Weights {
		p.shelf = r.sourceBytes()
	}
	if !r.measured {
		p.Measure = r.measureMemory(p)
	}
	if len(r.unfinished()) > 0 {
		p.Quantize = max(r.quantizeMemory(p), r.traceMemory(p))
	}
	if p.Hidden == "" {
		p.Hidden = "host"
		if !r.hostHolds(max(r.measureStreams(), r.quantizeStreams())) {
			p.Hidden = "disk"
		}
	}
}

// kinds lists modules behind the embedding that differ in what they take.
func (r *run) kinds() (list []model.ModuleSpec) {
	seen := map[string]bool{}
	for _, m := range r.src.loader.Layout[1:] {
		key := fmt.Sprint(m.Kind)
		for _, l := range m.Linears {
			key += fmt.Sprint(" ", l.Role, l.Expert, l.In, l.Out)
		}
		if !seen[key] {
			seen[key] = true
			list = append(list, m)
		}
	}
	return list
}

// weightBytes are those of a module on the device.
func (r *run) weightBytes(m model.ModuleSpec) int {
	n := r.src.loader.Beside(m)
	for _, l := range m.Linears {
		n += l.In * l.Out * r.elementSize(l)
		if l.Biased {
			n += 4 * l.Out
		}
	}
	if m.Kind == model.Embedding {
		s := r.src.loader.Spec
		n += r.dev.Activation().Size() * (s.Vocab*s.Hidden + s.Layers*s.PerLayer.Size*(s.PerLayer.Rows+s.Hidden))
	}
	return n
}

// elementSize is that of a linear's weights on the device.
func (r *run) elementSize(l model.LinearSpec) int {
	if size := r.dev.Activation().Size(); size == 2 {
		return size
	}
	if info, ok := r.src.loader.Files.Info(l.Name + ".weight"); ok {
		if n, err := info.Bytes(); err == nil {
			return int(n) / max(l.In*l.Out, 1)
		}
	}
	return 4
}

// smallThings is more than scalars, permutations and the like take.
const smallThings = 32 << 10

// common is what a phase takes beside the work on a module.
func (r *run) common(l *ledger, p *memoryPlan, w *work, passes, streams int) {
	l.take(passes*w.state() + p.shelf + smallThings)
	if p.Hidden == "gpu" {
		l.take(streams)
	}
	if m, ok := r.dev.(device.MemoryInfo); ok {
		l.take(m.Workspace(w.most*w.length, r.src.loader.Width()))
	}
}

// weigh takes a module's weights, unless they are on the shelf, for f.
func (r *run) weigh(l *ledger, p *memoryPlan, m model.ModuleSpec, f func()) {
	n := r.weightBytes(m)
	if p.shelf > 0 {
		n = 0
	}
	l.take(n)
	f()
	l.give(n)
}

// measureMemory is the most that measuring takes.
func (r *run) measureMemory(p *memoryPlan) int {
	w := &work{spec: r.src.loader.Spec, dev: r.dev, length: r.opts.Data.MeasureLength, most: r.variedTogether(), batch: p.batch, moments: p.moments}
	l := &ledger{}
	r.common(l, p, w, 1, r.measureStreams())
	all := func(role arch.Role) (all, kept []exl2.Recipe) {
		return sensitivity.Recipes(role), sensitivity.Kept(role)
	}
	probe := func(arch.Role) (all, kept []exl2.Recipe) {
		one := []exl2.Recipe{sensitivity.Probe()}
		return one, one
	}
	for _, m := range r.kinds() {
		r.weigh(l, p, m, func() {
			if m.Kind == model.Head {
				w.head(l, m)
			} else {
				w.measure(l, m, all)
				w.measure(l, m, probe)
			}
			w.back(l, m)
		})
	}
	return l.total
}

// quantizeMemory is the most that quantizing takes, of any target.
func (r *run) quantizeMemory(p *memoryPlan) int {
	length := r.opts.Data.Length
	w := &work{spec: r.src.loader.Spec, dev: r.dev, length: length, most: r.together(length), moments: p.moments, compensates: r.opts.Quality.compensates(), unpacks: r.ownMemory(), holds: p.Held}
	l := &ledger{}
	r.common(l, p, w, 2, r.quantizeStreams())
	l.take(w.most * length * r.src.loader.Width() * r.dev.Activation().Size()) // differences
	held := func(columns int) int {
		if !p.Held {
			return 0
		}
		return 2 * r.calibrationRows() * length * columns * r.dev.Activation().Size()
	}
	bits := 0.0
	for _, t := range r.unfinished() {
		bits = max(bits, t.Bits)
	}
	packed := func(x model.LinearSpec) int {
		if x.Role == arch.Head {
			width := int(r.opts.HeadBits)
			if r.opts.HeadBits == AutoHead {
				width = headWidths[len(headWidths)-1]
			}
			return packedSize(headRecipes[width], x)
		}
		return int(bits*float64(x.In*x.Out)) / 8 // on average
	}
	for _, m := range r.kinds() {
		r.weigh(l, p, m, func() { w.quantize(l, m, packed, held) })
	}
	return l.total
}

// traceMemory is the most that following gradients for the moments of columns takes.
func (r *run) traceMemory(p *memoryPlan) int {
	if !r.opts.Quality.compensates() {
		return 0
	}
	w := &work{spec: r.src.loader.Spec, dev: r.dev, length: r.opts.Data.Length, most: 1}
	l := &ledger{}
	r.common(l, p, w, 1, r.traceStreams())
	for _, m := range r.kinds() {
		r.weigh(l, p, m, func() { w.trace(l, m) })
	}
	return l.total
}

// sampleMemory is the most that sampling from the source, and weighing tokens, takes.
func (r *run) sampleMemory() (most int) {
	bytes := r.sourceBytes()
	sample := func(rows, length int) {
		most = max(most, sampled.Memory(r.dev, r.src.loader, rows, length, bytes, r.opts.GPUMemory))
	}
	if len(r.unfinished()) > 0 && r.synthetic > 0 && r.tokens.synthetic == nil {
		sample(r.synthetic, r.opts.Data.Length)
	}
	if len(r.unfinished()) > 0 && r.opts.trains() && r.tokens.training == nil {
		sample(r.trainingRowsWanted(), r.schooling().length)
	}
	if r.weighs(r.synthetic) {
		most = max(most, r.weighMemory())
	}
	return most
}

// tooLittle refuses a job that the memory of its GPU is too little for.
func (r *run) tooLittle(free int) error {
	plans := r.plans(r.opts.LowMemory)
	least := plans[len(plans)-1]
	r.fill(least, free)
	remedy := "; give a smaller --length and --measurement-length, or --devices cpu"
	if !r.opts.LowMemory {
		for _, p := range r.plans(true) {
			if r.fill(p, free); p.Planned() <= free {
				remedy = fmt.Sprintf("; --low-memory does with %s", machine.Size(p.Planned()))
				break
			}
		}
	}
	return fmt.Errorf("%w: the job needs %s of GPU memory (measuring %s, quantizing %s), %s are free on %s%s",
		ErrRefused, machine.Size(least.Planned()), machine.Size(least.Measure), machine.Size(least.Quantize), machine.Size(free), least.Device, remedy)
}

// String says the plan in a line.
func (m *Memory) String() string {
	where := map[string]string{"gpu": "hidden states on the GPU", "host": "hidden states in the host's memory", "disk": "hidden states on disk"}[m.Hidden]
	if m.Weights {
		where += ", and the weights"
	}
	phases := fmt.Sprintf("measuring %s, quantizing %s", machine.Size(m.Measure), machine.Size(m.Quantize))
	if m.Sample > 0 {
		phases = "sampling " + machine.Size(m.Sample) + ", " + phases
	}
	if m.Train > 0 {
		phases += ", training " + machine.Size(m.Train)
	}
	if m.Away > 0 {
		where += fmt.Sprintf("; while training, %d modules in the host's memory", m.Away)
	}
	return fmt.Sprintf("%s: %s of GPU memory, of %s that are free (%s), %s", m.Device, machine.Size(m.Planned()), machine.Size(m.Free), phases, where)
}

// place returns where hidden states are kept.
func (r *run) place(bytes int) stream.Place {
	if r.memory.Hidden == "gpu" {
		return stream.Place{Device: r.dev}
	}
	return stream.Place{Device: r.dev, Host: true, Folder: r.spill(bytes)}
}
