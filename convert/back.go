package convert

import (
	"fmt"
	"slices"

	"exl2/internal/job"
	"exl2/internal/model"
	"exl2/internal/sensitivity"
	"exl2/measure"
)

// back goes through the modules from the head to the first, from where an earlier
// run has stopped, and adds sensitivities to the sublayers' files. A checkpoint's
// gradients stand in front of the module that has been done last.
func (m *measuring) back(c *job.Checkpoint, saved *job.Saved) error {
	r, layout := m.run, m.run.src.loader.Layout
	done, err := m.turn(saved)
	if err != nil {
		return err
	}
	m.way = m.trip.done
	passed := slices.Clone(layout[done:])
	slices.Reverse(passed)
	for i := done - 1; i > 0; i-- {
		r.ahead(i - 1)
		note, err := m.stepBack(layout[i])
		if err == nil && i == done-1 { // other workers may have been on their way to the head meanwhile
			err = m.measured(layout[1:i])
			m.trip.back.begin(r.progress, passed, m.mine)
		}
		if err != nil {
			return err
		}
		if c.Due() {
			if err := m.trip.done.wait(r.ctx, layout[i:done]); err != nil {
				return err
			}
			if err := c.Write(i, m.gradients()); err != nil {
				return err
			}
		}
		if m.mine(layout[i]) {
			tell(r.progress, layout[i].Name, note)
		}
	}
	return nil
}

// turn puts gradients and the probe rows to where an earlier run has stopped, and
// returns the place in the layout of the module that has been done last.
func (m *measuring) turn(saved *job.Saved) (done int, err error) {
	layout := m.run.src.loader.Layout
	if saved == nil {
		return len(layout), nil
	}
	if err := m.resume(layout[1:saved.Next]); err != nil {
		return 0, err
	}
	if err := m.measurer.Turn(); err != nil {
		return 0, err
	}
	return saved.Next, saved.Restore(m.gradients())
}

func (m *measuring) gradients() []job.Store {
	return []job.Store{{Name: "gradient", Hidden: m.measurer.Gradient}}
}

// stepBack moves the gradients in front of a module.
func (m *measuring) stepBack(spec model.ModuleSpec) (note string, err error) {
	if spec.Kind == model.Head {
		return m.head(spec)
	}
	if !m.way.claim(spec.Name, m.run.number) {
		return "", m.measurer.SkipBack(m.run.ctx, spec)
	}
	h, err := m.run.measuredOf(spec)
	if err != nil {
		return "", err
	}
	if slices.ContainsFunc(h.Tables, func(t measure.Table) bool { return t.Sensitivity > 0 }) {
		m.trip.done.add(spec.Name)
		return doneBefore, m.measurer.SkipBack(m.run.ctx, spec)
	}
	sensitivities, err := m.measurer.Sensitivities(m.run.ctx, spec)
	if err != nil {
		return "", err
	}
	most := 0.0
	for i := range h.Tables {
		t := &h.Tables[i]
		t.SetSensitivity(sensitivities[t.VariantKey()])
		most = max(most, t.Sensitivity)
	}
	return fmt.Sprintf("up to %.3g", most), m.write(h, m.trip.done)
}

// head measures the head, if no other worker does, and sets the gradients in front of it.
func (m *measuring) head(spec model.ModuleSpec) (note string, err error) {
	if !m.way.claim(spec.Name, m.run.number) {
		return "", m.measurer.Head(m.run.ctx)
	}
	if before, err := m.before(sensitivity.HeadModule(m.run.src.loader.Spec.Names.Head)); err != nil {
		return "", err
	} else if before {
		m.trip.done.add(spec.Name)
		return doneBefore, m.measurer.Head(m.run.ctx)
	}
	named, more := headCandidates(m.run.src.loader.Head().Linears[0])
	table, err := m.measurer.HeadTable(m.run.ctx, named, more)
	if err != nil {
		return "", fmt.Errorf("measure %s: %w", m.run.src.loader.Head().Name, err)
	}
	if err := m.write(&measure.Sublayer{Key: table.Module, Tables: []measure.Table{*table}}, m.trip.done); err != nil {
		return "", err
	}
	m.trip.done.add(spec.Name)
	costs := table.Candidates[:len(named)]
	return fmt.Sprintf("divergence %.3g to %.3g", costs[len(costs)-1].Divergence, costs[0].Divergence), m.measurer.Head(m.run.ctx)
}
