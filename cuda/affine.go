package cuda

import (
	"exl2/internal/affine"
	"exl2/internal/device"
)

// LoadAffine is not there yet.
func (d *Device) LoadAffine(m *affine.Matrix) device.Matrix {
	d.lacks("products by the codes of GPTQ and AWQ")
	return &matrix{in: m.In, out: m.Out}
}
