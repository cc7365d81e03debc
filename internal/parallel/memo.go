package parallel

import "sync"

// A Memo keeps values by name until Clear: who asks first makes them, and others wait.
type Memo[V any] struct {
	mu     sync.Mutex
	values map[string]V
}

// Get returns the value of a name, which compute makes if it is not there. What it
// fails to make is not kept.
func (m *Memo[V]) Get(name string, compute func(name string) (V, error)) (V, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	v, ok := m.values[name]
	if ok {
		return v, nil
	}
	v, err := compute(name)
	if err != nil {
		return v, err
	}
	if m.values == nil {
		m.values = map[string]V{}
	}
	m.values[name] = v
	return v, nil
}

// Clear drops all values.
func (m *Memo[V]) Clear() {
	m.mu.Lock()
	defer m.mu.Unlock()
	clear(m.values)
}
