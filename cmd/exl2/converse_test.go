//go:build linux

package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// A user is somebody at a terminal on which a program runs.
type user struct {
	t        *testing.T
	keyboard *os.File
	command  *exec.Cmd

	mu     sync.Mutex
	screen bytes.Buffer
	read   int // of the screen
}

// atTerminal starts a command line on a terminal of its own.
func atTerminal(t *testing.T, args ...string) *user {
	t.Helper()
	keyboard, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Skipf("no terminals here: %v", err)
	}
	if err := unix.IoctlSetPointerInt(int(keyboard.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	number, err := unix.IoctlGetInt(int(keyboard.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	tty, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer tty.Close()
	u := &user{t: t, keyboard: keyboard}
	u.command = &exec.Cmd{
		Path: os.Args[0], Args: append([]string{"exl2"}, args...), Stdin: tty, Stdout: tty, Stderr: tty,
		Env:         append(os.Environ(), "EXL2_DEVICES=cpu", "TERM=xterm"),
		SysProcAttr: &syscall.SysProcAttr{Setsid: true, Setctty: true},
	}
	if err := u.command.Start(); err != nil {
		t.Fatal(err)
	}
	go u.watch()
	t.Cleanup(func() {
		u.command.Process.Kill()
		keyboard.Close()
	})
	return u
}

// watch collects what the program shows.
func (u *user) watch() {
	buf := make([]byte, 4096)
	for {
		n, err := u.keyboard.Read(buf)
		u.mu.Lock()
		u.screen.Write(buf[:n])
		u.mu.Unlock()
		if err != nil {
			return
		}
	}
}

// sees waits until the program has shown a text that matches, behind what was
// seen before, and returns the match.
func (u *user) sees(pattern string) []string {
	u.t.Helper()
	re := regexp.MustCompile(pattern)
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		u.mu.Lock()
		rest := u.screen.String()[u.read:]
		if at := re.FindStringSubmatchIndex(rest); at != nil {
			u.read += at[1]
			u.mu.Unlock()
			return re.FindStringSubmatch(rest)
		}
		u.mu.Unlock()
	}
	u.t.Fatalf("%s is not to be seen in %q", pattern, u.screen.String())
	return nil
}

// types presses keys.
func (u *user) types(keys string) {
	u.t.Helper()
	if _, err := u.keyboard.WriteString(keys); err != nil {
		u.t.Fatal(err)
	}
}

// exits waits for the program's end.
func (u *user) exits(want int) {
	u.t.Helper()
	u.command.Wait()
	if code := u.command.ProcessState.ExitCode(); code != want {
		u.t.Fatalf("exit code %d, want %d: %q", code, want, u.screen.String())
	}
}

const (
	interrupt, end, up = "\x03", "\x04", "\x1b[A"
	paste, pasted      = "\x1b[200~", "\x1b[201~"
)

var summary = `\((\d+) prompt tokens, (\d+) of them cached, first token after \S+; \d+ tokens, \S+ a second; ended by length\)`

func tinyModel() string { return filepath.Join("..", "..", "testdata", "models", "tiny") }

// A conversation keeps its cache, its messages and the lines that were typed.
func TestConversation(t *testing.T) {
	u := atTerminal(t, "infer", "-m", tinyModel(), "--chat", "--show-prompt", "-t", "5", "--system", "Be terse.")
	u.sees(`2048 tokens of context\. Ctrl-C stops an answer`)
	u.sees("> ")
	u.types("one\r")
	u.sees(`(?s)Be terse\.<\|eot_id\|>.*one<\|eot_id\|>`)
	if first := u.sees(summary); first[2] != "0" {
		t.Errorf("%s tokens cached at the beginning", first[2])
	}
	u.sees("> ")
	u.types("tow\x1b[D\bwo\x1b[C\x7f\r") // edited
	u.sees(`(?s)one<\|eot_id\|>.*assistant.*two<\|eot_id\|>`)
	if second := u.sees(summary); second[2] < "20" || len(second[2]) != 2 {
		t.Errorf("%s of %s tokens cached at the second message", second[2], second[1])
	}
	u.sees("> ")
	u.types("not this" + interrupt + up + up + "\r") // the line before the last
	u.sees(`(?s)two<\|eot_id\|>.*one<\|eot_id\|><\|start_header_id\|>assistant`)
	u.sees(summary)
	u.sees("> ")
	u.types("/new\r")
	u.sees("> ")
	u.types(paste + "a\rb" + pasted + "\r")
	u.sees(`(?s)Be terse\.<\|eot_id\|><\|start_header_id\|>user<\|end_header_id\|>\s+a\r\nb<\|eot_id\|>`)
	u.sees(summary)
	u.sees("> ")
	u.types(`c\` + "\rd\r")
	u.sees(`\sc\r\nd<\|eot_id\|>`)
	u.sees(summary)
	u.sees("> ")
	u.types(end)
	u.exits(exitDone)
}

// Ctrl-C stops the answer and not the program.
func TestStopAnswer(t *testing.T) {
	u := atTerminal(t, "infer", "-m", tinyModel(), "--chat")
	u.sees("> ")
	u.types("many words\r")
	u.sees(`\x1b\[\?2004l[^\x1b]{3}`)
	u.types(interrupt)
	u.sees(`; stopped\)`)
	u.sees("> ")
	u.command.Process.Signal(syscall.SIGTERM)
	u.exits(exitInterrupted)
}

// What does not fit the context is refused, and the conversation goes on.
func TestContextEnds(t *testing.T) {
	u := atTerminal(t, "infer", "-m", tinyModel(), "--chat", "--length", "40", "-t", "5")
	u.sees("(?s)40 tokens of context.*> ")
	u.types(strings.Repeat("many words ", 30) + "\r")
	u.sees(`the conversation has \d+ tokens, the context 40; /new begins another`)
	u.sees("> ")
	u.types("few words\r")
	u.sees(summary)
	u.sees("> ")
	u.types(end)
	u.exits(exitDone)
}

// A template's token behind an answer ends answers.
func TestAnswerEnd(t *testing.T) {
	o := &inferOptions{chat: chatOptions{on: true}}
	c := newInferCommand(&app{})
	c.SetContext(t.Context())
	p, err := o.prompter(c, &app{}, tinyModel())
	if err != nil {
		t.Fatal(err)
	}
	p.endAnswers(t.Context())
	want, ok := p.tokenizer.TokenID("<|eot_id|>")
	if end := p.end[len(p.end)-1]; !ok || end != want {
		t.Errorf("answers end with token %d, want %d", end, want)
	}
}

// Bytes that are no characters, as a text in Latin-1 that is pasted has them, are question
// marks, and U+FFFD is one; what is typed behind them is not held back.
func TestNoCharacters(t *testing.T) {
	u := atTerminal(t, "infer", "-m", tinyModel(), "--chat", "--show-prompt", "-t", "5")
	u.sees("> ")
	u.types("caf\xe9 \xff\xfe\ufffd gr\u00fc\u00df\r")
	u.sees(`user<\|end_header_id\|>\s+caf\? \?\?\? grüß<\|eot_id\|>`)
	u.sees(summary)
	u.sees("> ")
	u.types("na\xc3")
	u.sees("na")
	u.types("\xafve\r")
	u.sees(`\s+naïve<\|eot_id\|>`)
	u.sees(summary)
	u.sees("> ")
	u.types("\xff\xff\xff" + end + interrupt)
	u.sees(`\^C\r\n> `)
	u.types(end)
	u.exits(exitDone)
}

// Ctrl-C that comes when an answer has just ended does not end the conversation.
func TestLateInterrupts(t *testing.T) {
	u := atTerminal(t, "infer", "-m", tinyModel(), "--chat", "-t", "2")
	u.sees("> ")
	for i := range 20 {
		u.types("one\r")
		u.sees(summary)
		time.Sleep(time.Duration(i%5) * 100 * time.Microsecond)
		u.types(interrupt)
		u.sees("> ")
	}
	u.types(end)
	u.exits(exitDone)
}
