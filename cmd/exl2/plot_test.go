package main

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"gonum.org/v1/plot/vg/draw"
)

// Matrices become rows in the order of a layer; experts are one by their mean,
// and what a layer lacks is NaN.
func TestGrid(t *testing.T) {
	var list []inspectMatrix
	add := func(key string, bpw float64) { list = append(list, inspectMatrix{Key: key, BPW: bpw}) }
	for layer := range 2 {
		add(fmt.Sprintf("model.layers.%d.self_attn.q_proj", layer), float64(layer+2))
		if layer == 0 {
			add("model.layers.0.mlp.up_proj", 5)
			continue
		}
		for expert, bpw := range []float64{2, 3, 7} {
			add(fmt.Sprintf("model.layers.1.block_sparse_moe.experts.%d.w1", expert), bpw)
		}
	}
	add("lm_head", 8)
	g := newGrid(2, list)
	if got, want := fmt.Sprint(g.kinds, g.bits), "[q_proj up_proj experts.*.w1] map[experts.*.w1:[NaN 4] q_proj:[2 3] up_proj:[5 NaN]]"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if lo, hi := g.limits(); lo != 2 || hi != 5 {
		t.Errorf("from %v to %v, want 2 to 5", lo, hi)
	}
	if lo, hi := newGrid(1, list[:1]).limits(); lo != 1.5 || hi != 2.5 {
		t.Errorf("of one value from %v to %v, want 1.5 to 2.5", lo, hi)
	}
}

// Colors go from the first of the scale to the last and stay there.
func TestShades(t *testing.T) {
	s := shades{2, 6}
	for v, want := range map[float64]int{0: 0, 2: 0, 3: 1, 4: 2, 5: 3, 6: 4, 9: 4} {
		if got := s.at(v); got != viridis[want] {
			t.Errorf("%v is %v, want %v", v, got, viridis[want])
		}
	}
}

// Ticks of the color scale have its ends and do not touch.
func TestScaleTicks(t *testing.T) {
	for _, c := range [][2]float64{{2, 6}, {3.99, 4.01}, {2.19, 5.39}, {0, 1000}} {
		ticks := scaleTicks(c[0], c[1])
		if ticks[0].Value != c[0] || ticks[1].Value != c[1] {
			t.Errorf("%v: ends %v and %v", c, ticks[0].Value, ticks[1].Value)
		}
		for i := range ticks {
			for k := range i {
				if d := math.Abs(ticks[i].Value - ticks[k].Value); d < (c[1]-c[0])/20 {
					t.Errorf("%v: %v and %v touch", c, ticks[i].Value, ticks[k].Value)
				}
			}
		}
	}
}

// Ticks of the sizes are where their labels say.
func TestEvenTicks(t *testing.T) {
	for _, c := range [][2]float64{{2.9126, 3.1828}, {2.36, 4.26}, {0, 1}, {3800, 41000}, {99.5, 100.5}} {
		ticks := evenTicks(c[0], c[1])
		if len(ticks) < 4 || len(ticks) > 11 {
			t.Errorf("%v: %d ticks", c, len(ticks))
		}
		for _, tick := range ticks {
			if v, err := strconv.ParseFloat(tick.Label, 64); err != nil || math.Abs(v-tick.Value) > 1e-9*c[1] || v < c[0] || v > c[1] {
				t.Errorf("%v: %v is labeled %q", c, tick.Value, tick.Label)
			}
		}
	}
}

func FuzzParsePoints(f *testing.F) {
	f.Add("program,label,file_bytes,kl\na,b,1,0.5\na,c,2,1e-3\n")
	f.Add("program,label,file_bytes,kl\na,b,x,0.5\n")
	f.Add("a,b\n")
	f.Fuzz(func(t *testing.T, text string) {
		list, err := parsePoints(strings.NewReader(text))
		for _, s := range list {
			for _, p := range s.points {
				if err != nil || p.bytes <= 0 || !(p.kl > 0) || math.IsInf(p.kl, 0) {
					t.Errorf("point %+v of %q, error %v", p, s.name, err)
				}
			}
		}
	})
}

// A picture that cannot be drawn is an error with the remedy, and leaves nothing.
func TestPictureWithoutTemporaryFiles(t *testing.T) {
	t.Setenv("TMPDIR", filepath.Join(t.TempDir(), "nowhere"))
	for format, want := range map[string]string{"pdf": "TMPDIR", "svg": "", "png": ""} {
		path := filepath.Join(t.TempDir(), "a."+format)
		p := newPlot("a")
		err := savePicture(path, 100, 100, func(c draw.Canvas) { p.Draw(c) })
		if (err == nil) != (want == "") || err != nil && (!strings.HasPrefix(err.Error(), "--plot "+path+": ") || !strings.Contains(err.Error(), want)) {
			t.Errorf("error %v, want %q", err, want)
		}
		if _, there := os.Stat(path); (there == nil) != (err == nil) {
			t.Errorf("%s: %v", path, there)
		}
	}
}
