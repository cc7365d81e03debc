package convert

import (
	"context"
	"fmt"
	"time"

	"exl2/internal/device"
	"exl2/internal/devices"
	"exl2/internal/job"
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
}

// An Output is one finished model.
type Output struct {
	Path       string  `json:"path"`
	Bits       float64 `json:"bits"`
	DecoderBPW float64 `json:"decoder_bpw"`
	HeadBits   int     `json:"head_bits"`
	HeadBPW    float64 `json:"head_bpw"`
	FileBytes  int64   `json:"file_bytes"`
	Perplexity float64 `json:"perplexity"` // on calibration rows
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

	fresh    bool // the job begins, or begins again
	measured bool // nothing is left to measure
	done     map[Target]*finished
	given    []class // of Options.Measurement
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
	report := &Report{Rows: len(r.tokens.quantize), Length: o.Data.Length}
	classes, err := r.classes(report)
	if err != nil {
		return nil, err
	}
	for _, t := range o.Targets {
		out, err := r.target(t, classes, report)
		if err != nil {
			return nil, err
		}
		report.Outputs, report.Reference = append(report.Outputs, out.Output), out.Reference
	}
	report.Seconds.Total = time.Since(start).Seconds()
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

// classes measures, or takes the measurement that was given.
func (r *run) classes(report *Report) ([]class, error) {
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
	return r.readClasses(r.job.Path(measurementName))
}

// spill returns where hidden states of that many bytes are to be kept.
func (r *run) spill(bytes int) string {
	if bytes > r.opts.on().inMemory {
		return r.job.Dir()
	}
	return ""
}
