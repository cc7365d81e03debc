package tokenizer

import "strings"

// A scheme says before which pieces Metaspace puts a space.
type scheme int

const (
	always scheme = iota
	never
	onlyFirst // the one at the beginning of the text
)

// metaspace writes spaces as a visible character, mostly '▁'.
type metaspace struct {
	mark   string
	scheme scheme
	cut    bool // pieces end before each mark
}

// readMetaspace reads a Metaspace pre-tokenizer or decoder in today's
// spelling (prepend_scheme, split) or the older one (add_prefix_space).
func readMetaspace(f *fields) *metaspace {
	m := &metaspace{mark: string(f.char("replacement")), cut: f.boolOr("split", true)}
	f.ignore("str_rep") // the replacement once more
	prefix := f.boolOr("add_prefix_space", true)
	if _, ok := f.raw["prepend_scheme"]; ok {
		m.scheme = scheme(f.choice("prepend_scheme", "always", "never", "first"))
		if !prefix && m.scheme != never {
			f.fail("add_prefix_space", "false, but prepend_scheme is not never")
		}
	} else if !prefix {
		m.scheme = never
	}
	return m
}

func (m *metaspace) split(p piece, next func(piece)) {
	p.text = strings.ReplaceAll(p.text, " ", m.mark)
	if (m.scheme == always || m.scheme == onlyFirst && p.first) && !strings.HasPrefix(p.text, m.mark) {
		p.text = m.mark + p.text
	}
	for m.cut {
		i := strings.Index(p.text[min(1, len(p.text)):], m.mark)
		if i < 0 {
			break
		}
		next(p.part(0, i+1))
		p = p.part(i+1, len(p.text))
	}
	next(p)
}
