package distill

import (
	"os"
	"testing"

	"exl2/internal/device/devtest"
	"exl2/internal/exl2"
	"exl2/internal/model"
)

func BenchmarkStep(b *testing.B) {
	dir := "/work/shared/models/tiny"
	if _, err := os.Stat(dir); err != nil {
		b.Skip(err)
	}
	l, files, err := model.Open(dir)
	if err != nil {
		b.Fatal(err)
	}
	defer files.Close()
	d := devtest.CPU(b)
	_, q, err := model.Open("/work/shared/golden/exl2/tiny-4.0bpw")
	if err != nil {
		b.Fatal(err)
	}
	p := Plan{Batch: 4, Length: 512, Steps: 10, Rate: 1e-3}
	x, err := New(d, l, p, func(name string) (*exl2.Matrix, error) { return model.ReadMatrix(q, name) })
	if err != nil {
		b.Fatal(err)
	}
	rows := randomRows(4, 512, l.Spec.Vocab)
	b.ResetTimer()
	for i := range b.N {
		x.step(rows, 1e-3, i+1)
	}
	b.ReportMetric(float64(b.N*2048)/b.Elapsed().Seconds(), "tokens/s")
}
