package tokenizer

import "strings"

// What decoding does with special tokens.
type specials int

const (
	keepSpecial specials = iota
	skipSpecial
)

// An ending says whether a token ends with the text that comes.
type ending bool

const (
	partly ending = false // more of the token follows
	whole  ending = true
)

// A sink takes tokens in order, each in one part or several. After the last
// token close is called, once.
type sink interface {
	put(text string, end ending)
	close()
}

// An idSink is a sink that wants to know ids as well.
type idSink interface {
	sink
	putID(id int32, text string)
}

// A stage makes a sink that rewrites tokens and passes them on to next.
// Decoding is a chain of them, so that it is the same work whether the ids
// come at once or one by one.
type stage func(next sink) sink

// A collector is the end of the chain.
type collector struct{ strings.Builder }

func (c *collector) put(text string, _ ending) { c.WriteString(text) }
func (c *collector) close()                    {}

// chain returns the first sink of the tokenizer's stages before end.
func (t *Tokenizer) chain(end sink) sink {
	for i := len(t.stages) - 1; i >= 0; i-- {
		end = t.stages[i](end)
	}
	return end
}

// feed passes the token of id on to first.
func (t *Tokenizer) feed(first sink, id int32, s specials) {
	if !t.vocab.has(id) || s == skipSpecial && t.vocab.special[id] {
		return
	}
	if by, ok := first.(idSink); ok {
		by.putID(id, t.vocab.text(id))
		return
	}
	first.put(t.vocab.text(id), whole)
}

// decode returns the text of ids.
func (t *Tokenizer) decode(ids []int32, s specials) string {
	var out collector
	first := t.chain(&out)
	for _, id := range ids {
		t.feed(first, id, s)
	}
	first.close()
	return out.String()
}

// A Stream decodes ids one by one. The texts that Next and Flush return are
// whole characters; put together they are what Decode returns for all ids.
// A Stream is for one goroutine.
type Stream struct {
	t     *Tokenizer
	kind  specials
	first sink
	out   collector
}

// NewStream returns a Stream that keeps special tokens, as Decode does.
func (t *Tokenizer) NewStream() *Stream { return t.newStream(keepSpecial) }

// NewStreamSkip returns a Stream that leaves special tokens out, as DecodeSkip does.
func (t *Tokenizer) NewStreamSkip() *Stream { return t.newStream(skipSpecial) }

func (t *Tokenizer) newStream(kind specials) *Stream {
	s := &Stream{t: t, kind: kind}
	s.first = t.chain(&s.out)
	return s
}

// Next returns the text that id adds. It is empty as long as what follows may
// change it: within a character, or in a run of byte tokens.
func (s *Stream) Next(id int32) string {
	s.t.feed(s.first, id, s.kind)
	return s.drain()
}

// Flush ends the text and returns what Next held back. The Stream begins anew.
func (s *Stream) Flush() string {
	s.first.close()
	text := s.drain()
	s.first = s.t.chain(&s.out)
	return text
}

// drain returns what has come to the end of the chain.
func (s *Stream) drain() string {
	text := s.out.String()
	s.out.Reset()
	return text
}
