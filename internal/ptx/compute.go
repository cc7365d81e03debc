package ptx

import (
	"fmt"
	"math"
	"math/bits"
	"slices"
)

// compute compiles what is neither a jump nor a barrier.
func (c *compiler) compute(in *instruction, parts, args []string) error {
	op, mods := parts[0], parts[1:]
	last := ""
	if len(mods) > 0 {
		last = mods[len(mods)-1]
	}
	t, typed := numericOf(last)
	switch op {
	case "ld", "st", "atom", "red", "cp", "ldmatrix", "movmatrix", "mma", "shfl", "vote", "redux", "mov", "cvta":
	case "membar", "fence", "prefetch", "nanosleep":
		in.run = func(*thread) {}
		return nil
	case "createpolicy":
		return c.registers(in, args[:1], func(d []int) { in.run = func(t *thread) { t.r[d[0]] = 0 } })
	default:
		if !typed {
			return fmt.Errorf("type %q is not known", last)
		}
	}
	switch op {
	case "mov":
		return c.move(in, t, args)
	case "cvta":
		return c.window(in, mods, args)
	case "ld", "st", "atom", "red", "cp":
		return c.memory(in, op, mods, args)
	case "shfl", "vote", "redux", "mma", "ldmatrix", "movmatrix":
		return c.collective(in, op, mods, args)
	case "setp":
		f, err := compare(mods[0], t)
		if err != nil {
			return err
		}
		return c.registers(in, args, func(r []int) { in.run = func(t *thread) { t.r[r[0]] = uint64(flag(f(t.r[r[1]], t.r[r[2]]))) } })
	case "selp":
		return c.registers(in, args, func(r []int) {
			in.run = func(t *thread) {
				if t.r[r[3]] != 0 {
					t.r[r[0]] = t.r[r[1]]
				} else {
					t.r[r[0]] = t.r[r[2]]
				}
			}
		})
	case "cvt":
		return c.conversion(in, mods, t, args)
	}
	if f := unaryOf(op, mods, t); f != nil {
		return c.one(in, args, t.each1(f))
	}
	switch op {
	case "fma", "mad":
		return c.registers(in, args, func(r []int) { in.run = c.addition(op, mods, t, r) })
	case "shf":
		return c.funnel(in, mods, args)
	case "lop3", "prmt", "bfi", "bfe", "dp4a":
		return c.several(in, op, t, args)
	}
	f, err := binaryOf(op, mods, t)
	if err != nil {
		return err
	}
	return c.registers(in, args, func(r []int) { in.run = func(t *thread) { t.r[r[0]] = f(t.r[r[1]], t.r[r[2]]) } })
}

// conversion compiles cvt, of one number, or of two to the halves of a register.
func (c *compiler) conversion(in *instruction, mods []string, from numeric, args []string) error {
	name := mods[len(mods)-2]
	if name == "tf32" {
		return c.one(in, args, tf32)
	}
	to, ok := numericOf(name)
	if !ok {
		return fmt.Errorf("type %q is not known", name)
	}
	pair := to.twice
	to.twice = false
	f := convert(mods, to, from)
	if !pair {
		return c.one(in, args, f)
	}
	if len(args) != 3 {
		return fmt.Errorf("%d operands, want 3", len(args))
	}
	return c.registers(in, args, func(r []int) { in.run = func(t *thread) { t.r[r[0]] = f(t.r[r[1]])<<16 | f(t.r[r[2]]) } })
}

// registers finds the operands' registers.
func (c *compiler) registers(in *instruction, args []string, then func(r []int)) error {
	list := make([]int, len(args))
	for i, a := range args {
		r, err := c.operand(a)
		if err != nil {
			return err
		}
		list[i] = r
	}
	then(list)
	return nil
}

func (c *compiler) one(in *instruction, args []string, f function1) error {
	if len(args) != 2 {
		return fmt.Errorf("%d operands, want 2", len(args))
	}
	return c.registers(in, args, func(r []int) { in.run = func(t *thread) { t.r[r[0]] = f(t.r[r[1]]) } })
}

// tf32 rounds to ten bits of mantissa, ties away from zero.
func tf32(a uint64) uint64 { return (a + 1<<12) &^ (1<<13 - 1) & math.MaxUint32 }

// unaryOf returns a function of one operand, or nil.
func unaryOf(op string, mods []string, t numeric) function1 {
	float := func(f func(v float64) float64) function1 {
		return func(a uint64) uint64 { return t.bitsOf(f(t.float(a))) }
	}
	top := uint64(1) << (t.bits - 1)
	switch op {
	case "neg":
		if t.letter == 'f' {
			return func(a uint64) uint64 { return a ^ top }
		}
		return func(a uint64) uint64 { return t.cut(-a) }
	case "abs":
		if t.letter == 'f' {
			return func(a uint64) uint64 { return a &^ top }
		}
		return func(a uint64) uint64 { v := t.signed(a); return t.cut(uint64(max(v, -v))) }
	case "not":
		return func(a uint64) uint64 { return t.cut(^a) }
	case "rcp":
		return float(func(v float64) float64 { return 1 / v })
	case "sqrt":
		return float(math.Sqrt)
	case "rsqrt":
		return float(func(v float64) float64 { return 1 / math.Sqrt(v) })
	case "ex2":
		return float(math.Exp2)
	case "lg2":
		return float(math.Log2)
	case "sin":
		return float(math.Sin)
	case "cos":
		return float(math.Cos)
	case "popc":
		return func(a uint64) uint64 { return uint64(bits.OnesCount64(t.cut(a))) }
	case "clz":
		return func(a uint64) uint64 { return uint64(bits.LeadingZeros64(t.cut(a)) - 64 + t.bits) }
	case "brev":
		return func(a uint64) uint64 { return bits.Reverse64(t.cut(a)) >> (64 - t.bits) }
	case "bfind":
		return func(a uint64) uint64 {
			a = t.cut(a)
			if a == 0 {
				return math.MaxUint32
			}
			if slices.Contains(mods, "shiftamt") {
				return uint64(bits.LeadingZeros64(a) - 64 + t.bits)
			}
			return uint64(bits.Len64(a) - 1)
		}
	}
	return nil
}

// addition is of fma and mad: r[0] = r[1]·r[2] + r[3].
func (c *compiler) addition(op string, mods []string, t numeric, r []int) func(*thread) {
	if op == "fma" {
		way := mods[0]
		fused := func(a, b, c uint64) uint64 { return t.fused(t.float(a), t.float(b), t.float(c), way) }
		if !t.twice {
			return func(t *thread) { t.r[r[0]] = fused(t.r[r[1]], t.r[r[2]], t.r[r[3]]) }
		}
		return func(t *thread) {
			a, b, c := t.r[r[1]], t.r[r[2]], t.r[r[3]]
			t.r[r[0]] = fused(a&0xffff, b&0xffff, c&0xffff) | fused(a>>16&0xffff, b>>16&0xffff, c>>16&0xffff)<<16
		}
	}
	f, err := binaryOf("mul", mods, t)
	if err != nil {
		panic(err)
	}
	to := t
	if slices.Contains(mods, "wide") {
		to.bits *= 2
	}
	return func(t *thread) { t.r[r[0]] = to.cut(f(t.r[r[1]], t.r[r[2]]) + t.r[r[3]]) }
}

// several is of instructions of three operands and more.
func (c *compiler) several(in *instruction, op string, t numeric, args []string) error {
	return c.registers(in, args, func(r []int) {
		f := map[string]func(a, b, c, d uint64) uint64{"lop3": lop3, "prmt": prmt, "bfi": t.bfi, "bfe": t.bfe, "dp4a": dp4a}[op]
		four := min(4, len(r)-1)
		fourth := r[four]
		in.run = func(t *thread) { t.r[r[0]] = f(t.r[r[1]], t.r[r[2]], t.r[r[3]], t.r[fourth]) }
	})
}

// funnel compiles shf, of two registers side by side, the first one lower.
func (c *compiler) funnel(in *instruction, mods, args []string) error {
	return c.registers(in, args, func(r []int) {
		in.run = func(t *thread) {
			all, n := t.r[r[1]]&math.MaxUint32|t.r[r[2]]<<32, t.r[r[3]]&math.MaxUint32
			if mods[1] == "wrap" {
				n &= 31
			}
			if n = min(n, 32); mods[0] == "l" {
				n = 32 - n
			}
			t.r[r[0]] = all >> n & math.MaxUint32
		}
	})
}

func lop3(a, b, c, table uint64) (v uint64) {
	for i := range uint64(8) {
		if table>>i&1 == 0 {
			continue
		}
		x, y, z := a, b, c
		if i&4 == 0 {
			x = ^x
		}
		if i&2 == 0 {
			y = ^y
		}
		if i&1 == 0 {
			z = ^z
		}
		v |= x & y & z
	}
	return v & math.MaxUint32
}

// prmt picks bytes of two registers; the highest bit of a choice repeats its byte's sign.
func prmt(a, b, choice, _ uint64) (v uint64) {
	all := a&math.MaxUint32 | b<<32
	for i := range 4 {
		n := choice >> (4 * i) & 15
		byte := all >> (8 * (n & 7)) & 255
		if n&8 != 0 {
			byte = uint64(flag(byte&128 != 0)) * 255
		}
		v |= byte << (8 * i)
	}
	return v
}

func (t numeric) bfi(a, b, at, n uint64) uint64 {
	at, n = at&255, n&255
	if at >= uint64(t.bits) {
		return b
	}
	mask := uint64(1)<<n - 1
	return t.cut(b&^(mask<<at) | a&mask<<at)
}

func (t numeric) bfe(a, at, n, _ uint64) uint64 {
	at, n = at&255, min(n&255, uint64(t.bits))
	if n == 0 {
		return 0
	}
	if t.letter == 's' {
		v := t.signed(a) >> min(at, 63)
		return t.cut(uint64(v << (64 - n) >> (64 - n)))
	}
	return t.cut(a) >> min(at, 63) & (1<<n - 1)
}

func dp4a(a, b, c, _ uint64) uint64 {
	sum := int32(c)
	for i := range 4 {
		sum += int32(int8(a>>(8*i))) * int32(int8(b>>(8*i)))
	}
	return uint64(uint32(sum))
}

// move compiles mov, of registers, or of parts of one.
func (c *compiler) move(in *instruction, t numeric, args []string) error {
	to, err := c.vector(args[0])
	if err != nil {
		return err
	}
	from, err := c.vector(args[1])
	if err != nil {
		return err
	}
	switch {
	case len(to) > 1:
		part := numeric{letter: 'b', bits: t.bits / len(to)}
		in.run = func(t *thread) {
			v := t.r[from[0]]
			for i, r := range to {
				t.r[r] = part.cut(v >> (i * part.bits))
			}
		}
	case len(from) > 1:
		part := numeric{letter: 'b', bits: t.bits / len(from)}
		in.run = func(t *thread) {
			v := uint64(0)
			for i, r := range from {
				v |= part.cut(t.r[r]) << (i * part.bits)
			}
			t.r[to[0]] = v
		}
	default:
		in.run = func(th *thread) { th.r[to[0]] = t.cut(th.r[from[0]]) }
	}
	return nil
}

// window compiles cvta, which makes generic addresses, or takes their window away.
func (c *compiler) window(in *instruction, mods, args []string) error {
	window := map[string]uint64{"shared": sharedWindow, "local": localWindow, "param": paramWindow}
	back := mods[0] == "to"
	space := mods[0]
	if back {
		space = mods[1]
	}
	base := window[space]
	return c.one(in, args, func(a uint64) uint64 {
		if base == 0 {
			return a
		}
		if back {
			return a &^ windows
		}
		return a | base
	})
}
