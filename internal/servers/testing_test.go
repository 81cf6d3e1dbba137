package servers

import (
	"errors"
	"fmt"
	"runtime"
	"testing"
)

// verdict notes how a test ended.
type verdict struct {
	testing.TB
	end string
}

func (v *verdict) Helper()      {}
func (v *verdict) Skip(...any)  { v.end = "skip"; runtime.Goexit() }
func (v *verdict) Fatal(...any) { v.end = "fail"; runtime.Goexit() }

func TestMust(t *testing.T) {
	unavailable := fmt.Errorf("no Java: %w", ErrUnavailable)
	for _, c := range []struct {
		err      error
		ci, want string
	}{
		{nil, "", "go on"},
		{nil, "true", "go on"},
		{unavailable, "", "skip"},
		{unavailable, "false", "skip"},
		{unavailable, "true", "fail"},
		{errors.New("it broke"), "", "fail"},
	} {
		t.Setenv("CI", c.ci)
		v := &verdict{end: "go on"}
		done := make(chan struct{})
		go func() {
			defer close(done)
			Must(v, c.err)
		}()
		<-done
		if v.end != c.want {
			t.Errorf("CI=%q, error %v: %s, want %s", c.ci, c.err, v.end, c.want)
		}
	}
}
