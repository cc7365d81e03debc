package convert

import (
	"slices"

	"exl2/internal/device"
	"exl2/internal/model"
	"exl2/internal/tensor"
)

// hold makes room for what the linears of step n read, if the streams are on the
// device and it has room for that, too.
func (s *sweep) hold(n int) map[model.Slot]tensor.Tensor {
	d := s.run.dev
	step := s.work.Steps[n]
	odd := func(site model.Site) bool { return !site.Packable() } // whose rows need not begin where operations like it
	if len(step.Sites) == 0 || n+1 == len(s.work.Steps) || !s.chained() || slices.ContainsFunc(step.Sites, odd) {
		return nil
	}
	held := map[model.Slot]tensor.Tensor{}
	for _, site := range step.Sites {
		if t := site.Input(s.pass.State()); held[site.Reads].Nil() {
			held[site.Reads] = device.Blank(d, t.Type, s.x.Rows*s.pass.Length, t.Cols)
		}
	}
	return held
}

// chained reports whether every step begins with what is held of the one before it.
func (s *sweep) chained() bool { return s.holds && s.work.Chained }

// lend has a state compute what it does on some rows where they are held.
func (s *sweep) lend(held map[model.Slot]tensor.Tensor, st *model.State, row int) {
	for slot, rows := range held {
		st.Lend(slot, s.rowsOf(rows, st.At(slot), row))
	}
}

// drop frees what is held.
func (s *sweep) drop() {
	for _, held := range []map[model.Slot]tensor.Tensor{s.held, s.heldR} {
		for _, t := range held {
			s.run.dev.Free(t)
		}
	}
	s.held, s.heldR = nil, nil
}

// rowsOf returns the places of the rows of a pass, from row on, among those that
// are held.
func (s *sweep) rowsOf(held, t tensor.Tensor, row int) tensor.Tensor {
	return held.Slice(row*s.pass.Length, row*s.pass.Length+t.Rows)
}
