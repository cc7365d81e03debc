package ptx

import (
	"fmt"
	"maps"
	"strconv"
	"strings"
)

// A compiler makes a Kernel of its text.
type compiler struct {
	module    *Module
	kernel    *Kernel
	calls     int              // of functions, one within the other, where the compiler is
	names     []map[string]int // registers, by scope
	variables map[string]variable
	labels    map[string]int // where they are in the code
	constants map[uint64]int
	dynamic   map[string]int // registers of the addresses of what is behind all variables
	jumps     []pending
}

// A pending jump goes to a label that may not be known yet.
type pending struct {
	at    int
	label string
}

func (c *compiler) compile(m *Module, src source) error {
	for name, v := range m.globals {
		c.place(name, v)
	}
	if err := c.params(src.head); err != nil {
		return err
	}
	if err := c.body(src.body); err != nil {
		return err
	}
	c.emit(instruction{kind: end, pred: -1})
	for _, r := range c.dynamic {
		c.kernel.first[r] = uint64(c.kernel.Shared+dynamicAlign-1) / dynamicAlign * dynamicAlign
	}
	return nil
}

// body compiles statements, and knows their labels then.
func (c *compiler) body(text string) error {
	list, err := statements(text)
	if err != nil {
		return err
	}
	for _, s := range list {
		if err := c.statement(s); err != nil {
			return fmt.Errorf("%q: %w", s.text, err)
		}
	}
	c.labels[returned] = len(c.kernel.code)
	for _, j := range c.jumps {
		to, ok := c.labels[j.label]
		if !ok {
			return fmt.Errorf("label %s is not there", j.label)
		}
		c.kernel.code[j.at].target = int32(to)
	}
	return nil
}

// returned is the label behind a function, and mostCalls how many may be one within the other.
const returned, mostCalls = "behind the function", 16

// call compiles a function where it is called. Its parameters and results are those of the caller, in the thread's own memory.
func (c *compiler) call(text string) error {
	results, name, params := signatureOf(text)
	f, ok := c.module.functions[name]
	if !ok {
		return fmt.Errorf("function %s is not there", name)
	}
	if c.calls == mostCalls {
		return fmt.Errorf("function %s is called within itself, or %d others", name, mostCalls)
	}
	theirs, ours := operands(f.head), operands(results+","+params)
	if len(theirs) != len(ours) {
		return fmt.Errorf("function %s has %d parameters and results, and is called with %d", name, len(theirs), len(ours))
	}
	inner := *c
	inner.calls, inner.names, inner.labels, inner.jumps, inner.variables = c.calls+1, []map[string]int{{}}, map[string]int{}, nil, maps.Clone(c.variables)
	for i, head := range theirs {
		if head == "" && ours[i] == "" {
			continue
		}
		its, _, err := variableOf(head)
		v, there := c.variables[ours[i]]
		if err != nil || !there {
			return fmt.Errorf("function %s: parameter %q of %q", name, head, ours[i])
		}
		inner.variables[its] = v
	}
	return inner.body(f.body)
}

// place gives a variable its place. What has no size of its own begins behind what is declared.
func (c *compiler) place(name string, v variable) {
	n := &c.kernel.Shared
	switch v.space {
	case "local":
		n = &c.kernel.local
	case "param":
		n = &c.kernel.Params
	}
	at := (*n + int(v.at) - 1) / int(v.at) * int(v.at)
	if v.size > 0 {
		*n = at + v.size
	}
	v.at = uint64(at)
	if v.size == 0 {
		v.space = "dynamic" // its place is known when all others have one
	}
	c.variables[name] = v
}

func (c *compiler) params(head string) error {
	_, list, _ := strings.Cut(head, "(")
	list, _, _ = strings.Cut(list, ")")
	for _, p := range strings.Split(list, ",") {
		if strings.TrimSpace(p) == "" {
			continue
		}
		name, v, err := variableOf(p)
		if err != nil {
			return err
		}
		c.place(name, v)
	}
	return nil
}

func (c *compiler) emit(i instruction) { c.kernel.code = append(c.kernel.code, i) }

func (c *compiler) statement(s statement) error {
	switch s.kind {
	case '{':
		c.names = append(c.names, map[string]int{})
	case '}':
		c.names = c.names[:len(c.names)-1]
	case ':':
		c.labels[s.text] = len(c.kernel.code)
	case '.':
		return c.directive(s.text)
	default:
		return c.instruction(s.text)
	}
	return nil
}

func (c *compiler) directive(text string) error {
	switch {
	case strings.HasPrefix(text, ".reg"):
		rest := strings.Fields(text)
		for _, name := range strings.Split(strings.Join(rest[2:], ""), ",") {
			base, count, several := strings.Cut(name, "<")
			n, _ := strconv.Atoi(strings.TrimSuffix(count, ">"))
			if n > mostRegisters {
				return fmt.Errorf("%d registers", n)
			}
			for i := range max(n, 1) {
				if several {
					name = base + strconv.Itoa(i)
				}
				c.names[len(c.names)-1][name] = c.register(0)
			}
		}
		return nil
	case strings.HasPrefix(text, ".shared"), strings.HasPrefix(text, ".local"), strings.HasPrefix(text, ".param"):
		name, v, err := variableOf(text)
		if v.space == "param" { // of a call
			v.space = "local"
		}
		if err == nil {
			c.place(name, v)
		}
		return err
	case strings.HasPrefix(text, ".pragma"), strings.HasPrefix(text, ".loc"), strings.HasPrefix(text, ".file"):
		return nil
	}
	return fmt.Errorf("directive is not known")
}

// register makes one that begins with v.
func (c *compiler) register(v uint64) int {
	c.kernel.first = append(c.kernel.first, v)
	return len(c.kernel.first) - 1
}

func (c *compiler) constant(v uint64) int {
	r, ok := c.constants[v]
	if !ok {
		r = c.register(v)
		c.constants[v] = r
	}
	return r
}

// instruction compiles one.
func (c *compiler) instruction(text string) error {
	in := instruction{pred: -1, text: text}
	if rest, ok := strings.CutPrefix(text, "@"); ok {
		name, body, _ := strings.Cut(rest, " ")
		if tab := strings.IndexByte(rest, '\t'); tab >= 0 && tab < len(name) {
			name, body = rest[:tab], rest[tab+1:]
		}
		if in.not = strings.HasPrefix(name, "!"); in.not {
			name = name[1:]
		}
		r, err := c.operand(name)
		if err != nil {
			return err
		}
		in.pred, text = int32(r), strings.TrimSpace(body)
	}
	i := strings.IndexAny(text, " \t\n")
	op, rest := text, ""
	if i >= 0 {
		op, rest = text[:i], text[i+1:]
	}
	parts, args := strings.Split(op, "."), operands(rest)
	switch parts[0] {
	case "bra":
		c.jumps = append(c.jumps, pending{len(c.kernel.code), args[0]})
		in.kind = jump
	case "ret", "exit":
		in.kind = end
		if c.calls > 0 && parts[0] == "ret" {
			c.jumps = append(c.jumps, pending{len(c.kernel.code), returned})
			in.kind = jump
		}
	case "call":
		if in.pred >= 0 {
			return fmt.Errorf("a call by some threads is not known")
		}
		return c.call(rest)
	case "bar", "barrier":
		if err := c.barrier(&in, parts, args); err != nil {
			return err
		}
	default:
		if err := c.compute(&in, parts, args); err != nil {
			return err
		}
	}
	c.emit(in)
	return nil
}

// barrier compiles a meeting of threads: of a warp, or of as many of a block as are said, or all.
func (c *compiler) barrier(in *instruction, parts, args []string) error {
	r, err := c.operand(args[0])
	if err != nil {
		return err
	}
	switch parts[1] {
	case "warp":
		in.kind, in.mask, in.all = together, int32(r), func([]*thread) {}
	case "arrive":
		in.run = func(t *thread) { t.block.arrived[t.r[r]]++ }
	case "sync":
		in.kind, in.mask, in.target = barrier, int32(r), -1
		if len(args) > 1 {
			if r, err = c.operand(args[1]); err != nil {
				return err
			}
			in.target = int32(r)
		}
	default:
		return fmt.Errorf("%s is not known", strings.Join(parts, "."))
	}
	return nil
}
