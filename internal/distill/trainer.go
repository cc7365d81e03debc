// Package distill trains the codes of a quantized model with its source as the
// teacher.
//
// The nouns: the teacher is the source, the student the same model with quantized
// matrices. A latent stands for a matrix of the student: its codes with fractions
// (device.Latent). A [Trainer] has both models and takes steps, a [Plan] says how
// many and how large ones; [Trainer.Train] follows it.
package distill

import (
	"errors"
	"fmt"

	"exl2/internal/device"
	"exl2/internal/exl2"
	"exl2/internal/model"
	"exl2/internal/tensor"
)

// A Trainer has a model and its quantized form on a device.
type Trainer struct {
	dev    device.Quantize
	plan   Plan
	loader *model.Loader

	embed            *model.Module
	teacher, student []*model.Module // behind the embedding; the heads last
	latents          []*latent
	byLinear         map[*model.Linear]*latent
	layers           []*layer      // of the student's modules
	weights          tensor.Tensor // of the module at work, in front of the head, if they are made for each use
	conveyor         *conveyor

	cache      *model.Cache
	state      *model.State
	gradients  *model.State
	inputs     []tensor.Tensor // of the student's modules: streams, F32 [rows, hidden]
	states     []*model.State  // of the student's modules in front of the head, if activations are kept
	kept       []model.Kept
	taught     tensor.Tensor // the stream in front of the teacher's head
	lessons    lessons
	reference  tensor.Tensor // logits of the teacher, F32 [logit rows, vocabulary]
	divergence tensor.Tensor // F32 [1, rows]
	gradient   tensor.Tensor // of weights that read the same, F32 [1, elements]

	Place Place
}

// ErrNoWayBack says that there is no backward pass through a module on the device, so
// that codes cannot be trained.
var ErrNoWayBack = errors.New("no backward pass is known")

// logitRows is how many positions get logits at a time, at most.
const logitRows = 2048

// New loads both models: matrix finds a quantized matrix by its name.
func New(d device.Quantize, l *model.Loader, p Plan, matrix func(name string) (*exl2.Matrix, error)) (*Trainer, error) {
	t := &Trainer{dev: d, plan: p, loader: l, byLinear: map[*model.Linear]*latent{}}
	if err := t.load(matrix); err != nil {
		t.Close()
		return nil, err
	}
	t.reset(!p.FromCodes)
	z := model.Size{Rows: p.Batch * p.Length, Logits: min(logitRows, p.Batch*p.Length)}
	t.cache = model.NewCache(d, l.Spec, model.SharedCache(l.Spec, p.Batch, p.Length))
	t.state = model.NewState(d, l.Spec, z, t.cache)
	t.gradients = model.NewGradients(t.state, l.Spec, z.Rows)
	t.gradients.Half = true
	if p.Keep {
		t.keep()
	}
	for range t.student {
		t.inputs = append(t.inputs, d.Alloc(tensor.F32, z.Rows, l.Spec.Handed()))
	}
	t.taught = d.Alloc(tensor.F32, z.Rows, l.Spec.Handed())
	t.lessons = newLessons(d, &p, l.Spec.Handed())
	t.reference = d.Alloc(tensor.F32, z.Logits, l.Spec.Vocab)
	t.divergence = d.Alloc(tensor.F32, 1, z.Rows)
	t.gradient = d.Alloc(tensor.F32, 1, t.mostGraded())
	if err := d.Sync(); err != nil {
		t.Close()
		return nil, err
	}
	return t, nil
}

// keep makes states that keep activations.
func (t *Trainer) keep() {
	for range t.student[1:] {
		s := model.NewState(t.dev, t.loader.Spec, model.Size{Rows: t.plan.Batch * t.plan.Length}, t.cache)
		s.Use(runsOf(t.plan.Batch), t.plan.Length, nil)
		t.states = append(t.states, s)
	}
	t.kept = make([]model.Kept, len(t.states))
}

// load loads the modules of both models.
func (t *Trainer) load(matrix func(name string) (*exl2.Matrix, error)) (err error) {
	if t.embed, err = t.loader.Load(t.dev, t.loader.Embedding()); err != nil {
		return err
	}
	for _, spec := range t.loader.Layout[1:] {
		m, err := t.loader.Load(t.dev, spec)
		if err != nil {
			return err
		}
		t.teacher = append(t.teacher, m)
		if !m.CanRunBack() {
			return fmt.Errorf("train %s: %w", m.Name, ErrNoWayBack)
		}
		t.student = append(t.student, m.Twin())
		if err := t.quantize(len(t.student)-1, matrix); err != nil {
			return err
		}
	}
	return t.prepareConveyor()
}

// Close frees everything.
func (t *Trainer) Close() {
	t.settle()
	t.freeConveyor()
	for _, x := range append(t.inputs, t.taught, t.lessons.room, t.reference, t.divergence, t.gradient) {
		t.dev.Free(x)
	}
	for _, s := range append(t.states, t.gradients, t.state) {
		if s != nil {
			s.Free()
		}
	}
	if t.cache != nil {
		t.cache.Free()
	}
	for _, x := range t.latents {
		x.free(t.dev)
	}
	t.dev.Free(t.weights)
	for _, m := range append(t.student, t.teacher...) {
		m.Free()
	}
	if t.embed != nil {
		t.embed.Free()
	}
}

// Matrix returns a matrix with the codes as they are now.
func (t *Trainer) Matrix(i int) (name string, m *exl2.Matrix, err error) {
	x := t.latents[i]
	t.settle()
	v := make([]float32, x.V.Rows*x.V.Cols)
	t.dev.Download(tensor.BytesOf(v), x.kept.v)
	if err := t.dev.Sync(); err != nil {
		return "", nil, err
	}
	return x.linear.Name, packed(x.matrix, v, x.linear.Out), nil
}

// Matrices returns how many matrices there are.
func (t *Trainer) Matrices() int { return len(t.latents) }
