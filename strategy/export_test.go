package strategy

import (
	"context"
	"fmt"
	"time"

	"github.com/fsnotify/fsnotify"
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

// WatchByNotifications is Watch without the poll.
func WatchByNotifications(ctx context.Context, path string) (*Watcher, error) {
	return watch(ctx, path, 24*time.Hour, notifications(path))
}

// WatchByPoll is Watch with events in the place of the system's notifications; nil for none.
func WatchByPoll(ctx context.Context, path string, events <-chan fsnotify.Event) (*Watcher, error) {
	return watch(ctx, path, pollEvery, hints{events: events, close: func() error { return nil }})
}
