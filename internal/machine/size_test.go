package machine

import "testing"

func TestSize(t *testing.T) {
	for bytes, want := range map[int64]string{
		0:                 "0 MB",
		40_000:            "0 MB",
		60_000:            "0.1 MB",
		4_290_000:         "4.3 MB",
		9_949_999:         "9.9 MB",
		9_950_000:         "10 MB",
		471_300_000:       "471 MB",
		999_499_999:       "999 MB",
		999_500_000:       "1.0 GB",
		13_476_839_424:    "13.5 GB",
		-2_000_000:        "-2.0 MB",
		1_234_500_000_000: "1234.5 GB",
	} {
		if got := Size(bytes); got != want {
			t.Errorf("%d: %s, want %s", bytes, got, want)
		}
	}
}
