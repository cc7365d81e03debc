package jinja

import (
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// urlize turns the addresses in a text into links.
func urlize(m *machine, a []Value) Value {
	if a[1] != nil || truth(a[2]) || a[3] != nil || a[4] != nil || a[5] != nil {
		raise(Unsupported, "arguments of the filter urlize")
	}
	s := string(m.escape(a[0]))
	m.step(len(s) / 2)
	b := builder{m: m}
	b.grow(len(s))
	for s != "" {
		blank := len(s) - len(strings.TrimLeftFunc(s, isSpace))
		b.write(s[:blank])
		s = s[blank:]
		end := strings.IndexFunc(s, isSpace)
		if end < 0 {
			end = len(s)
		}
		b.link(s[:end])
		s = s[end:]
	}
	if m.escaping {
		return Markup(b.String())
	}
	return b.String()
}

// link writes a word, as a link if it is an address but for what stands around it.
func (b *builder) link(word string) {
	lo, hi := addressIn(word)
	address := word[lo:hi]
	b.write(word[:lo])
	switch {
	case isWebAddress(address):
		scheme := "https://"
		if strings.HasPrefix(address, "http://") || strings.HasPrefix(address, "https://") {
			scheme = ""
		}
		b.anchor(scheme, address, ` rel="noopener"`, address)
	case strings.HasPrefix(address, "mailto:") && isMailAddress(address[len("mailto:"):]):
		b.anchor("", address, "", address[len("mailto:"):])
	case !strings.HasPrefix(address, "www.") && !strings.HasPrefix(address, "@") && !strings.Contains(address, ":") && isMailAddress(address):
		b.anchor("mailto:", address, "", address)
	default:
		b.write(address)
	}
	b.write(word[hi:])
}

// anchor writes a link to an address.
func (b *builder) anchor(scheme, address, attributes, shown string) {
	for _, s := range []string{`<a href="`, scheme, address, `"`, attributes, ">", shown, "</a>"} {
		b.write(s)
	}
}

// addressIn returns where the address in a word is: without brackets in front of it, nor
// brackets and marks behind it but those that close one inside.
func addressIn(word string) (lo, hi int) {
	lo = len(word) - len(trimAll(word, strings.CutPrefix, "(", "<", "&lt;"))
	hi = lo + len(trimAll(word[lo:], strings.CutSuffix, ")", ">", ".", ",", "&gt;"))
	for _, pair := range [][2]string{{"(", ")"}, {"<", ">"}, {"&lt;", "&gt;"}} {
		open := strings.Count(word[lo:hi], pair[0])
		if open <= strings.Count(word[lo:hi], pair[1]) {
			continue
		}
		for range open {
			i := strings.Index(word[hi:], pair[1])
			if i < 0 {
				break
			}
			hi += i + len(pair[1])
		}
	}
	return lo, hi
}

// trimAll cuts marks from an end of a text as long as there are any.
func trimAll(s string, cut func(s, mark string) (string, bool), marks ...string) string {
	for i := 0; i < len(marks); i++ {
		if rest, found := cut(s, marks[i]); found {
			s, i = rest, -1
		}
	}
	return s
}

var (
	webPrefix  = regexp.MustCompile(`^(?i:https?://|www\.)`)
	wellKnown  = strings.Fields("com net int edu gov org info mil") // what a name without http:// or www. may end with
	ip4Address = regexp.MustCompile(`^\p{Nd}{1,3}(\.\p{Nd}{1,3}){3}$`)
	ip6Address = regexp.MustCompile(`^\[(?i:([\p{Nd}a-f]{0,4}:){2}([\p{Nd}a-f]{0,4}:?){1,6})\]$`)
)

// isWebAddress reports whether Jinja takes a text for an address in the web.
func isWebAddress(s string) bool {
	if prefix := webPrefix.FindString(s); prefix != "" {
		host, ok := webHost(s[len(prefix):])
		numbers := strings.HasSuffix(prefix, "/") && (ip4Address.MatchString(host) || strings.HasPrefix(host, "[") && ip6Address.MatchString(host))
		if ok && (numbers || isHost(host, 1, isTopLevel)) {
			return true
		}
	}
	host, ok := webHost(s)
	return ok && strings.Contains(host, ".") && isHost(host, 2, func(s string) bool { return slices.Contains(wellKnown, lowerASCII(s)) })
}

// webHost returns the host at the start of an address; what follows must be a port, a
// path, or nothing.
func webHost(s string) (host string, ok bool) {
	end := 0
	if strings.HasPrefix(s, "[") {
		end = strings.IndexByte(s, ']') + 1
	}
	if i := strings.IndexAny(s[end:], ":/?#"); i >= 0 {
		end += i
	} else {
		end = len(s)
	}
	host, rest := s[:end], s[end:]
	if port, found := strings.CutPrefix(rest, ":"); found {
		rest = strings.TrimLeftFunc(port, func(r rune) bool { return unicode.Is(unicode.Nd, r) })
		if n := runeCount(port[:len(port)-len(rest)]); n < 1 || n > 5 {
			return "", false
		}
	}
	return host, rest == "" || strings.IndexByte("/?#", rest[0]) >= 0
}

// isHost reports whether a text is names with points between them, of which all but the last
// have so many characters or more, and at most 63 if there is a least number above one.
func isHost(s string, least int, isLast func(string) bool) bool {
	for {
		label, rest, more := strings.Cut(s, ".")
		if !more {
			return isLast(label)
		}
		if n := runeCount(label); n < least || least > 1 && n > 63 || !isLabel(label) {
			return false
		}
		s = rest
	}
}

// isLabel reports whether all characters may be in a part of a host's name.
func isLabel(s string) bool {
	return all(s, func(r rune) bool { return isWord(r) || r == '%' || r == '-' })
}

// isTopLevel reports whether the last part of a host's name is one: 2 to 63 letters, or
// xn-- and so on.
func isTopLevel(s string) bool {
	s = lowerASCII(s)
	if code, found := strings.CutPrefix(s, "xn--"); found {
		n := runeCount(code)
		return n >= 2 && n <= 59 && all(code, func(r rune) bool { return isWord(r) || r == '%' })
	}
	return len(s) >= 2 && len(s) <= 63 && all(s, func(r rune) bool { return r >= 'a' && r <= 'z' })
}

// lowerASCII returns a text in lower case, with ASCII's letters for those that are the same
// but for case.
func lowerASCII(s string) string {
	if len(s) > utf8.UTFMax*63 {
		return s
	}
	return strings.ToLower(likeASCII.Replace(s))
}

var likeASCII = strings.NewReplacer("İ", "i", "ı", "i", "ſ", "s", "\u212a", "k")

// isMailAddress reports whether a text is an address of electronic mail.
func isMailAddress(s string) bool {
	at := strings.LastIndexByte(s, '@')
	if at < 1 {
		return false
	}
	host := s[at+1:]
	point := strings.LastIndexByte(host, '.')
	if point < 1 || !all(host[point+1:], isWord) {
		return false
	}
	first, _ := utf8.DecodeRuneInString(host)
	return isWord(first) && all(host[:point], func(r rune) bool { return isWord(r) || r == '-' || r == '.' })
}
