package convert

import (
	"context"
	"errors"
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"

	"exl2/internal/device"
	"exl2/internal/exl2"
	"exl2/internal/tensor"
)

// counting is a device that counts what is allocated and not freed, and that lets
// nothing be borrowed.
type counting struct {
	device.Quantize
	live map[any]string
}

func (c *counting) Alloc(t tensor.Type, rows, cols int) tensor.Tensor {
	x := c.Quantize.Alloc(t, rows, cols)
	if k := key(x); k != nil {
		c.live[k] = fmt.Sprintf("%v [%d, %d]", t, rows, cols)
	}
	return x
}

// key identifies the memory of a tensor, which is a slice.
func key(x tensor.Tensor) any {
	if x.Nil() || x.Mem.Len() == 0 {
		return nil
	}
	return reflect.ValueOf(x.Mem).Pointer()
}

func (c *counting) Free(x tensor.Tensor) {
	delete(c.live, key(x))
	c.Quantize.Free(x)
}

func (c *counting) LoadEXL2(m *exl2.Matrix, out int) device.Matrix {
	x := c.Quantize.LoadEXL2(m, out)
	c.live[x] = "a matrix"
	return x
}

func (c *counting) Assemble(q device.Coding, words, scales, perm tensor.Tensor, out int) device.Matrix {
	x := c.Quantize.Assemble(q, words, scales, perm, out)
	c.live[x] = "an assembled matrix"
	return x
}

func (c *counting) FreeEXL2(m device.Matrix) {
	delete(c.live, m)
	c.Quantize.FreeEXL2(m)
}

func (c *counting) NewCache(s device.CacheShape) device.Cache {
	x := c.Quantize.NewCache(s)
	c.live[x] = "a cache"
	return x
}

func (c *counting) FreeCache(x device.Cache) {
	delete(c.live, x)
	c.Quantize.FreeCache(x)
}

// openFiles counts the files that this process has open.
func openFiles(t *testing.T) int {
	t.Helper()
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Skip("this system does not tell what files are open")
	}
	return len(list)
}

// Wherever a job ends, at its end, by an interruption after any step or by an
// error, what it took of the device and of files is given back.
func TestEverythingIsFreed(t *testing.T) {
	source, data := sourceModel(t, "llama"), tokenFile(t)
	for stop := 0; ; {
		o := options(t, source, "4.0")
		o.Data.File, o.conditions.inMemory = data, 0 // hidden states are files
		d := &counting{openCPU(t), map[any]string{}}
		ctx, cancel := context.WithCancel(context.Background())
		files, w := openFiles(t), &watcher{}
		w.step = func() {
			if len(w.steps) > stop && (w.stage != "sensitivities" || w.done%28 == 1) {
				cancel()
			}
		}
		_, err := runOn(ctx, d, o, w)
		cancel()
		if err != nil && !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		if len(d.live) > 0 || openFiles(t) != files {
			t.Fatalf("after %d steps (%v): %d are not freed: %v; %d files are open, %d were", len(w.steps), err, len(d.live), d.live, openFiles(t), files)
		}
		if err == nil {
			return
		}
		stop = len(w.steps)
	}
}

// So it is where a module cannot be loaded or written.
func TestEverythingIsFreedOnErrors(t *testing.T) {
	for name, spoil := range map[string]func(t *testing.T, o *Options, w *watcher){
		"the source is cut": func(t *testing.T, o *Options, w *watcher) {
			if err := os.Truncate(o.Source+"/model.safetensors", 20000); err != nil {
				t.Fatal(err)
			}
		},
		"the job's folder is gone": func(t *testing.T, o *Options, w *watcher) {
			if err := os.RemoveAll(o.Work); err != nil {
				t.Fatal(err)
			}
		},
	} {
		for _, stage := range []string{"measure", "quantize 4.0"} {
			t.Run(name+", "+strings.Fields(stage)[0], func(t *testing.T) {
				o := options(t, sourceModel(t, "llama"), "4.0")
				o.conditions.inMemory = 0
				d := &counting{openCPU(t), map[any]string{}}
				files, w := openFiles(t), &watcher{}
				w.step = func() {
					if w.stage == stage && w.done == 2 {
						spoil(t, o, w)
					}
				}
				if _, err := runOn(context.Background(), d, o, w); err == nil {
					t.Fatal("it ended well")
				}
				if len(d.live) > 0 || openFiles(t) != files {
					t.Errorf("%d are not freed: %v; %d files are open, %d were", len(d.live), d.live, openFiles(t), files)
				}
			})
		}
	}
}
