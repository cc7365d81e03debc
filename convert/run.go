package convert

import (
	"context"
	"fmt"
	"os"
	"sort"
	"time"

	"exl2/internal/device"
	"exl2/internal/term"
	"exl2/measure"
)

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
	progress term.Progress
	src      *source
	job      *job
	tokens   tokens

	measureCheckpoint *checkpoint
}

// Run converts a model as o asks, or goes on where an earlier run stopped.
func Run(ctx context.Context, d device.Quantize, o *Options, p term.Progress) (*Report, error) {
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
		out, reference, err := r.target(t, classes, report)
		if err != nil {
			return nil, err
		}
		report.Outputs, report.Reference = append(report.Outputs, *out), reference
	}
	report.Seconds.Total = time.Since(start).Seconds()
	return report, nil
}

// Measure does the first phase of Run only, which needs neither targets nor
// what concerns the finished model. Run continues its job.
func Measure(ctx context.Context, d device.Quantize, o *Options, p term.Progress) error {
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

// open checks what is asked and starts or continues the job.
func open(ctx context.Context, d device.Quantize, o *Options, p term.Progress) (*run, error) {
	if err := o.Check(); err != nil {
		return nil, err
	}
	src, err := openSource(o)
	if err != nil {
		return nil, err
	}
	r := &run{ctx: ctx, dev: d, opts: o, progress: p, src: src}
	if err := r.begin(); err != nil {
		r.close()
		return nil, err
	}
	return r, nil
}

func (r *run) close() {
	r.src.close()
	if r.job != nil {
		r.job.close()
	}
}

func (r *run) begin() error {
	if r.opts.Measurement == "" {
		lo, hi := limits(r.src.unmeasured())
		if err := r.src.reachable(lo, hi, r.opts.Targets); err != nil {
			return err
		}
	}
	fingerprint, err := r.src.fingerprint()
	if err != nil {
		return err
	}
	if r.job, err = openJob(r.opts, fingerprint, r.dev.Name()); err != nil {
		return err
	}
	if err := r.job.remember(r.opts); err != nil {
		return err
	}
	r.measureCheckpoint = newCheckpoint(r.job.path("hidden.safetensors"))
	if r.tokens, err = r.calibrate(); err != nil {
		return err
	}
	return r.announce()
}

// classes measures, or reads the measurement that was given.
func (r *run) classes(report *Report) ([]class, error) {
	start := time.Now()
	path := r.opts.Measurement
	if path == "" {
		path = r.job.path("measurement.json")
		if err := r.measureAll(); err != nil {
			return nil, err
		}
		if err := r.copyMeasurement(); err != nil {
			return nil, err
		}
	}
	report.Seconds.Measure = time.Since(start).Seconds()
	f, err := measure.ReadFile(path)
	if err != nil {
		return nil, err
	}
	classes, err := r.src.classes(f)
	if err != nil {
		return nil, err
	}
	lo, hi := limits(classes)
	return classes, r.src.reachable(lo, hi, r.opts.Targets)
}

// target makes the model of one target, unless it is done.
func (r *run) target(t Target, classes []class, report *Report) (*Output, float64, error) {
	q := &quantizer{run: r, target: t}
	q.checkpoint = newCheckpoint(r.job.path(q.file("hidden.safetensors")))
	if err := os.MkdirAll(r.job.path(t.Text), 0o777); err != nil {
		return nil, 0, err
	}
	var done finished
	if found, err := r.job.readJSON(q.file("done.json"), &done); err != nil {
		return nil, 0, err
	} else if found {
		done.Output.Path = r.opts.folder(t) // as it is given now
		return &done.Output, done.Reference, q.tidy()
	}
	start := time.Now()
	var err error
	if q.plan, err = r.solve(q, classes); err != nil {
		return nil, 0, err
	}
	report.Seconds.Solve += time.Since(start).Seconds()
	start = time.Now()
	if !r.job.has(q.file("head.json")) {
		if err := q.quantizeAll(); err != nil {
			return nil, 0, err
		}
	}
	out, err := q.finish()
	if err != nil {
		return nil, 0, err
	}
	report.Seconds.Quantize += time.Since(start).Seconds()
	return &out.Output, out.Reference, nil
}

// solve returns the plan for a target, the job's if it has one.
func (r *run) solve(q *quantizer, classes []class) (*plan, error) {
	p := &plan{}
	if found, err := r.job.readJSON(q.file("plan.json"), p); err != nil || found {
		return p, err
	}
	p, err := r.src.solve(classes, q.target)
	if err != nil {
		return nil, err
	}
	return p, r.job.writeJSON(q.file("plan.json"), p)
}

// spillOver is how many bytes of hidden states are kept in memory; more than
// that go to disk.
var spillOver = 512 << 20

// spill returns where hidden states of that many bytes are to be kept.
func (r *run) spill(bytes int) string {
	if bytes > spillOver {
		return r.job.dir
	}
	return ""
}

// alarm is the ratio of perplexities over which a result is called damaged.
const alarm = 1.5

// judge warns of a result that is much worse than its source, and names the
// half-blocks with the largest errors.
func (q *quantizer) judge(h headReport) error {
	if h.Perplexity <= alarm*h.Reference {
		return nil
	}
	worst := make([]moduleError, len(q.src.loader.Decoder()))
	for i, m := range q.src.loader.Decoder() {
		if err := q.job.mustReadJSON(q.file(m.Name+".json"), &worst[i]); err != nil {
			return err
		}
	}
	sort.SliceStable(worst, func(a, b int) bool { return worst[a].Error > worst[b].Error })
	text := fmt.Sprintf("calibration perplexity %.4g is %.2f times the source's %.4g; the largest errors:", h.Perplexity, h.Perplexity/h.Reference, h.Reference)
	for _, m := range worst[:min(3, len(worst))] {
		text += fmt.Sprintf(" %s %.3f", m.Key, m.Error)
	}
	q.progress.Warn(text)
	return nil
}
