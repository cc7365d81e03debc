package jinja

import "testing"

// A rendering is a template, and what Jinja 3.1.6 on Python 3.11 makes of it.
type rendering struct{ source, want string }

func compareRenderings(t *testing.T, list []rendering) {
	t.Helper()
	for _, r := range list {
		if have, err := render(t, r.source, "{}"); err != nil || have != r.want {
			t.Errorf("%s: have %.200q, %v, want %q", r.source, have, err, r.want)
		}
	}
}

// What wordwrap breaks, and where, is as in textwrap of Python 3.11.
func TestWordwrap(t *testing.T) {
	compareRenderings(t, []rendering{
		{"{{ 'aaaaaaaaaa'|wordwrap(3) }}", "aaa\naaa\naaa\na"},
		{"{{ 'a bb ccc dddd'|wordwrap(1) }}", "a\nb\nb\nc\nc\nc\nd\nd\nd\nd"},
		{"{{ 'ab cdef g'|wordwrap(3) }}", "ab \ncde\nf g"},
		{"{{ 'ab cdef g'|wordwrap(3, false) }}", "ab\ncdef\ng"},
		{"{{ 'ab  cdefgh'|wordwrap(3) }}", "ab\ncde\nfgh"},
		{"{{ '      abc'|wordwrap(2) }}", "  \nab\nc"},
		{"{{ 'ab      cd'|wordwrap(3) }}", "ab\ncd"},
		{`{{ 'abc \u00a0 def'|wordwrap(4) }}`, "abc\n def"},
		{`{{ '\u00a0\u00a0\u00a0\u00a0a'|wordwrap(2) }}`, "a"},
		{`{{ 'a\u2003b c'|wordwrap(2) }}`, "a\u2003\nb\nc"},
		{"{{ 'goof-ball hy-phen-ated'|wordwrap(6) }}", "goof-\nball\nhy-\nphen-\nated"},
		{"{{ 'goof-ball'|wordwrap(6, break_on_hyphens=false) }}", "goof-b\nall"},
		{"{{ 'goof-ball'|wordwrap(6, break_on_hyphens=1) }}", "goof-\nball"},
		{"{{ 'a-b-c-d'|wordwrap(3) }}", "a-\nb-\nc-d"},
		{"{{ 'ab-cd-ef'|wordwrap(4, false) }}", "ab-\ncd-\nef"},
		{"{{ '-b --option x'|wordwrap(5) }}", "-b --\noptio\nn x"},
		{"{{ '(--a)'|wordwrap(4) }}", "(--\na)"},
		{"{{ 'one---two --- three'|wordwrap(6) }}", "one---\ntwo\n---\nthree"},
		{"{{ 'a.--b'|wordwrap(4) }}", "a.--\nb"},
		{"{{ '---------'|wordwrap(4) }}", "----\n----\n-"},
		{"{{ 'a---------'|wordwrap(4) }}", "a---\n----\n--"},
		{"{{ 'x-1-2y'|wordwrap(3) }}", "x-\n1-\n2y"},
		{`{{ '\u00b2\u00b2-ab c'|wordwrap(4) }}`, "\u00b2\u00b2-\nab c"},
		{"{{ 'a_-_b'|wordwrap(4) }}", "a_-\n_b"},
		{`{{ 'ab\ncd ef\n\ngh'|wordwrap(3) }}`, "ab\ncd\nef\n\ngh"},
		{`{{ 'ab\r\ncd\u2028ef'|wordwrap(3, wrapstring='|') }}`, "ab|cd|ef"},
		{`{{ 'ab cd\nef'|wordwrap(2, wrapstring='') }}`, "abcdef"},
		{"{{ 'a<b c'|wordwrap(3, wrapstring='<br>') }}", "a<b<br>c"},
		{"{{ 'a<b c'|wordwrap(3, wrapstring='<br>'|safe) }}", "a&lt;b<br>c"},
		{"{{ 'a<b c'|safe|wordwrap(3, wrapstring='<br>'|safe) }}", "a&lt;b<br>c"},
		{"{{ ''|wordwrap(0) }}", ""},
		{"{{ '  '|wordwrap(1) }}", ""},
		{"{{ 'a b'|wordwrap(10 ** 30) }}", "a b"},
		{`{{ 'a\tb  c'|wordwrap(4) }}`, "a\tb\nc"},
	})
}

// What urlize takes for an address is as in Jinja 3.1.6.
func TestUrlize(t *testing.T) {
	compareRenderings(t, []rendering{
		{"{{ 'http://x.y'|urlize }}", "http://x.y"},
		{"{{ 'http://a'|urlize }}", "http://a"},
		{"{{ 'http://a.b/c'|urlize }}", "http://a.b/c"},
		{"{{ 'www.a'|urlize }}", "www.a"},
		{"{{ 'http://a.bc'|urlize }}", `<a href="http://a.bc" rel="noopener">http://a.bc</a>`},
		{"{{ 'HTTP://A.BC/D'|urlize }}", `<a href="https://HTTP://A.BC/D" rel="noopener">HTTP://A.BC/D</a>`},
		{"{{ 'www.a.bc'|urlize }}", `<a href="https://www.a.bc" rel="noopener">www.a.bc</a>`},
		{"{{ 'www.bc'|urlize }}", `<a href="https://www.bc" rel="noopener">www.bc</a>`},
		{"{{ 'a.com'|urlize }}", "a.com"},
		{"{{ 'ab.com'|urlize }}", `<a href="https://ab.com" rel="noopener">ab.com</a>`},
		{"{{ 'ab.de'|urlize }}", "ab.de"},
		{"{{ 'a-b.org/x'|urlize }}", `<a href="https://a-b.org/x" rel="noopener">a-b.org/x</a>`},
		{"{{ 'ab.museum'|urlize }}", "ab.museum"},
		{"{{ 'http://a.b2'|urlize }}", "http://a.b2"},
		{"{{ 'http://a.xn--p1'|urlize }}", `<a href="http://a.xn--p1" rel="noopener">http://a.xn--p1</a>`},
		{"{{ 'http://xn--ab'|urlize }}", `<a href="http://xn--ab" rel="noopener">http://xn--ab</a>`},
		{"{{ 'http://a..bc'|urlize }}", "http://a..bc"},
		{"{{ 'http://-_%.bc'|urlize }}", `<a href="http://-_%.bc" rel="noopener">http://-_%.bc</a>`},
		{"{{ 'http://\u00e9.bc'|urlize }}", "<a href=\"http://\u00e9.bc\" rel=\"noopener\">http://\u00e9.bc</a>"},
		{"{{ 'http://a.b\u00e9'|urlize }}", "http://a.b\u00e9"},
		{"{{ 'http://a.bc:80/'|urlize }}", `<a href="http://a.bc:80/" rel="noopener">http://a.bc:80/</a>`},
		{"{{ 'http://a.bc:123456'|urlize }}", "http://a.bc:123456"},
		{"{{ 'http://a.bc:'|urlize }}", "http://a.bc:"},
		{"{{ 'http://a.bc?q'|urlize }}", `<a href="http://a.bc?q" rel="noopener">http://a.bc?q</a>`},
		{"{{ 'http://a.bc#f'|urlize }}", `<a href="http://a.bc#f" rel="noopener">http://a.bc#f</a>`},
		{"{{ 'http://a.bc&x'|urlize }}", "http://a.bc&amp;x"},
		{"{{ 'http://1.2.3.4'|urlize }}", `<a href="http://1.2.3.4" rel="noopener">http://1.2.3.4</a>`},
		{"{{ 'http://1.2.3'|urlize }}", "http://1.2.3"},
		{"{{ 'http://1.2.3.4567'|urlize }}", "http://1.2.3.4567"},
		{"{{ 'http://[::1]:8/x'|urlize }}", `<a href="http://[::1]:8/x" rel="noopener">http://[::1]:8/x</a>`},
		{"{{ 'http://[1:2]'|urlize }}", "http://[1:2]"},
		{"{{ 'http://[::1]x'|urlize }}", "http://[::1]x"},
		{"{{ 'www.1.2.3.4'|urlize }}", "www.1.2.3.4"},
		{"{{ 'ftp://a.bc'|urlize }}", "ftp://a.bc"},
		{"{{ '(http://a.bc)'|urlize }}", `(<a href="http://a.bc" rel="noopener">http://a.bc</a>)`},
		{"{{ '((http://a.bc/(x)).'|urlize }}", `((<a href="http://a.bc/(x)" rel="noopener">http://a.bc/(x)</a>).`},
		{"{{ '<http://a.bc>'|urlize }}", `&lt;<a href="http://a.bc" rel="noopener">http://a.bc</a>&gt;`},
		{"{{ 'http://a.bc/(x'|urlize }}", `<a href="http://a.bc/(x" rel="noopener">http://a.bc/(x</a>`},
		{"{{ 'http://a.bc,'|urlize }}", `<a href="http://a.bc" rel="noopener">http://a.bc</a>,`},
		{"{{ 'http://a.bc...'|urlize }}", `<a href="http://a.bc" rel="noopener">http://a.bc</a>...`},
		{`{{ 'http://a.bc/\'x\''|urlize }}`, `<a href="http://a.bc/&#39;x&#39;" rel="noopener">http://a.bc/&#39;x&#39;</a>`},
		{"{{ 'a@b.c'|urlize }}", `<a href="mailto:a@b.c">a@b.c</a>`},
		{"{{ 'a@b'|urlize }}", "a@b"},
		{"{{ '@a@b.c'|urlize }}", "@a@b.c"},
		{"{{ 'a@b@c.de'|urlize }}", `<a href="mailto:a@b@c.de">a@b@c.de</a>`},
		{"{{ 'mailto:a@b.c'|urlize }}", `<a href="mailto:a@b.c">a@b.c</a>`},
		{"{{ 'mailto:a'|urlize }}", "mailto:a"},
		{"{{ 'x:a@b.c'|urlize }}", "x:a@b.c"},
		{"{{ 'www.a@b.c'|urlize }}", "www.a@b.c"},
		{"{{ 'a@-b.c'|urlize }}", "a@-b.c"},
		{"{{ 'a@b.c-d'|urlize }}", "a@b.c-d"},
		{"{{ 'a@b.c.'|urlize }}", `<a href="mailto:a@b.c">a@b.c</a>.`},
		{"{{ 'http://a.bc\u00a0www.x.yz\ta@b.c'|urlize }}", "<a href=\"http://a.bc\" rel=\"noopener\">http://a.bc</a>\u00a0<a href=\"https://www.x.yz\" rel=\"noopener\">www.x.yz</a>\t<a href=\"mailto:a@b.c\">a@b.c</a>"},
		{"{{ 'see http://a.bc, or www.d.ef!'|urlize }}", `see <a href="http://a.bc" rel="noopener">http://a.bc</a>, or www.d.ef!`},
		{"{{ 'http://a.\u0131\u017f'|urlize }}", "<a href=\"http://a.\u0131\u017f\" rel=\"noopener\">http://a.\u0131\u017f</a>"},
		{"{{ 'ab.\u0131nfo'|urlize }}", "<a href=\"https://ab.\u0131nfo\" rel=\"noopener\">ab.\u0131nfo</a>"},
		{"{{ ('<http://a.bc>'|safe)|urlize }}", `<<a href="http://a.bc" rel="noopener">http://a.bc</a>>`},
		{"{% autoescape true %}{{ 'www.a.bc<'|urlize }}{% endautoescape %}", "www.a.bc&lt;"},
		{"{{ 5|urlize }}", "5"},
		{"{{ ('www.' ~ 'b' * 63)|urlize|length }} {{ ('www.' ~ 'b' * 64)|urlize|length }} {{ ('b' * 63 ~ '.com')|urlize|length }} {{ ('b' * 64 ~ '.com')|urlize|length }}", "172 68 172 68"},
	})
}

// Numbers are read, and what is none is caught, as in Python.
func TestNumbers(t *testing.T) {
	compareRenderings(t, []rendering{
		{"{{ ('9' * 300000)|int }}", "0"},
		{"{{ ('9' * 300000)|int(5) }}", "5"},
		{"{{ ('9' * 4301)|int(5) }}", "5"},
		{"{{ ('9' * 4300)|int % 1000 }}", "999"},
		{"{{ ('0' * 5000 ~ 7)|int }}", "7"},
		{"{{ ('0' * 5000 ~ 12)|int(base=7) }}", "12"},
		{"{{ ('f' * 16000)|int(base=16)|abs > 0 }}", "True"},
		{"{{ ('0' * 70000 ~ 11)|int(base=2) }}", "3"},
		{"{{ ('0x' ~ 'f' * 9000)|int(base=0) > 0 }}", "True"},
		{"{{ '12'|int(base='x') }} {{ '12'|int(base=none) }} {{ '12'|int(base=[]) }} {{ '12'|int(base=99) }}", "12 12 12 12"},
		{"{{ 'inf'|int(3) }} {{ 'nan'|int(3) }} {{ '1e400'|int(3) }} {{ []|int(3) }}", "3 3 3 3"},
		{"{{ '1_0'|int }} {{ '1__0'|int(3) }} {{ '0x_1f'|int(base=16) }} {{ '_1'|int(3) }} {{ '010'|int(3, 0) }}", "10 3 31 3 10"},
		{"{{ ('9' * 300000)|float }} {{ '+nan'|float }} {{ '-inf'|float }} {{ []|float(2) }}", "inf nan -inf 2"},
		{"{{ '1_0.5'|float }} {{ '1_.5'|float }} {{ '1e_5'|float }} {{ '\u0661'|float }} {{ '\u212a'|int(3, 36) }}", "10.5 0.0 0.0 1.0 3"},
		{"{{ '%x'|format(16 ** 5000)|length }} {{ '%.3d %.4x'|format(-12, 255) }}", "5001 -012 00ff"},
		{"{{ '{:_x} {:,} {:,.1f}'.format(10 ** 12, -1234567, 12345.6) }}", "e8_d4a5_1000 -1,234,567 12,345.6"},
	})
}

// Long texts are found as short ones are.
func TestSearches(t *testing.T) {
	compareRenderings(t, []rendering{
		{"{% set s = 'aab' * 60 ~ 'c' ~ 'aab' * 60 %}{% set t = 'aab' * 30 %}{{ s.find(t) }}", "0"},
		{"{% set s = 'aab' * 60 ~ 'c' ~ 'aab' * 60 %}{% set t = 'aab' * 30 %}{{ s.rfind(t) }}", "271"},
		{"{% set s = 'aab' * 60 ~ 'c' ~ 'aab' * 60 %}{% set t = 'aab' * 30 %}{{ s.count(t) }}", "4"},
		{"{% set s = 'aab' * 60 ~ 'c' ~ 'aab' * 60 %}{% set t = 'aab' * 30 %}{{ s.split(t) }}", "['', '', 'c', '', '']"},
		{"{% set s = 'aab' * 60 ~ 'c' ~ 'aab' * 60 %}{% set t = 'aab' * 30 %}{{ s.rsplit(t, 1) }}", "['aabaabaabaabaabaabaabaabaabaabaabaabaabaabaabaabaabaabaabaabaabaabaabaabaabaabaabaabaabaabaabaabaabaabaabaabaabaabaabaabaabaabaabaabaabaabaabaabaabaabaabaabaabaabaabaabaabaabaabaabcaabaabaabaabaabaabaabaabaabaabaabaabaabaabaabaabaabaabaabaabaabaabaabaabaabaabaabaabaabaab', '']"},
		{"{% set s = 'aab' * 60 ~ 'c' ~ 'aab' * 60 %}{% set t = 'aab' * 30 %}{{ s.replace(t, 'x') }}", "xxcxx"},
		{"{% set s = 'aab' * 60 ~ 'c' ~ 'aab' * 60 %}{% set t = 'aab' * 30 %}{{ s.replace(t, 'x', 1) }}", "xaabaabaabaabaabaabaabaabaabaabaabaabaabaabaabaabaabaabaabaabaabaabaabaabaabaabaabaabaabaabcaabaabaabaabaabaabaabaabaabaabaabaabaabaabaabaabaabaabaabaabaabaabaabaabaabaabaabaabaabaabaabaabaabaabaabaabaabaabaabaabaabaabaabaabaabaabaabaabaabaabaabaabaabaabaabaabaabaabaabaab"},
		{"{% set s = 'aab' * 60 ~ 'c' ~ 'aab' * 60 %}{% set t = 'aab' * 30 %}{{ s.partition(t)[2]|length }}", "271"},
		{"{% set s = 'aab' * 60 ~ 'c' ~ 'aab' * 60 %}{% set t = 'aab' * 30 %}{{ s.rpartition(t)[0]|length }}", "271"},
		{"{% set s = 'aab' * 60 ~ 'c' ~ 'aab' * 60 %}{% set t = 'aab' * 30 %}{{ t in s }}", "True"},
		{"{% set s = 'aab' * 60 ~ 'c' ~ 'aab' * 60 %}{% set t = 'aab' * 30 %}{{ t ~ 'c' in s }}", "True"},
	})
}

// Keys and ranges are equal as in Python, and blanks and tags are as in Jinja.
func TestOthers(t *testing.T) {
	compareRenderings(t, []rendering{
		{"{{ {(1, (2.0, 'a')): 3}[(true, (2, 'a'))] }} {{ {('a1',): 3}[('a', 1)] is defined }} {{ {}[([],)] is defined }}", "3 False False"},
		{"{{ range(0, 10, 3) == range(0, 11, 3) }} {{ range(0) == range(3, 3) }} {{ range(3) == range(4) }}", "True True False"},
		{"{{ 'a\tb\n\tc'.expandtabs(4) }}|{{ 'a\tb'.expandtabs(0) }}", "a   b\n    c|ab"},
		{"{{ '<!-- a>b'|striptags }} {{ '<!-- a --><b>c</b>  d &amp;'|striptags }}", "<!-- a>b c d &"},
	})
}
