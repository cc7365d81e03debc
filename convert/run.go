package convert

import (
	"context"
	"fmt"
	"time"

	"exl2/calib"
	"exl2/internal/device"
	"exl2/internal/devices"
	"exl2/internal/job"
	"exl2/internal/model"
	"exl2/internal/profile"
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
	Outputs   []Output   `json:"outputs"`
	Reference Perplexity `json:"reference_perplexity"` // of the source, on calibration rows
	Rows      int        `json:"rows"`
	Length    int        `json:"length"`
	Seconds   Seconds    `json:"seconds"`
	Devices   []string   `json:"devices"` // that computed

	Folded  *Folded    `json:"folded,omitempty"` // nil where nothing is
	Memory  *Memory    `json:"gpu_memory,omitempty"`
	Experts []Coverage `json:"experts,omitempty"` // of mixtures, by layer, for the last target

	Profile []Stage `json:"profile,omitempty"`
}

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

// An Output is one finished model.
type Output struct {
	Path       string     `json:"path"`
	Bits       float64    `json:"bits"`
	DecoderBPW float64    `json:"decoder_bpw"`
	HeadBits   HeadBits   `json:"head_bits"`
	HeadBPW    float64    `json:"head_bpw"`
	FileBytes  int64      `json:"file_bytes"`
	Perplexity Perplexity `json:"perplexity"` // on calibration rows
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
	devices  []device.Quantize // that work on the job at once
	dev      device.Quantize   // the worker's
	number   int               // of the worker
	opts     *Options
	progress Progress

	text      *calib.Source  // the calibration file, once it is open
	inputs    []recordedFile // what it and the measurement are
	inputsNew bool           // the job has not noted all of that
	src       *source
	job       *job.Job
	tokens    tokens
	synthetic int                  // rows that are sampled from the source, or will be
	without   string               // why there are none, though the device might have some
	weights   map[string][]float32 // roots of those of tokens of calibration rows, by the first linear of a site
	profile   *profile.Profile     // nil unless it is asked for
	memory    *memoryPlan
	shelf     *shelf // the worker's
	workers   []*run // one for each place
	spared    int    // workers of a CPU that there is no room for

	fresh    bool // the job begins, or begins again
	measured bool // nothing is left to measure
	done     map[Target]*finished
	given    *offers                  // Options.Measurement
	uneven   map[string]model.Folding // channels that may be worth scaling, by module; nil until the source is read
	stream   float64                  // by how many octaves channels of the stream differ
	folding  folding                  // what is scaled and rotated
}

// Run converts a model as o asks, or goes on where an earlier run stopped.
func Run(ctx context.Context, o *Options, p Progress) (*Report, error) {
	return onDevices(o, p, func(list []device.Quantize) (*Report, error) { return runOn(ctx, list, o, p) })
}

// onDevices opens the devices of a job for f.
func onDevices(o *Options, p Progress, f func([]device.Quantize) (*Report, error)) (*Report, error) {
	list, err := devices.OpenQuantizers(o.Device, p.Note)
	if err != nil {
		return nil, err
	}
	defer func() {
		for _, d := range list {
			d.Close()
		}
	}()
	return f(list)
}

// names are what the devices are called in a report.
func (r *run) names() (names []string) {
	for _, d := range r.devices {
		names = append(names, d.Name())
	}
	return names
}

func runOn(ctx context.Context, list []device.Quantize, o *Options, p Progress) (*Report, error) {
	if len(o.Targets) == 0 {
		return nil, fmt.Errorf("bits: none given")
	}
	start := time.Now()
	r, err := open(ctx, list, o, p)
	if err != nil {
		return nil, err
	}
	defer r.close()
	report := &Report{Length: o.Data.Length, Devices: r.names()}
	if err := r.fold(report); err != nil {
		return nil, err
	}
	if err := r.sample(); err != nil {
		return nil, err
	}
	report.Rows = r.calibrationRows()
	if err := r.hire(); err != nil {
		return nil, err
	}
	m, err := r.measurement(report)
	if err != nil {
		return nil, err
	}
	if err := r.trace(); err != nil {
		return nil, err
	}
	if err := r.weighTokens(); err != nil {
		return nil, err
	}
	if err := r.targets(m, report); err != nil {
		return nil, err
	}
	return r.conclude(report, start), nil
}

// conclude completes a report on a run that began at start.
func (r *run) conclude(report *Report, start time.Time) *Report {
	report.Seconds.Total = time.Since(start).Seconds()
	if m, own := r.dev.(device.MemoryInfo); own {
		r.memory.Peak = m.MemPeak()
		report.Memory = &r.memory.Memory
	}
	if r.profile != nil {
		end := r.profile.Off("this table's bounds")
		rates := r.rates()
		end()
		for _, s := range r.profile.Stages(rates) {
			report.Profile = append(report.Profile, Stage(s))
		}
	}
	return report
}

// Measure does the first phase of Run only, which needs neither targets nor
// what concerns the finished model. Run continues its job. The report has no outputs.
func Measure(ctx context.Context, o *Options, p Progress) (*Report, error) {
	return onDevices(o, p, func(list []device.Quantize) (*Report, error) { return measureOn(ctx, list, o, p) })
}

func measureOn(ctx context.Context, list []device.Quantize, o *Options, p Progress) (*Report, error) {
	only, start := *o, time.Now()
	only.Targets, only.Measurement = nil, ""
	r, err := open(ctx, list, &only, p)
	if err != nil {
		return nil, err
	}
	defer r.close()
	report := &Report{Rows: len(r.tokens.measure), Length: o.Data.MeasureLength, Devices: r.names()}
	if err := r.fold(report); err != nil {
		return nil, err
	}
	if err := r.hire(); err != nil {
		return nil, err
	}
	if err := r.firstPhase(report); err != nil {
		return nil, err
	}
	return r.conclude(report, start), nil
}

// measurement measures, or takes the measurement that was given.
func (r *run) measurement(report *Report) (*offers, error) {
	if r.given != nil {
		return r.given, nil
	}
	if err := r.firstPhase(report); err != nil {
		return nil, err
	}
	return r.readMeasured(r.job.Path(measurementName))
}

// firstPhase measures, and copies the measurement to where it is wanted.
func (r *run) firstPhase(report *Report) error {
	start := time.Now()
	if err := r.measureAll(); err != nil {
		return err
	}
	report.Seconds.Measure = time.Since(start).Seconds()
	return r.copyMeasurement()
}

// spill returns the folder where hidden states of that many bytes are to be kept,
// or none for the host's memory.
func (r *run) spill(bytes int) string {
	if r.hostHolds(bytes) {
		return ""
	}
	return r.job.Dir()
}

// hostHolds reports whether hidden states are kept in the host's memory: of a machine
// whose GPU computes, in half of what is free.
func (r *run) hostHolds(bytes int) bool {
	most := r.opts.on().inMemory
	if r.ownMemory() {
		if free, ok := r.opts.on().freeMemory(); ok {
			most = max(most, free/2/len(r.devices))
		}
	}
	return bytes <= most
}

// variedTogether returns how many measurement rows go through variants of a module at a
// time: each decodes the matrices once.
func (r *run) variedTogether() int {
	if r.opts.LowMemory {
		return 1
	}
	return r.together(r.opts.Data.MeasureLength)
}

// ownMemory reports whether the device has memory of its own, as GPUs do.
func (r *run) ownMemory() bool {
	_, own := r.dev.(device.MemoryInfo)
	return own
}

// together returns how many rows of the given length are brought through a module
// at a time.
func (r *run) together(length int) int {
	if r.ownMemory() {
		return max(1, r.opts.on().together/length)
	}
	return 1
}
