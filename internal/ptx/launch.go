package ptx

import "fmt"

// A Launch is how a kernel is to be run.
type Launch struct {
	Grid    [3]int
	Threads int // of a block, in one direction
	Shared  int // bytes of dynamic shared memory
	Params  []byte
}

// A block of threads.
type block struct {
	memory  *Memory
	shared  []byte
	params  []byte
	arrived map[uint64]int // at barriers, without waiting
}

// A thread runs until it has to wait for others, or ends.
type thread struct {
	r       []uint64
	pc      int32
	lane    int
	block   *block
	local   []byte
	batches [][]transfer
	open    []transfer
	at      kind // plain while it runs; else what it waits at
}

// patience is how many instructions a thread runs before others have a turn, and rounds how often all have one
// before nobody is expected to end.
const patience, rounds = 1 << 14, 1 << 10

const warpSize = 32

// Run runs a kernel.
func (k *Kernel) Run(m *Memory, l Launch) error {
	for z := range l.Grid[2] {
		for y := range l.Grid[1] {
			for x := range l.Grid[0] {
				if err := k.block(m, l, [3]int{x, y, z}); err != nil {
					return fmt.Errorf("kernel %s, block %d,%d,%d: %w", k.Name, x, y, z, err)
				}
			}
		}
	}
	return nil
}

func (k *Kernel) block(m *Memory, l Launch, at [3]int) error {
	shared := (k.Shared+dynamicAlign-1)/dynamicAlign*dynamicAlign + l.Shared
	b := &block{memory: m, shared: make([]byte, shared), params: l.Params, arrived: map[uint64]int{}}
	for i := range b.shared {
		b.shared[i] = 0x5a
	}
	threads := make([]*thread, l.Threads)
	registers := make([]uint64, l.Threads*len(k.first))
	for i := range threads {
		t := &thread{r: registers[i*len(k.first):][:len(k.first)], lane: i % warpSize, block: b, local: make([]byte, k.local)}
		copy(t.r, k.first)
		for r, v := range map[int]int{tidX: i, ntidX: l.Threads, ctaidX: at[0], ctaidY: at[1], ctaidZ: at[2], nctaidX: l.Grid[0], nctaidY: l.Grid[1], nctaidZ: l.Grid[2]} {
			t.r[r] = uint64(v)
		}
		threads[i] = t
	}
	for range rounds {
		for first := 0; first < len(threads); first += warpSize {
			if err := k.warp(threads[first:min(first+warpSize, len(threads))]); err != nil {
				return err
			}
		}
		k.meet(threads)
		running, left := 0, 0
		for _, t := range threads {
			running, left = running+flag(t.at == plain), left+flag(t.at != end)
		}
		switch {
		case left == 0:
			return nil
		case running == 0:
			return fmt.Errorf("%d threads wait for others that do not come", left)
		}
	}
	return fmt.Errorf("does not end within %d instructions of a thread", patience*rounds)
}

// warp runs the lanes of a warp until all have ended, or wait for other warps.
func (k *Kernel) warp(lanes []*thread) error {
	for again := true; again; {
		again = false
		for _, t := range lanes {
			if t.at == plain {
				if err := k.thread(t); err != nil {
					return err
				}
			}
		}
		for _, t := range lanes {
			if t.at == together && k.execute(t, lanes) {
				again = true
			}
		}
	}
	return nil
}

// execute executes the instruction at which a lane waits, if all lanes are there that are to execute it.
func (k *Kernel) execute(t *thread, lanes []*thread) bool {
	in := &k.code[t.pc]
	mask := uint32(t.r[in.mask])
	var all [warpSize]*thread
	for i, o := range lanes {
		if mask>>i&1 == 0 || o.at == end {
			continue
		}
		if o.at != together || o.pc != t.pc {
			return false
		}
		all[i] = o
	}
	in.all(all[:])
	for _, o := range all {
		if o != nil {
			o.pc++
			o.at = plain
		}
	}
	return true
}

// meet lets threads go on that wait at a barrier where all are that it is for.
func (k *Kernel) meet(threads []*thread) {
	waiting := map[uint64][]*thread{}
	ended := 0
	for _, t := range threads {
		switch t.at {
		case barrier:
			n := t.r[k.code[t.pc].mask]
			waiting[n] = append(waiting[n], t)
		case end:
			ended++
		}
	}
	arrived := threads[0].block.arrived
	for n, list := range waiting {
		want := len(threads) - ended
		if count := k.code[list[0].pc].target; count >= 0 {
			want = int(list[0].r[count])
		}
		if len(list)+arrived[n] < want {
			continue
		}
		arrived[n] = 0
		for _, t := range list {
			t.pc++
			t.at = plain
		}
	}
}

// thread runs a thread.
func (k *Kernel) thread(t *thread) (err error) {
	defer func() {
		if cause := recover(); cause != nil {
			err = fmt.Errorf("thread %d, %s: %v", t.r[tidX], k.code[t.pc].text, cause)
		}
	}()
	for range patience {
		in := &k.code[t.pc]
		if in.pred >= 0 && (t.r[in.pred] != 0) == in.not {
			t.pc++
			continue
		}
		switch in.kind {
		case plain:
			in.run(t)
			t.pc++
		case jump:
			t.pc = in.target
		case end:
			t.at = end
			t.batches = append(t.batches, t.open)
			t.arrive(0)
			return nil
		default:
			t.at = in.kind
			return nil
		}
	}
	return nil
}
