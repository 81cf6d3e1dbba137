package strategy

import (
	"context"
	"fmt"
	"time"
)

// Runs are the intervals of s as they may stand in a file.
func Runs(s *Strategy) (runs []string) {
	before := 0
	for _, r := range s.runs {
		runs = append(runs, fmt.Sprintf(`{"wait": %q, "times": %d}`, r.wait, r.through-before))
		before = r.through
	}
	return runs
}

// Jitter is the jitter of s.
func Jitter(s *Strategy) float64 { return s.jitter }

// WatchBy is Watch with only one of its two ways to be told of a change.
func WatchBy(ctx context.Context, path string, notified bool) (*Watcher, error) {
	if notified {
		return watch(ctx, path, 24*time.Hour, notifications(path))
	}
	return watch(ctx, path, pollEvery, nil)
}
