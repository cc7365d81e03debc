package distill

import (
	"errors"
	"math"
	"os"
	"strconv"
	"testing"
	"time"

	"exl2/cuda"
	"exl2/internal/device"
	"exl2/internal/device/devtest"
	"exl2/internal/model"
)

// Steps on the first GPU, or the CPU, of the model that EXL2_BENCH names, in
// EXL2_GPU_MEMORY gigabytes.
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
	p := Plan{Batch: 8, Length: 1024, Steps: 10, Rate: 1e-3}
	gpu, own := d.(device.MemoryInfo)
	if !own {
		p.Batch, p.Length = 2, 512
	}
	room := math.MaxInt
	if v := os.Getenv("EXL2_GPU_MEMORY"); v != "" {
		gigabytes, err := strconv.ParseFloat(v, 64)
		if err != nil {
			b.Fatal(err)
		}
		room = int(gigabytes * 1e9)
	}
	var took, host int
	p.Fit, took, host, _ = Choose(d, l, p, room, math.MaxInt)
	b.Logf("%+v: %.2f GB, %.2f GB of the host's", p.Fit, float64(took)/1e9, float64(host)/1e9)
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
	if own {
		b.ReportMetric(float64(gpu.MemPeak())/1e9, "GB-peak")
	}
	b.ReportMetric(float64(b.N*p.Batch*p.Length)/b.Elapsed().Seconds(), "tokens/s")
	b.ReportMetric(issued.Seconds()*1e3/float64(b.N), "ms-issued")
}
