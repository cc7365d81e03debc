package distill

import (
	"cmp"
	"errors"
	"math"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"exl2/cuda"
	"exl2/internal/device"
	"exl2/internal/device/devtest"
	"exl2/internal/exl2"
	"exl2/internal/model"
)

// Steps on the first GPU, or the CPU, of the model that EXL2_BENCH names, in each number
// of gigabytes that EXL2_GPU_MEMORY lists.
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
	find := rounded(b, devtest.CPU(b), l, "1:3b_64g")
	for _, text := range strings.Split(cmp.Or(os.Getenv("EXL2_GPU_MEMORY"), "1e9"), ",") {
		gigabytes, err := strconv.ParseFloat(text, 64)
		if err != nil {
			b.Fatal(err)
		}
		b.Run(text, func(b *testing.B) { benchmarkStep(b, l, find, int(gigabytes*1e9)) })
	}
}

func benchmarkStep(b *testing.B, l *model.Loader, find func(name string) (*exl2.Matrix, error), room int) {
	var d device.Quantize = devtest.CPU(b)
	p := Plan{Batch: 2, Length: 512, Steps: 10, Rate: 1e-3}
	if gpu, err := cuda.Open(0); err == nil {
		defer gpu.Close()
		defer func() { b.ReportMetric(float64(gpu.MemPeak())/1e9, "GB-peak") }()
		d, p.Batch, p.Length = gpu, 16, 512
	} else if !errors.Is(err, cuda.ErrNoDevice) {
		b.Fatal(err)
	}
	var took, host int
	p.Fit, took, host, _ = Choose(d, l, p, room, math.MaxInt)
	b.Logf("%+v: %.2f GB, %.2f GB of the host's", p.Fit, float64(took)/1e9, float64(host)/1e9)
	x, err := New(d, l, p, find)
	if err != nil {
		b.Fatal(err)
	}
	defer x.Close()
	rows := randomRows(p.Batch, p.Length, l.Spec.Vocab)
	var issued time.Duration
	for i := range b.N + 2 { // two to warm up
		if i == 2 {
			b.ResetTimer()
		}
		start := time.Now()
		x.step(rows, 1e-3, i+1)
		issued += time.Since(start)
		if err := d.Sync(); err != nil {
			b.Fatal(err)
		}
	}
	b.StopTimer()
	watch := &timed{Quantize: d, took: map[string]time.Duration{}, times: map[string]int{}}
	x.dev = watch
	for _, s := range append(x.states, x.state, x.gradients) {
		s.Dev = watch
	}
	x.step(rows, 1e-3, b.N+2)
	watch.report(b)
	b.ReportMetric(float64(b.N*p.Batch*p.Length)/b.Elapsed().Seconds(), "tokens/s")
	b.ReportMetric(issued.Seconds()*1e3/float64(b.N+2), "ms-issued")
}
