package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"syscall"
	"time"

	"github.com/breakwater-go/breakwater/bench/chaos/judge"
)

// Faults come in kinds: members, brokers, Redis, the dependency. Each kind has a goroutine and a random stream of its own, so what one kind draws does not
// depend on how the others went; at any instant one fault of each kind is on at most.

// fault begins something bad with the given length, and answers what it is and how it ends. "" says that there was nothing to do it to.
type fault func(r *rand.Rand, last time.Duration) (what string, end func())

// kind is a family of faults.
type kind struct {
	name   string
	faults []fault
	gap    [2]time.Duration // between two of them
	last   [2]time.Duration
	spans  *spans // where it notes them; nil: nowhere
}

func between(r *rand.Rand, bounds [2]time.Duration) time.Duration {
	return bounds[0] + time.Duration(r.Int64N(int64(bounds[1]-bounds[0]+1)))
}

// play draws faults of one kind until ctx ends, and ends the last.
func (k kind) play(ctx context.Context, r *rand.Rand, say func(string, ...any)) {
	pause := func(d time.Duration) bool {
		t := time.NewTimer(d)
		defer t.Stop()
		select {
		case <-ctx.Done():
			return false
		case <-t.C:
			return true
		}
	}
	for pause(between(r, k.gap)) {
		f, last := k.faults[r.IntN(len(k.faults))], between(r, k.last)
		began := time.Now()
		what, end := f(r, last)
		if what == "" {
			continue
		}
		if end == nil {
			say("%s: %s", k.name, what)
			continue
		}
		say("%s: %s, for %v", k.name, what, last.Round(100*time.Millisecond))
		over := k.spans.begin(k.name+": "+what, began)
		pause(last)
		end()
		over()
		say("%s: over: %s", k.name, what)
	}
}

// spans are the times of faults.
type spans struct {
	mu  sync.Mutex
	all []judge.Span
}

func (s *spans) begin(what string, at time.Time) (over func()) {
	if s == nil {
		return func() {}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	i := len(s.all)
	s.all = append(s.all, judge.Span{From: at, To: at.Add(24 * time.Hour), What: what})
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.all[i].To = time.Now()
	}
}

// seen is a copy.
func (s *spans) seen() []judge.Span {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]judge.Span(nil), s.all...)
}

// memberFaults are what a deployment, a kernel and a person do to processes.
func memberFaults(c *crew, session time.Duration) []fault {
	kill := func(r *rand.Rand, _ time.Duration) (string, func()) {
		i := c.pick(r)
		if i < 0 {
			return "", nil
		}
		return "kill -9 of " + c.signal(i, syscall.SIGKILL, "killed"), nil
	}
	freeze := func(more time.Duration) fault {
		return func(r *rand.Rand, last time.Duration) (string, func()) {
			i := c.pick(r)
			if i < 0 {
				return "", nil
			}
			last += more
			name, thaw := c.freeze(i, last)
			if name == "" {
				return "", nil
			}
			// In the background, since others are killed meanwhile.
			c.waiting.Go(func() {
				select {
				case <-time.After(last):
				case <-c.still:
				}
				thaw()
				c.say("members: %s goes on", name)
			})
			return fmt.Sprintf("%s is stopped (SIGSTOP) for %v", name, last.Round(100*time.Millisecond)), nil
		}
	}
	leave := func(r *rand.Rand, _ time.Duration) (string, func()) {
		if i := c.pick(r); i >= 0 && c.running() > 1 {
			return c.signal(i, syscall.SIGTERM, "left") + " leaves", nil
		}
		return "", nil
	}
	join := func(r *rand.Rand, _ time.Duration) (string, func()) {
		if i := c.vacant(r); i >= 0 {
			if name := c.join(i); name != "" {
				return name + " joins", nil
			}
		}
		return "", nil
	}
	return []fault{kill, kill, freeze(session), freeze(0), leave, join, join, join}
}

// outages are what the dependency does to everybody.
func outages(d *dependency) (all []fault) {
	for _, o := range []outage{unavailable, unavailable, resetting, silent, sluggish} {
		all = append(all, func(*rand.Rand, time.Duration) (string, func()) {
			d.set(o)
			return string(o), func() { d.set("") }
		})
	}
	return all
}
