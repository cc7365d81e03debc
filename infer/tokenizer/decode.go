package tokenizer

import "exl2/infer/tokenizer/internal/decode"

// DecodeOptions says how ids are decoded.
type DecodeOptions struct {
	SkipSpecial bool // leave special tokens out
}

// Decode returns the text of ids. Ids that the tokenizer does not have are left out.
func (t *Tokenizer) Decode(ids []int32, o DecodeOptions) string {
	var out decode.Collector
	first := decode.Chain(t.stages, &out)
	for _, id := range ids {
		t.feed(first, id, o)
	}
	first.Close()
	return out.String()
}

// feed passes the token of id on to first.
func (t *Tokenizer) feed(first decode.Sink, id int32, o DecodeOptions) {
	if !t.vocab.has(id) || o.SkipSpecial && t.vocab.special[id] {
		return
	}
	if by, ok := first.(decode.IDSink); ok {
		by.PutID(id, t.vocab.text(id))
		return
	}
	first.Put(t.vocab.text(id), decode.Whole)
}

// A Stream decodes ids one by one. The texts that Next and Flush return are
// whole characters; put together they are what Decode returns for all ids.
// A Stream is for one goroutine.
type Stream struct {
	t     *Tokenizer
	opts  DecodeOptions
	first decode.Sink
	out   decode.Collector
}

// NewStream returns a Stream.
func (t *Tokenizer) NewStream(o DecodeOptions) *Stream {
	s := &Stream{t: t, opts: o}
	s.first = decode.Chain(t.stages, &s.out)
	return s
}

// Next returns the text that id adds. It is empty as long as what follows may
// change it: within a character, or in a run of byte tokens.
func (s *Stream) Next(id int32) string {
	s.t.feed(s.first, id, s.opts)
	return s.drain()
}

// Flush ends the text and returns what Next held back. The Stream begins anew.
func (s *Stream) Flush() string {
	s.first.Close()
	text := s.drain()
	s.first = decode.Chain(s.t.stages, &s.out)
	return text
}

// drain returns what has come to the end of the chain.
func (s *Stream) drain() string {
	text := s.out.String()
	s.out.Reset()
	return text
}
