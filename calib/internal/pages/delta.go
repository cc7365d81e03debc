package pages

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// maxBlock bounds a block of the delta encoding; writers use 128 values.
const maxBlock = 1 << 16

var errDelta = errors.New("delta-encoded numbers are cut off")

// checkDelta makes sure that data begins with count delta-encoded numbers and
// returns how many bytes they take. Their layout: the values of a block, the
// miniblocks of a block, the count and the first number; then by block the
// least delta, a bit width for every miniblock, and those that are needed.
func checkDelta(data []byte, count int) (length int, err error) {
	rest := data
	number := func() uint64 {
		n, k := binary.Uvarint(rest)
		if k <= 0 {
			err = errDelta
			return 0
		}
		rest = rest[k:]
		return n
	}
	block, minis, total := number(), number(), number()
	number()
	if err != nil {
		return 0, err
	}
	if minis == 0 || block > maxBlock || block%minis != 0 || block/minis%32 != 0 || block == 0 {
		return 0, fmt.Errorf("delta-encoded numbers in blocks of %d in %d parts", block, minis)
	}
	if total != uint64(count) {
		return 0, fmt.Errorf("%d delta-encoded numbers for %d values", total, count)
	}
	for left := count - 1; left > 0; left -= int(block) {
		number()
		if err != nil || uint64(len(rest)) < minis {
			return 0, errDelta
		}
		widths := rest[:minis]
		rest = rest[minis:]
		if rest, err = skipMiniblocks(rest, widths, int(block/minis), left); err != nil {
			return 0, err
		}
	}
	return len(data) - len(rest), nil
}

// skipMiniblocks steps over the miniblocks of a block that hold the next left
// numbers, values each.
func skipMiniblocks(rest, widths []byte, values, left int) ([]byte, error) {
	for _, width := range widths {
		if left <= 0 {
			break
		}
		size := int(width) * values / 8
		if width > 64 || size > len(rest) {
			return nil, errDelta
		}
		rest = rest[size:]
		left -= values
	}
	return rest, nil
}
