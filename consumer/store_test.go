package consumer

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/breakwater-go/breakwater/attempts"
)

// The attempt stores of the simulated world.

// mortal is a store as one process sees it: a process that was killed does not reach it.
type mortal struct {
	attempts.Store
	i *instance
}

func (m mortal) Claim(ctx context.Context, group, owner string, ps []partition) (map[partition]attempts.Loaded, error) {
	if m.i.dead.Load() {
		return nil, attempts.ErrAway
	}
	return m.Store.Claim(ctx, group, owner, ps)
}

func (m mortal) Save(ctx context.Context, group string, p partition, r attempts.Record, e attempts.Entry) (attempts.Entry, error) {
	if m.i.dead.Load() {
		return e, attempts.ErrAway
	}
	return m.Store.Save(ctx, group, p, r, e)
}

func (m mortal) Unnote(ctx context.Context, group string, p partition, r attempts.Record) error {
	if m.i.dead.Load() {
		return attempts.ErrAway
	}
	return m.Store.Unnote(ctx, group, p, r)
}

func (m mortal) Forget(ctx context.Context, group string, p partition, below int64) error {
	if m.i.dead.Load() {
		return attempts.ErrAway
	}
	return m.Store.Forget(ctx, group, p, below)
}

func (m mortal) Release(ctx context.Context, group, owner string, ps []partition) error {
	if m.i.dead.Load() {
		return attempts.ErrAway
	}
	return m.Store.Release(ctx, group, owner, ps)
}

// scriptedStore is a store that counts what is asked of it, and can be away, slow or unusable.
type scriptedStore struct {
	inner attempts.Store

	mu        sync.Mutex
	err       error         // every call fails with it
	replyLost bool          // with err: what was written stands all the same
	latency   time.Duration // of an answer; a caller that does not wait so long gets none
	asked     []string
}

// scripted gives the world a store in memory that does what a test says.
func (w *world) scripted() *scriptedStore {
	s := &scriptedStore{inner: attempts.Memory()}
	w.store = s
	return s
}

func (s *scriptedStore) set(change func(s *scriptedStore)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(s)
}

// calls are what was asked so far, by name.
func (s *scriptedStore) calls() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.asked)
}

func (s *scriptedStore) reach(ctx context.Context, what string, do func() error) error {
	s.mu.Lock()
	s.asked = append(s.asked, what)
	err, lost, latency := s.err, s.replyLost, s.latency
	s.mu.Unlock()
	if latency > 0 {
		timer := time.NewTimer(latency)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", attempts.ErrAway, ctx.Err())
		}
	}
	if err != nil && !lost {
		return err
	}
	if failed := do(); failed != nil {
		return failed
	}
	return err
}

func (s *scriptedStore) Claim(ctx context.Context, group, owner string, ps []partition) (found map[partition]attempts.Loaded, err error) {
	err = s.reach(ctx, "claim", func() (err error) {
		found, err = s.inner.Claim(ctx, group, owner, ps)
		return err
	})
	if err != nil {
		return nil, err
	}
	return found, nil
}

func (s *scriptedStore) Save(ctx context.Context, group string, p partition, r attempts.Record, e attempts.Entry) (answer attempts.Entry, err error) {
	err = s.reach(ctx, "save", func() (err error) {
		answer, err = s.inner.Save(ctx, group, p, r, e)
		return err
	})
	if err != nil {
		return e, err
	}
	return answer, nil
}

func (s *scriptedStore) Unnote(ctx context.Context, group string, p partition, r attempts.Record) error {
	return s.reach(ctx, "unnote", func() error { return s.inner.Unnote(ctx, group, p, r) })
}

func (s *scriptedStore) Forget(ctx context.Context, group string, p partition, below int64) error {
	return s.reach(ctx, "forget", func() error { return s.inner.Forget(ctx, group, p, below) })
}

func (s *scriptedStore) Release(ctx context.Context, group, owner string, ps []partition) error {
	return s.reach(ctx, "release", func() error { return s.inner.Release(ctx, group, owner, ps) })
}
