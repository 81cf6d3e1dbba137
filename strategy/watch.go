package strategy

import "context"

// Watcher follows a strategy file.
type Watcher struct{}

// Watch loads the file and follows it.
func Watch(ctx context.Context, path string) (*Watcher, error) { return nil, nil }

// Current is the strategy in force.
func (w *Watcher) Current() *Strategy { return nil }

// Path is the file.
func (w *Watcher) Path() string { return "" }

// OnReload has f called after each reload, from the watcher's goroutine.
func (w *Watcher) OnReload(f func(Reload)) (stop func()) { return func() {} }

// Close ends the watching.
func (w *Watcher) Close() error { return nil }

// Reload is what came of a change of the file.
type Reload struct {
	Path         string
	Old, New     *Strategy
	Err          error
	NeedsRestart []string
}
