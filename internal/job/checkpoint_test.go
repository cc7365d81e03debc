package job

import (
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"exl2/internal/stream"
)

func store(t *testing.T, name string, rows [][]float32) Store {
	t.Helper()
	s, err := stream.Place{}.Store(len(rows), len(rows[0]))
	if err != nil {
		t.Fatal(err)
	}
	for i, row := range rows {
		if err := s.Write(row, i); err != nil {
			t.Fatal(err)
		}
	}
	return Store{name, s}
}

func TestCheckpoint(t *testing.T) {
	j := open(t, t.TempDir())
	defer j.Close()
	c := j.Checkpoint("hidden.safetensors", time.Hour)
	if s, err := c.Open(9); s != nil || err != nil {
		t.Fatalf("%v, %v, want none", s, err)
	}
	if c.Due() || !j.Checkpoint("x", 0).Due() {
		t.Error("it is due after an hour, or at once")
	}
	x, y := store(t, "x", [][]float32{{1, 2, 3}, {4, 5, 6}}), store(t, "y", [][]float32{{7}})
	if err := c.Write(4, []Store{x, y}); err != nil {
		t.Fatal(err)
	}
	s, err := c.Open(9)
	if err != nil || s.Next != 4 {
		t.Fatalf("in front of %+v, %v", s, err)
	}
	defer s.Close()
	got := store(t, "x", [][]float32{{0, 0, 0}, {0, 0, 0}})
	if err := s.Restore([]Store{got}); err != nil {
		t.Fatal(err)
	}
	row := make([]float32, 3)
	if err := got.Hidden.Read(row, 1); err != nil || !slices.Equal(row, []float32{4, 5, 6}) {
		t.Errorf("row %v, %v", row, err)
	}
	for _, other := range []Store{store(t, "z", [][]float32{{0}}), store(t, "y", [][]float32{{0, 0}}), store(t, "x", [][]float32{{0, 0, 0}, {0, 0, 0}, {0, 0, 0}})} {
		if err := s.Restore([]Store{other}); err == nil || !strings.Contains(err.Error(), "--restart begins again") {
			t.Errorf("%s: error %v", other.Name, err)
		}
	}
	if _, err := c.Open(3); err == nil || !strings.Contains(err.Error(), "module 4, want 1 to 3") {
		t.Errorf("error %v", err)
	}
	place(t, j.Path("hidden.safetensors"), "garbage")
	if _, err := c.Open(9); err == nil || !strings.Contains(err.Error(), "not as this job wrote it; --restart") {
		t.Errorf("error %v", err)
	}
	if err := os.Remove(j.Path("hidden.safetensors")); err != nil {
		t.Fatal(err)
	}
	if err := c.Remove(); err != nil {
		t.Error(err)
	}
}
