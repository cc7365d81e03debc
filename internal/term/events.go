package term

import (
	"encoding/json"
	"io"
)

// An Event is a line of JSON progress. Seconds are guesses of the time left.
type Event struct {
	Event   string  `json:"event"` // "start", "step", "note" or "warning"
	Stage   string  `json:"stage,omitempty"`
	Step    int     `json:"step,omitempty"`
	Steps   int     `json:"steps,omitempty"`
	What    string  `json:"what,omitempty"`
	Note    string  `json:"note,omitempty"`
	Seconds float64 `json:"seconds_left,omitempty"`
}

// events writes one JSON object a line.
type events struct {
	w     io.Writer
	stage stage
}

func (e *events) Start(name string, steps int) {
	e.stage = newStage(name, steps)
	e.write(Event{Event: "start", Stage: name, Steps: steps})
}

func (e *events) Skip(what string) {
	e.stage.skipped++
	e.Step(what, skipNote)
}

func (e *events) Step(what, note string) {
	s := &e.stage
	s.done++
	e.write(Event{Event: "step", Stage: s.name, Step: s.done, Steps: s.steps, What: what, Note: note, Seconds: s.left().Seconds()})
}

func (e *events) Note(text string) { e.write(Event{Event: "note", What: text}) }
func (e *events) Warn(text string) { e.write(Event{Event: "warning", Stage: e.stage.name, What: text}) }
func (e *events) Close()           {}

func (e *events) write(v Event) { json.NewEncoder(e.w).Encode(v) }
