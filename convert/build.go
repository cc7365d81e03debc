package convert

import (
	"fmt"
	"sort"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"exl2/internal/job"
)

// A build makes the model of one target, in steps that leave files in the job:
// plan, modules, head, and the report on what is done.
type build struct {
	run    *run
	target Target
	stage  *stage
	plan   *plan
	draft  *draft // or nil
}

// finished is what a target's done.json holds.
type finished struct {
	Output    Output     `json:"output"`
	Reference Perplexity `json:"reference_perplexity"`
	Files     []string   `json:"files"` // of the model's folder, by job.Escape

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

// targets makes the models of all targets, each on one device.
func (r *run) targets(m *offers, report *Report) error {
	start, outs := time.Now(), make([]*finished, len(r.opts.Targets))
	workers := r.workers[:min(len(r.workers), len(outs))]
	if r.opts.trains() {
		workers = workers[:1] // rows to train on are made once
	}
	shared := r.sharedStage(len(workers))
	var next atomic.Int32
	var solving atomic.Int64 // nanoseconds
	err := each(workers, func(w *run) error {
		for i := int(next.Add(1)) - 1; i < len(outs); i = int(next.Add(1)) - 1 {
			b := &build{run: w, target: r.opts.Targets[i]}
			b.stage = shared(b.target)
			out, err := b.make(m, &solving)
			if err != nil {
				return err
			}
			outs[i] = out
		}
		return nil
	})
	if err != nil {
		return err
	}
	report.Seconds.Solve = time.Duration(solving.Load()).Seconds()
	report.Seconds.Quantize = time.Since(start).Seconds() - report.Seconds.Solve
	for _, out := range outs {
		report.Outputs, report.Reference, report.Experts = append(report.Outputs, out.Output), out.Reference, out.Experts
	}
	return nil
}

// sharedStage returns a function that returns a target's stage: one of its own, or a
// part of what several workers do at once.
func (r *run) sharedStage(workers int) func(t Target) *stage {
	steps := len(r.src.loader.Decoder()) + 1
	if workers == 1 {
		return func(t Target) *stage { return newStage("quantize "+t.Text, steps) }
	}
	all := newStage("quantize", steps*len(r.unfinished()))
	return func(t Target) *stage {
		s := *all
		s.prefix = t.Text + " "
		return &s
	}
}

// make makes the model, unless it is done.
func (b *build) make(m *offers, solving *atomic.Int64) (*finished, error) {
	r, t := b.run, b.target
	if done := r.done[t]; done != nil {
		done.Output.Path = r.opts.folder(t) // as it is given now
		return done, b.tidy()
	}
	start := time.Now()
	if err := b.solve(m); err != nil {
		return nil, err
	}
	solving.Add(int64(time.Since(start)))
	defer func() { b.draft.close() }()
	quantized, err := r.job.Has(b.file("head.json"))
	if err == nil && !quantized {
		if err = b.begin(); err == nil {
			err = b.quantize()
		}
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
	trained, err := b.trained()
	if err != nil {
		return nil, err
	}
	if !trained.Kept {
		head.Perplexity = trained.Perplexity
	}
	if err := b.judge(head); err != nil {
		return nil, err
	}
	w := &writer{build: b, dir: r.opts.folder(b.target)}
	end := r.profile.Off("output")
	err = w.write()
	end()
	w.close() // Windows deletes no open file
	if err != nil {
		return nil, err
	}
	coverage, err := b.coverage()
	if err != nil {
		return nil, err
	}
	out := &finished{Reference: head.Reference, Output: Output{
		Path: w.dir, Bits: b.target.Bits, HeadBits: r.opts.HeadBits, HeadBPW: w.headBPW, FileBytes: w.bytes,
		DecoderBPW: float64(b.plan.Bits) / float64(r.src.weights()), Perplexity: head.Perplexity,
	}, Experts: coverage}
	for _, name := range w.files {
		out.Files = append(out.Files, job.Escape(name))
	}
	if err := r.job.WriteJSON(b.file("done.json"), out); err != nil {
		return nil, err
	}
	return out, b.tidy()
}

// tidy deletes what only an unfinished target needs.
func (b *build) tidy() error {
	var group errgroup.Group
	group.SetLimit(filesAtOnce)
	for _, m := range b.run.src.loader.Layout[1:] {
		for _, end := range []string{".safetensors", trainedEnding} {
			group.Go(func() error { return b.run.job.Remove(b.file(m.Name + end)) })
		}
	}
	if err := group.Wait(); err != nil {
		return err
	}
	return b.checkpoint().Remove()
}

// alarm is the ratio of perplexities over which a result is called damaged.
const alarm = 1.5

// judge warns of a result that is much worse than its source, and names the
// sublayers with the largest errors.
func (b *build) judge(h headReport) error {
	switch {
	case h.Reference.None():
		b.run.progress.Warn("the source gives the calibration text no probability, so there is no perplexity; compare the output with the source: exl2 ppl --reference")
		return nil
	case h.Perplexity <= alarm*h.Reference:
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
	if h.Perplexity.None() {
		text = fmt.Sprintf("the output gives the calibration text no probability, where the source has perplexity %.4g; the largest errors:", h.Reference)
	}
	for _, m := range worst[:min(3, len(worst))] {
		text += fmt.Sprintf(" %s %.3f", m.Key, m.Error)
	}
	b.run.progress.Warn(text)
	return nil
}
