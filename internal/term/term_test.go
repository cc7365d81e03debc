package term

import (
	"encoding/json"
	"io"
	"os"
	"strings"
	"testing"
	"time"
)

// output runs f on a progress of a kind and returns what it has written.
func output(t *testing.T, kind string, f func(p Progress)) string {
	t.Helper()
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer read.Close()
	p, err := New(kind, write)
	if err != nil {
		t.Fatal(err)
	}
	f(p)
	p.Close()
	write.Close()
	data, err := io.ReadAll(read)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// work is a stage of three steps, the first of which an earlier run has done.
func work(p Progress) {
	p.Note("a note")
	p.Start("measure", 3)
	p.Skip("one")
	p.Step("two", "fine")
	p.Warn("careful")
	p.Step("three", "")
}

// Lines tell of the stage's beginning and end, and of what is said between;
// steps that follow each other at once get none. A pipe gets them without
// asking, and "none" is silent but for warnings.
func TestText(t *testing.T) {
	lines := "a note\nmeasure: 3 steps\nwarning: careful\nmeasure: 3/3 three\n"
	for kind, want := range map[string]string{"lines": lines, "auto": lines, "none": "warning: careful\n"} {
		if got := output(t, kind, work); got != want {
			t.Errorf("%s: %q, want %q", kind, got, want)
		}
	}
}

// After a while there is a line again, with the step's note and the time left.
func TestLinesInBetween(t *testing.T) {
	var text strings.Builder
	l := &lines{w: &text}
	l.Start("measure", 3)
	l.stage.start, l.last = time.Now().Add(-time.Hour), time.Time{}
	l.Skip("one")
	l.last = time.Time{}
	l.Step("two", "fine")
	if want := "measure: 3 steps\nmeasure: 1/3 one, done before\nmeasure: 2/3 two, fine, 1h"; !strings.HasPrefix(text.String(), want) {
		t.Errorf("%q, want %q and so on", text.String(), want)
	}
}

// JSON is one object a line.
func TestEvents(t *testing.T) {
	want := []Event{
		{Event: "note", What: "a note"},
		{Event: "start", Stage: "measure", Steps: 3},
		{Event: "step", Stage: "measure", Step: 1, Steps: 3, What: "one", Note: "done before"},
		{Event: "step", Stage: "measure", Step: 2, Steps: 3, What: "two", Note: "fine"},
		{Event: "warning", Stage: "measure", What: "careful"},
		{Event: "step", Stage: "measure", Step: 3, Steps: 3, What: "three"},
	}
	lines := strings.Split(strings.TrimSpace(output(t, "json", work)), "\n")
	if len(lines) != len(want) {
		t.Fatalf("%d lines, want %d:\n%s", len(lines), len(want), lines)
	}
	for i, line := range lines {
		var e Event
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatal(err)
		}
		if e.Seconds = 0; e != want[i] {
			t.Errorf("line %d: %+v, want %+v", i, e, want[i])
		}
	}
}

// A bar names the step last done.
func TestBar(t *testing.T) {
	if got := output(t, "bar", work); !strings.Contains(got, "measure") || !strings.Contains(got, "two, fine") || !strings.Contains(got, "warning: careful\n") {
		t.Errorf("%q", got)
	}
}

// The time left follows from the steps of this run, however many an earlier one
// has done.
func TestTimeLeft(t *testing.T) {
	for _, c := range []struct {
		name                 string
		steps, done, skipped int
		want                 time.Duration
	}{
		{"nothing done", 4, 0, 0, 0},
		{"all done before", 4, 3, 3, 0},
		{"half done", 4, 2, 0, time.Hour},
		{"some done before", 10, 8, 6, time.Hour},
		{"finished", 4, 4, 1, 0},
	} {
		s := stage{steps: c.steps, done: c.done, skipped: c.skipped, start: time.Now().Add(-time.Hour)}
		if got := s.left().Round(time.Minute); got != c.want {
			t.Errorf("%s: %v left, want %v", c.name, got, c.want)
		}
	}
}

func TestUnknownKind(t *testing.T) {
	if _, err := New("loud", os.Stderr); err == nil || !strings.Contains(err.Error(), `"loud"`) {
		t.Errorf("error %v", err)
	}
}
