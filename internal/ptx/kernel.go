package ptx

import (
	"fmt"
	"strconv"
	"strings"
)

// A Kernel is an entry of a module, ready to run.
type Kernel struct {
	Name   string
	Shared int // bytes of shared memory that it declares
	Params int // bytes of parameters

	code  []instruction
	first []uint64 // what registers begin with: constants, and those that threads know themselves by
	local int      // bytes of a thread
}

// dynamicAlign is where shared memory that a launch adds begins: at a multiple of it.
const dynamicAlign = 128

// mostRegisters is how many a declaration may have.
const mostRegisters = 1 << 17

// A kind says how an instruction is executed.
type kind uint8

const (
	plain    kind = iota // by a thread
	jump                 // to target
	together             // by lanes of a warp
	barrier              // by threads of a block
	end
)

// An instruction is compiled: registers are places in a thread's list.
type instruction struct {
	kind   kind
	not    bool
	pred   int32 // register, or -1
	target int32
	run    func(t *thread)       // plain
	all    func(lanes []*thread) // together: of those that are there, by lane; others are nil
	mask   int32                 // register of the lanes that execute it, together; barrier: its number
	text   string
}

// Registers that threads know themselves by.
const (
	tidX = iota
	ntidX
	ctaidX
	ctaidY
	ctaidZ
	nctaidX
	nctaidY
	nctaidZ
	sink // of results that nobody wants
	known
)

var special = map[string]int{"%tid.x": tidX, "%ntid.x": ntidX, "%ctaid.x": ctaidX, "%ctaid.y": ctaidY, "%ctaid.z": ctaidZ,
	"%nctaid.x": nctaidX, "%nctaid.y": nctaidY, "%nctaid.z": nctaidZ, "_": sink}

// Kernel returns a kernel of the module. What is not PTX is an error, whatever it is.
func (m *Module) Kernel(name string) (k *Kernel, err error) {
	defer func() {
		if cause := recover(); cause != nil {
			k, err = nil, fmt.Errorf("kernel %s: malformed: %v", name, cause)
		}
	}()
	if k, ok := m.kernels[name]; ok {
		return k, nil
	}
	src, ok := m.sources[name]
	if !ok {
		return nil, fmt.Errorf("kernel %s: not there", name)
	}
	c := compiler{kernel: &Kernel{Name: name}, names: []map[string]int{{}}, variables: map[string]variable{}, labels: map[string]int{}, constants: map[uint64]int{}, dynamic: map[string]int{}}
	c.kernel.first = make([]uint64, known)
	if err := c.compile(m, src); err != nil {
		return nil, fmt.Errorf("kernel %s: %w", name, err)
	}
	m.kernels[name] = c.kernel
	return c.kernel, nil
}

// A compiler makes a Kernel of its text.
type compiler struct {
	kernel    *Kernel
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
	list, err := statements(src.body)
	if err != nil {
		return err
	}
	for _, s := range list {
		if err := c.statement(s); err != nil {
			return fmt.Errorf("%q: %w", s.text, err)
		}
	}
	c.emit(instruction{kind: end, pred: -1})
	for _, r := range c.dynamic {
		c.kernel.first[r] = uint64(c.kernel.Shared+dynamicAlign-1) / dynamicAlign * dynamicAlign
	}
	for _, j := range c.jumps {
		to, ok := c.labels[j.label]
		if !ok {
			return fmt.Errorf("label %s is not there", j.label)
		}
		c.kernel.code[j.at].target = int32(to)
	}
	return nil
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
	case strings.HasPrefix(text, ".shared"), strings.HasPrefix(text, ".local"):
		name, v, err := variableOf(text)
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

// operand returns the register of an operand: a register, a number, or a variable's address in its own memory.
func (c *compiler) operand(text string) (int, error) {
	if r, ok := special[text]; ok {
		return r, nil
	}
	for i := len(c.names) - 1; i >= 0; i-- {
		if r, ok := c.names[i][text]; ok {
			return r, nil
		}
	}
	if v, ok := c.variables[text]; ok {
		if v.space == "dynamic" {
			r, ok := c.dynamic[text]
			if !ok {
				r = c.register(0)
				c.dynamic[text] = r
			}
			return r, nil
		}
		return c.constant(v.at), nil
	}
	v, err := number(text)
	return c.constant(v), err
}

// number reads an integer, or a float by its bits.
func number(text string) (uint64, error) {
	if strings.HasPrefix(text, "0f") || strings.HasPrefix(text, "0d") {
		return strconv.ParseUint(text[2:], 16, 64)
	}
	if n, err := strconv.ParseInt(text, 0, 64); err == nil {
		return uint64(n), nil
	}
	n, err := strconv.ParseUint(strings.TrimSuffix(text, "U"), 0, 64)
	if err != nil {
		return 0, fmt.Errorf("operand %q is not known", text)
	}
	return n, nil
}

// operands cuts a list; those in braces or brackets stay one.
func operands(text string) (list []string) {
	depth, first := 0, 0
	for i := range len(text) {
		switch text[i] {
		case '{', '[':
			depth++
		case '}', ']':
			depth--
		case ',':
			if depth == 0 {
				list = append(list, strings.TrimSpace(text[first:i]))
				first = i + 1
			}
		}
	}
	if rest := strings.TrimSpace(text[first:]); rest != "" {
		list = append(list, rest)
	}
	return list
}

// vector returns the registers of one operand, or of those in braces.
func (c *compiler) vector(text string) (list []int, err error) {
	inside, ok := strings.CutPrefix(text, "{")
	if !ok {
		r, err := c.operand(text)
		return []int{r}, err
	}
	for _, name := range strings.Split(strings.TrimSuffix(inside, "}"), ",") {
		r, err := c.operand(strings.TrimSpace(name))
		if err != nil {
			return nil, err
		}
		list = append(list, r)
	}
	return list, nil
}

// An address is a register and what is added to it.
type address struct {
	base int
	add  uint64
}

func (c *compiler) address(text string) (a address, err error) {
	text = strings.TrimSuffix(strings.TrimPrefix(text, "["), "]")
	base, add, _ := strings.Cut(text, "+")
	if add != "" {
		if a.add, err = number(strings.TrimSpace(add)); err != nil {
			return a, err
		}
	}
	a.base, err = c.operand(strings.TrimSpace(base))
	return a, err
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
	case "bar":
		if parts[1] == "warp" {
			r, err := c.operand(args[0])
			if err != nil {
				return err
			}
			in.kind, in.mask, in.all = together, int32(r), func([]*thread) {}
			break
		}
		r, err := c.operand(args[0])
		if err != nil {
			return err
		}
		in.kind, in.mask, in.target = barrier, int32(r), -1
		if len(args) > 1 {
			if r, err = c.operand(args[1]); err != nil {
				return err
			}
			in.target = int32(r)
		}
	default:
		if err := c.compute(&in, parts, args); err != nil {
			return err
		}
	}
	c.emit(in)
	return nil
}
