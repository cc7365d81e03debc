package decode

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"

	"exl2/infer/tokenizer/internal/jsonfields"
	"exl2/infer/tokenizer/internal/pattern"
	"exl2/infer/tokenizer/internal/split"
	"exl2/infer/tokenizer/internal/subword"
)

// Read reads a decoder of a tokenizer.json as stages in their order.
func Read(path string, data json.RawMessage) ([]Stage, error) {
	kind, f, err := jsonfields.Component(path, data)
	if err != nil {
		return nil, err
	}
	var s Stage
	switch kind {
	case "Sequence":
		lists, err := jsonfields.Each(f, "decoders", Read)
		var all []Stage
		for _, list := range lists {
			all = append(all, list...)
		}
		return all, err
	case "ByteLevel":
		f.Ignore("add_prefix_space", "trim_offsets", "use_regex")
		s = Bytes
	case "ByteFallback":
		s = func(next Sink) Sink { return &wholeTokens{to: &fallbackDecoder{next: next}} }
	case "Fuse":
		s = func(next Sink) Sink { return &fuser{next} }
	case "Replace":
		return readReplaceDecoder(f)
	case "Strip":
		s = readStripDecoder(f)
	case "Metaspace":
		m := split.ReadMetaspace(f)
		s = func(next Sink) Sink { return &metaspaceDecoder{next: next, m: m} }
	case "BPEDecoder":
		suffix := f.Str("suffix")
		s = func(next Sink) Sink { return &wholeTokens{to: &suffixDecoder{next: next, suffix: suffix}} }
	case "WordPiece":
		prefix, clean := f.Str("prefix"), f.Bool("cleanup")
		s = func(next Sink) Sink {
			return &wholeTokens{to: &wordPieceDecoder{next: next, prefix: prefix, clean: clean}}
		}
	case "CTC":
		c := ctcDecoder{pad: f.Str("pad_token"), space: f.Str("word_delimiter_token"), clean: f.Bool("cleanup")}
		s = func(next Sink) Sink { c := c; c.next = next; return &wholeTokens{to: &c} }
	default:
		return nil, jsonfields.Unsupported(path, kind)
	}
	return []Stage{s}, f.Done()
}

// Bytes is the stage that turns byte-level characters into text.
func Bytes(next Sink) Sink { return &wholeTokens{to: &byteDecoder{next: next}} }

// Spaced is the stage of a tokenizer without a decoder: spaces between tokens.
func Spaced(next Sink) Sink { return &wholeTokens{to: &spacer{next: next}} }

type spacer struct {
	next Sink
	any  bool
}

func (s *spacer) Put(text string, _ Ending) {
	if s.any {
		text = " " + text
	}
	s.any = true
	s.next.Put(text, Whole)
}

func (s *spacer) Close() { s.next.Close() }

// wholeTokens joins the parts of each token for a Sink that needs them whole.
type wholeTokens struct {
	to   Sink
	held []byte
}

func (w *wholeTokens) Put(text string, end Ending) {
	if end == Whole && len(w.held) == 0 {
		w.to.Put(text, Whole)
		return
	}
	w.held = append(w.held, text...)
	if end == Whole {
		w.to.Put(string(w.held), Whole)
		w.held = w.held[:0]
	}
}

func (w *wholeTokens) Close() { w.to.Close() }

// fuser makes all tokens one.
type fuser struct{ next Sink }

func (f *fuser) Put(text string, _ Ending) { f.next.Put(text, Partly) }

func (f *fuser) Close() {
	f.next.Put("", Whole)
	f.next.Close()
}

// byteDecoder turns byte-level characters into bytes, and all tokens into one.
type byteDecoder struct {
	next Sink
	utf8 utf8Writer
}

func (b *byteDecoder) Put(text string, _ Ending) {
	b.utf8.held = subword.AppendByteLevel(b.utf8.held, text)
	if s := b.utf8.take(); s != "" {
		b.next.Put(s, Partly)
	}
}

func (b *byteDecoder) Close() {
	b.next.Put(b.utf8.rest(), Whole)
	b.next.Close()
}

// fallbackDecoder turns runs of tokens such as "<0x0A>" into the text of their
// bytes; a run that is not UTF-8 becomes U+FFFD for each of its bytes.
type fallbackDecoder struct {
	next Sink
	run  []byte
}

func (d *fallbackDecoder) Put(text string, _ Ending) {
	if b, ok := subword.ByteToken(text); ok {
		d.run = append(d.run, b)
		return
	}
	d.flush()
	d.next.Put(text, Whole)
}

func (d *fallbackDecoder) Close() {
	d.flush()
	d.next.Close()
}

// flush ends the run of bytes.
func (d *fallbackDecoder) flush() {
	switch {
	case len(d.run) == 0:
	case utf8.Valid(d.run):
		d.next.Put(string(d.run), Whole)
	default:
		for range d.run {
			d.next.Put("\uFFFD", Whole)
		}
	}
	d.run = d.run[:0]
}

// metaspaceDecoder turns marks back into spaces, and drops those of the first token.
type metaspaceDecoder struct {
	next  Sink
	m     *split.Metaspace
	later bool // the first token has ended
}

func (d *metaspaceDecoder) Put(text string, end Ending) {
	space := " "
	if !d.later && d.m.Scheme != split.Never {
		space = ""
	}
	d.later = d.later || end == Whole
	d.next.Put(strings.ReplaceAll(text, d.m.Mark, space), end)
}

func (d *metaspaceDecoder) Close() { d.next.Close() }

// readStripDecoder reads a Strip decoder.
func readStripDecoder(f *jsonfields.Fields) Stage {
	d := stripDecoder{char: f.Char("content")}
	f.Read("start", f.Need("start"), &d.start)
	f.Read("stop", f.Need("stop"), &d.stop)
	if f.Err() == nil && (d.start < 0 || d.stop < 0) {
		f.Fail("start", "%d, and stop %d: negative", d.start, d.stop)
	}
	return func(next Sink) Sink { d := d; d.next = next; d.begin(); return &d }
}

// stripDecoder drops up to start characters from the beginning of each token,
// and up to stop from its end, if they are char.
type stripDecoder struct {
	next        Sink
	char        rune
	start, stop int

	left int // of start for this token
	held int // characters that may be the token's end
}

// begin prepares for a token.
func (d *stripDecoder) begin() { d.left, d.held = d.start, 0 }

func (d *stripDecoder) Put(text string, end Ending) {
	c := string(d.char)
	for d.left > 0 && text != "" {
		if !strings.HasPrefix(text, c) {
			d.left = 0
			break
		}
		text = text[len(c):]
		d.left--
	}
	body := strings.TrimRight(text, c)
	tail := (len(text) - len(body)) / len(c)
	if body != "" {
		body = strings.Repeat(c, d.held) + body
		d.held = 0
	}
	d.held += tail
	keep := max(d.held-d.stop, 0)
	d.held -= keep
	d.next.Put(body+strings.Repeat(c, keep), end)
	if end == Whole {
		d.begin()
	}
}

func (d *stripDecoder) Close() { d.next.Close() }

// readReplaceDecoder reads a Replace decoder.
func readReplaceDecoder(f *jsonfields.Fields) ([]Stage, error) {
	one := isOneChar(f.Raw("pattern"))
	find, err := pattern.Read(f)
	if r, ok := find.(*pattern.Regex); ok && !r.Quick() { // decoding has no time limit
		err = fmt.Errorf("%s: a regular expression that may take long, in a decoder: %w", f.At("pattern"), jsonfields.ErrUnsupported)
	}
	content := f.Str("content")
	return []Stage{func(next Sink) Sink {
		d := &replaceDecoder{next: next, find: find, content: content}
		if one {
			return d
		}
		return &wholeTokens{to: d}
	}}, cmp.Or(err, f.Done())
}

// isOneChar reports whether a pattern is one character, so that it matches in
// the parts of a token what it matches in the whole.
func isOneChar(pattern json.RawMessage) bool {
	var p struct{ String *string }
	return json.Unmarshal(pattern, &p) == nil && p.String != nil && utf8.RuneCountInString(*p.String) == 1
}

// replaceDecoder replaces the matches of a pattern in each token.
type replaceDecoder struct {
	next    Sink
	find    pattern.Finder
	content string
}

func (d *replaceDecoder) Put(text string, end Ending) {
	var b strings.Builder
	done := 0
	d.find.Find(nil, text, func(start, end int) {
		b.WriteString(text[done:start])
		b.WriteString(d.content)
		done = end
	})
	b.WriteString(text[done:])
	d.next.Put(b.String(), end)
}

func (d *replaceDecoder) Close() { d.next.Close() }
