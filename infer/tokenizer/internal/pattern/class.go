package pattern

import "exl2/infer/tokenizer/internal/chars"

// class reads a set in brackets, after its "[". Sets nest, "&&" intersects
// them, and [:name:] names one.
func (p *reader) class(depth int) (chars.Set, error) {
	if depth > maxNesting {
		return nil, p.refuse("sets nested deeper than %d", maxNesting)
	}
	negated := p.accept("^")
	if p.peek() == ']' {
		return nil, p.refuse("a set that begins with ]")
	}
	all := chars.All
	for {
		s, err := p.members(depth)
		if err != nil {
			return nil, err
		}
		all = all.And(s)
		if p.accept("]") {
			break
		}
		if !p.accept("&&") {
			return nil, p.errorf("[ without ]")
		}
	}
	if p.fold {
		if !negated && all.Overlaps(chars.FoldsToMany) {
			return nil, p.refuse("a set with characters whose other case is several characters, where case does not count")
		}
		all = all.Fold()
	}
	if negated {
		all = all.Not()
	}
	return all, nil
}

// members reads the members of a set up to "]", "&&" or the end.
func (p *reader) members(depth int) (chars.Set, error) {
	var all chars.Set
	for {
		c := p.peek()
		if c < 0 || c == ']' {
			return all.Tidy(), nil
		}
		if c == '&' && p.pos+1 < len(p.in) && p.in[p.pos+1] == '&' {
			return all.Tidy(), nil
		}
		s, char, err := p.member(depth)
		if err != nil {
			return nil, err
		}
		if char && p.rangeFollows() {
			p.pos++
			end, endChar, err := p.member(depth)
			if err != nil {
				return nil, err
			}
			if !endChar || end[0].Lo < s[0].Lo {
				return nil, p.errorf("a range in a set that ends before it begins")
			}
			s = chars.Spans(s[0].Lo, end[0].Lo)
		}
		all = append(all, s...)
	}
}

// rangeFollows reports whether a "-" follows that stands between two members.
func (p *reader) rangeFollows() bool {
	return p.peek() == '-' && p.pos+1 < len(p.in) && p.in[p.pos+1] != ']'
}

// member reads one member of a set; char tells a character from a set.
func (p *reader) member(depth int) (s chars.Set, char bool, err error) {
	c := p.peek()
	switch {
	case p.accept("[:"):
		s, err = p.posix()
		return s, false, err
	case p.accept("["):
		s, err = p.class(depth + 1)
		return s, false, err
	case p.accept(`\b`):
		return chars.Of('\b'), true, nil
	case p.accept(`\`):
		return p.escaped()
	}
	p.pos++
	return chars.Of(c), true, nil
}

// posix reads name:] after [:.
func (p *reader) posix() (chars.Set, error) {
	negated := p.accept("^")
	start := p.pos
	for c := p.peek(); c >= 'a' && c <= 'z'; c = p.peek() {
		p.pos++
	}
	name := string(p.in[start:p.pos])
	s, ok := types().classes[name]
	if !ok || !p.accept(":]") {
		return nil, p.refuse("[:%s", name)
	}
	if negated {
		s = s.Not()
	}
	return s, nil
}
