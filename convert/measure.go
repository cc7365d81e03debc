package convert

import (
	"errors"
	"fmt"

	"exl2/internal/atomicfile"
	"exl2/internal/stream"
	"exl2/measure"
)

// probeRows is how many of the measurement rows carry variants: enough tokens
// to tell sensitivities apart, few enough for two hundred variants.
const probeRows = 4

// measureAll measures every half-block, from where an earlier run left off, and
// writes measurement.json.
func (r *run) measureAll() error {
	if r.job.has("measurement.json") {
		return r.measureCheckpoint.remove()
	}
	m, next, err := r.startMeasuring()
	if err != nil {
		return err
	}
	defer m.Pass.Free()
	decoder := r.src.loader.Decoder()
	r.progress.Start("measure", len(decoder))
	for i, spec := range decoder {
		if i+1 < next {
			r.progress.Skip(spec.Name)
			continue
		}
		h, err := m.HalfBlock(r.ctx, spec)
		if err != nil {
			return err
		}
		if err := r.job.writeHalfBlock(h); err != nil {
			return err
		}
		if r.measureCheckpoint.due() {
			if err := r.measureCheckpoint.write(i+2, measurerStores(m)); err != nil {
				return err
			}
		}
		r.progress.Step(spec.Name, summary(h))
	}
	r.progress.Start("sensitivities", m.Reference.X.Rows*len(m.Variants))
	sensitivities, err := m.Sensitivities(r.ctx, func(key string) { r.progress.Step(key, "") })
	if err != nil {
		return err
	}
	if err := r.writeMeasurement(sensitivities); err != nil {
		return err
	}
	return r.measureCheckpoint.remove()
}

// summary says in a few words how a half-block measured.
func summary(h *measure.HalfBlock) string {
	lo, hi := h.Options[0], h.Options[len(h.Options)-1]
	return fmt.Sprintf("accuracy %.4f to %.4f", lo.Accuracy, hi.Accuracy)
}

// startMeasuring makes a Measurer in front of the first module that is not
// measured.
func (r *run) startMeasuring() (*measure.Measurer, int, error) {
	d, spec := r.opts.Data, r.src.loader.Spec
	tokens := r.tokens.measure
	length := d.MeasureLength
	m := &measure.Measurer{
		Dev: r.dev, Loader: r.src.loader, Pass: stream.NewPass(r.dev, spec, length), Warn: r.progress.Warn,
	}
	floats := length * spec.Hidden
	probe := spread(tokens, probeRows)
	m.Spill = r.spill(r.measureStreams())
	var err error
	if m.Base, err = stream.NewStore(len(tokens), floats, m.Spill); err != nil {
		return nil, 0, err
	}
	m.Reference = &measure.Variant{}
	if m.Reference.X, err = stream.NewStore(len(probe), floats, m.Spill); err != nil {
		return nil, 0, err
	}
	next, err := r.resumeMeasuring(m)
	if err != nil || next > 0 {
		return m, next, err
	}
	embedding, err := r.src.loader.Load(r.dev, r.src.loader.Embedding())
	if err != nil {
		return nil, 0, err
	}
	defer embedding.Free()
	if err := m.Pass.Embed(r.ctx, embedding, tokens, m.Base); err != nil {
		return nil, 0, err
	}
	return m, 1, m.Pass.Embed(r.ctx, embedding, probe, m.Reference.X)
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

// resumeMeasuring restores the hidden states of an interrupted run, if there
// are any, and returns the module that they stand in front of.
func (r *run) resumeMeasuring(m *measure.Measurer) (next int, err error) {
	f, next, err := r.measureCheckpoint.open(len(r.src.loader.Layout) - 1)
	if f == nil {
		return 0, err
	}
	defer f.Close()
	for _, spec := range r.src.loader.Layout[1:next] {
		h, err := r.job.readHalfBlock(spec.Name)
		if err != nil {
			return 0, err
		}
		for _, t := range h.Tables {
			e, err := t.ProbeError()
			if err != nil {
				return 0, r.job.damaged(halfBlockFile(h.Key), err)
			}
			x, err := stream.NewStore(m.Reference.X.Rows, m.Reference.X.Floats, m.Spill)
			if err != nil {
				return 0, err
			}
			m.Variants = append(m.Variants, &measure.Variant{Key: t.Key, Error: e, X: x})
		}
	}
	for _, s := range measurerStores(m) {
		if err := restore(f, s); err != nil {
			return 0, err
		}
	}
	return next, nil
}

// measurerStores lists the hidden states of a Measurer.
func measurerStores(m *measure.Measurer) []namedStore {
	list := []namedStore{{"base", m.Base}, {"reference", m.Reference.X}}
	for _, v := range m.Variants {
		list = append(list, namedStore{"variant/" + v.Key, v.X})
	}
	return list
}

func halfBlockFile(key string) string { return "measure/" + key + ".json" }

func (j *job) writeHalfBlock(h *measure.HalfBlock) error {
	return writeMeasurementFile(j.path(halfBlockFile(h.Key)), &measure.File{HalfBlocks: []measure.HalfBlock{*h}})
}

func (j *job) readHalfBlock(key string) (*measure.HalfBlock, error) {
	f, err := measure.ReadFile(j.path(halfBlockFile(key)))
	if err != nil {
		return nil, fmt.Errorf("%w; --restart begins again", err)
	}
	if len(f.HalfBlocks) != 1 || f.HalfBlocks[0].Key != key || len(f.HalfBlocks[0].Options) == 0 {
		return nil, j.damaged(halfBlockFile(key), errors.New("it does not hold that half-block's measurement"))
	}
	return &f.HalfBlocks[0], nil
}

// writeMeasurement joins the half-blocks' files to measurement.json.
func (r *run) writeMeasurement(sensitivities map[string]float64) error {
	l := r.src.loader
	f := &measure.File{LastModule: len(l.Layout)}
	for _, spec := range l.Decoder() {
		h, err := r.job.readHalfBlock(spec.Name)
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
	return writeMeasurementFile(r.job.path("measurement.json"), f)
}

func writeMeasurementFile(path string, f *measure.File) error {
	w, err := atomicfile.Create(path)
	if err != nil {
		return err
	}
	defer w.Abort()
	if err := f.Write(w); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return w.Commit()
}

// copyMeasurement copies the job's measurement to where the user wants it.
func (r *run) copyMeasurement() error {
	if r.opts.SaveMeasurement == "" {
		return nil
	}
	return copyFile(r.opts.SaveMeasurement, r.job.path("measurement.json"))
}
