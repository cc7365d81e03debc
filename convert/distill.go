package convert

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"exl2/internal/distill"
	"exl2/internal/exl2"
	"exl2/internal/model"
	"exl2/internal/quant"
	"exl2/internal/safetensors"
	"exl2/internal/stream"
	"exl2/internal/tensor"
)

// The names of a target's files of training: the matrices of a module, the report,
// and how far an unfinished run has come.
const (
	trainedEnding = ".trained.safetensors"
	trainedName   = "trained.json"
	latentsName   = "latents.safetensors"
)

// trainedReport is what a target's trained.json holds.
type trainedReport struct {
	distill.Report
	Perplexity Perplexity `json:"perplexity"` // of calibration rows; 0 if codes are kept
}

// trainer is the training of a target's codes.
type trainer struct {
	build *build
	*distill.Trainer
	plan  *distill.Plan
	files map[string]*safetensors.File // of the target's matrices

	saved time.Time     // when the latents were written last
	took  time.Duration // what that took
}

// train trains the codes of the target's matrices, unless an earlier run has.
func (b *build) train() error {
	done, err := b.run.job.Has(b.file(trainedName))
	if err != nil || done {
		return err
	}
	defer b.run.profile.Off("train")()
	if _, _, err := b.run.trainingRows(); err != nil { // which the source may write yet
		return err
	}
	b.run.shelf.free() // training takes what room there is
	t := &trainer{build: b, files: map[string]*safetensors.File{}, saved: time.Now()}
	defer t.close()
	if err := t.open(); errors.Is(err, distill.ErrNoWayBack) {
		b.run.progress.Warn(err.Error() + "; the codes stay as they are")
		return t.finish(&distill.Report{Kept: true})
	} else if err != nil {
		return err
	}
	report, err := t.Train(b.run.ctx, distill.Follower{Checked: t.checked, Pause: t.pause})
	if err != nil {
		return err
	}
	b.run.progress.Note(t.summary(report))
	return t.finish(report)
}

// open loads the models and takes up what an earlier run has left.
func (t *trainer) open() (err error) {
	b, r := t.build, t.build.run
	if t.plan, err = b.trainingPlan(); err != nil {
		return err
	}
	for _, m := range r.src.loader.Layout[1:] {
		f, err := r.job.OpenTensors(b.file(m.Name + ".safetensors"))
		if err != nil {
			return err
		}
		for _, l := range m.Linears {
			t.files[l.Name] = f
		}
	}
	t.Trainer, err = distill.New(r.dev, r.src.loader, *t.plan, func(name string) (*exl2.Matrix, error) {
		return model.ReadMatrix(fileSet{t.files[name]}, name)
	})
	if err != nil {
		return err
	}
	r.progress.Start("train "+b.target.Text, t.Checks())
	return t.restore()
}

func (t *trainer) close() {
	if t.Trainer != nil {
		t.Trainer.Close()
	}
	for _, f := range t.files {
		f.Close()
	}
}

// checked tells of a check.
func (t *trainer) checked(step int, divergence float64) {
	if step > 0 {
		t.build.run.progress.Step(fmt.Sprintf("%d steps", step), fmt.Sprintf("divergence of held-out rows %.5f", divergence))
	}
}

func (t *trainer) summary(r *distill.Report) string {
	text := fmt.Sprintf("%s: %d steps of training, divergence of held-out rows %.5f, before %.5f", t.build.target.Text, r.Steps, r.After, r.Before)
	if r.Kept {
		text += "; the codes from before are kept"
	}
	return text
}

// pause writes the latents if it is time to, but not so often that it takes more than
// a twentieth of the time.
func (t *trainer) pause() error {
	if since := time.Since(t.saved); since < t.build.run.opts.on().every || since < 20*t.took {
		return nil
	}
	start := time.Now()
	err := t.save()
	t.saved = time.Now()
	t.took = t.saved.Sub(start)
	return err
}

// placeTensor is the name of what says how far training has come, as JSON.
const placeTensor = "place"

func (t *trainer) save() error {
	place, err := json.Marshal(t.Place)
	if err != nil {
		return err
	}
	infos := []safetensors.Info{{Name: placeTensor, DType: "U8", Shape: []int{len(place)}}}
	t.States(func(name string, x tensor.Tensor) error {
		infos = append(infos, safetensors.Info{Name: name, DType: x.Type.String(), Shape: []int{x.Rows, x.Cols}})
		return nil
	})
	w, err := t.build.run.job.CreateTensors(t.build.file(latentsName), infos)
	if err != nil {
		return err
	}
	defer w.Abort()
	if err := w.Write(placeTensor, place); err != nil {
		return err
	}
	err = t.States(func(name string, x tensor.Tensor) error {
		data := make([]byte, x.Bytes())
		t.build.run.dev.Download(data, x)
		return w.Write(name, data)
	})
	if err == nil {
		err = t.build.run.dev.Sync()
	}
	if err != nil {
		return err
	}
	return w.Commit()
}

// restore takes up the latents that an earlier run has written.
func (t *trainer) restore() error {
	name := t.build.file(latentsName)
	f, err := t.build.run.job.OpenTensors(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	place, err := bytesNamed(f, placeTensor)
	if err == nil {
		err = json.Unmarshal(place, &t.Place)
	}
	if err != nil {
		return t.build.run.job.Damaged(name, err)
	}
	err = t.States(func(tensorName string, x tensor.Tensor) error {
		data, err := bytesNamed(f, tensorName)
		if err == nil && len(data) != x.Bytes() {
			err = fmt.Errorf("%s has %d bytes, want %d", tensorName, len(data), x.Bytes())
		}
		if err != nil {
			return t.build.run.job.Damaged(name, err)
		}
		t.build.run.dev.Upload(x, data)
		return nil
	})
	t.Restored()
	for range t.Done() {
		t.build.run.progress.Skip("done before")
	}
	return err
}

func bytesNamed(f *safetensors.File, name string) ([]byte, error) {
	info, ok := f.Info(name)
	if !ok {
		return nil, fmt.Errorf("no tensor %q", name)
	}
	return bytesIn(f, info)
}

// finish writes the trained matrices, unless codes from before are kept, and the
// report last.
func (t *trainer) finish(report *distill.Report) error {
	b, perplexity := t.build, Perplexity(0)
	if !report.Kept {
		err := t.write()
		if err == nil {
			perplexity, err = t.perplexity()
		}
		if err != nil {
			return err
		}
	}
	if err := b.run.job.WriteJSON(b.file(trainedName), trainedReport{*report, perplexity}); err != nil {
		return err
	}
	return b.run.job.Remove(b.file(latentsName))
}

// write writes the trained matrices.
func (t *trainer) write() error {
	byName := map[string]*exl2.Matrix{}
	for i := range t.Matrices() {
		name, m, err := t.Matrix(i)
		if err == nil {
			err = m.Check()
		}
		if err != nil {
			return err
		}
		byName[name] = m
	}
	b := t.build
	for _, m := range b.run.src.loader.Layout[1:] {
		var list []packedMatrix
		for _, l := range m.Linears {
			if q := byName[l.Name]; q != nil {
				list = append(list, packedMatrix{l.Name, q})
			}
		}
		if err := b.writeMatrices(m.Name+trainedEnding, list); err != nil {
			return err
		}
	}
	return nil
}

// trained returns the report on the target's training; without any, that codes are
// kept.
func (b *build) trained() (*trainedReport, error) {
	r := &trainedReport{Report: distill.Report{Kept: true}}
	if !b.run.opts.trains() {
		return r, nil
	}
	return r, b.run.job.MustReadJSON(b.file(trainedName), r)
}

// perplexity scores the student on the rows that the quantized model was scored on.
func (t *trainer) perplexity() (Perplexity, error) {
	r := t.build.run
	rows := r.tokens.quantize[:min(r.opts.Data.MeasureRows, len(r.tokens.quantize))]
	length, spec := r.opts.Data.Length, r.src.loader.Spec
	x, err := r.place(len(rows)*length*spec.Handed()*4).Store(len(rows), length*spec.Handed())
	if err != nil {
		return 0, err
	}
	defer x.Close()
	pass := stream.NewPass(r.dev, spec, length, 1)
	defer pass.Free()
	if err := pass.Embed(r.ctx, t.Embedding(), rows, x); err != nil {
		return 0, err
	}
	s := quant.NewScalars(r.dev, len(rows)*length)
	defer s.Free()
	logs := s.Take(len(rows) * length)
	err = t.Behind(func(m *model.Module) error {
		if m.Kind != model.Head {
			return pass.Forward(r.ctx, m, x, x)
		}
		return r.likelihoods(logs, pass, x, m, len(rows))
	})
	if err != nil {
		return 0, err
	}
	if err := s.Fetch(); err != nil {
		return 0, err
	}
	return perplexity(s.Values(logs), len(rows)), nil
}
