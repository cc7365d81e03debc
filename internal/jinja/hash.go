package jinja

import (
	"fmt"
	"math"
	"math/big"
	"strconv"
)

// Keys that are equal in Python are equal when hashed.
type (
	bigKey   string // of an integer that an int does not hold
	tupleKey string // its elements' hashes, one behind the other
	noKey    struct{ of string }
)

// hash returns what a dict's index holds for a key, or raises if Python cannot
// hash it.
func (m *machine) hash(v Value) any {
	hash, bad := m.tryHash(v)
	if bad != nil {
		raise(TypeError, "unhashable type: '%s'", typeName(bad))
	}
	return hash
}

// tryHash returns the hash of a value, or the part of it that has none.
func (m *machine) tryHash(v Value) (hash, bad Value) {
	if s, ok := textOf(v); ok {
		m.step(len(s) / 64)
		return s, nil
	}
	switch v := v.(type) {
	case bool:
		if v {
			return 1, nil
		}
		return 0, nil
	case float64:
		return floatKey(v), nil
	case *big.Int:
		m.reserve(v.BitLen() / 2)
		return bigKey(v.Text(16)), nil
	case *Tuple:
		b := builder{m: m}
		bad := b.hash(v)
		return tupleKey(b.String()), bad
	case *Undefined:
		return noKey{"undefined"}, nil
	case *List, *Dict, *View:
		return nil, v
	}
	return v, nil
}

// floatKey returns the hash of a float, which is that of an integer if it is whole.
func floatKey(f float64) any {
	switch {
	case f != math.Trunc(f) || math.IsInf(f, 0):
		return f
	case math.Abs(f) < 1<<62:
		return int(f)
	}
	b, _ := big.NewFloat(f).Int(nil)
	return bigKey(b.Text(16))
}

// hash writes the hash of a tuple: those of its elements, each with its type and
// length in front. It returns an element that has none.
func (b *builder) hash(t *Tuple) (bad Value) {
	b.m.enter()
	defer b.m.leave()
	for _, x := range t.items {
		b.m.step(1)
		if inner, ok := x.(*Tuple); ok {
			b.write("(")
			if bad := b.hash(inner); bad != nil {
				return bad
			}
			b.write(")")
			continue
		}
		h, bad := b.m.tryHash(x)
		if bad != nil {
			return bad
		}
		b.hashPart(h)
	}
	return nil
}

// hashPart writes the hash of what is no tuple.
func (b *builder) hashPart(hash any) {
	switch h := hash.(type) {
	case nil:
		b.write("none ")
	case int:
		b.write(strconv.Itoa(h) + " ")
	case float64:
		b.write("float " + strconv.FormatUint(math.Float64bits(h), 16) + " ")
	case bigKey:
		b.write("integer " + string(h) + " ")
	case noKey:
		b.write(h.of + " ")
	case string:
		b.write("text " + strconv.Itoa(len(h)) + " ")
		b.write(h)
	case Bytes:
		b.write("bytes " + strconv.Itoa(len(h)) + " ")
		b.write(string(h))
	default: // an object, which is its own key as long as it is there
		b.write(fmt.Sprintf("object %p ", h))
	}
}

// hashSize returns how many bytes it takes to compare two hashes.
func hashSize(hash any) int {
	switch h := hash.(type) {
	case string:
		return len(h)
	case tupleKey:
		return len(h)
	case bigKey:
		return len(h)
	}
	return 0
}
