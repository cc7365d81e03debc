package jinja

import (
	"math"
	"math/big"
)

// valueBytes is what a value in a list costs, about.
const valueBytes = 32

// A Dict is a dict: its entries keep the order in which they came.
type Dict struct {
	entries []entry
	index   map[any]int // by hashed key; nil for a few entries
}

type entry struct{ key, value Value }

// few is how many entries are searched without an index.
const few = 8

// Set sets the value of a string key.
func (d *Dict) Set(key string, v Value) { d.put(key, key, v) }

// Get returns the value of a string key, and whether there is one.
func (d *Dict) Get(key string) (Value, bool) {
	if d == nil {
		return nil, false
	}
	return d.find(key)
}

// Delete removes a string key.
func (d *Dict) Delete(key string) {
	old := d.entries
	*d = Dict{}
	for _, e := range old {
		if e.key != key {
			d.put(hashed(e.key), e.key, e.value)
		}
	}
}

// Copy returns a dict of the same entries.
func (d *Dict) Copy() *Dict {
	c := &Dict{}
	for _, e := range d.entries {
		c.put(hashed(e.key), e.key, e.value)
	}
	return c
}

// position returns where the entry of a hashed key is, or -1.
func (d *Dict) position(hash any) int {
	if d.index != nil {
		if i, ok := d.index[hash]; ok {
			return i
		}
		return -1
	}
	for i, e := range d.entries {
		if hashed(e.key) == hash {
			return i
		}
	}
	return -1
}

func (d *Dict) find(hash any) (Value, bool) {
	if i := d.position(hash); i >= 0 {
		return d.entries[i].value, true
	}
	return nil, false
}

func (d *Dict) put(hash any, key, v Value) {
	if i := d.position(hash); i >= 0 {
		d.entries[i].value = v
		return
	}
	d.entries = append(d.entries, entry{key, v})
	switch {
	case d.index != nil:
		d.index[hash] = len(d.entries) - 1
	case len(d.entries) > few:
		d.index = map[any]int{}
		for i, e := range d.entries {
			d.index[hashed(e.key)] = i
		}
	}
}

// set sets the value of any key.
func (m *machine) set(d *Dict, key, v Value) {
	m.reserve(4 * valueBytes)
	d.put(hashed(key), key, v)
}

// Keys that are equal in Python are equal when hashed.
type (
	bigKey   string
	tupleKey struct{ head, tail any }
	noKey    struct{ of string }
)

// hashed returns what a dict's index holds for a key, or raises if Python cannot
// hash it.
func hashed(v Value) any {
	switch v := v.(type) {
	case Markup:
		return string(v)
	case bool:
		if v {
			return 1
		}
		return 0
	case float64:
		if v == math.Trunc(v) && math.Abs(v) < 1<<62 {
			return int(v)
		}
		if b, _ := big.NewFloat(0).SetFloat64(nanToZero(v)).Int(nil); b != nil && v == math.Trunc(v) {
			return bigKey(b.Text(62))
		}
		return v
	case *big.Int:
		return bigKey(v.Text(62))
	case *Tuple:
		if len(v.items) > 1000 {
			raise(Unsupported, "a tuple of %d elements as a key", len(v.items))
		}
		var key any = noKey{"tuple"}
		for _, x := range v.items {
			key = tupleKey{key, hashed(x)}
		}
		return key
	case *Undefined:
		return noKey{"undefined"}
	case *List, *Dict:
		raise(TypeError, "unhashable type: '%s'", typeName(v))
	case *View:
		raise(TypeError, "unhashable type: '%s'", typeName(v))
	}
	return v
}

func nanToZero(f float64) float64 {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return 0
	}
	return f
}

// Update sets all values of another dict, which may be nil.
func (d *Dict) Update(of *Dict) {
	if of != nil {
		for _, e := range of.entries {
			d.put(hashed(e.key), e.key, e.value)
		}
	}
}
