// Package foldtest makes models with outliers.
package foldtest

import (
	"os"
	"path/filepath"

	"exl2/internal/model"
	"exl2/internal/safetensors"
)

// Plant writes a model to a folder, with outliers that change nothing of what it computes:
// what exponents says of a place divides its channels (model.Folding). The head is left as it
// is where it is the embedding.
func Plant(from, to string, exponents func(f model.Fold) []int8) error {
	l, files, err := model.Open(from)
	if err != nil {
		return err
	}
	defer files.Close()
	f := model.Folding{}
	for _, m := range l.Layout {
		for _, place := range m.Folds(l.Spec) {
			if e := exponents(place); e != nil && !(m.Kind == model.Head && l.Spec.Tied) {
				f[place.Name] = e
			}
		}
	}
	if err := l.Fold(f); err != nil {
		return err
	}
	if err := write(l, filepath.Join(to, "model.safetensors")); err != nil {
		return err
	}
	return copyRest(from, to)
}

// copyRest copies what is not weights.
func copyRest(from, to string) error {
	for _, name := range []string{"config.json", "tokenizer.json", "tokenizer_config.json"} {
		data, err := os.ReadFile(filepath.Join(from, name))
		if os.IsNotExist(err) {
			continue
		}
		if err == nil {
			err = os.WriteFile(filepath.Join(to, name), data, 0o666)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// write writes what a loader shows.
func write(l *model.Loader, path string) error {
	var infos []safetensors.Info
	for _, name := range l.Files.Names() {
		info, _ := l.Files.Info(name)
		infos = append(infos, info)
	}
	w, err := safetensors.Create(path, infos)
	if err != nil {
		return err
	}
	defer w.Abort()
	for _, info := range infos {
		x, err := l.Files.Get(info.Name)
		if err == nil {
			err = w.Write(info.Name, x.Data)
		}
		if err != nil {
			return err
		}
	}
	return w.Commit()
}

// Norms are outliers of norms: every 32nd channel 16 times as large.
func Norms(f model.Fold) []int8 {
	if !f.Norm {
		return nil
	}
	return Everywhere(f)
}

// Everywhere are those of matrices, too.
func Everywhere(f model.Fold) []int8 {
	e := make([]int8, f.Channels)
	for i := 0; i < len(e); i += 32 {
		e[i] = -4
	}
	return e
}
