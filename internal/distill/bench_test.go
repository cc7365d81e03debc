package distill

import (
	"errors"
	"os"
	"testing"
	"time"

	"exl2/cuda"
	"exl2/internal/device"
	"exl2/internal/device/devtest"
	"exl2/internal/model"
)

// Steps on the first GPU, or the CPU, of the model that EXL2_BENCH names.
func BenchmarkStep(b *testing.B) {
	dir := os.Getenv("EXL2_BENCH")
	if dir == "" {
		b.Skip("EXL2_BENCH names no model's folder")
	}
	l, files, err := model.Open(dir)
	if err != nil {
		b.Fatal(err)
	}
	defer files.Close()
	var d device.Quantize = devtest.CPU(b)
	if gpu, err := cuda.Open(0); err == nil {
		d = gpu
		defer gpu.Close()
	} else if !errors.Is(err, cuda.ErrNoDevice) {
		b.Fatal(err)
	}
	watch := &timed{Quantize: d, took: map[string]time.Duration{}, times: map[string]int{}}
	p := Plan{Batch: 8, Length: 1024, Steps: 10, Rate: 1e-3, Keep: os.Getenv("EXL2_KEEP") != ""}
	if _, gpu := d.(device.MemoryInfo); !gpu {
		p.Batch, p.Length = 2, 512
	}
	x, err := New(d, l, p, rounded(b, d, l, "1:3b_64g"))
	if err != nil {
		b.Fatal(err)
	}
	defer x.Close()
	rows := randomRows(p.Batch, p.Length, l.Spec.Vocab)
	x.step(rows, 1e-3, 1)
	b.ResetTimer()
	var issued time.Duration
	for i := range b.N {
		start := time.Now()
		x.step(rows, 1e-3, i+2)
		issued += time.Since(start)
		if err := d.Sync(); err != nil {
			b.Fatal(err)
		}
	}
	x.dev = watch
	for _, s := range append(x.states, x.state, x.gradients) {
		s.Dev = watch
	}
	x.step(rows, 1e-3, b.N+2)
	watch.report(b)
	b.ReportMetric(float64(b.N*p.Batch*p.Length)/b.Elapsed().Seconds(), "tokens/s")
	b.ReportMetric(issued.Seconds()*1e3/float64(b.N), "ms-issued")
}
