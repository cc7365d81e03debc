package cuda

import (
	"exl2/internal/device"
	"exl2/internal/tensor"
)

var _ device.Joiner = (*Device)(nil)

// Joined makes products by dense weights where kernels/gemm_tiles.cu does what follows them.
func (d *Device) Joined(p device.Products, w tensor.Tensor) bool {
	if !d.tiles(p.X, w) || w.Type != tensor.F16 || p.Then == device.Turn && (len(p.List) != 3 || !halvesTurn(&p.Turn)) {
		return false
	}
	if p.Then == device.Gate && !alikeBiased(p.List[0].Bias, p.List[1].Bias) {
		return false
	}
	t, columns := tiledProduct{x: p.X, w: w, then: p.Then, act: p.Act}, 0
	for i, l := range p.List {
		n := l.Y.Cols
		if p.Then == device.Gate {
			n = p.List[0].Y.Cols
		}
		want((l.Y.Nil() || l.Y.Rows == p.X.Rows) && (l.Bias.Nil() || l.Bias.Cols == n), "Joined", l.Y, l.Bias)
		t.list, columns = append(t.list, tiledMatrix{l.Y, l.Bias, n}), columns+n
		if p.Then == device.Turn && i > 0 {
			c := p.Turn.Cache.(*cache)
			t.list[i].y = []tensor.Tensor{c.k[p.Turn.Layer], c.v[p.Turn.Layer]}[i-1]
		}
	}
	want(columns == w.Rows && p.X.Cols == w.Cols, "Joined", p.X, w)
	if p.Then == device.Turn {
		t.turns = d.turns(&p.Turn)
	}
	d.multiplyTiles(&t)
	return true
}
