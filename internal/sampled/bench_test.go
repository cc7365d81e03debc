package sampled

import (
	"context"
	"math/rand/v2"
	"os"
	"testing"

	"exl2/internal/device/devtest"
	"exl2/internal/model"
)

// Sampling on the CPU from the model that EXL2_BENCH names.
func BenchmarkRows(b *testing.B) {
	dir := os.Getenv("EXL2_BENCH")
	if dir == "" {
		b.Skip("EXL2_BENCH names no model's folder")
	}
	l, files, err := model.Open(dir)
	if err != nil {
		b.Fatal(err)
	}
	defer files.Close()
	l.Spec.SetContext(1024)
	d := devtest.CPU(b)
	s, err := New(d, l, l.On(d), 0)
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	o := Options{Rows: mostOnCPU, Length: 512, Seed: 1, Start: func(*rand.Rand) int32 { return 0 }, Special: func(id int32) bool { return id < 3 }}
	b.ResetTimer()
	for range b.N {
		if _, err := s.Rows(context.Background(), o); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.N*o.Rows*o.Length)/b.Elapsed().Seconds(), "tokens/s")
}
