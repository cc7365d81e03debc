// Package term talks to people and machines about long work: a progress bar on
// a terminal, plain lines elsewhere, JSON events on request. All of it goes to
// the error output; results are the callers' business.
package term

import (
	"fmt"
	"io"
	"os"
	"time"

	"golang.org/x/term"
)

// A Progress follows long work. Its methods may be called by one goroutine at
// a time.
type Progress interface {
	// Start begins a stage of the given number of steps.
	Start(stage string, steps int)
	// Step counts one step of the stage: what was done, and how it went.
	Step(what, note string)
	// Skip counts one step that an earlier run has done.
	Skip(what string)
	// Note tells of something worth knowing.
	Note(text string)
	// Warn tells of something that was done less well than asked.
	Warn(text string)
	// Close ends what is shown.
	Close()
}

// Events is the kind that machines read.
const Events = "json"

// Kinds lists the names that New knows.
var Kinds = []string{"auto", "bar", "lines", Events, "none"}

// New returns the progress of the given kind, written to w. "auto" is a bar if
// w is a terminal, and lines if not.
func New(kind string, w *os.File) (Progress, error) {
	if kind == "auto" {
		kind = "lines"
		if term.IsTerminal(int(w.Fd())) {
			kind = "bar"
		}
	}
	switch kind {
	case "bar":
		return &bar{w: w}, nil
	case "lines":
		return &lines{w: w}, nil
	case Events:
		return &events{w: w}, nil
	case "none":
		return &quiet{w: w}, nil
	}
	return nil, fmt.Errorf("progress: %q, want one of %v", kind, Kinds)
}

// quiet shows warnings only.
type quiet struct{ w io.Writer }

func (quiet) Start(string, int)   {}
func (quiet) Step(string, string) {}
func (quiet) Skip(string)         {}
func (quiet) Note(string)         {}
func (quiet) Close()              {}

func (q quiet) Warn(text string) { fmt.Fprintln(q.w, "warning:", text) }

// skipNote is the note of a step that an earlier run has done.
const skipNote = "done before"

// stage counts the steps of a stage and guesses the time left: from the steps
// that this run has done, which are much alike.
type stage struct {
	name        string
	steps, done int
	skipped     int // of those done
	start       time.Time
}

func newStage(name string, steps int) stage {
	return stage{name: name, steps: steps, start: time.Now()}
}

// left returns the time that the rest of the steps will take at the pace so
// far.
func (s *stage) left() time.Duration {
	if s.done == s.skipped {
		return 0
	}
	each := time.Since(s.start) / time.Duration(s.done-s.skipped)
	return (each * time.Duration(s.steps-s.done)).Round(time.Second)
}
