// Package decode turns tokens back into text, as the decoders of a tokenizer.json
// do: a chain of stages, so that it is the same work whether tokens come at once
// or one by one.
package decode

import "strings"

// An Ending says whether a token ends with the text that comes.
type Ending bool

const (
	Partly Ending = false // more of the token follows
	Whole  Ending = true
)

// A Sink takes tokens in order, each in one part or several. After the last
// token Close is called, once.
type Sink interface {
	Put(text string, end Ending)
	Close()
}

// An IDSink is a Sink that wants to know ids as well.
type IDSink interface {
	Sink
	PutID(id int32, text string)
}

// A Stage makes a Sink that rewrites tokens and passes them on to next.
type Stage func(next Sink) Sink

// Chain returns the first sink of stages before end.
func Chain(stages []Stage, end Sink) Sink {
	for i := len(stages) - 1; i >= 0; i-- {
		end = stages[i](end)
	}
	return end
}

// A Collector is the end of a chain: it holds the text.
type Collector struct{ strings.Builder }

// Put is that of Sink.
func (c *Collector) Put(text string, _ Ending) { c.WriteString(text) }

// Close is that of Sink.
func (c *Collector) Close() {}
