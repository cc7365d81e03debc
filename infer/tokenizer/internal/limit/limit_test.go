package limit

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"
)

func TestTime(t *testing.T) {
	ended, end := context.WithCancel(context.Background())
	end()
	cases := []struct {
		name string
		ctx  context.Context
		most time.Duration
		fail error
		want string
	}{
		{"in time", context.Background(), time.Hour, nil, ""},
		{"too late", context.Background(), 0, nil, "takes longer than 0s"},
		{"ended from outside", ended, time.Hour, nil, "context canceled"},
		{"failed", context.Background(), time.Hour, errors.New("one"), "one"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			limit := Start(c.ctx, c.most)
			if c.fail != nil {
				limit.Fail(c.fail)
				limit.Fail(errors.New("two"))
			}
			for c.want != "" && limit.Check() { // time is up when another goroutine says so
				time.Sleep(time.Millisecond)
			}
			if up := limit.Up(); up != (c.want != "") {
				t.Errorf("Up is %t", up)
			}
			if err := limit.Stop(); err == nil && c.want != "" || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want %q", err, c.want)
			}
		})
	}
	var none *Time
	none.Fail(errors.New("forgotten"))
	if none.Up() || !none.Check() {
		t.Error("a nil Time is up")
	}
}
