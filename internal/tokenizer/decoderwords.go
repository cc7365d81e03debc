package tokenizer

import "strings"

// suffixDecoder turns the suffix of each token into a space, that of the last
// token into nothing.
type suffixDecoder struct {
	next   sink
	suffix string
	held   string
	any    bool
}

func (d *suffixDecoder) put(text string, _ ending) {
	if d.any {
		d.next.put(d.replace(d.held, " "), whole)
	}
	d.held, d.any = text, true
}

func (d *suffixDecoder) close() {
	if d.any {
		d.next.put(d.replace(d.held, ""), whole)
	}
	d.next.close()
}

// replace puts by in the place of the suffix, wherever in the token it stands.
func (d *suffixDecoder) replace(text, by string) string {
	return strings.ReplaceAll(text, d.suffix, by)
}

// wordPieceDecoder joins tokens that begin with a prefix to the token before.
type wordPieceDecoder struct {
	next   sink
	prefix string
	clean  bool
	any    bool
}

func (d *wordPieceDecoder) put(text string, _ ending) {
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
	d.next.put(text, whole)
}

func (d *wordPieceDecoder) close() { d.next.close() }

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
	next       sink
	pad, space string
	clean      bool
	before     string
	any        bool
}

func (d *ctcDecoder) put(text string, _ ending) {
	if d.any && text == d.before {
		return
	}
	d.before, d.any = text, true
	text = strings.ReplaceAll(text, d.pad, "")
	if d.clean {
		text = strings.ReplaceAll(cleanUp(text), d.space, " ")
	}
	if text != "" {
		d.next.put(text, whole)
	}
}

func (d *ctcDecoder) close() { d.next.close() }
