package term

import (
	"fmt"
	"io"

	"github.com/schollz/progressbar/v3"
)

// bar shows a progress bar with the step last done beside it.
type bar struct {
	w     io.Writer
	bar   *progressbar.ProgressBar
	stage stage
}

func (b *bar) Start(name string, steps int) {
	b.Close()
	b.stage = newStage(name, steps)
	b.bar = progressbar.NewOptions(steps,
		progressbar.OptionSetWriter(b.w), progressbar.OptionSetDescription(name), progressbar.OptionSetWidth(20),
		progressbar.OptionShowCount(), progressbar.OptionSetPredictTime(false), progressbar.OptionFullWidth(),
		progressbar.OptionSetMaxDetailRow(1), progressbar.OptionSetRenderBlankState(true), progressbar.OptionClearOnFinish())
}

func (b *bar) Skip(what string) {
	b.stage.skipped++
	b.Step(what, skipNote)
}

// Step shows the time left itself: the bar's own guess would count skipped steps.
func (b *bar) Step(what, note string) {
	b.stage.done++
	if note != "" {
		what += ", " + note
	}
	if left := b.stage.left(); left > 0 {
		what += fmt.Sprintf(", %v left", left)
	}
	b.bar.AddDetail(what)
	b.bar.Add(1)
}

func (b *bar) Note(text string) {
	if b.bar != nil {
		b.bar.Clear()
	}
	fmt.Fprintln(b.w, text)
}

func (b *bar) Warn(text string) { b.Note("warning: " + text) }

func (b *bar) Close() {
	if b.bar != nil {
		b.bar.Finish()
		b.bar = nil
	}
}
