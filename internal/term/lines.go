package term

import (
	"fmt"
	"io"
	"time"
)

// linesEvery is how often a line is written while nothing special happens.
const linesEvery = 2 * time.Second

// lines writes a line when a stage begins and ends, and every few seconds
// between.
type lines struct {
	w     io.Writer
	stage stage
	last  time.Time
}

func (l *lines) Start(name string, steps int) {
	l.stage, l.last = newStage(name, steps), time.Now()
	fmt.Fprintf(l.w, "%s: %d steps\n", name, steps)
}

func (l *lines) Skip(what string) {
	l.stage.skipped++
	l.Step(what, skipNote)
}

func (l *lines) Step(what, note string) {
	s := &l.stage
	s.done++
	if s.done < s.steps && time.Since(l.last) < linesEvery {
		return
	}
	l.last = time.Now()
	fmt.Fprintf(l.w, "%s: %d/%d %s", s.name, s.done, s.steps, what)
	if note != "" {
		fmt.Fprintf(l.w, ", %s", note)
	}
	if left := s.left(); left > 0 {
		fmt.Fprintf(l.w, ", %v left", left)
	}
	fmt.Fprintln(l.w)
}

func (l *lines) Note(text string) { fmt.Fprintln(l.w, text) }
func (l *lines) Warn(text string) { fmt.Fprintln(l.w, "warning:", text) }
func (l *lines) Close()           {}
