package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"exl2/internal/mapped"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"exl2": func() {
		if left := os.Getenv("TRUNCATE_MAPPED"); left != "" {
			mapped.AfterMap = truncateTo(left)
		}
		main()
	}})
}

// truncateTo returns a hook that cuts weight files in the folder "truncated" to
// left bytes when they have been mapped.
func truncateTo(left string) func(path string) {
	return func(path string) {
		n, err := strconv.ParseInt(left, 10, 64)
		if err == nil && filepath.Base(filepath.Dir(path)) == "truncated" {
			err = os.Truncate(path, n)
		}
		if err != nil {
			panic(err)
		}
	}
}

// The scripts under testdata use the program as a user would. $TINY is the
// trained tiny model, $LLAMA a random one without a tokenizer, $EXL2 the tiny
// model as ExLlamaV2 quantized it.
func TestScripts(t *testing.T) {
	root, err := filepath.Abs(filepath.Join("..", "..", "testdata"))
	if err != nil {
		t.Fatal(err)
	}
	testscript.Run(t, testscript.Params{
		Dir: "testdata",
		Setup: func(e *testscript.Env) error {
			e.Setenv("TINY", filepath.Join(root, "models", "tiny"))
			e.Setenv("LLAMA", filepath.Join(root, "golden", "arch", "llama"))
			e.Setenv("EXL2", filepath.Join(root, "golden", "exl2", "tiny-2.5bpw"))
			e.Setenv("MEASUREMENT", filepath.Join(root, "golden", "exl2", "small.measurement.json"))
			e.Setenv("EXL2_DEVICES", "cpu")
			return nil
		},
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){"exits": exits, "field": field, "prequantize": prequantize, "plant": plant},
	})
}

// exits CODE COMMAND... runs a command and compares its exit code.
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE COMMAND...")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	err = ts.Exec(args[1], args[2:]...)
	got := 0
	if exit, ok := err.(*exec.ExitError); ok {
		got = exit.ExitCode()
	} else if err != nil {
		ts.Fatalf("%v", err)
	}
	if got != want {
		ts.Fatalf("exit code %d, want %d", got, want)
	}
}

// field FILE PATH OPERATOR VALUE compares a number or a string in a JSON file;
// a path is like outputs.0.bits. Operators: = < <= > >=.
func field(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 4 {
		ts.Fatalf("usage: field FILE PATH OPERATOR VALUE")
	}
	var v any
	ts.Check(json.Unmarshal([]byte(ts.ReadFile(args[0])), &v))
	for _, key := range strings.Split(args[1], ".") {
		switch node := v.(type) {
		case map[string]any:
			v = node[key]
		case []any:
			i, err := strconv.Atoi(key)
			ts.Check(err)
			if i >= len(node) {
				ts.Fatalf("%s: %d elements", args[1], len(node))
			}
			v = node[i]
		default:
			ts.Fatalf("%s: %s is not in %v", args[1], key, node)
		}
	}
	got := fmt.Sprint(v)
	a, err1 := strconv.ParseFloat(got, 64)
	b, err2 := strconv.ParseFloat(args[3], 64)
	numbers := err1 == nil && err2 == nil
	ok := map[string]bool{
		"=": got == args[3] || numbers && a == b, "<": numbers && a < b, "<=": numbers && a <= b, ">": numbers && a > b, ">=": numbers && a >= b,
	}[args[2]]
	if !ok {
		ts.Fatalf("%s is %s, want %s %s", args[1], got, args[2], args[3])
	}
}
