package decode

import "strings"

// suffixDecoder turns the suffix of each token into a space, that of the last
// token into nothing.
type suffixDecoder struct {
	next   Sink
	suffix string
	held   string
	any    bool
}

func (d *suffixDecoder) Put(text string, _ Ending) {
	if d.any {
		d.next.Put(d.replace(d.held, " "), Whole)
	}
	d.held, d.any = text, true
}

func (d *suffixDecoder) Close() {
	if d.any {
		d.next.Put(d.replace(d.held, ""), Whole)
	}
	d.next.Close()
}

// replace puts by in the place of the suffix, wherever in the token it stands.
func (d *suffixDecoder) replace(text, by string) string {
	return strings.ReplaceAll(text, d.suffix, by)
}

// wordPieceDecoder joins tokens that begin with a prefix to the token before.
type wordPieceDecoder struct {
	next   Sink
	prefix string
	clean  bool
	any    bool
}

func (d *wordPieceDecoder) Put(text string, _ Ending) {
	if d.any {
		if rest, ok := strings.CutPrefix(text, d.prefix); ok {
			text = rest
		} else {
			text = " " + text
		}
	}
	d.any = true
	if d.clean {
		text = cleanUp(text)
	}
	d.next.Put(text, Whole)
}

func (d *wordPieceDecoder) Close() { d.next.Close() }

// cleanUp removes the spaces that tokenization put before English punctuation.
func cleanUp(s string) string {
	for _, pair := range [][2]string{
		{" .", "."}, {" ?", "?"}, {" !", "!"}, {" ,", ","}, {" ' ", "'"}, {" n't", "n't"},
		{" 'm", "'m"}, {" do not", " don't"}, {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"},
	} {
		s = strings.ReplaceAll(s, pair[0], pair[1])
	}
	return s
}

// ctcDecoder drops repeated tokens and padding.
type ctcDecoder struct {
	next       Sink
	pad, space string
	clean      bool
	before     string
	any        bool
}

func (d *ctcDecoder) Put(text string, _ Ending) {
	if d.any && text == d.before {
		return
	}
	d.before, d.any = text, true
	text = strings.ReplaceAll(text, d.pad, "")
	if d.clean {
		text = strings.ReplaceAll(cleanUp(text), d.space, " ")
	}
	if text != "" {
		d.next.Put(text, Whole)
	}
}

func (d *ctcDecoder) Close() { d.next.Close() }
