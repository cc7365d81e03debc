package cuda

import (
	"os"
	"strconv"
)

// tryThree is up to which width two rows have three slots, as EXL2_THREE says: to be measured, and removed.
var tryThree = func() int {
	if n, err := strconv.Atoi(os.Getenv("EXL2_THREE")); err == nil {
		return n
	}
	return 8
}()
