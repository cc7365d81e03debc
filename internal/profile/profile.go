// Package profile says where the time of a long piece of work goes: for every
// stage of it seconds, what of them the device was at work, and how near that is
// to what the machine could do.
package profile

import (
	"fmt"
	"io"
	"sync"
	"text/tabwriter"
	"time"

	"exl2/internal/device"
	"exl2/internal/machine"
)

// A Stage is one kind of work, all of its occurrences together.
type Stage struct {
	Name       string  `json:"stage"`
	Seconds    float64 `json:"seconds"`               // wall time
	CPUSeconds float64 `json:"cpu_seconds,omitempty"` // of processors, all cores together, with whatever went on beside it
	GPUSeconds float64 `json:"gpu_seconds"`           // of the device's stream between the stage's first operation and its last
	Bytes      float64 `json:"bytes"`                 // read and written, as far as they are counted
	Flops      float64 `json:"flops"`                 // floating-point operations, as far as they are counted
	BoundShare float64 `json:"bound_share"`           // least possible time, by Bytes and Flops, over Seconds
}

// A Profile gathers stages. A nil Profile gathers nothing and costs nothing; a
// device waits for nothing on its behalf.
type Profile struct {
	dev    device.Device
	begun  mark
	within span // of stages that nothing else went on beside
	mu     sync.Mutex
	order  []*Stage
	byName map[string]*Stage
}

// New returns an empty profile of work on d.
func New(d device.Device) *Profile {
	return &Profile{dev: d, begun: now(), byName: map[string]*Stage{}}
}

// A mark is a moment.
type mark struct {
	wall      time.Time
	processor time.Duration
}

func now() mark { return mark{time.Now(), machine.ProcessorTime()} }

// A span is the time since a mark, in seconds.
type span struct{ wall, processor, gpu float64 }

func (m mark) since() span {
	return span{wall: time.Since(m.wall).Seconds(), processor: (machine.ProcessorTime() - m.processor).Seconds()}
}

// Work is what a stage does, as far as it is counted.
type Work struct{ Flops, Bytes float64 }

// On begins an occurrence of a stage of the device's work, which the returned
// function ends: the device is waited for at both ends.
func (p *Profile) On(name string, w Work) (end func()) {
	if p == nil {
		return func() {}
	}
	p.dev.Sync()
	start := now()
	var stop func() float64
	if t, ok := p.dev.(device.Timer); ok {
		stop = t.Stopwatch()
	}
	return func() {
		gpu := 0.0
		if stop != nil {
			gpu = stop()
		}
		p.dev.Sync()
		took := start.since()
		took.gpu = gpu
		p.add(name, took, w, true)
	}
}

// Off begins an occurrence of a stage of the host's work, which the returned
// function ends.
func (p *Profile) Off(name string) (end func()) { return p.host(name, true) }

// Beside is Off for work that goes on beside other stages.
func (p *Profile) Beside(name string) (end func()) { return p.host(name, false) }

func (p *Profile) host(name string, alone bool) (end func()) {
	if p == nil {
		return func() {}
	}
	start := now()
	return func() {
		took := start.since()
		if !alone {
			took.processor = 0 // that of the stages beside it
		}
		p.add(name, took, Work{}, alone)
	}
}

func (p *Profile) add(name string, took span, w Work, alone bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if alone {
		p.within.wall, p.within.processor = p.within.wall+took.wall, p.within.processor+took.processor
	}
	s := p.byName[name]
	if s == nil {
		s = &Stage{Name: name}
		p.byName[name], p.order = s, append(p.order, s)
	}
	s.Seconds, s.CPUSeconds, s.GPUSeconds = s.Seconds+took.wall, s.CPUSeconds+took.processor, s.GPUSeconds+took.gpu
	s.Flops, s.Bytes = s.Flops+w.Flops, s.Bytes+w.Bytes
}

// Rates are what the machine can do a second.
type Rates struct{ Flops, Bytes float64 }

// Rest is the name of what no stage is of.
const Rest = "the rest"

// Stages returns the stages in the order they first occurred, and last the time
// since New that is none of theirs.
func (p *Profile) Stages(r Rates) []Stage {
	if p == nil {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	var list []Stage
	for _, s := range p.order {
		out := *s
		if least := max(s.Flops/r.Flops, s.Bytes/r.Bytes); s.Seconds > 0 && least > 0 {
			out.BoundShare = least / s.Seconds
		}
		list = append(list, out)
	}
	all := p.begun.since()
	return append(list, Stage{Name: Rest, Seconds: max(0, all.wall-p.within.wall), CPUSeconds: max(0, all.processor-p.within.processor)})
}

// Print writes a table of stages.
func Print(w io.Writer, list []Stage) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "stage\tseconds\tprocessor\tdevice\tGB\tTflop\tof bound\t")
	for _, s := range list {
		fmt.Fprintf(t, "%s\t%.3f\t%s\t%s\t%s\t%s\t%s\t\n", s.Name, s.Seconds, number(s.CPUSeconds, 1, "%.3f"), number(s.GPUSeconds, 1, "%.3f"),
			number(s.Bytes, 1e9, "%.1f"), number(s.Flops, 1e12, "%.1f"), number(s.BoundShare, 0.01, "%.0f %%"))
	}
	t.Flush()
}

// number formats what is counted, and leaves out what is not.
func number(v, unit float64, format string) string {
	if v == 0 {
		return ""
	}
	return fmt.Sprintf(format, v/unit)
}
