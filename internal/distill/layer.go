package distill

import (
	"fmt"

	"exl2/internal/device"
	"exl2/internal/exl2"
	"exl2/internal/model"
	"exl2/internal/tensor"
)

// A layer is a module of the student as training sees it.
type layer struct {
	latents []*latent
	made    bool // its weights are made of latents for each use
	*cargo       // what it has in the host's memory, or nil
}

// quantize makes latents of the matrices of the student's module number n, a twin of the
// teacher's.
func (t *Trainer) quantize(n int, matrix func(name string) (*exl2.Matrix, error)) error {
	head := n == len(t.loader.Layout)-2
	x := &layer{made: t.plan.Lean && !head}
	if n < t.plan.Away && !head {
		x.cargo = &cargo{}
	}
	t.layers = append(t.layers, x)
	sources, off := t.teacher[n].AllLinears(), 0
	for i, l := range t.student[n].AllLinears() {
		if !l.Packable() {
			continue
		}
		q, err := matrix(l.Name)
		if err != nil {
			return err
		}
		missing := false
		y := newLatent(t.dev, l, sources[i], q, func(kind tensor.Type, rows, cols int) tensor.Tensor {
			if x.cargo == nil {
				return t.dev.Alloc(kind, rows, cols)
			}
			h, ok := t.dev.(device.Pinner).AllocHost(kind, rows, cols)
			missing = missing || !ok
			return h
		})
		t.latents, t.byLinear[l], x.latents = append(t.latents, y), y, append(x.latents, y)
		if x.made {
			l.Borrow(t.dev, model.Dense{Tensor: t.shared().Columns(off, off+l.Out*l.In).Reshape(l.Out, l.In)})
			off += l.Out * l.In
		} else {
			l.Replace(t.dev, model.Dense{Tensor: t.dev.Alloc(t.dev.Activation(), l.Out, l.In)})
		}
		if x.cargo != nil {
			missing = !t.send(x, y) || missing
		}
		if missing {
			return fmt.Errorf("train %s: the host has no more memory that can be locked for %s", l.Name, t.dev.Name())
		}
	}
	return t.dev.Sync()
}

// shared is room for the weights of the module at work.
func (t *Trainer) shared() tensor.Tensor {
	if t.weights.Nil() {
		t.weights = t.dev.Alloc(t.dev.Activation(), 1, mostOf(t.loader))
	}
	return t.weights
}

// send sends the source's weight and the latent to the host's memory.
func (t *Trainer) send(x *layer, y *latent) bool {
	w := y.original
	home, ok := t.dev.(device.Pinner).AllocHost(w.Type, w.Rows, w.Cols)
	if !ok {
		return false
	}
	t.dev.Copy(home, w)
	y.source.Borrow(t.dev, model.Dense{Tensor: home})
	y.away, y.original = true, home
	x.sources = append(x.sources, ware{home, func(here tensor.Tensor) { y.source.W = model.Dense{Tensor: here} }})
	x.values = append(x.values, ware{y.kept.v, func(here tensor.Tensor) { y.V = here }})
	x.moments = append(x.moments, ware{y.kept.first, func(here tensor.Tensor) { y.first = here }}, ware{y.kept.second, func(here tensor.Tensor) { y.second = here }})
	return true
}

// prepareConveyor makes the way between the host's memory and the device's.
func (t *Trainer) prepareConveyor() (err error) {
	if list := t.cargos(); len(list) > 0 {
		t.conveyor, err = newConveyor(t.dev, list)
	}
	return err
}

// cargos lists those of modules that are away.
func (t *Trainer) cargos() (list []*cargo) {
	for _, x := range t.layers {
		if x.cargo != nil {
			list = append(list, x.cargo)
		}
	}
	return list
}

func (t *Trainer) freeConveyor() {
	if t.conveyor != nil {
		for _, s := range t.conveyor.slots {
			t.dev.Free(s.room)
		}
	}
	for _, x := range t.latents {
		if x.away {
			t.dev.Free(x.original)
		}
	}
}

// settle has everything find latents where they are kept.
func (t *Trainer) settle() {
	if t.conveyor != nil {
		t.conveyor.settle(t.cargos())
	}
}

// A purpose is what a module is needed for.
type purpose uint8

const (
	teaching  purpose = iota // the source's pass
	answering                // the student's
	learning                 // its way back, which changes it
)

// route says what the pass will need, in which order.
func (t *Trainer) route(purposes ...purpose) {
	if t.conveyor == nil {
		return
	}
	var list []visit
	for _, p := range purposes {
		for i := range t.layers {
			if p == learning {
				i = len(t.layers) - 1 - i
			}
			if x := t.layers[i]; x.cargo != nil {
				list = append(list, x.visit(p))
			}
		}
	}
	t.conveyor.begin(list)
}

func (x *layer) visit(p purpose) visit {
	switch p {
	case teaching:
		return visit{cargo: x.cargo, wares: x.sources}
	case answering:
		return visit{cargo: x.cargo, wares: x.values}
	}
	return visit{cargo: x.cargo, wares: append(x.values[:len(x.values):len(x.values)], x.moments...), changes: true}
}

// use has module number n ready while f runs.
func (t *Trainer) use(n int, p purpose, f func()) {
	x := t.layers[n]
	if x.cargo != nil {
		t.conveyor.enter()
	}
	if x.made && p != teaching {
		for _, y := range x.latents {
			t.dev.RoundLatent(y.weight(), y.Latent)
		}
	}
	f()
	if x.cargo != nil {
		t.conveyor.leave()
	}
}

// Behind calls f for the modules of the model whose codes are trained, behind the
// embedding, in order.
func (t *Trainer) Behind(f func(m *model.Module) error) (err error) {
	t.route(answering)
	for i, m := range t.student {
		t.use(i, answering, func() {
			if err == nil {
				err = f(m)
			}
		})
	}
	return err
}

// Embedding returns the first module of both models.
func (t *Trainer) Embedding() *model.Module { return t.embed }
