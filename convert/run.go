package convert

import (
	"context"
	"fmt"
	"time"

	"exl2/internal/device"
	"exl2/internal/devices"
	"exl2/internal/job"
	"exl2/internal/profile"
	"exl2/internal/stream"
)

// A Progress follows long work. Its methods are called by one goroutine at a
// time.
type Progress interface {
	// Start begins a stage of the given number of steps.
	Start(stage string, steps int)
	// Step counts one step of the stage: what was done, and how it went.
	Step(what, note string)
	// Skip counts one step that an earlier run has done.
	Skip(what string)
	// Note tells of something worth knowing.
	Note(text string)
	// Warn tells of something that was done less well than asked.
	Warn(text string)
}

// A Report says what a conversion made.
type Report struct {
	Outputs   []Output `json:"outputs"`
	Reference float64  `json:"reference_perplexity"` // of the source, on calibration rows
	Rows      int      `json:"rows"`
	Length    int      `json:"length"`
	Seconds   Seconds  `json:"seconds"`
	Devices   []string `json:"devices"` // that computed

	Experts []Coverage `json:"experts,omitempty"` // of mixtures, by layer, for the last target

	Profile []Stage `json:"profile,omitempty"`
}

// A Stage is one kind of work, all of its occurrences together.
type Stage struct {
	Name       string  `json:"stage"`
	Seconds    float64 `json:"seconds"`               // wall time
	GPUSeconds float64 `json:"gpu_seconds,omitempty"` // of the device's stream between the stage's first operation and its last
	Bytes      float64 `json:"bytes,omitempty"`       // read and written, as far as they are counted
	Flops      float64 `json:"flops,omitempty"`       // floating-point operations, as far as they are counted
	BoundShare float64 `json:"bound_share,omitempty"` // least possible time, by Bytes and Flops, over Seconds
}

// An Output is one finished model.
type Output struct {
	Path       string   `json:"path"`
	Bits       float64  `json:"bits"`
	DecoderBPW float64  `json:"decoder_bpw"`
	HeadBits   HeadBits `json:"head_bits"`
	HeadBPW    float64  `json:"head_bpw"`
	FileBytes  int64    `json:"file_bytes"`
	Perplexity float64  `json:"perplexity"` // on calibration rows
}

// Seconds are the wall times of the phases of this run.
type Seconds struct {
	Measure  float64 `json:"measure"`
	Solve    float64 `json:"solve"`
	Quantize float64 `json:"quantize"`
	Total    float64 `json:"total"`
}

// run is one run of a job.
type run struct {
	ctx      context.Context
	dev      device.Quantize
	opts     *Options
	progress Progress

	described bool // what the calibration file's text was taken for
	src       *source
	job       *job.Job
	tokens    tokens
	synthetic int              // rows that are sampled from the source, or will be
	profile   *profile.Profile // nil unless it is asked for

	fresh    bool // the job begins, or begins again
	measured bool // nothing is left to measure
	done     map[Target]*finished
	given    *offers // Options.Measurement
}

// Run converts a model as o asks, or goes on where an earlier run stopped.
func Run(ctx context.Context, o *Options, p Progress) (*Report, error) {
	d, err := devices.OpenQuantizer(o.Device, p.Note)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	return runOn(ctx, d, o, p)
}

func runOn(ctx context.Context, d device.Quantize, o *Options, p Progress) (*Report, error) {
	if len(o.Targets) == 0 {
		return nil, fmt.Errorf("bits: none given")
	}
	start := time.Now()
	r, err := open(ctx, d, o, p)
	if err != nil {
		return nil, err
	}
	defer r.close()
	report := &Report{Rows: r.calibrationRows(), Length: o.Data.Length, Devices: []string{r.dev.Name()}}
	if err := r.sample(); err != nil {
		return nil, err
	}
	m, err := r.measurement(report)
	if err != nil {
		return nil, err
	}
	for _, t := range o.Targets {
		out, err := r.target(t, m, report)
		if err != nil {
			return nil, err
		}
		report.Outputs, report.Reference, report.Experts = append(report.Outputs, out.Output), out.Reference, out.Experts
	}
	report.Seconds.Total = time.Since(start).Seconds()
	if r.profile != nil {
		for _, s := range r.profile.Stages(r.rates()) {
			report.Profile = append(report.Profile, Stage(s))
		}
	}
	return report, nil
}

// Measure does the first phase of Run only, which needs neither targets nor
// what concerns the finished model. Run continues its job.
func Measure(ctx context.Context, o *Options, p Progress) error {
	d, err := devices.OpenQuantizer(o.Device, p.Note)
	if err != nil {
		return err
	}
	defer d.Close()
	return measureOn(ctx, d, o, p)
}

func measureOn(ctx context.Context, d device.Quantize, o *Options, p Progress) error {
	only := *o
	only.Targets, only.Measurement = nil, ""
	r, err := open(ctx, d, &only, p)
	if err != nil {
		return err
	}
	defer r.close()
	if err := r.measureAll(); err != nil {
		return err
	}
	return r.copyMeasurement()
}

// measurement measures, or takes the measurement that was given.
func (r *run) measurement(report *Report) (*offers, error) {
	if r.given != nil {
		return r.given, nil
	}
	start := time.Now()
	if err := r.measureAll(); err != nil {
		return nil, err
	}
	if err := r.copyMeasurement(); err != nil {
		return nil, err
	}
	report.Seconds.Measure = time.Since(start).Seconds()
	return r.readMeasured(r.job.Path(measurementName))
}

// spill returns the folder where hidden states of that many bytes are to be kept,
// or none for the host's memory.
func (r *run) spill(bytes int) string {
	if bytes > r.opts.on().inMemory {
		return r.job.Dir()
	}
	return ""
}

// positionsAtATime is how many positions a GPU brings through a module at a time:
// enough for its products, and to decode a matrix for, once.
const positionsAtATime = 8192

// together returns how many rows of the given length are brought through a module
// at a time.
func (r *run) together(length int) int {
	if _, own := r.dev.(device.MemoryInfo); own {
		return max(1, positionsAtATime/length)
	}
	return 1
}

// place returns where hidden states of that many bytes are to be kept: on a device
// with memory of its own, if that leaves room for the work on a module.
func (r *run) place(bytes int) stream.Place {
	if d, own := r.dev.(device.MemoryInfo); own {
		if free, _ := d.MemInfo(); bytes+r.workspace(r.opts) < free {
			return stream.Place{Device: r.dev}
		}
	}
	return stream.Place{Folder: r.spill(bytes)}
}
