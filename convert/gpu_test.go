package convert

import (
	"context"
	"maps"
	"path/filepath"
	"testing"

	"exl2/cuda/cudatest"
	"exl2/internal/device"
)

// gpuFiles converts tiny on GPUs, with the rest of the options as they are, to two targets.
func gpuFiles(t *testing.T, gpus int, more func(o *Options)) (files []map[string]string) {
	t.Helper()
	o := options(t, filepath.Join("..", "testdata", "models", "tiny"), "3.0", "4.0")
	o.Data.File = filepath.Join("..", "calib", "builtin.parquet")
	o.Data.Rows, o.Data.Length, o.Data.MeasureRows, o.Data.MeasureLength = 24, 256, 8, 256
	more(o)
	r, err := runOn(context.Background(), cudatest.Open[device.Quantize](t, gpus), o, &watcher{})
	if err != nil {
		t.Fatal(err)
	}
	m := r.Memory
	t.Logf("%d planned, hidden states: %s, held %v, weights %v", m.Planned(), m.Hidden, m.Held, m.Weights)
	for _, target := range o.Targets {
		files = append(files, contents(t, o.folder(target)))
	}
	return files
}

// A GPU makes the same files with little memory as with much, and as several GPUs.
func TestSameBytesOnGPUs(t *testing.T) {
	want := gpuFiles(t, 1, func(*Options) {})
	for _, c := range []struct {
		name string
		gpus int
		more func(o *Options)
	}{
		{"again", 1, func(*Options) {}},
		{"low memory", 1, func(o *Options) { o.LowMemory = true }},
		{"two GPUs", 2, func(*Options) {}},
		{"two GPUs, low memory", 2, func(o *Options) { o.LowMemory = true }},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := gpuFiles(t, c.gpus, c.more)
			for i := range want {
				if !maps.Equal(got[i], want[i]) {
					t.Errorf("target %d: other files", i)
				}
			}
		})
	}
}
