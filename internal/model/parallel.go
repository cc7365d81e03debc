package model

// parallel makes attention and MLP of the same stream. Their first steps are one
// where they share a norm; where they do not, the MLP is whole in front of attention proper.
func (b *builder) parallel(m *Module) {
	read, mix, sum := b.attentionSteps(m)
	if b.Spec.Sparse(m.Layer) {
		b.parallelExperts(m, read, mix, sum)
		return
	}
	feed, act, add := b.mlpSteps(m)
	m.Steps = []Step{read, feed, act, add, mix, sum}
	if _, own := m.Norm(NormMLPIn); !own {
		read.Sites[0].Linears = append(read.Sites[0].Linears, feed.Sites[0].Linears...)
		read.Sites[0].Writes = append(read.Sites[0].Writes, feed.Sites[0].Writes...)
		m.Steps = []Step{read, mix, sum, act, add}
	}
}

// parallelExperts makes attention and a mixture of experts of the same stream. What attention gives is
// added last: the mixture reads the stream as it was.
func (b *builder) parallelExperts(m *Module, attention ...Step) {
	in := attention[0].in
	if _, own := m.Norm(NormMLPIn); own {
		in = b.input(m, NormMLPIn)
	}
	x := b.mixture(m, in)
	x.inner = true
	m.assemble = func(m *Module, get func(*Linear) *Linear) []Step {
		var twins []Step
		for _, t := range attention {
			twins = append(twins, t.of(get))
		}
		read, mix, sum := twins[0], twins[1], twins[2]
		experts, together := x.made(m, get)
		m.whole = func(s *State) bool {
			if !together.runs(s) {
				return false
			}
			for _, t := range []*Step{&read, &mix} {
				t.Run(s)
				t.Multiply(s)
			}
			together.run(s)
			sum.Run(s)
			return true
		}
		return []Step{read, mix, experts[0], experts[1], experts[2], sum}
	}
	m.Steps = m.assemble(m, same)
}
