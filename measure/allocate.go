package measure

import (
	"fmt"
	"math"
	"slices"

	"exl2/internal/parallel"
)

// A Choice is one of the ways to store something.
type Choice struct {
	Bits int
	Cost float64
}

// RangeError reports a budget below what the cheapest choices take.
type RangeError struct{ Budget, Min, Max int }

func (e *RangeError) Error() string {
	return fmt.Sprintf("budget of %d bits: the choices take %d to %d", e.Budget, e.Min, e.Max)
}

// Allocate picks one choice of every class so that the sum of costs is the
// smallest possible while the sum of bits is at most budget. It returns their
// indices. The result is exact up to rounding of the sums, and deterministic.
//
// This is the multiple-choice knapsack problem (Kellerer, Pferschy, Pisinger,
// Knapsack Problems, 2004, chapter 11). The linear relaxation gives a price of
// a bit; a choice whose cost at that price exceeds its class's cheapest by more
// than the gap between the relaxation and a known solution cannot be part of a
// better one. What is left is solved by dynamic programming over lists of
// undominated partial sums, pruned by the same bound: of both halves of the classes, so
// that lists stay short, and at first as if the gap were a fraction of what it is, which
// costs little, and proves what it finds within that.
func Allocate(classes [][]Choice, budget int) ([]int, error) {
	s := solver{budget: budget}
	lo, hi := 0, 0
	for _, c := range classes {
		s.classes = append(s.classes, undominated(c))
		first, last := s.classes[len(s.classes)-1][0], s.classes[len(s.classes)-1]
		lo, hi = lo+first.Bits, hi+last[len(last)-1].Bits
	}
	if lo > budget {
		return nil, &RangeError{budget, lo, hi}
	}
	pick, price := s.relax()
	s.fill(pick)
	return s.indices(s.refine(pick, price)), nil
}

// option is a Choice with its index in its class.
type option struct {
	Choice
	index int
}

// undominated returns the choices that no other beats in both bits and cost,
// by rising bits and falling cost.
func undominated(class []Choice) []option {
	list := make([]option, len(class))
	for i, c := range class {
		list[i] = option{c, i}
	}
	slices.SortStableFunc(list, func(a, b option) int {
		if a.Bits != b.Bits {
			return a.Bits - b.Bits
		}
		return compare(a.Cost, b.Cost)
	})
	kept := list[:1]
	for _, o := range list[1:] {
		if o.Cost < kept[len(kept)-1].Cost {
			kept = append(kept, o)
		}
	}
	return kept
}

func compare(a, b float64) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

type solver struct {
	classes [][]option
	budget  int
}

// A rise is a step from one choice of a class to a later one on the lower
// convex hull of cost over bits.
type rise struct {
	class, from, to int
	bits            int
	gain            float64 // cost saved a bit
}

// hull lists the rises of a class; gains fall from one to the next.
func hull(class int, c []option) []rise {
	var list []rise
	for from := 0; from+1 < len(c); {
		best := rise{gain: -1}
		for to := from + 1; to < len(c); to++ {
			bits := c[to].Bits - c[from].Bits
			gain := (c[from].Cost - c[to].Cost) / float64(bits)
			if gain >= best.gain {
				best = rise{class, from, to, bits, gain}
			}
		}
		list = append(list, best)
		from = best.to
	}
	return list
}

// relax takes rises by falling gain while they fit and returns the choices so
// reached and the gain of the first rise that did not fit: the price of a bit.
func (s *solver) relax() (pick []int, price float64) {
	var rises []rise
	left := s.budget
	for i, c := range s.classes {
		rises = append(rises, hull(i, c)...)
		left -= c[0].Bits
	}
	slices.SortStableFunc(rises, func(a, b rise) int { return compare(b.gain, a.gain) })
	pick = make([]int, len(s.classes))
	for _, r := range rises {
		if r.bits > left {
			return pick, r.gain
		}
		pick[r.class] = r.to
		left -= r.bits
	}
	return pick, 0
}

// fill spends what is left of the budget: the best single change that fits,
// again and again.
func (s *solver) fill(pick []int) {
	left := s.budget
	for i, p := range pick {
		left -= s.classes[i][p].Bits
	}
	for {
		best, class, to := 0.0, -1, 0
		for i, p := range pick {
			c := s.classes[i]
			for t := p + 1; t < len(c) && c[t].Bits-c[p].Bits <= left; t++ {
				if gain := c[p].Cost - c[t].Cost; gain > best {
					best, class, to = gain, i, t
				}
			}
		}
		if class < 0 {
			return
		}
		left -= s.classes[class][to].Bits - s.classes[class][pick[class]].Bits
		pick[class] = to
	}
}

// A partial is a choice in each of the first classes.
type partial struct {
	bits   int
	cost   float64
	excess float64 // cost at the price, above the classes' cheapest
	last   int     // choice in the last of these classes
	before int     // index among the partials of the classes before it
}

// firstShare is the share of the gap that solutions are sought in first, and wider by how
// much the share grows.
const (
	firstShare = 1.0 / 256
	wider      = 2
)

// refine returns the best solution, given one and the price of a bit.
func (s *solver) refine(known []int, price float64) []int {
	bound := -price * float64(s.budget) // Σ min(cost + price·bits) - price·budget
	for _, c := range s.classes {
		bound += cheapest(c, price)
	}
	rounding := 1e-12 * math.Abs(bound)
	gap := s.cost(known) - bound
	for share := firstShare; share < 1; share *= wider {
		if pick := s.within(known, price, share*gap+rounding); s.cost(pick)-bound <= share*gap {
			return pick
		}
	}
	return s.within(known, price, gap+rounding)
}

// within returns the best solution whose cost exceeds the bound by up to slack, or else
// the known one.
func (s *solver) within(known []int, price, slack float64) []int {
	middle := len(s.classes) / 2
	low, high := s.classes[:middle], s.classes[middle:]
	var halves [2][][]partial
	parallel.For(2, func(i int) {
		halves[i] = s.layers([][][]option{low, high}[i], price, slack, s.budget-fewest([][][]option{high, low}[i]))
	})
	first, second := halves[0], halves[1]
	a, b, cost := s.join(first[len(first)-1], second[len(second)-1])
	if !(cost < s.cost(known)) {
		return known
	}
	return append(trace(first, a), trace(second, b)...)
}

// fewest returns the bits that classes take at least.
func fewest(classes [][]option) (bits int) {
	for _, c := range classes {
		bits += c[0].Bits
	}
	return bits
}

// layers returns the partial solutions of none of some classes, the first, and so on to all.
func (s *solver) layers(classes [][]option, price, slack float64, room int) [][]partial {
	list := [][]partial{{{}}}
	room -= fewest(classes)
	for i, c := range classes {
		room += c[0].Bits
		list = append(list, s.extend(list[i], c, price, slack, room))
	}
	return list
}

// join returns the places of two partial solutions, of both halves, that cost least together
// and fit, and their cost, infinite if none do.
func (s *solver) join(first, second []partial) (a, b int, cost float64) {
	cost = math.Inf(1)
	at := len(second) - 1
	for i, p := range first {
		for at >= 0 && p.bits+second[at].bits > s.budget {
			at--
		}
		if at < 0 {
			break
		}
		if c := p.cost + second[at].cost; c < cost {
			a, b, cost = i, at, c
		}
	}
	return a, b, cost
}

// trace returns the choices of a partial solution of the last layer.
func trace(layers [][]partial, at int) []int {
	pick := make([]int, len(layers)-1)
	for i := len(pick); i > 0; i-- {
		p := layers[i][at]
		pick[i-1], at = p.last, p.before
	}
	return pick
}

func (s *solver) cost(pick []int) float64 {
	sum := 0.0
	for i, p := range pick {
		sum += s.classes[i][p].Cost
	}
	return sum
}

func cheapest(c []option, price float64) float64 {
	least := math.Inf(1)
	for _, o := range c {
		least = min(least, o.Cost+price*float64(o.Bits))
	}
	return least
}

// extend adds one class to partial solutions and keeps those that may lead to a
// better solution, by rising bits and falling cost.
func (s *solver) extend(before []partial, c []option, price, slack float64, room int) []partial {
	least := cheapest(c, price)
	var list, merged, more []partial
	for i, o := range c {
		extra := o.Cost + price*float64(o.Bits) - least
		if extra > slack {
			continue
		}
		more = more[:0]
		for b, p := range before {
			next := partial{p.bits + o.Bits, p.cost + o.Cost, p.excess + extra, i, b}
			if next.excess <= slack && next.bits <= room {
				more = append(more, next)
			}
		}
		list, merged = merge(merged[:0], list, more), list
	}
	return list
}

// merge appends those of two lists that nothing in the other beats, by rising bits and
// falling cost, as both are.
func merge(to, a, b []partial) []partial {
	for len(a) > 0 || len(b) > 0 {
		from := &a
		if len(a) == 0 || len(b) > 0 && b[0].ahead(a[0]) {
			from = &b
		}
		if p := (*from)[0]; len(to) == 0 || p.cost < to[len(to)-1].cost {
			to = append(to, p)
		}
		*from = (*from)[1:]
	}
	return to
}

// ahead reports whether p has fewer bits than q, or as many and costs less.
func (p partial) ahead(q partial) bool { return p.bits < q.bits || p.bits == q.bits && p.cost < q.cost }

// indices translates picks to indices of the caller's choices.
func (s *solver) indices(pick []int) []int {
	out := make([]int, len(pick))
	for i, p := range pick {
		out[i] = s.classes[i][p].index
	}
	return out
}
