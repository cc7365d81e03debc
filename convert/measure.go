package convert

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"

	"exl2/internal/job"
	"exl2/internal/model"
	"exl2/internal/regular"
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
	if !r.measured {
		t := &trip{
			there: newStage("measure", len(r.src.loader.Decoder())), measured: newBoard(),
			back: newStage("sensitivities", len(r.src.loader.Layout)-1), done: newBoard(),
		}
		if err := each(r.workers, func(w *run) error { return w.measureModules(t) }); err != nil {
			return err
		}
		if err := r.finishMeasurement(); err != nil {
			return err
		}
	}
	for _, name := range []string{measuredHidden, measuredGradients} {
		if err := r.checkpoint(name).Remove(); err != nil {
			return err
		}
	}
	return nil
}

// checkpoint returns where hidden states of measuring are kept. They are the same
// with all workers; the first writes them.
func (r *run) checkpoint(name string) *job.Checkpoint {
	every := r.opts.on().every
	if r.number > 0 {
		every = math.MaxInt64
	}
	return r.job.Checkpoint(name, every)
}

// A trip is the way to the head and back, which all workers go, each through all
// modules: hidden states and gradients are carried along cheaply, and candidates and
// variants, which are not cheap, are each of one worker, the one that comes first.
type trip struct {
	there, back    *stage
	measured, done *board
}

// measureModules goes to the head and back.
func (r *run) measureModules(t *trip) error {
	m, err := r.newMeasuring(t)
	if err != nil {
		return err
	}
	defer m.close()
	gradients := r.checkpoint(measuredGradients)
	saved, err := gradients.Open(len(r.src.loader.Layout) - 1)
	if err != nil {
		return err
	}
	if saved != nil {
		defer saved.Close()
	} else if err := r.walk(m, r.checkpoint(measuredHidden), t.there); err != nil {
		return err
	}
	return m.back(gradients, saved)
}

// measuring is the phase that measures.
type measuring struct {
	run      *run
	trip     *trip
	way      *board // of the trip: there or back
	measurer *sensitivity.Measurer
}

// newMeasuring allocates the hidden states.
func (r *run) newMeasuring(t *trip) (*measuring, error) {
	length, spec, rows := r.opts.Data.MeasureLength, r.src.loader.Spec, len(r.tokens.measure)
	m := &measuring{run: r, trip: t, way: t.measured, measurer: &sensitivity.Measurer{
		Dev: r.dev, Loader: r.src.loader, Pass: stream.NewPass(r.dev, spec, length, r.variedTogether()), Warn: r.progress.Warn, Profile: r.profile,
		AllExperts: r.opts.AllExperts, Load: r.shelf.load, Place: r.place(r.measureStreams()), Work: r.memory.batch, Moments: r.memory.moments, Probes: spread(rows, probeRows),
	}}
	var err error
	if m.measurer.Base, err = m.measurer.Place.Store(rows, length*spec.Handed()); err != nil {
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
	e, err := m.run.shelf.load(m.run.src.loader.Embedding())
	if err != nil {
		return err
	}
	defer e.Free()
	if err := m.measurer.EmbedProbes(m.run.ctx, e, m.run.tokens.measure); err != nil {
		return err
	}
	for _, spec := range passed {
		if _, err := m.run.measuredOf(spec); err != nil {
			return err
		}
		m.trip.measured.add(spec.Name)
		if err := m.measurer.Advance(m.run.ctx, spec); err != nil {
			return err
		}
	}
	return nil
}

func (m *measuring) step(spec model.ModuleSpec) (note string, err error) {
	if !m.way.claim(spec.Name, m.run.number) {
		return "", m.measurer.Skip(m.run.ctx, spec)
	}
	if before, err := m.before(spec.Name); err != nil {
		return "", err
	} else if before {
		m.trip.measured.add(spec.Name)
		return doneBefore, m.measurer.Skip(m.run.ctx, spec)
	}
	h, err := m.measurer.Sublayer(m.run.ctx, spec)
	if err != nil {
		return "", err
	}
	if n := len(h.Options); n > 0 {
		note = fmt.Sprintf("accuracy %.4f to %.4f", h.Options[0].Accuracy, h.Options[n-1].Accuracy)
	}
	return note, m.write(h, m.trip.measured)
}

// before reports whether an earlier run has measured a sublayer, or the head, of which no
// hidden states were written behind it.
func (m *measuring) before(key string) (bool, error) { return m.run.job.Has(sublayerFile(key)) }

// mine: a module has one worker, the first that comes to it.
func (m *measuring) mine(spec model.ModuleSpec) bool { return m.way.owns(spec.Name, m.run.number) }

// settle waits until the modules that the hidden states have passed are measured, by
// whomever: what a step finds is written at once.
func (m *measuring) settle() error {
	return m.measured(m.run.src.loader.Layout[1:len(m.measurer.Inputs)])
}

// measured waits until some modules are measured on the way to the head.
func (m *measuring) measured(list []model.ModuleSpec) error {
	return m.trip.measured.wait(m.run.ctx, list)
}

func (m *measuring) stores() []job.Store {
	return []job.Store{{Name: "base", Hidden: m.measurer.Base}}
}

func sublayerFile(key string) string { return "measure/" + key + ".json" }

// write writes a sublayer's file, which is then done.
func (m *measuring) write(h *measure.Sublayer, b *board) error {
	err := m.run.job.Write(sublayerFile(h.Key), (&measure.File{Sublayers: []measure.Sublayer{*h}}).Write)
	if err == nil {
		b.add(h.Key)
	}
	return err
}

// measuredOf returns the measurement of a sublayer, which must be there.
func (r *run) measuredOf(spec model.ModuleSpec) (*measure.Sublayer, error) {
	h, err := r.measuredAs(spec.Name)
	if err == nil && (len(h.Options) == 0) != (len(spec.Packable()) == 0) {
		return nil, r.job.Damaged(sublayerFile(spec.Name), errors.New("it does not hold that sublayer's measurement"))
	}
	return h, err
}

// measuredAs returns what is measured under a name.
func (r *run) measuredAs(key string) (*measure.Sublayer, error) {
	name, j := sublayerFile(key), r.job
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

// finishMeasurement joins the sublayers' files to measurement.json.
func (r *run) finishMeasurement() error {
	l := r.src.loader
	f := &measure.File{LastModule: len(l.Layout), Folds: r.folding.Folds, Rotated: r.folding.Rotated}
	for _, spec := range l.Decoder() {
		h, err := r.measuredOf(spec)
		if err != nil {
			return err
		}
		f.Sublayers = append(f.Sublayers, *h)
	}
	head, err := r.measuredAs(sensitivity.HeadModule(l.Spec.Names.Head))
	if err != nil {
		return err
	}
	// ExLlamaV2 lists norm and head, too, under these names, without options.
	f.Sublayers = append(f.Sublayers, measure.Sublayer{Key: cmp.Or(l.Spec.Names.Final, l.Spec.Names.Head) + ".norm"}, *head)
	return r.job.Write(measurementName, f.Write)
}

// copyMeasurement copies the job's measurement to where the user wants it.
func (r *run) copyMeasurement() error {
	if r.opts.SaveMeasurement == "" {
		return nil
	}
	data, err := regular.ReadOwn(r.job.Path(measurementName))
	if err != nil {
		return err
	}
	path := absolute(r.opts.SaveMeasurement)
	if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
		return err
	}
	return r.job.Write(path, func(w io.Writer) error { _, err := w.Write(data); return err })
}
