package main

import (
	"bufio"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"testing"

	"exl2/convert"
)

// surviveInterrupts keeps the test alive should a signal come when what it is for is done already.
func surviveInterrupts(t *testing.T) {
	ignored := make(chan os.Signal, 1)
	signal.Notify(ignored, os.Interrupt)
	t.Cleanup(func() { signal.Stop(ignored) })
}

// Ctrl-C ends a job with exit code 130 and says how to continue; the same
// command then ends with the bytes of a job that was not interrupted.
func TestInterrupt(t *testing.T) {
	surviveInterrupts(t)
	tokens := filepath.Join(t.TempDir(), "tokens.jsonl")
	row := strings.TrimSuffix(strings.Repeat("7, 11, 5, ", 200), ", ")
	if err := os.WriteFile(tokens, []byte(`{"input_ids": [`+row+`]}`), 0o666); err != nil {
		t.Fatal(err)
	}
	source := filepath.Join("..", "..", "testdata", "golden", "arch", "llama")
	job := []string{"-i", source, "-c", tokens, "-r", "4", "-l", "64", "-mr", "2", "-ml", "64"}
	for _, c := range []struct{ name, command, during, result string }{
		{"convert, measuring", "convert", `"measure","step":1,`, "output.safetensors"},
		{"convert, quantizing", "convert", `"quantize 4.0","step":2,`, "output.safetensors"},
		{"measure", "measure", `"measure","step":2,`, "m.json"},
	} {
		t.Run(c.name, func(t *testing.T) {
			with := func(dir string) []string {
				args := append([]string{c.command, "-o", dir}, job...)
				if c.command == "measure" {
					return append(args, "-om", filepath.Join(dir, c.result))
				}
				return append(args, "-b", "4.0")
			}
			whole, broken := filepath.Join(t.TempDir(), "whole"), filepath.Join(t.TempDir(), "broken")
			mustExit(t, exitDone, with(whole)...)
			code, stderr := interrupted(t, c.during, with(broken)...)
			if want := "exl2: interrupted; the same command continues the job in " + broken; code != exitInterrupted || !strings.Contains(stderr, want) {
				t.Fatalf("exit code %d, want %d, and %q:\n%s", code, exitInterrupted, want, stderr)
			}
			if _, err := os.Stat(filepath.Join(broken, c.result)); err == nil {
				t.Fatal("it was finished nevertheless")
			}
			mustExit(t, exitDone, with(broken)...)
			sameFile(t, filepath.Join(broken, c.result), filepath.Join(whole, c.result))
		})
	}
}

// A random model that is not written to its end is no model.
func TestInterruptSynth(t *testing.T) {
	surviveInterrupts(t)
	dir, shape := filepath.Join(t.TempDir(), "model"), filepath.Join(t.TempDir(), "config.json")
	config := `{"architectures":["LlamaForCausalLM"],"hidden_size":1024,"intermediate_size":2816,"num_hidden_layers":8,"num_attention_heads":16,"vocab_size":4096}`
	if err := os.WriteFile(shape, []byte(config), 0o666); err != nil { // 0.2 GB, were it written to its end
		t.Fatal(err)
	}
	code, stderr := interrupted(t, `"step":1,`, "synth", "--config", shape, "-o", dir)
	if _, err := os.Stat(dir); code != exitInterrupted || !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("exit code %d, want %d; the folder is left (%v):\n%s", code, exitInterrupted, err, stderr)
	}
}

func mustExit(t *testing.T, want int, args ...string) {
	t.Helper()
	if code, stderr := command(t, args...); code != want {
		t.Fatalf("%s: exit code %d, want %d:\n%s", args[0], code, want, stderr)
	}
}

func sameFile(t *testing.T, got, want string) {
	t.Helper()
	a, err := os.ReadFile(got)
	if err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(want)
	if err != nil {
		t.Fatal(err)
	}
	if string(a) != string(b) {
		t.Errorf("%s differs: %d bytes, want %d", got, len(a), len(b))
	}
}

// interrupted runs a command and sends this process, which it runs in, an
// interrupt at the first event of progress that contains during.
func interrupted(t *testing.T, during string, args ...string) (code int, stderr string) {
	t.Helper()
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer read.Close()
	ended := make(chan int, 1)
	go func() {
		defer write.Close()
		ended <- run(append([]string{"--devices", "cpu", "--progress", "json"}, args...), io.Discard, write)
	}()
	self, err := os.FindProcess(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	sent := false
	for lines := bufio.NewScanner(read); lines.Scan(); stderr += lines.Text() + "\n" {
		if strings.Contains(lines.Text(), during) && !sent {
			if err := self.Signal(os.Interrupt); err != nil {
				t.Fatal(err)
			}
			sent = true
		}
	}
	return <-ended, stderr
}

// A job that was to begin again goes on without --restart once it has begun, and until then
// it is as it was.
func TestInterruptRestart(t *testing.T) {
	surviveInterrupts(t)
	tokens := filepath.Join(t.TempDir(), "tokens.jsonl")
	row := strings.TrimSuffix(strings.Repeat("7, 11, 5, ", 200), ", ")
	if err := os.WriteFile(tokens, []byte(`{"input_ids": [`+row+`]}`), 0o666); err != nil {
		t.Fatal(err)
	}
	work := filepath.Join(t.TempDir(), "work")
	for _, restart := range []string{"--restart", "-nr"} {
		args := []string{"measure", "-i", filepath.Join("..", "..", "testdata", "golden", "arch", "llama"), "-o", work, "-c", tokens, "-mr", "2", "-ml", "64"}
		mustExit(t, exitDone, args...)
		code, stderr := interrupted(t, `"measure","step":2,`, append(args, restart)...)
		if want := "exl2: interrupted; the same command without --restart continues the job in " + work; code != exitInterrupted || !strings.Contains(stderr, want) {
			t.Errorf("exit code %d, want %d, and %q:\n%s", code, exitInterrupted, want, stderr)
		}
	}
	for err, want := range map[error]string{convert.ErrUnchanged: "; nothing was deleted in " + work, io.EOF: "so far"} {
		o, a := &convertOptions{Options: convert.Options{Work: work, Restart: true}}, &app{hint: "so far"}
		if o.ended(a, err); a.hint != want {
			t.Errorf("%v: hint %q, want %q", err, a.hint, want)
		}
	}
}
