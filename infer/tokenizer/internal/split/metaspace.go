package split

import (
	"strings"

	"exl2/infer/tokenizer/internal/jsonfields"
	"exl2/infer/tokenizer/internal/limit"
)

// A Scheme says before which pieces Metaspace puts a space.
type Scheme int

const (
	Always Scheme = iota
	Never
	OnlyFirst // the one at the beginning of the text
)

// A Metaspace writes spaces as a visible character, mostly '▁'.
type Metaspace struct {
	Mark   string
	Scheme Scheme
	cut    bool // pieces end before each mark
}

// ReadMetaspace reads a Metaspace pre-tokenizer or decoder in today's
// spelling (prepend_scheme, split) or the older one (add_prefix_space).
func ReadMetaspace(f *jsonfields.Fields) *Metaspace {
	m := &Metaspace{Mark: string(f.Char("replacement")), cut: f.BoolOr("split", true)}
	f.Ignore("str_rep") // the replacement once more
	prefix := f.BoolOr("add_prefix_space", true)
	if f.Has("prepend_scheme") {
		m.Scheme = Scheme(f.Choice("prepend_scheme", "always", "never", "first"))
		if !prefix && m.Scheme != Never {
			f.Fail("add_prefix_space", "false, but prepend_scheme is not never")
		}
	} else if !prefix {
		m.Scheme = Never
	}
	return m
}

// Split is that of Splitter.
func (m *Metaspace) Split(_ *limit.Time, p Piece, next func(Piece)) {
	p.Head += strings.Count(p.Text[:p.Head], " ") * (len(m.Mark) - 1)
	p.Text = strings.ReplaceAll(p.Text, " ", m.Mark)
	if (m.Scheme == Always || m.Scheme == OnlyFirst && p.Head > 0) && !strings.HasPrefix(p.Text, m.Mark) {
		p = p.behind(m.Mark)
	}
	for m.cut {
		i := strings.Index(p.Text[min(1, len(p.Text)):], m.Mark)
		if i < 0 {
			break
		}
		next(p.part(0, i+1))
		p = p.part(i+1, len(p.Text))
	}
	next(p)
}
