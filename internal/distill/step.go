package distill

import (
	"slices"

	"exl2/internal/device"
	"exl2/internal/model"
	"exl2/internal/tensor"
)

// forward runs both models over rows of tokens, up to the heads.
func (t *Trainer) forward(rows [][]int32) {
	x := t.teach(rows)
	for i, m := range t.student[:len(t.student)-1] {
		t.use(i, answering, func() { m.Forward(t.state) })
		t.dev.Copy(like(t.inputs[i+1], x), x)
	}
}

// teach runs the teacher, and leaves the student's first stream, which it returns.
func (t *Trainer) teach(rows [][]int32) (x tensor.Tensor) {
	s, n := t.state, len(t.student)-1
	s.Use(runsOf(len(rows)), t.plan.Length, slices.Concat(rows...))
	t.embed.Forward(s)
	x = s.At(model.Stream)
	t.dev.Copy(like(t.inputs[0], x), x)
	if t.recall(rows) {
		return x
	}
	for i, m := range t.teacher[:n] {
		t.use(i, teaching, func() { m.Forward(s) })
	}
	t.dev.Copy(like(t.taught, x), x)
	t.remember(rows)
	t.dev.Copy(x, like(t.inputs[0], x))
	return x
}

// forwardKept is forward, and keeps what the way back needs.
func (t *Trainer) forwardKept(rows [][]int32) {
	x := t.teach(rows)
	for i, s := range t.states {
		t.dev.Copy(s.At(model.Stream), x)
		t.kept[i] = t.student[i].ForwardKept(s)
		x = s.At(model.Stream)
	}
	t.dev.Copy(like(t.inputs[len(t.states)], x), x)
}

// runsOf are n whole sequences.
func runsOf(n int) []model.Run {
	runs := make([]model.Run, n)
	for i := range runs {
		runs[i].Sequence = i
	}
	return runs
}

// like returns as many rows of y as x has.
func like(y, x tensor.Tensor) tensor.Tensor { return y.Slice(0, x.Rows) }

// heads calls f for parts of the positions, with the student's state, and the
// teacher's logits.
func (t *Trainer) heads(f func(lo, hi int, part *model.State, reference tensor.Tensor)) {
	s, n := t.state, len(t.student)-1
	rows := s.At(model.Stream).Rows
	for lo := 0; lo < rows; lo += logitRows {
		hi := min(lo+logitRows, rows)
		part := s.Slice(lo, hi)
		t.dev.Copy(part.At(model.Stream), t.taught.Slice(lo, hi))
		t.teacher[n].Forward(part)
		reference := t.reference.Slice(0, hi-lo)
		t.dev.Copy(reference, part.At(model.Logits))
		t.dev.Copy(part.At(model.Stream), t.inputs[n].Slice(lo, hi))
		f(lo, hi, part, reference)
	}
}

// Divergence returns the mean KL divergence of the student from the teacher over the
// positions of rows, in nats a token.
func (t *Trainer) Divergence(rows [][]int32) (float64, error) {
	sum, n := 0.0, 0
	for len(rows) > 0 {
		batch := rows[:min(t.plan.Batch, len(rows))]
		rows = rows[len(batch):]
		t.route(teaching, answering)
		t.forward(batch)
		t.heads(func(lo, hi int, part *model.State, reference tensor.Tensor) {
			t.student[len(t.student)-1].Forward(part)
			t.dev.DivergenceBack(t.divergence.Columns(lo, hi), part.At(model.Logits), reference)
		})
		list, err := t.divergences(len(batch) * t.plan.Length)
		if err != nil {
			return 0, err
		}
		for _, v := range list {
			sum, n = sum+float64(v), n+1
		}
	}
	return sum / float64(n), nil
}

// divergences fetches those of the last positions.
func (t *Trainer) divergences(n int) ([]float32, error) {
	list := make([]float32, n)
	t.dev.Download(tensor.BytesOf(list), t.divergence.Columns(0, n))
	return list, t.dev.Sync()
}

// step trains all codes on rows of tokens, in step number at from 1 on.
func (t *Trainer) step(rows [][]int32, rate float64, at int) {
	t.route(teaching, answering, learning)
	keeps := len(t.states) > 0 && len(rows) == t.plan.Batch
	if keeps {
		t.forwardKept(rows)
	} else {
		t.forward(rows)
	}
	a := t.plan.adam(rate, at, len(rows)*t.plan.Length)
	t.headBack(a)
	through := func(d device.Backward, list []*model.Linear, dx tensor.Tensor, dys []tensor.Tensor, x tensor.Tensor) {
		for _, x := range t.pass(d, list, dx, dys, x, true) {
			t.train(x, a)
		}
	}
	for i := len(t.student) - 2; i >= 0; i-- {
		if keeps {
			t.student[i].BackwardKept(t.states[i], t.gradients, t.kept[i], through)
			continue
		}
		x := t.state.At(model.Stream)
		t.dev.Copy(x, like(t.inputs[i], x))
		t.use(i, learning, func() { t.student[i].BackwardThrough(t.state, t.gradients, nil, through) })
	}
}

// pass passes linears that read the same on the way back, and returns those that are
// trained with the gradients of their weights, which are added to what there was if
// fresh is not set.
func (t *Trainer) pass(d device.Backward, list []*model.Linear, dx tensor.Tensor, dys []tensor.Tensor, x tensor.Tensor, fresh bool) (trained []graded) {
	var passed []device.Passed
	room := t.gradient
	for i, l := range list {
		latent := t.byLinear[l]
		if latent == nil || x.Rows == 0 {
			model.PassBack(d, list[i:i+1], dx, dys[i:i+1], x)
			continue
		}
		n := latent.V.Rows * latent.V.Cols
		dw := room.Columns(0, n).Reshape(latent.V.Rows, latent.V.Cols)
		room = room.Columns(n, room.Cols)
		if fresh {
			t.dev.Clear(dw)
		}
		passed = append(passed, device.Passed{DY: dys[i], W: latent.weight(), DW: dw})
		trained = append(trained, graded{latent, dw})
	}
	if len(passed) > 0 {
		t.dev.ProductsBack(dx, passed, x)
	}
	return trained
}

// graded is a latent with the gradient of its weight.
type graded struct {
	*latent
	dw tensor.Tensor
}

// headBack sets the gradient of the stream in front of the head, and trains that.
func (t *Trainer) headBack(a device.Adam) {
	n := len(t.student) - 1
	g, head := t.gradients, t.student[n]
	var trained []graded
	t.dev.Clear(g.At(model.Stream))
	t.heads(func(lo, hi int, part *model.State, reference tensor.Tensor) {
		gradients := g.Slice(lo, hi)
		head.BackwardThrough(part, gradients, func() {
			logits := gradients.At(model.Logits)
			t.dev.Copy(logits, part.At(model.Logits))
			t.dev.DivergenceBack(t.divergence.Columns(lo, hi), logits, reference)
		}, func(d device.Backward, list []*model.Linear, dx tensor.Tensor, dys []tensor.Tensor, x tensor.Tensor) {
			trained = t.pass(d, list, dx, dys, x, lo == 0)
		})
	})
	for _, x := range trained {
		t.train(x, a)
	}
}

func (t *Trainer) train(x graded, a device.Adam) {
	t.dev.TrainLatent(x.weight(), x.Latent, x.first, x.second, x.dw, a)
}
