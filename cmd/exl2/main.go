// Command exl2 makes and runs EXL2 models: measure, convert, ppl, infer, bench.
//
// This package holds flags, output and exit codes.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/debug"
	"strings"
	"syscall"
	"unicode"

	"exl2/convert"
	"exl2/infer/tokenizer"
	"exl2/internal/arch"
	"exl2/internal/chat"
	"exl2/internal/devices"
)

func main() {
	// Almost all memory is tensors, large and without pointers. Collecting them
	// costs nothing and keeps freed ones from filling memory. The ballast, which is
	// never touched and so takes no memory, lets small heaps grow a little first, the more
	// cores the more.
	debug.SetGCPercent(20)
	ballast := make([]byte, min(max(256<<20, runtime.NumCPU()<<26), 1<<30))
	defer runtime.KeepAlive(ballast)
	crashLoudly()
	os.Exit(run(os.Args[1:], os.Stdout, os.Stderr))
}

// run runs one command line and returns its exit code.
func run(args []string, stdout io.Writer, stderr *os.File) int {
	out := &writer{to: stdout}
	a := &app{out: out, err: stderr}
	ctx, stop := a.interrupts.context(context.Background())
	defer stop()
	err := guarded(stderr, func() error { return a.execute(ctx, args) })
	a.close()
	if outOfRoom(err) {
		err = fmt.Errorf("%w%s", err, a.hint)
	}
	if err == nil {
		err = out.err
	}
	if ctx.Err() != nil && err != nil {
		err = interruption{a.hint}
	}
	if err != nil {
		fmt.Fprintln(stderr, "exl2:", oneLine(err.Error()))
	}
	return exitCode(err)
}

// outOfRoom reports whether a disk, a quota or a limit of the shell ended a command, which goes on when there is room.
func outOfRoom(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) || errors.Is(err, syscall.EFBIG)
}

// execute runs a command line.
func (a *app) execute(ctx context.Context, args []string) error {
	root := newRootCommand(a)
	args, err := translate(root, args)
	if err != nil {
		return err
	}
	strict(root)
	a.interrupted = ctx.Err
	root.SetArgs(args)
	root.SetOut(a.out)
	root.SetErr(a.err)
	return root.ExecuteContext(ctx)
}

// longestLine bounds messages, into which hostile files can bring any text.
const longestLine = 2000

// oneLine makes a message one line without control characters.
func oneLine(text string) string {
	if len(text) > longestLine {
		text = strings.ToValidUTF8(text[:longestLine], "") + "..."
	}
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, text)
}

// The exit codes; exitCodesHelp says the same in every command's help.
const (
	exitDone        = 0
	exitFailed      = 1
	exitUsage       = 2
	exitRefused     = 3
	exitInterrupted = 130
)

const exitCodesHelp = `Exit codes: 0 done; 1 failed; 2 usage; 3 refused (unsupported model or component,
target out of reach, job with other options or in use); 130 interrupted.`

// A usageError is about a command line that cannot be.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

// usage makes a usageError.
func usage(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

// An interruption is Ctrl-C, or another request to end; hint says how to go on.
type interruption struct{ hint string }

func (i interruption) Error() string { return "interrupted" + i.hint }

func (interruption) Unwrap() error { return context.Canceled }

func exitCode(err error) int {
	var u usageError
	var names *devices.NamesError
	switch {
	case err == nil:
		return exitDone
	case errors.Is(err, context.Canceled):
		return exitInterrupted
	case errors.As(err, &u), errors.As(err, &names):
		return exitUsage
	case errors.Is(err, arch.ErrUnsupported), errors.Is(err, tokenizer.ErrUnsupported), errors.Is(err, chat.ErrUnsupported),
		errors.Is(err, convert.ErrRefused):
		return exitRefused
	}
	return exitFailed
}
