package convert

import (
	"errors"
	"io/fs"
	"os"
	"reflect"
	"slices"
	"strings"
	"sync"

	"exl2/internal/atomicfile"
	"exl2/internal/exl2"
	"exl2/internal/model"
	"exl2/internal/safetensors"
)

// A draft is a model's files of weights before they have their names: matrices go there
// as soon as they are quantized, so that less is left to be written when all are. What a
// draft lacks, which an earlier run has quantized, comes from the job's files. A nil
// draft is none.
type draft struct {
	dir    string
	made   bool // the folder was not there
	shards []safetensors.Shard
	files  []*safetensors.Writer
	of     map[string]*safetensors.Writer // by tensor

	mu      sync.Mutex
	written map[string]bool
}

// draftFiles is how many files a draft has at most, all of which are open.
const draftFiles = 64

// begin begins the files of a model that is being quantized. One whose codes will be
// trained has none, nor has one of very many files.
func (b *build) begin() (err error) {
	if b.run.opts.trains() {
		return nil
	}
	d := &draft{dir: b.run.opts.folder(b.target), of: map[string]*safetensors.Writer{}, written: map[string]bool{}}
	w := &writer{build: b, dir: d.dir}
	infos, err := w.outline()
	if err != nil {
		return err
	}
	if d.shards, err = w.plan(infos); err != nil || len(d.shards) > draftFiles {
		return err
	}
	_, err = os.Stat(d.dir)
	d.made = errors.Is(err, fs.ErrNotExist)
	if err := os.MkdirAll(d.dir, 0o777); err != nil {
		return err
	}
	if err := atomicfile.Clean(d.dir); err != nil {
		return err
	}
	b.draft = d
	for _, s := range d.shards {
		f, err := b.run.job.CreateTensors(w.path(s.Name), s.Tensors)
		if err != nil {
			return err
		}
		d.files = append(d.files, f)
		for _, t := range s.Tensors {
			d.of[t.Name] = f
		}
	}
	return nil
}

// outline lists what goes into the model, sorted by name, by the plan.
func (w *writer) outline() (list []safetensors.Info, err error) {
	for _, m := range w.build.run.src.loader.Layout {
		recipe := w.build.plan.recipe
		if m.Kind == model.Head {
			recipe = w.build.plan.head
		}
		for _, l := range m.Packable() {
			r, err := recipe(l.Name)
			if err != nil {
				return nil, err
			}
			for _, t := range exl2.Shapes(l.In, exl2.Pad(l.Out), r.Groups(l.In)) {
				list = append(list, safetensors.Info{Name: l.Name + "." + t.Suffix, DType: t.DType, Shape: t.Shape})
			}
		}
	}
	for _, name := range w.build.run.src.kept() {
		list = append(list, w.kept(name).info)
	}
	slices.SortFunc(list, func(a, b safetensors.Info) int { return strings.Compare(a.Name, b.Name) })
	return list, nil
}

// put writes matrices.
func (d *draft) put(list []packedMatrix) error {
	if d == nil {
		return nil
	}
	for _, p := range list {
		for _, t := range p.matrix.Tensors() {
			name := p.key + "." + t.Suffix
			if err := d.of[name].Write(name, t.Data); err != nil {
				return err
			}
			d.mu.Lock()
			d.written[name] = true
			d.mu.Unlock()
		}
	}
	return nil
}

// file returns the file of a shard, which the caller commits, if it is there as the model
// wants it, and what is in it.
func (d *draft) file(s safetensors.Shard) (f *safetensors.Writer, written map[string]bool) {
	if d == nil {
		return nil, nil
	}
	i := slices.IndexFunc(d.shards, func(own safetensors.Shard) bool { return reflect.DeepEqual(own, s) })
	if i < 0 {
		return nil, nil
	}
	return d.files[i], d.written
}

// close drops files that have not been committed.
func (d *draft) close() {
	if d == nil {
		return
	}
	for _, f := range d.files {
		f.Abort()
	}
	if d.made {
		os.Remove(d.dir) // if nothing is in it
	}
}
