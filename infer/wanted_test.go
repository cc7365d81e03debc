package infer

import (
	"fmt"
	"path/filepath"
	"slices"
	"testing"

	"exl2/internal/goldens"
)

// lastOf returns the logits of the last positions of runs of ids, one in each sequence, of which
// the first logits are those of the first wanted.
func lastOf(t *testing.T, e *Engine, ids [][]int32, wanted int) [][]float32 {
	t.Helper()
	var runs []Run
	for s := range ids {
		runs = append(runs, Run{Sequence: s, IDs: ids[s], Logits: wanted})
	}
	return logitsOf(t, e, runs)
}

// logitsOf returns the logits that are wanted of runs.
func logitsOf(t testing.TB, e *Engine, runs []Run) (all [][]float32) {
	t.Helper()
	err := e.Step(runs, func(_, _ int, logits [][]float32) {
		for _, row := range logits {
			all = append(all, slices.Clone(row))
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// Logits are the same however many are wanted: of few rows alone the end of the model is
// computed, and of parts of a prompt whose logits nobody wants none of it.
func TestFewWanted(t *testing.T) {
	const n = 37
	dirs := append(goldens.Dirs(t, "exl2"), goldens.Dirs(t, "arch")...)
	for _, dir := range dirs {
		t.Run(goldens.Name(dir), func(t *testing.T) {
			e := openEngine(t, dir, Options{Positions: n, Sequences: 2, Chunk: 2 * n}, 1)
			parts := openEngine(t, dir, Options{Positions: n, Sequences: 2, Chunk: 16}, 2)
			ids := [][]int32{someIDs(n, e.spec.Vocab), someIDs(n, e.spec.Vocab-1)}
			want := lastOf(t, e, ids, n)
			for _, wanted := range []int{1, 3, 17} {
				for _, on := range []*Engine{e, parts} {
					got := lastOf(t, on, ids, wanted)
					for s := range ids {
						for i := range wanted {
							mustBeNear(t, fmt.Sprintf("%d wanted, sequence %d", wanted, s), got[s*wanted+i], want[(s+1)*n-wanted+i])
						}
					}
				}
			}
		})
	}
}

// So are those of a GPU, of prompts that products of many rows take and of shorter ones.
func TestGPUFewWanted(t *testing.T) {
	for _, dir := range gpuModels(t) {
		t.Run(filepath.Base(dir), func(t *testing.T) {
			learned := 0
			for _, n := range []int{5, 96, 300} {
				if learned > 0 && n > learned {
					continue
				}
				_, e := both(t, dir, Options{Positions: n, Sequences: 2, Chunk: 2 * n}, 1)
				learned = e.spec.Learned
				ids := [][]int32{someIDs(n, e.spec.Vocab), someIDs(n, e.spec.Vocab-1)}
				want := lastOf(t, e, ids, n)
				for _, wanted := range []int{1, 3} {
					got := lastOf(t, e, ids, wanted)
					g := gap{pass: passes(e, n)}
					for s := range ids {
						for i := range wanted {
							g.add(got[s*wanted+i], want[(s+1)*n-wanted+i])
						}
					}
					g.check(t, fmt.Sprintf("%d of %d", wanted, n))
				}
			}
		})
	}
}
