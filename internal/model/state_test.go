package model_test

import (
	"testing"

	"exl2/internal/device/devtest"
	"exl2/internal/model"
	"exl2/internal/synth/synthtest"
)

// Runs of rows say what their positions are below, to the position; of steps, which are recorded for many, it is not known here.
func TestReach(t *testing.T) {
	dir := synthtest.Write(t, map[string]string{"lent": synthtest.Sums["gemma4_lent_packed"]}, 0)[0]
	l, files, err := model.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer files.Close()
	l.Spec.SetContext(64)
	d := devtest.CPU(t)
	s := model.NewState(d, l.Spec, model.Size{Rows: 20, Logits: 1}, model.NewCache(d, l.Spec, model.SharedCache(l.Spec, 2, 64)))
	for _, c := range []struct {
		name string
		runs []model.Run
		span int
		want int
	}{
		{"a run from the start", []model.Run{{}}, 5, 5},
		{"two, of which the first is further", []model.Run{{Position: 30}, {Sequence: 1, Position: 7}}, 10, 40},
		{"steps", []model.Run{{Position: 40}, {Sequence: 1, Position: 7}}, 1, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			if s.Use(c.runs, c.span, nil); s.Batch.Reach != c.want {
				t.Errorf("below %d, want %d", s.Batch.Reach, c.want)
			}
		})
	}
}
