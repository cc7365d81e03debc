package machine

import "fmt"

// Size says a number of bytes for people: 0 MB, 4.3 MB, 471 MB, 13.5 GB, of 10⁶ and 10⁹ bytes.
func Size[T int | int64](bytes T) string {
	switch n := float64(bytes); {
	case -0.05e6 < n && n < 0.05e6:
		return "0 MB"
	case n < 9.95e6:
		return fmt.Sprintf("%.1f MB", n/1e6)
	case n < 999.5e6:
		return fmt.Sprintf("%.0f MB", n/1e6)
	default:
		return fmt.Sprintf("%.1f GB", n/1e9)
	}
}
