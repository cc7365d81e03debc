package ptx

import (
	"fmt"
	"strings"
)

// collective compiles what lanes of a warp execute together.
func (c *compiler) collective(in *instruction, op string, mods, args []string) error {
	in.kind, in.mask = together, int32(c.constant(1<<warpSize-1))
	switch op {
	case "shfl":
		return c.shuffle(in, mods[1], args)
	case "vote":
		return c.vote(in, mods[1], args)
	case "redux":
		return c.reduce(in, mods, args)
	case "mma":
		return c.mma(in, mods, args)
	case "ldmatrix":
		return c.loadMatrix(in, mods, args)
	}
	return c.registers(in, args, func(r []int) {
		in.all = func(lanes []*thread) {
			var m [8][8]uint64
			for l, t := range lanes {
				v := t.r[r[1]]
				m[l/4][l%4*2], m[l/4][l%4*2+1] = v&0xffff, v>>16&0xffff
			}
			for l, t := range lanes {
				t.r[r[0]] = m[l%4*2][l/4] | m[l%4*2+1][l/4]<<16
			}
		}
	})
}

func (c *compiler) shuffle(in *instruction, way string, args []string) error {
	to, pred, two := strings.Cut(args[0], "|")
	if !two {
		pred = "_"
	}
	return c.registers(in, append([]string{to, pred}, args[1:]...), func(r []int) {
		in.mask = int32(r[5])
		in.all = func(lanes []*thread) {
			var found [warpSize]uint64
			var there [warpSize]bool
			for l, t := range lanes {
				if t == nil {
					continue
				}
				b, limits := int(uint32(t.r[r[3]])&31), int(t.r[r[4]])
				segment := limits >> 8 & 31
				least, most := l&segment, l&segment|limits&31&^segment
				from, ok := l, false
				switch way {
				case "up":
					from = l - b
					ok = from >= most
				case "down":
					from = l + b
					ok = from <= most
				case "bfly":
					from = l ^ b
					ok = from <= most
				case "idx":
					from = least | b&^segment
					ok = from <= most
				}
				if !ok {
					from = l
				}
				if lanes[from] == nil {
					panic(fmt.Errorf("lane %d shuffles from lane %d, which is not there", l, from))
				}
				found[l], there[l] = lanes[from].r[r[2]], ok
			}
			for l, t := range lanes {
				if t != nil {
					t.r[r[0]], t.r[r[1]] = found[l], uint64(flag(there[l]))
				}
			}
		}
	})
}

func (c *compiler) vote(in *instruction, way string, args []string) error {
	name, not := strings.CutPrefix(args[1], "!")
	return c.registers(in, []string{args[0], name, args[2]}, func(r []int) {
		in.mask = int32(r[2])
		in.all = func(lanes []*thread) {
			yes, all := uint64(0), uint64(0)
			for l, t := range lanes {
				if t == nil {
					continue
				}
				all |= 1 << l
				if (t.r[r[1]] != 0) != not {
					yes |= 1 << l
				}
			}
			v := yes
			switch way {
			case "any":
				v = uint64(flag(yes != 0))
			case "all":
				v = uint64(flag(yes == all))
			}
			for _, t := range lanes {
				if t != nil {
					t.r[r[0]] = v
				}
			}
		}
	})
}

func (c *compiler) reduce(in *instruction, mods, args []string) error {
	t, _ := numericOf(mods[2])
	f, err := binaryOf(mods[1], nil, t)
	if err != nil {
		return err
	}
	return c.registers(in, args, func(r []int) {
		in.mask = int32(r[2])
		in.all = func(lanes []*thread) {
			var v uint64
			first := true
			for _, t := range lanes {
				switch {
				case t == nil:
				case first:
					v, first = t.r[r[1]], false
				default:
					v = f(v, t.r[r[1]])
				}
			}
			for _, t := range lanes {
				if t != nil {
					t.r[r[0]] = v
				}
			}
		}
	})
}

// loadMatrix is of four matrices of 8 x 8 halves; lane l gives where row l%8 of matrix l/8 is.
func (c *compiler) loadMatrix(in *instruction, mods, args []string) error {
	what := strings.Join(mods, ".")
	trans := strings.Contains(what, ".trans")
	if !strings.HasPrefix(what, "sync.aligned.m8n8.x4.") || !strings.HasSuffix(what, ".shared.b16") {
		return fmt.Errorf("matrices are not known")
	}
	to, err := c.vector(args[0])
	if err != nil {
		return err
	}
	a, err := c.address(args[1])
	in.all = func(lanes []*thread) {
		var m [4][8][8]uint64
		for l, t := range lanes {
			row := t.bytes("shared", t.r[a.base]+a.add, 16)
			for i := range 8 {
				m[l/8][l%8][i] = get(row[2*i:][:2])
			}
		}
		for l, t := range lanes {
			for i, r := range to {
				g, q := l/4, l%4*2
				if trans {
					t.r[r] = m[i][q][g] | m[i][q+1][g]<<16
				} else {
					t.r[r] = m[i][g][q] | m[i][g][q+1]<<16
				}
			}
		}
	}
	return err
}

// A shape is what mma multiplies: columns of the left side and what an element of it is.
type shape struct {
	k, each int // columns, and elements of a register
	t       numeric
	right   numeric
	whole   bool // sums are integers
}

var shapes = map[string]shape{
	"sync.aligned.m16n8k16.row.col.f32.f16.f16.f32":   {16, 2, numeric{letter: 'f', bits: 16}, numeric{letter: 'f', bits: 16}, false},
	"sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32": {16, 2, numeric{letter: 'f', bits: 16, brain: true}, numeric{letter: 'f', bits: 16, brain: true}, false},
	"sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32":  {8, 1, numeric{letter: 'f', bits: 32}, numeric{letter: 'f', bits: 32}, false},
	"sync.aligned.m16n8k32.row.col.s32.s8.s8.s32":     {32, 4, numeric{letter: 's', bits: 8}, numeric{letter: 's', bits: 8}, true},
	"sync.aligned.m16n8k32.row.col.s32.u8.s8.s32":     {32, 4, numeric{letter: 'u', bits: 8}, numeric{letter: 's', bits: 8}, true},
}

// mma is d = a·b + c, a of 16 rows, b of 8 columns (PTX ISA, "Matrix fragments for mma").
func (c *compiler) mma(in *instruction, mods, args []string) error {
	s, ok := shapes[strings.Join(mods, ".")]
	if !ok {
		return fmt.Errorf("shape is not known")
	}
	var regs [4][]int
	for i := range regs {
		list, err := c.vector(args[i])
		if err != nil {
			return err
		}
		regs[i] = list
	}
	value := func(t numeric, v uint64, i int) float64 {
		v = v >> (i * t.bits)
		switch t.letter {
		case 's':
			return float64(t.signed(v))
		case 'u':
			return float64(t.cut(v))
		}
		return t.float(t.cut(v))
	}
	in.all = func(lanes []*thread) {
		var a [16][32]float64
		var b [32][8]float64
		for l, t := range lanes {
			g, q := l/4, l%4
			for i := range s.each {
				for half := range 2 {
					k := half*s.k/2 + q*s.each + i
					a[g][k], a[g+8][k] = value(s.t, t.r[regs[1][2*half]], i), value(s.t, t.r[regs[1][2*half+1]], i)
					b[k][g] = value(s.right, t.r[regs[2][half]], i)
				}
			}
		}
		for l, t := range lanes {
			g, q := l/4, l%4
			var out [4]uint64
			for i := range 4 {
				sum := 0.0
				for k := range s.k {
					sum += a[g+i/2*8][k] * b[k][2*q+i%2]
				}
				old := t.r[regs[3][i]]
				if s.whole {
					out[i] = uint64(uint32(int32(old) + int32(sum)))
				} else {
					single := numeric{letter: 'f', bits: 32}
					out[i] = single.bitsOf(single.float(old) + sum)
				}
			}
			for i, r := range regs[0] {
				t.r[r] = out[i]
			}
		}
	}
	return nil
}
