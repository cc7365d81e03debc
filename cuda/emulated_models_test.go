package cuda

import (
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"testing"

	"exl2/internal/device"
	"exl2/internal/device/devtest"
	"exl2/internal/model"
	"exl2/internal/synth/synthtest"
)

// Whole models of codes, of experts, linear attention, sums of their own or latents, have the CPU's logits on the emulated GPU: of steps of one sequence, of three, which go
// through mixtures by the kernels of one, and of nine, which go through them together.
func TestEmulatedModels(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes a minute")
	}
	mixtures, others := synthtest.Write(t, synthtest.Mixtures, 4), slices.Concat(synthtest.Write(t, synthtest.Linears, 4), synthtest.Write(t, synthtest.ManyExperts, 4), synthtest.Write(t, synthtest.Sums, 4), synthtest.Write(t, synthtest.Others, 4))
	for _, dir := range slices.Concat(mixtures, others) {
		for _, sequences := range []int{1, 3, 9} {
			if sequences > 3 && slices.Contains(others, dir) && !slices.Contains([]string{"cohere_packed", "gptj_packed"}, filepath.Base(dir)) { // whose rows are put in order once for two products
				continue
			}
			t.Run(fmt.Sprintf("%s, %d sequences", filepath.Base(dir), sequences), func(t *testing.T) {
				want, got := stepsOf(t, dir, devtest.CPU(t), sequences), stepsOf(t, dir, openEmulator(t), sequences)
				for i := range want {
					for j := range want[i] {
						if far := math.Abs(float64(want[i][j] - got[i][j])); !(far <= 0.02) {
							t.Fatalf("row %d: logit %d is %v, want %v", i, j, got[i][j], want[i][j])
						}
					}
				}
			})
		}
	}
}

// stepsOf returns logits of two steps of some sequences.
func stepsOf(t *testing.T, dir string, d device.Device, sequences int) (all [][]float32) {
	modules, s := loadSteps(t, dir, d, sequences)
	for at := range stepsLoaded {
		beginStep(s, sequences, at)
		for _, m := range modules {
			m.Forward(s)
		}
		logits, err := s.Logits()
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, logits...)
	}
	return all
}

// stepsLoaded is how many steps there is room for.
const stepsLoaded = 2

// loadSteps loads a model and makes a state for steps of some sequences.
func loadSteps(t *testing.T, dir string, d device.Device, sequences int) ([]*model.Module, *model.State) {
	t.Helper()
	l, files, err := model.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { files.Close() }) // weights may be read from there
	l.Spec.SetContext(stepsLoaded)
	modules, err := l.LoadAll(d)
	if err != nil {
		t.Fatal(err)
	}
	model.Follow(modules...)
	return modules, model.NewState(d, l.Spec, model.Size{Rows: sequences, Logits: sequences}, model.NewCache(d, l.Spec, model.WholeCache(l.Spec, sequences, stepsLoaded)))
}

// beginStep has a state begin a step of some sequences, a token each, at a position.
func beginStep(s *model.State, sequences, at int) {
	var ids []int32
	var runs []model.Run
	for q := range sequences {
		ids, runs = append(ids, int32(3+5*q+at)), append(runs, model.Run{Sequence: q, Position: at})
	}
	s.Use(runs, 1, ids)
}
