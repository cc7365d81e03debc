package convert

import (
	"context"
	"encoding/json"
	"math"
	"strings"
	"testing"
)

// Weights at the edges of what fp16 holds convert, to a report that JSON can
// hold, whatever the model is worth.
func TestExtremeWeights(t *testing.T) {
	for name, change := range map[string]func(name string, rows [][]float32) string{
		"a matrix of ±65504": func(name string, rows [][]float32) string {
			if strings.Contains(name, "layers.0.mlp.up_proj") {
				for r := range rows {
					for c := range rows[r] {
						rows[r][c] = float32(math.Copysign(65504, float64(rows[r][c])))
					}
				}
			}
			return "F16"
		},
		"all projections of ±65504": func(name string, rows [][]float32) string {
			if strings.Contains(name, "_proj") {
				for r := range rows {
					for c := range rows[r] {
						rows[r][c] = float32(math.Copysign(65504, float64(rows[r][c])))
					}
				}
			}
			return "F16"
		},
		"a single 65504": func(name string, rows [][]float32) string {
			if strings.Contains(name, "_proj") || strings.Contains(name, "lm_head") {
				rows[1][2], rows[3][5] = 65504, -65504
			}
			return "F16"
		},
		"projections times 2000": func(name string, rows [][]float32) string {
			if strings.Contains(name, "_proj") {
				for r := range rows {
					for c := range rows[r] {
						rows[r][c] *= 2000
					}
				}
			}
			return "BF16"
		},
		"norms of 65504": func(name string, rows [][]float32) string {
			if strings.Contains(name, "norm") {
				fill(rows, 65504, everywhere)
			}
			return "F32"
		},
	} {
		t.Run(name, func(t *testing.T) {
			source := sourceModel(t, "llama")
			rewrite(t, source, change)
			o := options(t, source, "4.0")
			w := &watcher{}
			report, err := runOn(context.Background(), on(openCPU(t)), o, w)
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("%+v %q", report, w.warnings)
			if _, err := json.Marshal(report); err != nil {
				t.Error(err)
			}
			checkModel(t, o, report.Outputs[0])
		})
	}
}
