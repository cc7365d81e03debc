package arch_test

import (
	"math"
	"path/filepath"
	"strings"
	"testing"

	"exl2/internal/arch"
	"exl2/internal/device"
	"exl2/internal/goldens"
	"exl2/internal/safetensors"
)

// The words of Spec's comments, taken literally in float64, give the logits that
// transformers computes, and use every tensor of the file.
func TestReference(t *testing.T) {
	for _, dir := range goldens.Dirs(t, "arch") {
		t.Run(goldens.Name(dir), func(t *testing.T) {
			spec, err := arch.ReadSpec(dir)
			if err != nil {
				t.Fatal(err)
			}
			golden := weights{t, open(t, filepath.Join(dir, "golden.safetensors")), map[string]array{}}
			ids, shape := golden.tensor("input_ids")
			want, _ := golden.tensor("logits")
			spec.SetContext(shape[1])
			r := reference{Spec: spec, weights: weights{t, open(t, filepath.Join(dir, "model.safetensors")), map[string]array{}}}
			r.Resolve(func(name string) bool { _, ok := r.file.Info(name); return ok })
			r.Orient(func(name string) []int { info, _ := r.file.Info(name); return info.Shape })
			most := 0.0
			for q := range shape[0] {
				for i, row := range r.logits(ids[q*shape[1] : (q+1)*shape[1]]) {
					for j, v := range row {
						most = max(most, math.Abs(v-want[(q*shape[1]+i)*r.Vocab+j])) // NaN stays
					}
				}
			}
			t.Logf("logits differ by %.2g at most", most)
			if !(most <= 1e-4) {
				t.Errorf("logits differ by %.2g, want at most 1e-4", most)
			}
			r.allUsed()
		})
	}
}

func open(t *testing.T, path string) *safetensors.File {
	f, err := safetensors.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

// reference runs a Spec, one sequence at a time, position by position.
type reference struct {
	arch.Spec
	weights
	lent   map[int][2]stream // keys and values, by layer
	inputs stream            // of all layers
}

// A stream is a vector for each position.
type stream = [][]float64

func each(x stream, f func(i int, v []float64) []float64) stream {
	y := make(stream, len(x))
	for i, v := range x {
		y[i] = f(i, v)
	}
	return y
}

func (r reference) logits(ids []float64) stream {
	name := r.Names.Embed + ".weight"
	if _, whole := r.file.Info(name); !whole {
		name = r.Table
	}
	table, _ := r.tensor(name)
	x := make(stream, len(ids))
	for i, id := range ids {
		width := r.TableWidth()
		x[i] = scaled(table[int(id)*width:][:width], orOne(r.EmbedScale))
		if r.Names.EmbedIn != "" {
			x[i] = product(r.vector(r.Names.EmbedIn+".weight"), x[i], r.Hidden)
		}
		if r.EmbedNorm {
			x[i] = r.embedded(x[i])
		}
		if r.Sinusoids {
			add(x[i], r.sinusoid(r.LearnedFrom+i), 1)
		} else if r.Learned > 0 {
			positions, _ := r.tensor(r.Names.Positions + ".weight")
			add(x[i], positions[(r.LearnedFrom+i)*r.Hidden:][:r.Hidden], 1)
		}
	}
	r.lent, r.inputs = map[int][2]stream{}, r.layerInputs(ids, x)
	for l := range r.Layers {
		r.layer(l, x)
	}
	if r.Names.Final != "" {
		x = r.normed(r.Names.Final, r.StreamNorm(r.Names.Final), x)
	}
	if n := r.Names; n.HeadDense != "" {
		w, _ := r.tensor(n.HeadDense + ".weight")
		x = each(x, func(_ int, v []float64) []float64 {
			y := product(w, v, r.TableWidth())
			for i := range y {
				if n.HeadNorm != "" {
					y[i] = activated(y[i], r.HeadAct)
				}
			}
			return y
		})
		if n.HeadNorm != "" {
			x = r.normed(n.HeadNorm, r.Norm, x)
		}
	}
	return each(x, func(_ int, v []float64) []float64 { return r.head(v) })
}

// embedded normalizes an embedding.
func (r reference) embedded(v []float64) []float64 {
	if r.Names.EmbedNorm == "" {
		return normalize(v, nil, nil, r.Norm)
	}
	return r.normed(r.Names.EmbedNorm, r.Norm, stream{v})[0]
}

// sinusoid is a row of a table of positions that is no tensor.
func (r reference) sinusoid(row int) []float64 {
	half := r.Hidden / 2
	v := make([]float64, r.Hidden)
	for j := range half {
		f := math.Exp(-float64(j) * math.Log(10000) / float64(half-1))
		v[j], v[half+j] = math.Sin(float64(row)*f), math.Cos(float64(row)*f)
	}
	return v
}

// length is the Euclidean norm.
func length(v []float64) float64 {
	sum := 0.0
	for _, x := range v {
		sum += x * x
	}
	return math.Sqrt(sum)
}

func (r reference) head(v []float64) []float64 {
	name := r.Names.Head
	if r.Tied {
		name = r.Names.Embed
	}
	w, _ := r.tensor(name + ".weight")
	y := product(w, v, r.Vocab)
	if r.HeadUnit {
		for i := range y {
			y[i] /= length(w[i*r.Hidden:][:r.Hidden])
		}
	}
	if r.HeadBias {
		add(y, r.vector(r.Names.Head+".bias"), 1)
	}
	for i := range y {
		y[i] *= orOne(r.LogitScale)
		y[i] = capped(y[i], r.LogitCap)
	}
	return y
}

// layer adds a layer's sublayers to x.
func (r reference) layer(l int, x stream) {
	n := r.Names
	n.Norms = r.NormsOf(l)
	if r.Passed(l) {
		return
	}
	if !r.Attends(l) {
		r.addTo(x, r.part(l, n.NormMLPOut, r.mlp(l, r.part(l, n.NormMLPIn, x))))
		return
	}
	if r.NormSums {
		r.addTo(x, r.attention(l, r.part(l, n.NormIn, x)))
		copy(x, r.part(l, n.NormAttnOut, x))
		r.addTo(x, r.mlp(l, r.part(l, n.NormMLPIn, x)))
		copy(x, r.part(l, n.NormMLPOut, x))
		return
	}
	in := r.part(l, n.NormIn, x)
	attention := r.part(l, n.NormAttnOut, r.attention(l, in))
	if r.Parallel {
		mlpIn := in
		if n.NormMLPIn != "" {
			mlpIn = r.part(l, n.NormMLPIn, x)
		}
		mlp := r.part(l, n.NormMLPOut, r.mlp(l, mlpIn))
		r.addTo(x, attention)
		r.addTo(x, mlp)
		return
	}
	r.addTo(x, attention)
	if !r.Sparse(l) && r.MLPWidth(l) == 0 {
		return
	}
	mlp := r.mlp
	if r.Sparse(l) && r.MoE.Apart {
		mlp = func(l int, in stream) stream { return r.apart(l, x, in) }
	}
	r.addTo(x, r.part(l, n.NormMLPOut, mlp(l, r.part(l, n.NormMLPIn, x))))
	if r.PerLayer.Size > 0 {
		r.addTo(x, r.part(l, n.NormPerLayer, each(x, func(p int, v []float64) []float64 {
			g := r.linear(l, 0, n.PerLayerGate, v)
			for i, in := range r.inputs[p][l*r.PerLayer.Size:][:r.PerLayer.Size] {
				g[i] = r.act(g[i]) * in
			}
			return r.linear(l, 0, n.PerLayerOut, g)
		})))
	}
	if r.LayerScale {
		for i, v := range x {
			x[i] = scaled(v, r.vector(n.Layer(l, n.LayerScale))[0])
		}
	}
}

// layerInputs are inputs of all layers, of ids, which have the embeddings x.
func (r reference) layerInputs(ids []float64, x stream) stream {
	size, all := r.PerLayer.Size, r.PerLayer.Size*r.Layers
	if size == 0 {
		return nil
	}
	table, _ := r.tensor(r.Names.PerLayerTable + ".weight")
	model, _ := r.tensor(r.Names.PerLayerModel + ".weight")
	return each(x, func(p int, v []float64) []float64 {
		y := scaled(product(model, v, all), 1/math.Sqrt(float64(r.Hidden)))
		for at := 0; at < all; at += size {
			copy(y[at:], normalize(y[at:][:size], r.vector(r.Names.PerLayerNorm+".weight"), nil, r.Norm))
		}
		add(y, table[int(ids[p])*all:][:all], math.Sqrt(float64(size)))
		return scaled(y, 1/math.Sqrt2)
	})
}

func (r reference) addTo(x, y stream) {
	for i := range x {
		add(x[i], y[i], orOne(r.Residual))
	}
}

// part norms x by a norm of layer l, if there is one.
func (r reference) part(l int, name string, x stream) stream {
	if name == "" {
		return x
	}
	return r.normed(r.Names.Layer(l, name), r.StreamNorm(name), x)
}

func (r reference) normed(name string, n device.Norm, x stream) stream {
	var w, b []float64
	if !r.NormPlain {
		w = r.vector(name + ".weight")
	}
	if r.NormBias {
		b = r.vector(name + ".bias")
	}
	return each(x, func(_ int, v []float64) []float64 { return normalize(v, w, b, n) })
}

// normalize is device.Norm; a nil weight is one, a nil bias zero.
func normalize(v, w, b []float64, n device.Norm) []float64 {
	mean, square := 0.0, 0.0
	if n.Kind == device.Layer {
		for _, e := range v {
			mean += e / float64(len(v))
		}
	}
	for _, e := range v {
		square += (e - mean) * (e - mean) / float64(len(v))
	}
	y := make([]float64, len(v))
	for i, e := range v {
		y[i] = (e - mean) / math.Sqrt(square+float64(n.Eps))
		if w != nil {
			y[i] *= w[i] + float64(n.Offset)
		}
		if b != nil {
			y[i] += b[i]
		}
	}
	return y
}

func (r reference) mlp(l int, x stream) stream {
	n := r.Names
	if r.Sparse(l) {
		return each(x, func(_ int, v []float64) []float64 { return r.mixture(l, v) })
	}
	return each(x, func(_ int, v []float64) []float64 {
		return scaled(r.expert(l, 0, n.Gate, n.Up, n.Down, v), orOne(r.MLP.Scale))
	})
}

// expert is one MLP.
func (r reference) expert(l, e int, gate, up, down string, v []float64) []float64 {
	u := r.linear(l, e, up, v)
	if r.MLP.Ungated {
		for i := range u {
			if r.MLP.XIELU {
				u[i] = r.xielu(l, u[i])
			} else {
				u[i] = r.act(u[i])
			}
		}
		return r.linear(l, e, down, u)
	}
	g := r.linear(l, e, gate, v)
	c, experts := r.ClampsOf(l)
	if gate == r.Names.ExpertGate {
		c = experts
	}
	for i := range u {
		if c.Limit > 0 {
			h, most := min(g[i], float64(c.Limit)), float64(c.Up)
			u[i] = (max(min(u[i], most), -most) + float64(c.Added)) * h * sigmoid(float64(c.Alpha)*h)
		} else {
			u[i] *= r.act(g[i])
		}
	}
	return r.linear(l, e, down, u)
}

func (r reference) act(x float64) float64 {
	x = activated(x, r.MLP.Act)
	if r.MLP.Squared {
		x *= x
	}
	return x
}

// xielu has the numbers of a layer.
func (r reference) xielu(l int, x float64) float64 {
	n := r.Names
	number := func(name string) float64 { return r.vector(n.Layer(l, name))[0] }
	beta := number(n.XIELUBeta)
	if positive := math.Log(1 + math.Exp(number(n.XIELUPositive))); x > 0 {
		return positive*x*x + beta*x
	}
	negative := beta + math.Log(1+math.Exp(number(n.XIELUNegative)))
	return (math.Exp(min(x, number(n.XIELULeast)))-1-x)*negative + beta*x
}

func activated(x float64, a device.Act) float64 {
	switch a {
	case device.SiLU:
		x *= sigmoid(x)
	case device.GELU:
		x *= (1 + math.Erf(x/math.Sqrt2)) / 2
	case device.GELUTanh:
		x *= (1 + math.Tanh(math.Sqrt(2/math.Pi)*(x+0.044715*x*x*x))) / 2
	case device.ReLU:
		x = max(x, 0)
	case device.Logistic:
		x = sigmoid(x)
	case device.Softplus:
		x = math.Log(1 + math.Exp(x))
	}
	return x
}

// allUsed complains about tensors that the Spec does not mention, but for what only pictures see, and indexers, or keys and values of
// layers that borrow others.
func (r reference) allUsed() {
	for _, name := range r.file.Names() {
		_, ok := r.read[name]
		known := strings.Contains(name, ".experts.") || strings.Contains(name, ".lora_") || strings.Contains(name, ".self_attn.")
		if !ok && !(known && !r.InLayer(name)) && !r.passed(name) && !strings.HasSuffix(name, ".attn.bias") && !strings.HasSuffix(name, ".new_embedding") {
			r.t.Errorf("%s is not used", name)
		}
	}
}

// passed reports whether a tensor is of a layer of which nothing is run.
func (r reference) passed(name string) bool {
	for l := range r.Layers {
		if r.Passed(l) && strings.HasPrefix(name, r.Names.Layer(l, "")) {
			return true
		}
	}
	return false
}

func sigmoid(x float64) float64 { return 1 / (1 + math.Exp(-x)) }

func capped(x float64, limit float32) float64 {
	if limit == 0 {
		return x
	}
	return float64(limit) * math.Tanh(x/float64(limit))
}

func orOne(f float32) float64 {
	if f == 0 {
		return 1
	}
	return float64(f)
}

func scaled(v []float64, f float64) []float64 {
	y := make([]float64, len(v))
	add(y, v, f)
	return y
}

func add(y, x []float64, f float64) {
	for i := range y {
		y[i] += f * x[i]
	}
}

// product is w·v for w [rows, len(v)].
func product(w, v []float64, rows int) []float64 {
	y := make([]float64, rows)
	for i := range y {
		for j, e := range v {
			y[i] += w[i*len(v)+j] * e
		}
	}
	return y
}
