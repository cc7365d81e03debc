package convert

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// withTemplates adds chat templates to a model, and folders that do not belong to it.
func withTemplates(t *testing.T, source string) {
	for _, name := range []string{"chat_template.jinja", "additional_chat_templates/tool_use.jinja", "additional_chat_templates/rag.jinja",
		"additional_chat_templates/notes.txt", "additional_chat_templates/.hidden.jinja", "additional_chat_templates/sub.jinja/a.jinja", "onnx/model.txt"} {
		mustWrite(t, filepath.Join(source, name), name)
	}
}

func mustHaveTemplates(t *testing.T, model string) {
	t.Helper()
	mustEqual(t, contents(t, filepath.Join(model, templates)), map[string]string{
		"tool_use.jinja": "additional_chat_templates/tool_use.jinja", "rag.jinja": "additional_chat_templates/rag.jinja",
	})
}

// All chat templates come along, are made again when they are gone, and go with a restart.
func TestChatTemplates(t *testing.T) {
	o := options(t, sourceModel(t, "llama"), "4.0")
	withTemplates(t, o.Source)
	o.Out = filepath.Join(t.TempDir(), "model")
	w := &watcher{}
	if _, err := runOn(context.Background(), on(openCPU(t)), o, w); err != nil {
		t.Fatal(err)
	}
	mustHaveTemplates(t, o.Out)
	if got := strings.Join(w.notes, "\n"); !strings.Contains(got, "not copied: onnx") || exists(filepath.Join(o.Out, "onnx")) {
		t.Errorf("notes %q", got)
	}
	tool := filepath.Join(o.Out, templates, "tool_use.jinja")
	if err := os.Remove(tool); err != nil {
		t.Fatal(err)
	}
	_, w = mustRun(t, o)
	if mustHaveTemplates(t, o.Out); len(w.steps) == 0 {
		t.Error("a model without a template was finished")
	}
	if err := os.Remove(filepath.Join(o.Source, templates, "tool_use.jinja")); err != nil {
		t.Fatal(err)
	}
	mustRefuse(t, o, "tool_use.jinja was there when the job began")
	o.Restart = true
	mustRun(t, o)
	if exists(tool) {
		t.Error("the template of the old job is still there")
	}
}

// What is in the place of templates is refused before any work.
func TestChatTemplatesInTheWay(t *testing.T) {
	for name, c := range map[string]struct {
		change func(t *testing.T, o *Options, folder string)
		want   string
		always bool // whatever is said of overwriting
	}{
		"another's": {func(t *testing.T, _ *Options, folder string) {
			mustWrite(t, filepath.Join(folder, "rag.jinja"), "mine")
		}, "rag.jinja is there", false},
		"a file": {func(t *testing.T, _ *Options, folder string) { mustWrite(t, folder, "mine") }, "is no folder", true},
		"a link": {func(t *testing.T, o *Options, folder string) { mustLink(t, filepath.Join(o.Source, templates), folder) }, "or a link to one", true},
		"the measurement": {func(_ *testing.T, o *Options, _ string) {
			o.SaveMeasurement = filepath.Join(o.Out, templates, "rag.jinja")
		}, "is a file of a model", true},
		"... in the source": {func(_ *testing.T, o *Options, _ string) {
			o.SaveMeasurement = filepath.Join(o.Source, templates, "m.jinja")
		}, "model to convert", true},
		"a link out of the source": {func(t *testing.T, o *Options, _ string) {
			mustLink(t, o.Data.File, filepath.Join(o.Source, templates, "out.jinja"))
		}, "out.jinja leads out of the model", true},
	} {
		t.Run(name, func(t *testing.T) {
			o := options(t, sourceModel(t, "llama"), "4.0")
			withTemplates(t, o.Source)
			o.Out = t.TempDir()
			c.change(t, o, filepath.Join(o.Out, templates))
			before := contents(t, filepath.Join(o.Source, templates))
			mustRefuse(t, o, c.want)
			o.Overwrite = true
			_, err := runOn(context.Background(), on(openCPU(t)), o, &watcher{})
			if c.always != errors.Is(err, ErrRefused) || !c.always && err != nil {
				t.Errorf("with --overwrite: error %v", err)
			}
			if !c.always {
				mustHaveTemplates(t, o.Out)
			}
			mustEqual(t, contents(t, filepath.Join(o.Source, templates)), before)
		})
	}
}
