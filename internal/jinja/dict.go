package jinja

// What a value costs in a list, and with its key in a dict, about.
const (
	valueBytes = 32
	dictBytes  = 4 * valueBytes
)

// A Dict is a dict: its entries keep the order in which they came.
type Dict struct {
	entries []entry
	index   map[any]int // by hash; nil for a few entries
}

type entry struct {
	key, value Value
	hash       any // of the key
}

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
		if e.hash != key {
			d.put(e.hash, e.key, e.value)
		}
	}
}

// Copy returns a dict of the same entries.
func (d *Dict) Copy() *Dict {
	c := &Dict{}
	c.Update(d)
	return c
}

// Update sets all values of another dict, which may be nil.
func (d *Dict) Update(of *Dict) {
	if of != nil {
		for _, e := range of.entries {
			d.put(e.hash, e.key, e.value)
		}
	}
}

// position returns where the entry of a hash is, or -1.
func (d *Dict) position(hash any) int {
	if d.index != nil {
		if i, ok := d.index[hash]; ok {
			return i
		}
		return -1
	}
	for i, e := range d.entries {
		if e.hash == hash {
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
	d.entries = append(d.entries, entry{key, v, hash})
	switch {
	case d.index != nil:
		d.index[hash] = len(d.entries) - 1
	case len(d.entries) > few:
		d.index = map[any]int{}
		for i, e := range d.entries {
			d.index[e.hash] = i
		}
	}
}

// find returns the value of any key, and whether there is one.
func (m *machine) find(d *Dict, key Value) (Value, bool) { return d.find(m.hash(key)) }

// set sets the value of any key.
func (m *machine) set(d *Dict, key, v Value) {
	m.reserve(dictBytes)
	d.put(m.hash(key), key, v)
}
