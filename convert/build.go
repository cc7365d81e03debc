package convert

import (
	"fmt"
	"sort"
	"time"

	"exl2/internal/job"
)

// A build makes the model of one target, in steps that leave files in the job:
// plan, modules, head, and the report on what is done.
type build struct {
	run    *run
	target Target
	plan   *plan
}

// finished is what a target's done.json holds.
type finished struct {
	Output    Output   `json:"output"`
	Reference float64  `json:"reference_perplexity"`
	Files     []string `json:"files"` // of the model's folder

	Experts []Coverage `json:"experts,omitempty"`
}

// moduleError is how far a module's output is from the source's, relative to it.
type moduleError struct {
	Key   string  `json:"key"`
	Error float64 `json:"error"`

	Coverage []int `json:"coverage,omitempty"` // tokens that each expert has seen
}

// file returns the name of one of the target's files in the job.
func (b *build) file(name string) string { return b.target.Text + "/" + name }

// checkpoint returns where the target's hidden states are kept.
func (b *build) checkpoint() *job.Checkpoint {
	return b.run.job.Checkpoint(b.file("hidden.safetensors"), b.run.opts.on().every)
}

// target makes the model of one target, unless it is done.
func (r *run) target(t Target, m *offers, report *Report) (*finished, error) {
	b := &build{run: r, target: t}
	if done := r.done[t]; done != nil {
		done.Output.Path = r.opts.folder(t) // as it is given now
		return done, b.tidy()
	}
	start := time.Now()
	if err := b.solve(m); err != nil {
		return nil, err
	}
	report.Seconds.Solve += time.Since(start).Seconds()
	start = time.Now()
	defer func() { report.Seconds.Quantize += time.Since(start).Seconds() }()
	quantized, err := r.job.Has(b.file("head.json"))
	if err == nil && !quantized {
		err = b.quantize()
	}
	if err == nil && r.opts.trains() {
		err = b.train()
	}
	if err != nil {
		return nil, err
	}
	return b.finish()
}

// solve finds the plan, the job's if it has one.
func (b *build) solve(m *offers) (err error) {
	b.plan = &plan{}
	if found, err := b.run.job.ReadJSON(b.file("plan.json"), b.plan); err != nil || found {
		return err
	}
	if b.plan, err = b.run.src.solve(m, b.target, b.run.opts.HeadBits); err != nil {
		return err
	}
	return b.run.job.WriteJSON(b.file("plan.json"), b.plan)
}

// finish joins the quantized modules to a model's folder.
func (b *build) finish() (*finished, error) {
	r := b.run
	var head headReport
	if err := r.job.MustReadJSON(b.file("head.json"), &head); err != nil {
		return nil, err
	}
	if r.opts.trains() {
		var trained trainedReport
		if err := r.job.MustReadJSON(b.file(trainedName), &trained); err != nil {
			return nil, err
		}
		head.Perplexity = trained.Perplexity
	}
	if err := b.judge(head); err != nil {
		return nil, err
	}
	w := &writer{build: b, dir: r.opts.folder(b.target)}
	end := r.profile.Off("output")
	err := w.write()
	end()
	w.close() // Windows deletes no open file
	if err != nil {
		return nil, err
	}
	coverage, err := b.coverage()
	if err != nil {
		return nil, err
	}
	out := &finished{Reference: head.Reference, Files: w.files, Output: Output{
		Path: w.dir, Bits: b.target.Bits, HeadBits: r.opts.HeadBits, HeadBPW: w.headBPW, FileBytes: w.bytes,
		DecoderBPW: float64(b.plan.Bits) / float64(r.src.weights()), Perplexity: head.Perplexity,
	}, Experts: coverage}
	if err := r.job.WriteJSON(b.file("done.json"), out); err != nil {
		return nil, err
	}
	return out, b.tidy()
}

// tidy deletes what only an unfinished target needs.
func (b *build) tidy() error {
	for _, m := range b.run.src.loader.Layout[1:] {
		for _, end := range []string{".safetensors", trainedEnding} {
			if err := b.run.job.Remove(b.file(m.Name + end)); err != nil {
				return err
			}
		}
	}
	return b.checkpoint().Remove()
}

// alarm is the ratio of perplexities over which a result is called damaged.
const alarm = 1.5

// judge warns of a result that is much worse than its source, and names the
// sublayers with the largest errors.
func (b *build) judge(h headReport) error {
	if h.Perplexity <= alarm*h.Reference {
		return nil
	}
	decoder := b.run.src.loader.Decoder()
	worst := make([]moduleError, len(decoder))
	for i, m := range decoder {
		if err := b.run.job.MustReadJSON(b.file(m.Name+".json"), &worst[i]); err != nil {
			return err
		}
	}
	sort.SliceStable(worst, func(i, k int) bool { return worst[i].Error > worst[k].Error })
	text := fmt.Sprintf("calibration perplexity %.4g is %.2f times the source's %.4g; the largest errors:", h.Perplexity, h.Perplexity/h.Reference, h.Reference)
	for _, m := range worst[:min(3, len(worst))] {
		text += fmt.Sprintf(" %s %.3f", m.Key, m.Error)
	}
	b.run.progress.Warn(text)
	return nil
}
