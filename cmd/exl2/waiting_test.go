//go:build unix

package main

import (
	"io"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// Ctrl-C ends a command that waits for what somebody is to write to a pipe.
func TestInterruptWaiting(t *testing.T) {
	surviveInterrupts(t)
	model := filepath.Join("..", "..", "testdata", "models", "tiny")
	nothing, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer nothing.Close()
	for name, args := range map[string][]string{
		"prompt":      {"infer", "-m", model, "--prompt-file"},
		"tools":       {"infer", "-m", model, "-p", "x", "--chat", "--tools"},
		"text":        {"ppl", "-m", model, "-ed"},
		"calibration": {"convert", "-i", model, "-o", filepath.Join(t.TempDir(), "work"), "-c"},
		"measurement": {"convert", "-i", model, "-o", filepath.Join(t.TempDir(), "work"), "-m"},
		"shape":       {"synth", "-o", filepath.Join(t.TempDir(), "random"), "--config"},
		"random":      {"bench", "--synthetic"},
	} {
		t.Run(name, func(t *testing.T) {
			pipe, behind := filepath.Join(t.TempDir(), "pipe"), "" // its own: the reader of another may still be there
			if name == "random" {
				pipe, behind = pipe+".json", "@4.0"
			}
			if err := syscall.Mkfifo(pipe, 0o666); err != nil {
				t.Fatal(err)
			}
			ended := make(chan int, 1)
			go func() {
				ended <- run(append(append([]string{"--devices", "cpu"}, args...), pipe+behind), io.Discard, nothing)
			}()
			w, err := os.OpenFile(pipe, os.O_WRONLY, 0) // once there is a reader
			if err != nil {
				t.Fatal(err)
			}
			defer w.Close()
			if err := syscall.Kill(os.Getpid(), syscall.SIGINT); err != nil {
				t.Fatal(err)
			}
			select {
			case code := <-ended:
				if code != exitInterrupted {
					t.Errorf("exit code %d, want %d", code, exitInterrupted)
				}
			case <-time.After(time.Minute):
				t.Fatal("it still waits")
			}
		})
	}
}
