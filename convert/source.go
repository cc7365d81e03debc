package convert

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"exl2/internal/exl2"
	"exl2/internal/model"
	"exl2/internal/safetensors"
)

// source is the model to be converted.
type source struct {
	dir    string
	loader *model.Loader
	files  *safetensors.Set
	shapes []model.LinearSpec // of the decoder
}

// openSource opens a model and refuses what cannot be converted.
func openSource(o *Options) (*source, error) {
	l, files, err := model.Open(o.Source)
	if err != nil {
		return nil, err
	}
	l.Strict = true
	l.Spec.StretchRope(o.RopeScale, o.RopeAlpha)
	s := &source{dir: o.Source, files: files, loader: l}
	if err := s.check(); err != nil {
		files.Close()
		return nil, fmt.Errorf("%s: %w", o.Source, err)
	}
	return s, nil
}

func (s *source) check() error {
	if s.loader.Quantized() {
		return fmt.Errorf("%w: the model is EXL2 already; convert its fp16 original", ErrRefused)
	}
	for _, m := range s.loader.Layout {
		for _, l := range m.Linears {
			if l.In%exl2.Align != 0 || l.In > 1<<16 {
				return fmt.Errorf("%w: %s has %d inputs; EXL2 needs a multiple of %d up to %d", ErrRefused, l.Name, l.In, exl2.Align, 1<<16)
			}
			if m.Kind != model.Head {
				s.shapes = append(s.shapes, l)
			}
		}
	}
	return nil
}

// weights returns the number of weights of the decoder's matrices.
func (s *source) weights() int {
	n := 0
	for _, m := range s.shapes {
		n += m.In * m.Out
	}
	return n
}

func (s *source) close() { s.files.Close() }

// fingerprintBytes is how much of each file's beginning goes into the
// fingerprint: all of the header, and some weights.
const fingerprintBytes = 4 << 20

// fingerprint identifies the model by its configuration and the names, sizes
// and beginnings of its weight files.
func (s *source) fingerprint() (string, error) {
	h := sha256.New()
	for _, path := range append([]string{filepath.Join(s.dir, "config.json")}, s.files.Paths()...) {
		f, err := os.Open(path)
		if err != nil {
			return "", err
		}
		info, err := f.Stat()
		if err == nil {
			fmt.Fprintf(h, "%s %d\n", filepath.Base(path), info.Size())
			_, err = io.Copy(h, io.LimitReader(f, fingerprintBytes))
		}
		f.Close()
		if err != nil {
			return "", fmt.Errorf("%s: %w", path, err)
		}
	}
	return hex.EncodeToString(h.Sum(nil)[:16]), nil
}
