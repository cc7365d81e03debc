package tokenizer

import (
	"encoding/json"
	"strings"
	"unicode/utf8"
)

// readDecoder reads a decoder of a tokenizer.json as stages in their order.
func readDecoder(path string, data json.RawMessage) ([]stage, error) {
	kind, f, err := component(path, data)
	if err != nil {
		return nil, err
	}
	var s stage
	switch kind {
	case "Sequence":
		lists, err := each(f, "decoders", readDecoder)
		var all []stage
		for _, list := range lists {
			all = append(all, list...)
		}
		return all, err
	case "ByteLevel":
		f.ignore("add_prefix_space", "trim_offsets", "use_regex")
		s = func(next sink) sink { return &wholeTokens{to: &byteDecoder{next: next}} }
	case "ByteFallback":
		s = func(next sink) sink { return &wholeTokens{to: &fallbackDecoder{next: next}} }
	case "Fuse":
		s = func(next sink) sink { return &fuser{next} }
	case "Replace":
		return readReplaceDecoder(f)
	case "Strip":
		s = readStripDecoder(f)
	case "Metaspace":
		m := readMetaspace(f)
		s = func(next sink) sink { return &metaspaceDecoder{next: next, m: m} }
	case "BPEDecoder":
		suffix := f.str("suffix")
		s = func(next sink) sink { return &wholeTokens{to: &suffixDecoder{next: next, suffix: suffix}} }
	case "WordPiece":
		prefix, clean := f.str("prefix"), f.boolean("cleanup")
		s = func(next sink) sink {
			return &wholeTokens{to: &wordPieceDecoder{next: next, prefix: prefix, clean: clean}}
		}
	case "CTC":
		c := ctcDecoder{pad: f.str("pad_token"), space: f.str("word_delimiter_token"), clean: f.boolean("cleanup")}
		s = func(next sink) sink { c := c; c.next = next; return &wholeTokens{to: &c} }
	default:
		return nil, unsupported(path, kind)
	}
	return []stage{s}, f.done()
}

// spaced is the stage of a tokenizer without a decoder: spaces between tokens.
func spaced(next sink) sink { return &wholeTokens{to: &spacer{next: next}} }

type spacer struct {
	next sink
	any  bool
}

func (s *spacer) put(text string, _ ending) {
	if s.any {
		text = " " + text
	}
	s.any = true
	s.next.put(text, whole)
}

func (s *spacer) close() { s.next.close() }

// wholeTokens joins the parts of each token for a sink that needs them whole.
type wholeTokens struct {
	to   sink
	held []byte
}

func (w *wholeTokens) put(text string, end ending) {
	if end == whole && len(w.held) == 0 {
		w.to.put(text, whole)
		return
	}
	w.held = append(w.held, text...)
	if end == whole {
		w.to.put(string(w.held), whole)
		w.held = w.held[:0]
	}
}

func (w *wholeTokens) close() { w.to.close() }

// fuser makes all tokens one.
type fuser struct{ next sink }

func (f *fuser) put(text string, _ ending) { f.next.put(text, partly) }

func (f *fuser) close() {
	f.next.put("", whole)
	f.next.close()
}

// byteDecoder turns byte-level characters into bytes, and all tokens into one.
type byteDecoder struct {
	next sink
	utf8 utf8Writer
}

func (b *byteDecoder) put(text string, _ ending) {
	b.utf8.held = appendByteLevel(b.utf8.held, text)
	if s := b.utf8.take(); s != "" {
		b.next.put(s, partly)
	}
}

func (b *byteDecoder) close() {
	b.next.put(b.utf8.rest(), whole)
	b.next.close()
}

// fallbackDecoder turns runs of tokens such as "<0x0A>" into the text of their
// bytes; a run that is not UTF-8 becomes U+FFFD for each of its bytes.
type fallbackDecoder struct {
	next sink
	run  []byte
}

func (d *fallbackDecoder) put(text string, _ ending) {
	if b, ok := byteToken(text); ok {
		d.run = append(d.run, b)
		return
	}
	d.flush()
	d.next.put(text, whole)
}

func (d *fallbackDecoder) close() {
	d.flush()
	d.next.close()
}

// flush ends the run of bytes.
func (d *fallbackDecoder) flush() {
	switch {
	case len(d.run) == 0:
	case utf8.Valid(d.run):
		d.next.put(string(d.run), whole)
	default:
		for range d.run {
			d.next.put("\uFFFD", whole)
		}
	}
	d.run = d.run[:0]
}

// metaspaceDecoder turns marks back into spaces, and drops those of the first token.
type metaspaceDecoder struct {
	next  sink
	m     *metaspace
	later bool // the first token has ended
}

func (d *metaspaceDecoder) put(text string, end ending) {
	space := " "
	if !d.later && d.m.scheme != never {
		space = ""
	}
	d.later = d.later || end == whole
	d.next.put(strings.ReplaceAll(text, d.m.mark, space), end)
}

func (d *metaspaceDecoder) close() { d.next.close() }

// readStripDecoder reads a Strip decoder.
func readStripDecoder(f *fields) stage {
	d := stripDecoder{char: f.char("content")}
	f.read("start", f.need("start"), &d.start)
	f.read("stop", f.need("stop"), &d.stop)
	if f.err == nil && (d.start < 0 || d.stop < 0) {
		f.fail("start", "%d, and stop %d: negative", d.start, d.stop)
	}
	return func(next sink) sink { d := d; d.next = next; d.begin(); return &d }
}

// stripDecoder drops up to start characters from the beginning of each token,
// and up to stop from its end, if they are char.
type stripDecoder struct {
	next        sink
	char        rune
	start, stop int

	left int // of start for this token
	held int // characters that may be the token's end
}

// begin prepares for a token.
func (d *stripDecoder) begin() { d.left, d.held = d.start, 0 }

func (d *stripDecoder) put(text string, end ending) {
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
	d.next.put(body+strings.Repeat(c, keep), end)
	if end == whole {
		d.begin()
	}
}

func (d *stripDecoder) close() { d.next.close() }

// readReplaceDecoder reads a Replace decoder.
func readReplaceDecoder(f *fields) ([]stage, error) {
	one := isOneChar(f.raw["pattern"])
	find, err := readFinder(f)
	content := f.str("content")
	return []stage{func(next sink) sink {
		d := &replaceDecoder{next: next, find: find, content: content}
		if one {
			return d
		}
		return &wholeTokens{to: d}
	}}, firstError(err, f.done())
}

// isOneChar reports whether a pattern is one character, so that it matches in
// the parts of a token what it matches in the whole.
func isOneChar(pattern json.RawMessage) bool {
	var p struct{ String *string }
	return json.Unmarshal(pattern, &p) == nil && p.String != nil && utf8.RuneCountInString(*p.String) == 1
}

// replaceDecoder replaces the matches of a pattern in each token.
type replaceDecoder struct {
	next    sink
	find    finder
	content string
}

func (d *replaceDecoder) put(text string, end ending) {
	var b strings.Builder
	done := 0
	d.find(text, func(start, end int) {
		b.WriteString(text[done:start])
		b.WriteString(d.content)
		done = end
	})
	b.WriteString(text[done:])
	d.next.put(b.String(), end)
}

func (d *replaceDecoder) close() { d.next.close() }
