package main

// The strategy: which file it is, and what it asked for when. The history keeps every strategy that was in force, without its jitter, so that
// the account can say which call came too early although somebody edited the file meanwhile.

import (
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/breakwater-go/breakwater/strategy"
)

//go:embed strategy.json
var shipped []byte

// shippedPath is where the demo's strategy lies in a checkout.
const shippedPath = "cmd/demo/strategy.json"

// strategyFile finds the file to watch: the one that was named, the checkout's, or else a copy to edit.
func strategyFile(named string) (path string, cleanUp func(), err error) {
	if named != "" {
		return named, func() {}, nil
	}
	if _, err := os.Stat(shippedPath); err == nil {
		return shippedPath, func() {}, nil
	}
	folder, err := os.MkdirTemp("", "breakwater-demo-")
	if err != nil {
		return "", nil, fmt.Errorf("no place for a copy of the strategy: %w; name a file with -strategy", err)
	}
	path = filepath.Join(folder, "strategy.json")
	if err := os.WriteFile(path, shipped, 0o644); err != nil {
		return "", nil, fmt.Errorf("no place for a copy of the strategy: %w; name a file with -strategy", err)
	}
	return path, func() { os.RemoveAll(folder) }, nil
}

// inForce is a strategy without its jitter, since when it holds, and the longest of its waits and all of them together with their jitter.
type inForce struct {
	*strategy.Strategy
	since          time.Time
	longest, total time.Duration
}

// history is every strategy that was in force, the oldest first; the first holds since ever.
type history []inForce

// slack is how long around an edit either strategy may have been asked.
const slack = 3 * time.Second

// least is the shortest wait that a strategy in force around that instant has for that attempt.
func (h history) least(at time.Time, attempt int) time.Duration {
	least := time.Duration(math.MaxInt64)
	for i, s := range h {
		begun := i == 0 || !at.Add(slack).Before(s.since)
		over := i+1 < len(h) && at.Add(-slack).After(h[i+1].since)
		if begun && !over {
			wait, ok := s.Wait(attempt)
			if !ok {
				wait = s.Last()
			}
			least = min(least, wait)
		}
	}
	return least
}

// oneForAll tells whether the first failure stops all partitions. It is asked of the strategy at start: its breaker is the one that holds.
func (h history) oneForAll() bool {
	b := h[0].Breaker()
	return b.ConsecutiveFailures == 1 && b.Scope == strategy.ScopeConsumer
}

// waits follows the strategy file and keeps the history.
type waits struct {
	*strategy.Watcher
	mu  sync.Mutex
	all history
}

func watch(ctx context.Context, path string) (*waits, error) {
	watcher, err := strategy.Watch(ctx, path)
	if err != nil {
		return nil, err
	}
	w := &waits{Watcher: watcher}
	w.note(strategy.Reload{Path: path, New: watcher.Current()})
	watcher.OnReload(w.note)
	return w, nil
}

// note adds the strategy that has come into force.
func (w *waits) note(r strategy.Reload) {
	if r.Err != nil {
		return
	}
	s := inForce{since: time.Now()}
	var err error
	if s.Strategy, err = withoutJitter(r.Path); err != nil {
		return // edited again already: that edit is told next
	}
	for i := 1; i <= s.Intervals(); i++ {
		plain, _ := s.Wait(i)
		jittered, _ := r.New.Wait(i)
		s.longest = max(s.longest, plain, jittered)
		s.total += max(plain, jittered)
	}
	w.mu.Lock()
	w.all = append(w.all, s)
	w.mu.Unlock()
}

func (w *waits) history() history {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append(history(nil), w.all...)
}

// last is the strategy in force.
func (w *waits) last() inForce {
	h := w.history()
	return h[len(h)-1]
}

// withoutJitter reads the file as it is, but for the jitter.
func withoutJitter(path string) (*strategy.Strategy, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var file any
	if err := json.Unmarshal(data, &file); err != nil {
		return nil, err
	}
	object, ok := file.(map[string]any)
	if !ok {
		object = map[string]any{"intervals": file}
	}
	object["jitter"] = 0
	if data, err = json.Marshal(object); err != nil {
		return nil, err
	}
	return strategy.Parse(path, data)
}
