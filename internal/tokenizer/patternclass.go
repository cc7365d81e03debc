package tokenizer

// class reads a set in brackets, after its "[". Sets nest, "&&" intersects
// them, and [:name:] names one.
func (p *patternReader) class(depth int) (runeSet, error) {
	if depth > maxNesting {
		return nil, p.refuse("sets nested deeper than %d", maxNesting)
	}
	negated := p.accept("^")
	if p.peek() == ']' {
		return nil, p.refuse("a set that begins with ]")
	}
	all := allRunes
	for {
		s, err := p.members(depth)
		if err != nil {
			return nil, err
		}
		all = all.and(s)
		if p.accept("]") {
			break
		}
		if !p.accept("&&") {
			return nil, p.errorf("[ without ]")
		}
	}
	if p.fold {
		if !negated && all.overlaps(foldsToMany) {
			return nil, p.refuse("a set with characters whose other case is several characters, where case does not count")
		}
		all = all.fold()
	}
	if negated {
		all = all.not()
	}
	return all, nil
}

// members reads the members of a set up to "]", "&&" or the end.
func (p *patternReader) members(depth int) (runeSet, error) {
	var all runeSet
	for {
		c := p.peek()
		if c < 0 || c == ']' {
			return all.tidy(), nil
		}
		if c == '&' && p.pos+1 < len(p.in) && p.in[p.pos+1] == '&' {
			return all.tidy(), nil
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
			if !endChar || end[0].lo < s[0].lo {
				return nil, p.errorf("a range in a set that ends before it begins")
			}
			s = runeSet{{s[0].lo, end[0].lo}}
		}
		all = append(all, s...)
	}
}

// rangeFollows reports whether a "-" follows that stands between two members.
func (p *patternReader) rangeFollows() bool {
	return p.peek() == '-' && p.pos+1 < len(p.in) && p.in[p.pos+1] != ']'
}

// member reads one member of a set; char tells a character from a set.
func (p *patternReader) member(depth int) (s runeSet, char bool, err error) {
	c := p.peek()
	switch {
	case p.accept("[:"):
		s, err = p.posix()
		return s, false, err
	case p.accept("["):
		s, err = p.class(depth + 1)
		return s, false, err
	case p.accept(`\b`):
		return setOf('\b'), true, nil
	case p.accept(`\`):
		return p.escaped()
	}
	p.pos++
	return setOf(c), true, nil
}

// posix reads name:] after [:.
func (p *patternReader) posix() (runeSet, error) {
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
		s = s.not()
	}
	return s, nil
}
