package convert

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"exl2/internal/job"
	"exl2/internal/model"
	"exl2/internal/sensitivity"
	"exl2/internal/stream"
	"exl2/measure"
)

// probeRows is how many of the measurement rows gradients are computed for, and
// options are scored on.
const probeRows = 8

// The files that a job keeps a measurement in.
const (
	measurementName   = "measurement.json"
	measuredHidden    = "hidden.safetensors"
	measuredGradients = "gradients.safetensors"
)

// measureAll measures every sublayer, from where an earlier run left off, and
// writes measurement.json.
func (r *run) measureAll() error {
	hidden := r.job.Checkpoint(measuredHidden, r.opts.on().every)
	gradients := r.job.Checkpoint(measuredGradients, r.opts.on().every)
	if !r.measured {
		if err := r.measureModules(hidden, gradients); err != nil {
			return err
		}
	}
	if err := hidden.Remove(); err != nil {
		return err
	}
	return gradients.Remove()
}

// measureModules goes to the head and back.
func (r *run) measureModules(hidden, gradients *job.Checkpoint) error {
	m, err := r.newMeasuring()
	if err != nil {
		return err
	}
	defer m.close()
	saved, err := gradients.Open(len(r.src.loader.Layout) - 1)
	if err != nil {
		return err
	}
	if saved != nil {
		defer saved.Close()
	} else if err := r.walk(m, hidden, "measure", len(r.src.loader.Decoder())); err != nil {
		return err
	}
	if err := m.back(gradients, saved); err != nil {
		return err
	}
	return m.finish()
}

// measuring is the phase that measures.
type measuring struct {
	run      *run
	measurer *sensitivity.Measurer
}

// newMeasuring allocates the hidden states.
func (r *run) newMeasuring() (*measuring, error) {
	length, spec, rows := r.opts.Data.MeasureLength, r.src.loader.Spec, len(r.tokens.measure)
	m := &measuring{run: r, measurer: &sensitivity.Measurer{
		Dev: r.dev, Loader: r.src.loader, Pass: stream.NewPass(r.dev, spec, length, 1), Warn: r.progress.Warn,
		AllExperts: r.opts.AllExperts, Place: r.place(r.measureStreams()), Probes: spread(rows, probeRows),
	}}
	var err error
	if m.measurer.Base, err = m.measurer.Place.Store(rows, length*spec.Hidden); err != nil {
		m.close()
		return nil, err
	}
	return m, nil
}

func (m *measuring) close() {
	m.measurer.Pass.Free()
	m.measurer.Close()
}

// spread returns n numbers, evenly spread, of those from 0 below all.
func spread(all, n int) []int {
	n = min(n, all)
	out := make([]int, n)
	for i := range out {
		out[i] = i * all / n
	}
	return out
}

func (m *measuring) embed(e *model.Module) error {
	return m.measurer.Embed(m.run.ctx, e, m.run.tokens.measure)
}

// resume computes again the probe rows in front of sublayers that are measured,
// and of the next one.
func (m *measuring) resume(passed []model.ModuleSpec) error {
	e, err := m.run.src.loader.Load(m.run.dev, m.run.src.loader.Embedding())
	if err != nil {
		return err
	}
	defer e.Free()
	if err := m.measurer.EmbedProbes(m.run.ctx, e, m.run.tokens.measure); err != nil {
		return err
	}
	for _, spec := range passed {
		if _, err := m.read(spec); err != nil {
			return err
		}
		if err := m.measurer.Advance(m.run.ctx, spec); err != nil {
			return err
		}
	}
	return nil
}

func (m *measuring) step(spec model.ModuleSpec) (note string, err error) {
	h, err := m.measurer.Sublayer(m.run.ctx, spec)
	if err != nil {
		return "", err
	}
	if n := len(h.Options); n > 0 {
		note = fmt.Sprintf("accuracy %.4f to %.4f", h.Options[0].Accuracy, h.Options[n-1].Accuracy)
	}
	return note, m.write(h)
}

// settle has nothing to do: what a step finds is written at once.
func (m *measuring) settle() error { return nil }

func (m *measuring) stores() []job.Store {
	return []job.Store{{Name: "base", Hidden: m.measurer.Base}}
}

func sublayerFile(key string) string { return "measure/" + key + ".json" }

func (m *measuring) write(h *measure.Sublayer) error {
	return m.run.job.Write(sublayerFile(h.Key), (&measure.File{Sublayers: []measure.Sublayer{*h}}).Write)
}

// read returns the measurement of a sublayer, which must be there.
func (m *measuring) read(spec model.ModuleSpec) (*measure.Sublayer, error) {
	h, err := m.readFile(spec.Name)
	if err == nil && (len(h.Options) == 0) != (len(spec.Packable()) == 0) {
		return nil, m.run.job.Damaged(sublayerFile(spec.Name), errors.New("it does not hold that sublayer's measurement"))
	}
	return h, err
}

// readFile returns what is measured under a name.
func (m *measuring) readFile(key string) (*measure.Sublayer, error) {
	name, j := sublayerFile(key), m.run.job
	if found, err := j.Has(name); !found {
		if err == nil {
			err = j.Damaged(name, fs.ErrNotExist)
		}
		return nil, err
	}
	f, err := measure.ReadFile(j.Path(name))
	if err != nil {
		return nil, j.Damaged(name, err)
	}
	if len(f.Sublayers) != 1 || f.Sublayers[0].Key != key {
		return nil, j.Damaged(name, fmt.Errorf("it does not hold the measurement of %s", key))
	}
	return &f.Sublayers[0], nil
}

// finish joins the sublayers' files to measurement.json.
func (m *measuring) finish() error {
	l := m.run.src.loader
	f := &measure.File{LastModule: len(l.Layout)}
	for _, spec := range l.Decoder() {
		h, err := m.read(spec)
		if err != nil {
			return err
		}
		f.Sublayers = append(f.Sublayers, *h)
	}
	head, err := m.readFile(sensitivity.HeadModule(l.Spec.Names.Head))
	if err != nil {
		return err
	}
	// ExLlamaV2 lists norm and head, too, under these names, without options.
	f.Sublayers = append(f.Sublayers, measure.Sublayer{Key: l.Spec.Names.Final + ".norm"}, *head)
	return m.run.job.Write(measurementName, f.Write)
}

// copyMeasurement copies the job's measurement to where the user wants it.
func (r *run) copyMeasurement() error {
	if r.opts.SaveMeasurement == "" {
		return nil
	}
	data, err := os.ReadFile(r.job.Path(measurementName))
	if err != nil {
		return err
	}
	path := absolute(r.opts.SaveMeasurement)
	if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
		return err
	}
	return r.job.Write(path, func(w io.Writer) error { _, err := w.Write(data); return err })
}
