package arch

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"testing"
)

// No field that is missing, or says what it cannot, makes a configuration more than an error.
func TestDamagedConfigs(t *testing.T) {
	paths, err := filepath.Glob(filepath.Join("..", "..", "testdata", "golden", "arch", "*", "config.json"))
	if err != nil || len(paths) == 0 {
		t.Fatal(len(paths), err)
	}
	for _, path := range paths {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		var fields map[string]any
		if json.Unmarshal(data, &fields) != nil {
			continue // with Python's numbers
		}
		damage(t, filepath.Base(filepath.Dir(path)), fields, fields)
		for _, name := range []string{"text_config", "llm_config", "language_config", "rope_scaling", "rope_parameters"} {
			if inner, ok := fields[name].(map[string]any); ok {
				damage(t, filepath.Base(filepath.Dir(path))+": "+name, fields, inner)
			}
		}
	}
}

// damage has each field of an object be something else, or missing, and looks at what all of them mean then.
func damage(t *testing.T, name string, all, object map[string]any) {
	t.Helper()
	for _, key := range slices.Sorted(maps.Keys(object)) {
		was := object[key]
		delete(object, key)
		look(t, name+": without "+key, all)
		for _, v := range []any{nil, 0, -1, 3, 1 << 20, "", []any{}, []any{1}, map[string]any{}} {
			object[key] = v
			look(t, fmt.Sprintf("%s: %s %v", name, key, v), all)
		}
		object[key] = was
	}
}

// look has everything be done with a configuration that is done before weights are looked at.
func look(t *testing.T, name string, fields map[string]any) {
	t.Helper()
	defer func() {
		if v := recover(); v != nil {
			t.Errorf("%s: %v\n%s", name, v, debug.Stack())
		}
	}()
	data, err := json.Marshal(fields)
	if err != nil {
		t.Fatal(err)
	}
	c, err := ParseConfig("config.json", data)
	if err != nil {
		t.Fatal(err)
	}
	if s, err := For(c); err == nil && s.Layers < 1000 {
		s.Features()
		summary(s)
	}
}
