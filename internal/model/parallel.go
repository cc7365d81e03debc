package model

// parallel makes attention and MLP of the same stream. Their first steps are one
// where they share a norm.
func (b *builder) parallel(m *Module) {
	read, mix, sum := b.attentionSteps(m)
	feed, act, add := b.mlpSteps(m)
	m.Steps = []Step{read, feed, mix, sum, act, add}
	if _, own := m.Norm(NormMLPIn); !own {
		read.Sites[0].Linears = append(read.Sites[0].Linears, feed.Sites[0].Linears...)
		read.Sites[0].Writes = append(read.Sites[0].Writes, feed.Sites[0].Writes...)
		m.Steps = []Step{read, mix, sum, act, add}
	}
}
