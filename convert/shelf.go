package convert

import (
	"exl2/internal/device"
	"exl2/internal/model"
)

// A shelf keeps modules of the source on a device for those who ask for them again.
type shelf struct {
	dev     device.Device
	loader  *model.Loader
	keeps   bool
	modules map[string]*model.Module
}

// load returns a module, which the caller frees: its weights stay if there is room.
func (s *shelf) load(spec model.ModuleSpec) (*model.Module, error) {
	m := s.modules[spec.Name]
	if m == nil {
		var err error
		if m, err = s.loader.Load(s.dev, spec); err != nil || !s.keeps {
			return m, err
		}
		s.modules[spec.Name] = m
	}
	return m.Twin(), nil
}

// copy puts on the shelf what is on that of another device.
func (s *shelf) copy(from *shelf) error {
	for _, spec := range s.loader.Layout {
		other := from.modules[spec.Name]
		if other == nil {
			continue
		}
		m, err := s.loader.LoadBeside(s.dev, other)
		if err != nil {
			return err
		}
		s.modules[spec.Name] = m
	}
	return nil
}

// has reports whether a module is there.
func (s *shelf) has(spec model.ModuleSpec) bool { return s.modules[spec.Name] != nil }

// free frees what is kept.
func (s *shelf) free() {
	for _, m := range s.modules {
		m.Free()
	}
	s.modules = map[string]*model.Module{}
}
