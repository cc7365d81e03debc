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

// probeRows is how many of the measurement rows carry variants: enough tokens
// to tell sensitivities apart, few enough for two hundred variants.
const probeRows = 4

// The files that a job keeps a measurement in.
const (
	measurementName = "measurement.json"
	measuredHidden  = "hidden.safetensors"
)

// measureAll measures every half-block, from where an earlier run left off, and
// writes measurement.json.
func (r *run) measureAll() error {
	checkpoint := r.job.Checkpoint(measuredHidden, r.opts.on().every)
	if r.measured {
		return checkpoint.Remove()
	}
	m, err := r.newMeasuring()
	if err != nil {
		return err
	}
	defer m.close()
	if err := r.walk(m, checkpoint, "measure", len(r.src.loader.Decoder())); err != nil {
		return err
	}
	if err := m.finish(); err != nil {
		return err
	}
	return checkpoint.Remove()
}

// measuring is the phase that measures.
type measuring struct {
	run      *run
	measurer *sensitivity.Measurer
	probe    [][]int32 // the rows that carry variants
}

// newMeasuring allocates the hidden states.
func (r *run) newMeasuring() (*measuring, error) {
	length, spec := r.opts.Data.MeasureLength, r.src.loader.Spec
	m := &measuring{run: r, probe: spread(r.tokens.measure, probeRows), measurer: &sensitivity.Measurer{
		Dev: r.dev, Loader: r.src.loader, Pass: stream.NewPass(r.dev, spec, length, 1), Warn: r.progress.Warn,
		Spill: r.spill(r.measureStreams()), Reference: &sensitivity.Variant{},
	}}
	var err error
	if m.measurer.Base, err = m.store(len(r.tokens.measure)); err == nil {
		m.measurer.Reference.X, err = m.store(len(m.probe))
	}
	if err != nil {
		m.close()
		return nil, err
	}
	return m, nil
}

// store returns room for the hidden states of some rows.
func (m *measuring) store(rows int) (*stream.Store, error) {
	return stream.NewStore(rows, m.measurer.Pass.Length*m.run.src.loader.Spec.Hidden, m.measurer.Spill)
}

func (m *measuring) close() {
	m.measurer.Pass.Free()
	for _, s := range m.stores() {
		s.Hidden.Close()
	}
}

// spread takes n rows that lie evenly among all.
func spread(rows [][]int32, n int) [][]int32 {
	n = min(n, len(rows))
	out := make([][]int32, n)
	for i := range out {
		out[i] = rows[i*len(rows)/n]
	}
	return out
}

func (m *measuring) embed(e *model.Module) error {
	if err := m.measurer.Pass.Embed(m.run.ctx, e, m.run.tokens.measure, m.measurer.Base); err != nil {
		return err
	}
	return m.measurer.Pass.Embed(m.run.ctx, e, m.probe, m.measurer.Reference.X)
}

// resume makes room for the variants of a half-block that is measured.
func (m *measuring) resume(spec model.ModuleSpec) error {
	h, err := m.read(spec.Name)
	if err != nil {
		return err
	}
	for _, t := range h.Tables {
		v := &sensitivity.Variant{Key: t.Key}
		if v.Error, err = sensitivity.ProbeError(t); err != nil {
			return m.run.job.Damaged(halfBlockFile(h.Key), err)
		}
		if v.X, err = m.store(len(m.probe)); err != nil {
			return err
		}
		m.measurer.Variants = append(m.measurer.Variants, v)
	}
	return nil
}

func (m *measuring) step(spec model.ModuleSpec) (note string, err error) {
	h, err := m.measurer.HalfBlock(m.run.ctx, spec)
	if err != nil {
		return "", err
	}
	lo, hi := h.Options[0], h.Options[len(h.Options)-1]
	note = fmt.Sprintf("accuracy %.4f to %.4f", lo.Accuracy, hi.Accuracy)
	return note, m.run.job.Write(halfBlockFile(h.Key), (&measure.File{HalfBlocks: []measure.HalfBlock{*h}}).Write)
}

// settle has nothing to do: what a step finds is written at once.
func (m *measuring) settle() error { return nil }

func (m *measuring) stores() []job.Store {
	var list []job.Store
	add := func(name string, s *stream.Store) {
		if s != nil {
			list = append(list, job.Store{Name: name, Hidden: s})
		}
	}
	add("base", m.measurer.Base)
	add("reference", m.measurer.Reference.X)
	for _, v := range m.measurer.Variants {
		add("variant/"+v.Key, v.X)
	}
	return list
}

func halfBlockFile(key string) string { return "measure/" + key + ".json" }

// read returns the measurement of a half-block, which must be there.
func (m *measuring) read(key string) (*measure.HalfBlock, error) {
	name, j := halfBlockFile(key), m.run.job
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
	if len(f.HalfBlocks) != 1 || f.HalfBlocks[0].Key != key || len(f.HalfBlocks[0].Options) == 0 {
		return nil, j.Damaged(name, errors.New("it does not hold that half-block's measurement"))
	}
	return &f.HalfBlocks[0], nil
}

// finish finds the sensitivities and joins the half-blocks' files to
// measurement.json.
func (m *measuring) finish() error {
	r, l := m.run, m.run.src.loader
	r.progress.Start("sensitivities", m.measurer.Reference.X.Rows*len(m.measurer.Variants))
	sensitivities, err := m.measurer.Sensitivities(r.ctx, func(key string) { r.progress.Step(key, "") })
	if err != nil {
		return err
	}
	f := &measure.File{LastModule: len(l.Layout)}
	for _, spec := range l.Decoder() {
		h, err := m.read(spec.Name)
		if err != nil {
			return err
		}
		for k := range h.Tables {
			h.Tables[k].Sensitivity = sensitivities[h.Tables[k].Key]
		}
		f.HalfBlocks = append(f.HalfBlocks, *h)
	}
	// ExLlamaV2 lists norm and head, too, under these names.
	f.HalfBlocks = append(f.HalfBlocks, measure.HalfBlock{Key: l.Spec.Names.Final + ".norm"}, measure.HalfBlock{Key: l.Spec.Names.Head + ".linear"})
	return r.job.Write(measurementName, f.Write)
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
