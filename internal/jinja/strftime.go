package jinja

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// A timeField is a conversion of strftime that gives a number: at least so many
// digits, filled up with zeros or blanks.
type timeField struct {
	digits int
	fill   string
	value  func(t time.Time) int
}

var timeFields = map[byte]timeField{
	'd': {2, "0", time.Time.Day}, 'e': {2, " ", time.Time.Day}, 'm': {2, "0", func(t time.Time) int { return int(t.Month()) }},
	'H': {2, "0", time.Time.Hour}, 'k': {2, " ", time.Time.Hour}, 'I': {2, "0", hour12}, 'l': {2, " ", hour12},
	'M': {2, "0", time.Time.Minute}, 'S': {2, "0", time.Time.Second}, 'j': {3, "0", time.Time.YearDay},
	'Y': {1, "0", time.Time.Year}, 'C': {2, "0", func(t time.Time) int { return t.Year() / 100 }},
	'y': {2, "0", func(t time.Time) int { return t.Year() % 100 }},
	'G': {1, "0", func(t time.Time) int { y, _ := t.ISOWeek(); return y }},
	'g': {2, "0", func(t time.Time) int { y, _ := t.ISOWeek(); return y % 100 }},
	'V': {2, "0", func(t time.Time) int { _, w := t.ISOWeek(); return w }},
	'u': {1, "0", func(t time.Time) int { return (int(t.Weekday())+6)%7 + 1 }},
	'w': {1, "0", func(t time.Time) int { return int(t.Weekday()) }},
	'U': {2, "0", func(t time.Time) int { return (t.YearDay() + 6 - int(t.Weekday())) / 7 }},
	'W': {2, "0", func(t time.Time) int { return (t.YearDay() + 6 - (int(t.Weekday())+6)%7) / 7 }},
}

// timeTexts are conversions that give words, in the C locale. A time has no zone
// for templates.
var timeTexts = map[byte]func(t time.Time) string{
	'a': func(t time.Time) string { return t.Weekday().String()[:3] },
	'A': func(t time.Time) string { return t.Weekday().String() },
	'b': func(t time.Time) string { return t.Month().String()[:3] },
	'h': func(t time.Time) string { return t.Month().String()[:3] },
	'B': func(t time.Time) string { return t.Month().String() },
	'p': func(t time.Time) string { return t.Format("PM") },
	'P': func(t time.Time) string { return t.Format("pm") },
	'f': func(t time.Time) string { return fmt.Sprintf("%06d", t.Nanosecond()/1000) },
	's': func(t time.Time) string { return strconv.FormatInt(t.Unix(), 10) },
	'n': func(time.Time) string { return "\n" }, 't': func(time.Time) string { return "\t" },
	'z': func(time.Time) string { return "" }, 'Z': func(time.Time) string { return "" },
	'%': func(time.Time) string { return "%" },
}

// timeFormats are conversions that stand for several.
var timeFormats = map[byte]string{
	'c': "%a %b %e %H:%M:%S %Y", 'x': "%m/%d/%y", 'X': "%H:%M:%S", 'r': "%I:%M:%S %p", 'R': "%H:%M", 'T': "%H:%M:%S",
	'D': "%m/%d/%y", 'F': "%Y-%m-%d",
}

func hour12(t time.Time) int { return (t.Hour()+11)%12 + 1 }

// strftime formats a time as C does, with glibc's flags - _ 0 ^ # and widths.
// What it does not know stays as it is.
func (m *machine) strftime(format string, t time.Time) string {
	b := builder{m: m}
	for format != "" {
		at := strings.IndexByte(format, '%')
		if at < 0 || at == len(format)-1 {
			b.write(format)
			break
		}
		b.write(format[:at])
		text, n := m.conversion(format[at:], t)
		b.write(text)
		format = format[at+n:]
	}
	return b.String()
}

// conversion returns what the conversion at the start of s gives, and its length.
func (m *machine) conversion(s string, t time.Time) (string, int) {
	m.step(4)
	n := 1
	for n < len(s) && strings.IndexByte("-_0^#", s[n]) >= 0 {
		n++
	}
	flags := s[1:n]
	width, rest := leadingInt(s[n:])
	rest = strings.TrimLeft(rest, "EO")
	if rest == "" {
		return s, len(s)
	}
	verb := rest[0]
	n = len(s) - len(rest) + 1
	text, fill := "", " "
	if f, ok := timeFields[verb]; ok {
		text, fill = strconv.Itoa(f.value(t)), f.fill
		if width == 0 && !strings.Contains(flags, "-") {
			width = f.digits
		}
	} else if f := timeTexts[verb]; f != nil {
		text = f(t)
	} else if f := timeFormats[verb]; f != "" {
		text = m.strftime(f, t)
	} else {
		return s[:n], n
	}
	switch {
	case strings.Contains(flags, "_"):
		fill = " "
	case strings.Contains(flags, "0"):
		fill = "0"
	}
	if strings.Contains(flags, "^") {
		text = strings.ToUpper(text)
	}
	return m.padded("", fill, width-len(text), text, 0), n
}
