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
)

// A Stage is one kind of work, all of its occurrences together.
type Stage struct {
	Name       string  `json:"stage"`
	Seconds    float64 `json:"seconds"`               // wall time
	GPUSeconds float64 `json:"gpu_seconds,omitempty"` // of the device's stream between the stage's first operation and its last
	Bytes      float64 `json:"bytes,omitempty"`       // read and written, as far as they are counted
	Flops      float64 `json:"flops,omitempty"`       // floating-point operations, as far as they are counted
	BoundShare float64 `json:"bound_share,omitempty"` // least possible time, by Bytes and Flops, over Seconds
}

// A Profile gathers stages. A nil Profile gathers nothing and costs nothing; a
// device waits for nothing on its behalf.
type Profile struct {
	dev    device.Device
	begun  time.Time
	within float64 // seconds of stages that nothing else went on beside
	mu     sync.Mutex
	order  []*Stage
	byName map[string]*Stage
}

// New returns an empty profile of work on d.
func New(d device.Device) *Profile {
	return &Profile{dev: d, begun: time.Now(), byName: map[string]*Stage{}}
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
	start := time.Now()
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
		p.add(name, time.Since(start).Seconds(), gpu, w, true)
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
	start := time.Now()
	return func() { p.add(name, time.Since(start).Seconds(), 0, Work{}, alone) }
}

func (p *Profile) add(name string, seconds, gpu float64, w Work, alone bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if alone {
		p.within += seconds
	}
	s := p.byName[name]
	if s == nil {
		s = &Stage{Name: name}
		p.byName[name], p.order = s, append(p.order, s)
	}
	s.Seconds, s.GPUSeconds = s.Seconds+seconds, s.GPUSeconds+gpu
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
	return append(list, Stage{Name: Rest, Seconds: max(0, time.Since(p.begun).Seconds()-p.within)})
}

// Print writes a table of stages.
func Print(w io.Writer, list []Stage) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "stage\tseconds\tdevice\tGB\tTflop\tof bound\t")
	for _, s := range list {
		fmt.Fprintf(t, "%s\t%.3f\t%s\t%s\t%s\t%s\t\n", s.Name, s.Seconds, number(s.GPUSeconds, 1, "%.3f"),
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
