package convert

import (
	"encoding/binary"
	"testing"

	"pgregory.net/rapid"
)

// The first element beyond a limit is found, whatever is before and behind it.
func TestFirst(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		data := rapid.SliceOfN(rapid.Byte(), 0, 100).Draw(t, "data")
		if rapid.Bool().Draw(t, "long") {
			data = append(make([]byte, rapid.IntRange(1<<20-20, 1<<20+20).Draw(t, "zeros")), data...)
		}
		limit16, limit32 := rapid.Uint16Range(1, 0x7fff).Draw(t, "limit of 16 bits"), rapid.Uint32Range(1, 0x7fffffff).Draw(t, "limit of 32 bits")
		want16, want32 := -1, -1
		for i := len(data)/2 - 1; i >= 0; i-- {
			if binary.LittleEndian.Uint16(data[2*i:])&0x7fff >= limit16 {
				want16 = i
			}
		}
		for i := len(data)/4 - 1; i >= 0; i-- {
			if binary.LittleEndian.Uint32(data[4*i:])&0x7fffffff >= limit32 {
				want32 = i
			}
		}
		if got := first16(data, limit16); got != want16 {
			t.Errorf("16 bits: %d, want %d", got, want16)
		}
		if got := first32(data, limit32); got != want32 {
			t.Errorf("32 bits: %d, want %d", got, want32)
		}
	})
}
