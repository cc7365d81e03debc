package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"exl2/infer"
	"exl2/internal/mapped"
	"exl2/internal/parallel"
)

// TestTruncatedWhileComputing takes the weights away when the model is loaded,
// so that products on several goroutines touch what is gone: of many rows, in
// Go, and of one row, in assembly.
func TestTruncatedWhileComputing(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("other systems may not fault on a truncated mapping")
	}
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(4))
	for name, length := range map[string]int{"many rows": 33, "one row": 2} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			for _, name := range []string{"config.json", "model.safetensors"} {
				data, err := os.ReadFile(filepath.Join("..", "..", "testdata", "models", "tiny", name))
				if err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(filepath.Join(dir, name), data, 0o666); err != nil {
					t.Fatal(err)
				}
			}
			e, err := infer.Open(dir, infer.Options{Devices: "cpu", Positions: length})
			if err != nil {
				t.Fatal(err)
			}
			defer e.Close()
			row := make([]int32, length)
			score := func() error {
				_, err := e.Perplexity(context.Background(), nil, [][]int32{row}, func(*infer.Score) {})
				return err
			}
			if err := guarded(os.Stderr, score); err != nil {
				t.Fatal(err)
			}
			const embedding = 2_200_000 // and the head stay
			if err := os.Truncate(filepath.Join(dir, "model.safetensors"), embedding); err != nil {
				t.Fatal(err)
			}
			if err := guarded(os.Stderr, score); !errors.Is(err, mapped.ErrTruncated) || !strings.Contains(err.Error(), "model.safetensors") {
				t.Errorf("error %v, want one that the file was truncated", err)
			}
		})
	}
}

// TestPanicsAreNotUsageErrors looks at what a defect of the program ends in.
func TestPanicsAreNotUsageErrors(t *testing.T) {
	for name, work := range map[string]func() error{
		"on the command's goroutine": func() error { panic("defect") },
		"on another":                 func() error { parallel.For(5, func(i int) { panic("defect") }); return nil },
	} {
		t.Run(name, func(t *testing.T) {
			stderr, err := os.Create(filepath.Join(t.TempDir(), "stderr"))
			if err != nil {
				t.Fatal(err)
			}
			defer stderr.Close()
			err = guarded(stderr, work)
			if exitCode(err) != exitFailed || !strings.Contains(err.Error(), "internal error, please report it with the lines above: defect") {
				t.Errorf("exit code %d, error %v", exitCode(err), err)
			}
			text, err := os.ReadFile(stderr.Name())
			if err != nil || !strings.Contains(string(text), "crash_test.go") {
				t.Errorf("stderr %q, %v, want the stack", text, err)
			}
		})
	}
}
