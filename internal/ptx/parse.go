package ptx

import (
	"fmt"
	"strconv"
	"strings"
)

// A Module is a file of PTX.
type Module struct {
	kernels   map[string]*Kernel
	sources   map[string]source
	functions map[string]source
	globals   map[string]variable // variables of the file
}

// A source is a kernel's text, which is compiled when the kernel is first asked for, or a function's, where it is called.
type source struct{ head, body string }

// A variable is one of a file or of a kernel, in some memory.
type variable struct {
	space string // shared, local, param, global
	at    uint64 // where it is in that
	size  int
}

// Parse reads the text of a module.
func Parse(text string) (m *Module, err error) {
	defer func() {
		if cause := recover(); cause != nil {
			m, err = nil, fmt.Errorf("malformed: %v", cause)
		}
	}()
	m = &Module{kernels: map[string]*Kernel{}, sources: map[string]source{}, functions: map[string]source{}, globals: map[string]variable{}}
	s := scanner{text: withoutComments(text)}
	for {
		head, end := s.until("{;")
		head = strings.TrimSpace(head)
		head = afterVersion(head)
		switch {
		case end == 0:
			return m, nil
		case end == ';':
			if err := m.declare(head); err != nil {
				return nil, err
			}
		case strings.Contains(head, ".entry"):
			body, err := s.block()
			if err != nil {
				return nil, err
			}
			_, rest, _ := strings.Cut(head, ".entry")
			name, _, _ := strings.Cut(rest, "(")
			m.sources[strings.TrimSpace(name)] = source{rest, body}
		default: // a function, or an initializer
			body, err := s.block()
			if err != nil {
				return nil, err
			}
			if _, rest, is := strings.Cut(head, ".func"); is {
				results, name, params := signatureOf(rest)
				m.functions[name] = source{results + "," + params, body}
			}
		}
	}
}

// signatureOf cuts a call, or the head of a function: "(result), name, (parameters)", with commas around the name or without, and what is in
// parentheses perhaps absent.
func signatureOf(text string) (results, name, params string) {
	text = strings.TrimSpace(text)
	if rest, is := strings.CutPrefix(text, "("); is {
		results, text, _ = strings.Cut(rest, ")")
	}
	name, params, _ = strings.Cut(text, "(")
	params, _, _ = strings.Cut(params, ")")
	return strings.TrimSpace(results), strings.Trim(name, ", \n\t"), strings.TrimSpace(params)
}

// afterVersion leaves out what a file begins with.
func afterVersion(head string) string {
	for {
		line, rest, more := strings.Cut(head, "\n")
		known := strings.HasPrefix(line, ".version") || strings.HasPrefix(line, ".target") || strings.HasPrefix(line, ".address_size") || strings.TrimSpace(line) == ""
		if !known || !more {
			return head
		}
		head = strings.TrimSpace(rest)
	}
}

// declare notes a variable of the file. Constants that the compiler has used up are left out.
func (m *Module) declare(text string) error {
	if !strings.Contains(text, ".shared") {
		return nil
	}
	name, v, err := variableOf(text)
	if err != nil {
		return err
	}
	m.globals[name] = v
	return nil
}

// variableOf reads a declaration as ".shared .align 16 .b8 name[1024]", whose place is not known yet: at is its alignment.
func variableOf(text string) (string, variable, error) {
	v := variable{at: 1}
	fields := strings.Fields(text)
	unit := 1
	for i := 0; i < len(fields); i++ {
		f := fields[i]
		switch {
		case f == ".shared" || f == ".local" || f == ".param":
			v.space = f[1:]
		case f == ".align" && i+1 < len(fields):
			i++
			n, err := strconv.Atoi(fields[i])
			if err != nil {
				return "", v, fmt.Errorf("alignment of %q", text)
			}
			v.at = uint64(n)
		case f == ".extern" || f == ".visible" || f == ".ptr" || f == ".global":
		case strings.HasPrefix(f, "."):
			n, err := strconv.Atoi(strings.TrimLeft(f[1:], "bufs"))
			if err != nil {
				return "", v, fmt.Errorf("type of %q", text)
			}
			unit = n / 8
		default:
			name, count, isArray := strings.Cut(f, "[")
			v.size = unit
			if isArray {
				n, _ := strconv.Atoi(strings.TrimSuffix(count, "]"))
				v.size *= n
			}
			v.at = max(v.at, uint64(unit))
			return name, v, nil
		}
	}
	return "", v, fmt.Errorf("declaration %q has no name", text)
}

// withoutComments blanks comments out.
func withoutComments(text string) string {
	var b strings.Builder
	b.Grow(len(text))
	for {
		i := strings.IndexByte(text, '/')
		if i < 0 || i+1 == len(text) {
			b.WriteString(text)
			return b.String()
		}
		end := ""
		switch text[i+1] {
		case '/':
			end = "\n"
		case '*':
			end = "*/"
		default:
			b.WriteString(text[:i+1])
			text = text[i+1:]
			continue
		}
		b.WriteString(text[:i])
		b.WriteByte('\n')
		_, text, _ = strings.Cut(text[i+2:], end)
	}
}

// A scanner goes through a text.
type scanner struct {
	text string
	at   int
}

// until returns what stands before the first of some characters, and which one that is, or 0 at the end.
func (s *scanner) until(any string) (string, byte) {
	i := strings.IndexAny(s.text[s.at:], any)
	if i < 0 {
		rest := s.text[s.at:]
		s.at = len(s.text)
		return rest, 0
	}
	before, c := s.text[s.at:s.at+i], s.text[s.at+i]
	s.at += i + 1
	return before, c
}

// block returns what stands before the brace that closes the one that has been read.
func (s *scanner) block() (string, error) {
	first, depth := s.at, 1
	for depth > 0 {
		switch _, c := s.until("{}"); c {
		case '{':
			depth++
		case '}':
			depth--
		default:
			return "", fmt.Errorf("a brace is not closed")
		}
	}
	return s.text[first : s.at-1], nil
}

// A statement is an instruction, a declaration, a label, or the begin or end of a scope.
type statement struct {
	kind byte // 'i', '.', ':', '{', '}'
	text string
}

// statements cuts a body.
func statements(body string) (list []statement, err error) {
	for i := 0; i < len(body); {
		c := body[i]
		switch {
		case c <= ' ' || c == ';':
			i++
		case c == '{' || c == '}':
			list = append(list, statement{kind: c})
			i++
		default:
			end := strings.IndexAny(body[i:], ";:")
			if end < 0 {
				return nil, fmt.Errorf("statement %q does not end", body[i:min(len(body), i+40)])
			}
			text := body[i : i+end]
			if colons := strings.HasPrefix(body[i+end:], "::"); colons { // as in L2::cache_hint
				end = strings.IndexByte(body[i:], ';')
				text = body[i : i+end]
			} else if body[i+end] == ':' {
				list = append(list, statement{':', strings.TrimSpace(text)})
				i += end + 1
				continue
			}
			kind := byte('i')
			if c == '.' {
				kind = '.'
			}
			list = append(list, statement{kind, strings.TrimSpace(text)})
			i += end + 1
		}
	}
	return list, nil
}
