package ptx

import "fmt"

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
	c := compiler{module: m, kernel: &Kernel{Name: name}, names: []map[string]int{{}}, variables: map[string]variable{}, labels: map[string]int{}, constants: map[uint64]int{}, dynamic: map[string]int{}}
	c.kernel.first = make([]uint64, known)
	if err := c.compile(m, src); err != nil {
		return nil, fmt.Errorf("kernel %s: %w", name, err)
	}
	m.kernels[name] = c.kernel
	return c.kernel, nil
}
