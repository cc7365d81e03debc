package cuda

import (
	"exl2/internal/device"
	"exl2/internal/tensor"
)

// Draw draws a column of every row.
func (d *Device) Draw(ids, logits, random tensor.Tensor) {
	want(random.Rows == 1 && random.Cols == logits.Rows && ids.Rows*ids.Cols == logits.Rows && (logits.Cols > 0 || logits.Rows == 0), "Draw", ids, logits, random)
	d.draw(launch{blocks: dim{x: logits.Rows}, threads: dim{x: draw_threads}}, ids, logits, random, int32(logits.Cols), int64(logits.Stride))
}

// DivergenceBack stores Σ p·log(p/q) of every row and leaves q - p.
func (d *Device) DivergenceBack(divergence, logits, reference tensor.Tensor) {
	want(logits.Rows == reference.Rows && logits.Cols == reference.Cols && divergence.Rows*divergence.Cols == logits.Rows && (logits.Cols > 0 || logits.Rows == 0), "DivergenceBack", divergence, logits, reference)
	d.divergence_back(launch{blocks: dim{x: logits.Rows}, threads: dim{x: divergence_back_threads}}, divergence, logits, reference,
		int32(logits.Cols), int64(logits.Stride), int64(reference.Stride))
}

// checkLatent panics unless shapes match, and returns the number of groups.
func checkLatent(op string, w tensor.Tensor, l device.Latent) (groups int) {
	groups = l.Zero.Rows * l.Zero.Cols
	want(w.Rows == l.V.Rows && w.Cols == l.V.Cols && l.Scale.Rows == w.Rows && l.Scale.Cols == groups && l.Group.Rows*l.Group.Cols == w.Cols, op, w, l.V, l.Scale, l.Group, l.Zero)
	return groups
}

// RoundLatent stores the weights of the nearest codes.
func (d *Device) RoundLatent(w tensor.Tensor, l device.Latent) {
	groups := checkLatent("RoundLatent", w, l)
	d.latent_round(launch{blocks: dim{x: w.Rows}, threads: dim{x: latent_threads}}, w, l.V, l.Scale, l.Group, l.Zero, int32(w.Cols), int32(groups))
}

// TrainLatent takes a step of Adam.
func (d *Device) TrainLatent(w tensor.Tensor, l device.Latent, first, second, dw tensor.Tensor, a device.Adam) {
	groups := checkLatent("TrainLatent", w, l)
	for _, t := range []tensor.Tensor{first, second, dw} {
		want(t.Rows == w.Rows && t.Cols == w.Cols, "TrainLatent", t, w)
	}
	d.latent_train(launch{blocks: dim{x: w.Rows}, threads: dim{x: latent_threads}}, w, l.V, l.Scale, l.Group, l.Zero, first, second, dw,
		int32(w.Cols), int32(groups), a.Rate, a.Beta1, a.Beta2, a.First, a.Second, a.Eps, a.Pull)
}
