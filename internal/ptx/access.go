package ptx

import (
	"fmt"
	"slices"
	"strings"
)

// memory compiles accesses to memory.
func (c *compiler) memory(in *instruction, op string, mods, args []string) error {
	if op == "cp" {
		return c.transfer(in, mods, args)
	}
	t, ok := numericOf(mods[len(mods)-1])
	if !ok {
		return fmt.Errorf("type is not known")
	}
	space := ""
	for _, m := range mods {
		switch m {
		case "global", "shared", "local", "param":
			space = m
		case "const":
			return fmt.Errorf("constant memory is not known")
		}
	}
	where, what := 1, 0
	if op == "st" || op == "red" {
		where, what = 0, 1
	}
	a, err := c.address(args[where])
	if err != nil {
		return err
	}
	if name, _, _ := strings.Cut(strings.Trim(args[where], "[] "), "+"); space == "param" && c.variables[name].space == "local" {
		space = "local" // a call's
	}
	if op == "atom" || op == "red" {
		return c.atomic(in, op, mods, args, space, a, t)
	}
	regs, err := c.vector(args[what])
	if err != nil {
		return err
	}
	n := t.bytes()
	if op == "st" {
		in.run = func(th *thread) {
			b := th.bytes(space, th.r[a.base]+a.add, n*len(regs))
			for i, r := range regs {
				put(b[i*n:][:n], th.r[r])
			}
		}
		return nil
	}
	wide := t
	wide.bits = max(32, t.bits)
	in.run = func(th *thread) {
		b := th.bytes(space, th.r[a.base]+a.add, n*len(regs))
		for i, r := range regs {
			v := get(b[i*n:][:n])
			if t.letter == 's' {
				v = wide.cut(uint64(t.signed(v)))
			}
			th.r[r] = v
		}
	}
	return nil
}

// atomic compiles what reads and writes at once; op has a result, or not.
func (c *compiler) atomic(in *instruction, op string, mods, args []string, space string, a address, t numeric) error {
	first := flag(op == "atom")
	regs := make([]int, 0, 3)
	for _, arg := range append(args[:first:first], args[first+1:]...) {
		r, err := c.operand(arg)
		if err != nil {
			return err
		}
		regs = append(regs, r)
	}
	to, values := sink, regs
	if op == "atom" {
		to, values = regs[0], regs[1:]
	}
	var f func(old uint64, th *thread) uint64
	switch name := mods[slices.IndexFunc(mods, func(m string) bool {
		return slices.Contains([]string{"add", "min", "max", "and", "or", "xor", "exch", "cas"}, m)
	})]; name {
	case "exch":
		f = func(_ uint64, th *thread) uint64 { return th.r[values[0]] }
	case "cas":
		f = func(old uint64, th *thread) uint64 {
			if old == t.cut(th.r[values[0]]) {
				return th.r[values[1]]
			}
			return old
		}
	default:
		g, err := binaryOf(name, nil, t)
		if err != nil {
			return err
		}
		f = func(old uint64, th *thread) uint64 { return g(old, th.r[values[0]]) }
	}
	in.run = func(th *thread) {
		b := th.bytes(space, th.r[a.base]+a.add, t.bytes())
		old := get(b)
		put(b, f(old, th))
		th.r[to] = old
	}
	return nil
}

// transfer compiles copies that go on beside the thread. What is copied is what is there when they are waited for.
func (c *compiler) transfer(in *instruction, mods, args []string) error {
	switch what := strings.Join(mods, "."); {
	case what == "async.commit_group":
		in.run = func(t *thread) {
			t.batches = append(t.batches, t.open)
			t.open = nil
		}
	case what == "async.wait_all":
		in.run = func(t *thread) {
			t.batches = append(t.batches, t.open)
			t.open = nil
			t.arrive(0)
		}
	case what == "async.wait_group":
		n, err := number(args[0])
		in.run = func(t *thread) { t.arrive(int(n)) }
		return err
	case strings.HasPrefix(what, "async.cg.shared.global"), strings.HasPrefix(what, "async.ca.shared.global"):
		to, err := c.address(args[0])
		if err != nil {
			return err
		}
		from, err := c.address(args[1])
		if err != nil {
			return err
		}
		n, err := number(args[2])
		if err != nil {
			return err
		}
		real := c.constant(n)
		if len(args) > 3+flag(strings.HasSuffix(what, "cache_hint")) {
			if real, err = c.operand(args[3]); err != nil {
				return err
			}
		}
		in.run = func(t *thread) {
			x := transfer{to: t.r[to.base] + to.add, from: t.r[from.base] + from.add, n: int(n), real: int(uint32(t.r[real]))}
			if x.to%n != 0 || x.from%n != 0 {
				panic(fmt.Errorf("%d bytes from %#x to %#x are not aligned", n, x.from, x.to))
			}
			t.open = append(t.open, x)
		}
	default:
		return fmt.Errorf("copy is not known")
	}
	return nil
}
