package convert

import (
	"fmt"
	"time"

	"exl2/internal/machine"
	"exl2/internal/model"
	"exl2/internal/stream"
	"exl2/internal/tensor"
)

// An Estimate says what a job will take, with what it has taken already.
type Estimate struct {
	Memory int           // bytes of the machine's memory
	Work   int           // bytes on disk in the job's folder
	Models int           // bytes on disk of the finished models
	Time   time.Duration // of the phases that are not done
}

// String says it in a line.
func (e Estimate) String() string {
	return fmt.Sprintf("about %s of memory, %s on disk, %v", machine.Size(e.Memory), machine.Size(e.Work+e.Models), e.Time.Round(time.Second))
}

// announce estimates the job, with as many workers as there is room for, tells the user,
// and refuses one that does not fit memory or disks.
func (r *run) announce() error {
	e := r.estimate()
	err := r.fits(e)
	for err != nil && len(r.places()) > len(r.devices) {
		r.spared++
		e = r.estimate()
		err = r.fits(e)
	}
	r.progress.Note("this will take " + e.String())
	if r.ownMemory() {
		r.progress.Note(r.memory.String())
	}
	return err
}

// fits refuses a job that does not fit memory, or disks.
func (r *run) fits(e Estimate) error {
	if free, ok := r.opts.on().freeMemory(); ok && e.Memory > free {
		return fmt.Errorf("%w: the job needs about %s of memory, %s are free%s", ErrRefused, machine.Size(e.Memory), machine.Size(free), r.lessMemory(e.Memory-free))
	}
	return r.fitsDisks(e)
}

// lessMemory says what else than more memory would do.
func (r *run) lessMemory(missing int) string {
	short := *r.opts
	short.Data.Length, short.Data.MeasureLength = 2, 2
	if r.fresh && r.workspace(r.opts)-r.workspace(&short) > missing {
		return "; give a smaller --length and --measurement-length"
	}
	return "; end other programs, or use a machine with more"
}

// fitsDisks refuses a job that does not fit the disks that its folder and the models'
// are on. What it has written already is there; a run that goes on has to find
// room for the rest.
func (r *run) fitsDisks(e Estimate) error {
	inWork, inModels := r.job.Written()
	work, models := max(e.Work-int(inWork), 0), max(e.Models-int(inModels), 0)
	dir := r.opts.Out
	if dir == "" {
		dir = r.opts.Work
	}
	disk, ok := r.opts.on().disk(r.opts.Work)
	other, known := r.opts.on().disk(dir)
	switch {
	case !ok || !known:
		return nil
	case disk.ID == other.ID && work+models > disk.Free:
		return r.tooLarge(work+models, disk.Free, r.opts.Work, e)
	case disk.ID != other.ID && work > disk.Free:
		return r.tooLarge(work, disk.Free, r.opts.Work, e)
	case disk.ID != other.ID && models > other.Free:
		return fmt.Errorf("%w: the models need about %s on disk, %s has %s free; %s", ErrRefused, machine.Size(models), dir, machine.Size(other.Free), r.elsewhere("--compile-full"))
	}
	return nil
}

// tooLarge is the error about a job that needs more than is free, with advice
// that works.
func (r *run) tooLarge(need, free int, dir string, e Estimate) error {
	advice := r.elsewhere("--out-dir")
	switch missing := need - free; {
	case !r.fresh:
	case e.Work-r.fewest().Work > missing:
		advice += " or fewer --dataset-rows"
	case e.Work-r.unsampled().Work > missing:
		advice += " or fewer --synthetic-rows"
	}
	return fmt.Errorf("%w: the job needs about %s more on disk, %s has %s free; %s", ErrRefused, machine.Size(need), dir, machine.Size(free), advice)
}

// elsewhere says what to do about a full disk: nothing is written down of a job
// that has not begun.
func (r *run) elsewhere(flag string) string {
	if r.fresh {
		return "give another " + flag
	}
	return "free some and give the same command again"
}

// fewest is the estimate with the fewest rows.
func (r *run) fewest() Estimate {
	least := *r
	least.tokens.quantize = least.tokens.quantize[:min(1, len(least.tokens.quantize))]
	return least.estimate()
}

// unsampled is the estimate without rows of the source's own text.
func (r *run) unsampled() Estimate {
	least := *r
	least.synthetic = 0
	return least.estimate()
}

// estimate counts bytes and operations.
func (r *run) estimate() Estimate {
	streams := max(r.measureStreams(), r.quantizeStreams(), r.traceStreams())
	e := Estimate{Memory: r.workspace(r.opts), Work: 2 * streams} // one checkpoint takes the other's place
	switch r.memory.Hidden {
	case "host":
		e.Memory += streams * len(r.places())
	case "disk":
		e.Work += streams * len(r.places())
	}
	for _, t := range r.unfinished() {
		e.Work += r.src.quantizedBytes(t.Bits)
		e.Models += r.src.quantizedBytes(t.Bits) + r.src.otherBytes()
	}
	r.addTraining(&e)
	if !r.ownMemory() {
		e.Memory = collected(e.Memory)
	}
	if r.weighs(r.synthetic) {
		e.Work += len(r.src.loader.Layout) * 2 * r.calibrationRows() * r.opts.Data.Length * tensor.F16.Size()
	}
	e.Time = time.Duration(r.operations() / r.speed() * float64(time.Second))
	return e
}

// measureStreams returns the bytes of hidden states that measuring carries.
func (r *run) measureStreams() int {
	rows := len(r.tokens.measure) + min(probeRows, len(r.tokens.measure))*(len(r.src.loader.Layout)+1)
	return rows * r.opts.Data.MeasureLength * r.src.loader.Spec.Handed() * 4
}

// quantizeStreams returns the bytes of hidden states that quantizing carries.
func (r *run) quantizeStreams() int {
	return 2 * r.calibrationRows() * r.opts.Data.Length * r.src.loader.Spec.Handed() * 4
}

// workspace returns the bytes of the machine's memory that working on the widest module
// takes: what the device has, if that is the machine's, and what is read of the source,
// twice, and written.
func (r *run) workspace(o *Options) int {
	read, lanes := 0, 0
	for _, m := range r.src.loader.Layout {
		read = max(read, r.src.moduleBytes(m))
	}
	if r.ownMemory() {
		return len(r.devices)*3*read + 300<<20
	}
	as := *r
	as.opts = o
	p := &memoryPlan{Memory: Memory{Held: r.memory.Held}, moments: r.memory.moments, batch: r.memory.batch}
	most := max(as.measureMemory(p), as.quantizeMemory(p), as.traceMemory(p))
	if r.weighs(r.synthetic) {
		most = max(most, as.weighMemory())
	}
	for _, length := range []int{o.Data.Length, o.Data.MeasureLength} {
		lanes = max(lanes, stream.Beside(r.dev, r.src.loader.Spec, length, 1))
	}
	return len(r.places())*(most+2*lanes) + 2*read
}

// collected is the machine's memory that a program takes whose live memory is so much: Go's
// collector lets lie a fifth of it (cmd/exl2), and the system gets back what lies between
// other things later.
func collected(live int) int { return live + live/4 + 128<<20 }

// bytesOf returns the bytes of a tensor of the source.
func (s *source) bytesOf(name string) int {
	info, _ := s.loader.Files.Info(name)
	n, _ := info.Bytes()
	return int(n)
}

// moduleBytes returns the bytes that a module's matrices and table have in the
// source.
func (s *source) moduleBytes(m model.ModuleSpec) int {
	n := 0
	if m.Table != "" {
		n = s.bytesOf(m.Table + ".weight")
	}
	for _, l := range m.Matrices() {
		if s.loader.Files.Has(l.Name + ".weight") {
			n += s.bytesOf(l.Name + ".weight")
		}
	}
	return n
}

// quantizedBytes returns the size of a finished model's matrices.
func (s *source) quantizedBytes(bits float64) int {
	spec := s.loader.Spec
	return int(bits*float64(s.weights()))/8 + headRecipes[8].Size(spec.Hidden, spec.Vocab)/8
}

// otherBytes returns the size of what else a finished model has.
func (s *source) otherBytes() int {
	n := 0
	for _, o := range s.others {
		n += int(o.size)
	}
	for _, name := range s.kept() {
		n += s.bytesOf(name)
	}
	return n
}
