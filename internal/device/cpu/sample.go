package cpu

import (
	"exl2/internal/device"
	"exl2/internal/parallel"
	"exl2/internal/sampling"
	"exl2/internal/tensor"
)

// Sample chooses a column of each row of x.
func (d *Device) Sample(out, x, pos tensor.Tensor, s device.Sampling) {
	want(out.Rows == 2 && out.Cols == x.Rows && pos.Cols == x.Rows && s.Settings.Rows == x.Rows && s.Settings.Cols == sampling.Columns && s.Seeds.Rows == x.Rows &&
		s.Seeds.Cols == 2 && (s.Seen.Nil() || s.Seen.Rows == x.Rows && s.Seen.Cols == x.Cols) && (s.Next.Nil() || s.Next.Cols == x.Rows),
		"Sample", out, x, pos, s.Settings, s.Seeds, s.Seen, s.Next)
	to, at, seeds := ints("Sample", out), ints("Sample", pos), ints("Sample", s.Seeds)
	logits, settings := rowsOf("Sample", x), rowsOf("Sample", s.Settings)
	parallel.For(x.Rows, func(r int) {
		var seen []int32
		if !s.Seen.Nil() {
			seen = ints("Sample", s.Seen.Slice(r, r+1))
		}
		seed := uint64(uint32(seeds[2*r])) | uint64(uint32(seeds[2*r+1]))<<32
		token, bad := sampling.Of(settings.row(r)).Choose(logits.row(r), seen, seed, at[r])
		to[r], to[x.Rows+r] = token, bad
		if seen != nil {
			seen[token]++
		}
	})
	pass(to, at, s)
}

// pass hands what is chosen to the next step and to the host.
func pass(out, pos []int32, s device.Sampling) {
	tokens, bad := out[:len(pos)], out[len(pos):]
	if !s.Next.Nil() {
		copy(ints("Sample", s.Next), tokens)
	}
	for r := range pos {
		if s.Ring != nil {
			s.Ring.(*tokenRing).add(r, entry(tokens[r], bad[r]))
		}
		if s.Advance {
			pos[r]++
		}
	}
}

// entry is what a ring has of a choice.
func entry(token, bad int32) int32 {
	if bad >= 0 {
		return -1 - bad
	}
	return token
}
