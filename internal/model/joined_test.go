package model_test

import (
	"testing"

	"exl2/internal/device"
	"exl2/internal/device/devtest"
	"exl2/internal/model"
	"exl2/internal/tensor"
)

// joining is a device that makes products by dense weights with what follows them out of
// operations of another.
type joining struct {
	device.Device
	made map[device.Then]int
}

func (j *joining) Joined(p device.Products, w tensor.Tensor) bool {
	j.made[p.Then]++
	return devtest.Join(j.Device, p, w, 0)
}

// A module's steps compute the same whether or not products are made with what follows.
func TestOnward(t *testing.T) {
	const rows = 24
	l := openModel(t, "../../testdata/models/tiny")
	ids := make([]int32, rows)
	for i := range ids {
		ids[i] = int32(100 + 7*i)
	}
	run := func(d device.Device) []float32 {
		c := model.NewCache(d, l.Spec, model.SharedCache(l.Spec, 1, rows))
		s := model.NewState(d, l.Spec, model.Size{Rows: rows, Logits: 1}, c)
		s.Use([]model.Run{{}}, rows, ids)
		for _, spec := range l.Layout[:3] {
			m, err := l.Load(d, spec)
			if err != nil {
				t.Fatal(err)
			}
			m.Steps[0].Run(s)
			for i := range len(m.Steps) - 1 {
				w, free := m.Steps[i].Join(d)
				ready := 0
				m.Onward(s, i, w, func() { ready++ })
				if free(); ready != 1 {
					t.Errorf("%s, step %d: ready %d times", m.Name, i, ready)
				}
			}
			m.Free()
		}
		v := make([]float32, rows*l.Spec.Hidden)
		d.Download(tensor.BytesOf(v), s.At(model.Stream))
		return v
	}
	j := &joining{devtest.CPU(t), map[device.Then]int{}}
	want, got := run(devtest.CPU(t)), run(j)
	if _, most := difference(got, want); !(most <= 1e-5) {
		t.Errorf("streams differ by %.2g", most)
	}
	if j.made[device.Turn] != 1 || j.made[device.Gate] != 1 || j.made[device.Add] != 2 {
		t.Errorf("made together: %v", j.made)
	}
}
