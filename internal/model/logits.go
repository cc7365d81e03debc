package model

import "exl2/internal/tensor"

// EachLogits runs the head, and modules in front of it that are left to be run, over rows lo to
// hi of a pass, as many at a time as the state has room for, and calls f with the logits of each
// part: first is its first row.
func (s *State) EachLogits(end []*Module, lo, hi int, f func(first int, logits [][]float32) error) error {
	for hi > lo {
		n := min(hi-lo, s.size.Logits)
		part := s.Slice(lo, lo+n)
		for _, m := range end {
			m.Forward(part)
		}
		rows, err := part.Logits()
		if err != nil {
			return err
		}
		if err := f(lo, rows); err != nil {
			return err
		}
		lo += n
	}
	return nil
}

// Logits brings the logits of the pass to the host.
func (s *State) Logits() ([][]float32, error) {
	t := s.At(Logits)
	flat := make([]float32, t.Rows*t.Cols)
	s.Dev.Download(tensor.BytesOf(flat), t)
	rows := make([][]float32, t.Rows)
	for i := range rows {
		rows[i] = flat[i*t.Cols : (i+1)*t.Cols]
	}
	return rows, s.Dev.Sync()
}
