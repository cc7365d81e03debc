package infer

import (
	"fmt"

	"exl2/internal/model"
)

// A track says which positions sequences have come to, as models with linear attention cannot go back: what they
// know of a sequence is of its last position alone.
type track struct {
	reached []int // by sequence
	runs    []model.Run
}

// begin says what the next pass is of.
func (t *track) begin(runs []model.Run) {
	t.runs = runs
	for _, r := range runs {
		t.reached[r.Sequence] = r.Position
	}
}

// advance says that the pass's runs have gone on.
func (t *track) advance(positions int) {
	for _, r := range t.runs {
		t.reached[r.Sequence] += positions
	}
}

// continues refuses a run that a model with linear attention cannot go on with.
func (e *Engine) continues(r Run) error {
	if at := e.track.reached[r.Sequence]; r.First != 0 && r.First != at && e.spec.Recurrent() {
		return fmt.Errorf("position %d of sequence %d, which is at %d: with linear attention it goes on from there, or from 0", r.First, r.Sequence, at)
	}
	return nil
}

// resumes returns how many of the first positions of a sequence need not be computed again, of so many that it has had.
func (e *Engine) resumes(sequence, positions int) int {
	if positions != e.track.reached[sequence] && e.spec.Recurrent() {
		return 0
	}
	return positions
}
