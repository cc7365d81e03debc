package floorplan

import (
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// The table of docs/architecture.md has every package on its floor. Rooms of a
// package that stands there need no line of their own.
func TestTable(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "architecture.md"))
	if err != nil {
		t.Fatal(err)
	}
	told := map[string]int{}
	floor := -1
	quoted, brackets := regexp.MustCompile("`([^`]+)`"), regexp.MustCompile(`\[[^\]]*\]`)
	for _, line := range strings.Split(string(text), "\n") {
		cells := strings.Split(line, "|")
		if len(cells) != 5 {
			continue
		}
		if n, err := strconv.Atoi(strings.TrimSpace(cells[1])); err == nil {
			floor = n
		}
		for _, m := range quoted.FindAllStringSubmatch(brackets.ReplaceAllString(cells[2], ""), -1) {
			name, whole := strings.CutPrefix(m[1], "/")
			if !whole {
				name = "internal/" + name
			}
			told[name] = floor
			if _, is := place(name); is != floor {
				t.Errorf("%s stands on floor %d, and is on %d", name, floor, is)
			}
		}
	}
	for i, f := range floors {
		for _, name := range f {
			if told[name] != i && !isRoom(name, told) {
				t.Errorf("%s, on floor %d, is not in the table", name, i)
			}
		}
	}
}

// isRoom reports whether a package lies in the folder of one that is told of.
func isRoom(name string, told map[string]int) bool {
	for other := range told {
		if strings.HasPrefix(name, other+"/") {
			return true
		}
	}
	return false
}
