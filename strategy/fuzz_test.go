package strategy_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/breakwater-go/breakwater/strategy"
)

// FuzzParse: nothing panics; what is accepted can be written down and means the same when it is read again, and the schema
// accepts it too; what is refused has a line of the file and a cure.
func FuzzParse(f *testing.F) {
	for _, json := range accepted {
		f.Add([]byte(json))
	}
	for _, c := range refused {
		if len(c.json) < 2000 {
			f.Add([]byte(c.json))
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := strategy.Parse("s", data)
		if err != nil {
			refusedWell(t, data, err)
			return
		}
		written := write(s)
		again, err := strategy.Parse("s", []byte(written))
		if err != nil {
			t.Fatalf("%s\nis accepted, but not\n%s\n%v", data, written, err)
		}
		if write(again) != written || again.String() != s.String() {
			t.Errorf("%s\nsays %s\nread again it says %s", written, s, again)
		}
		// encoding/json cannot read a 1e400 in a $comment, where the parser does not look.
		if err := schemaError(data); err != nil && !strings.Contains(err.Error(), "cannot unmarshal number") {
			t.Errorf("%s\nis accepted, but not by the schema: %v", data, err)
		}
		for _, attempt := range []int{1, 2, s.Intervals()} {
			if wait, ok := s.Wait(attempt); attempt <= s.Intervals() && (!ok || wait < 0 || wait > 2*strategy.MaxWait) {
				t.Errorf("%s\nwaits %v, %v after attempt %d of %d", data, wait, ok, attempt, s.Intervals())
			}
		}
		if _, ok := s.Wait(s.Intervals() + 1); ok {
			t.Errorf("%s\nis not exhausted after %d intervals", data, s.Intervals())
		}
	})
}

func refusedWell(t *testing.T, data []byte, err error) {
	t.Helper()
	var parse *strategy.ParseError
	if !errors.As(err, &parse) || len(parse.Mistakes) == 0 {
		t.Fatalf("%q: %v has no mistakes", data, err)
	}
	lines := 1 + strings.Count(string(data), "\n")
	for _, m := range parse.Mistakes {
		if m.Line < 1 || m.Line > lines {
			t.Errorf("%q: line %d of %d: %s", data, m.Line, lines, m)
		}
		hasCure := false
		for _, cure := range []string{"write ", "save ", "use ", "make ", "take ", "add ", "keep ", "did you mean ", "it can be ", "the smallest", "missing", "correct it"} {
			hasCure = hasCure || strings.Contains(m.Text, cure)
		}
		if !hasCure {
			t.Errorf("%q: no cure in %q", data, m.Text)
		}
	}
}

// write is a file that means s, made from what s answers.
func write(s *strategy.Strategy) string {
	b := s.Breaker()
	breaker := fmt.Sprintf(`"consecutiveFailures": %d`, b.ConsecutiveFailures)
	if b.ConsecutiveFailures == 0 {
		breaker = fmt.Sprintf(`"failureRatio": %v, "minimumCalls": %d, "window": %q`, b.FailureRatio, b.MinimumCalls, b.Window)
	}
	budget := ""
	if limit, limited := s.DLQBudget(); limited {
		budget = fmt.Sprintf(`"dlqBudget": %d, `, limit)
	}
	return fmt.Sprintf(`{"intervals": [%s], "jitter": %v, "onExhausted": %q, "onPermanent": %q, %s"breaker": {%s, "scope": %q}}`,
		strings.Join(strategy.Runs(s), ", "), strategy.Jitter(s), s.OnExhausted(), s.OnPermanent(), budget, breaker, b.Scope)
}
