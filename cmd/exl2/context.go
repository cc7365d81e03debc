package main

import (
	"fmt"

	"exl2/infer"
	"exl2/internal/term"
)

// openModel loads a model for running, on the devices that the flags ask for.
func (a *app) openModel(dir string, o infer.Options) (*infer.Engine, error) {
	o = a.on(o)
	if err := o.Check(); err != nil {
		return nil, usageError{err}
	}
	return infer.Open(dir, o)
}

// on adds the devices that the flags ask for.
func (a *app) on(o infer.Options) infer.Options {
	o.Devices, o.Note, o.KeepDecoded, o.Interrupted = a.devices, a.note, a.keep, a.interrupted
	return o
}

// note tells what is worth knowing, once, as an event where progress is events.
func (a *app) note(text string) {
	if _, before := a.said.LoadOrStore(text, true); before { // of each of several models, say
		return
	}
	if a.progress != term.Events {
		fmt.Fprintln(a.err, "note:", text)
		return
	}
	if p, err := term.New(term.Events, a.err); err == nil {
		p.Note(text)
	}
}
