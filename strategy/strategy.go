// Package strategy says when to try again: how long to wait after the first failed attempt, after the second, and so on,
// and what to do when no wait is left.
//
// A strategy is read from a small JSON file, with Load or, so that an edit is taken up while the consumer runs, with
// Watch. What is wrong in the file is said all at once, each mistake with its path and line.
package strategy

import (
	"math/rand/v2"
	"sort"
	"time"
)

// MaxWait is the longest interval, and the longest RetryAfter that is heeded: seven days. A wait may be longer than that
// by its jitter.
const MaxWait = 7 * 24 * time.Hour

// Source is where a consumer gets the strategy in force: a *Strategy, which stays, or a *Watcher, which follows its file.
type Source interface {
	Current() *Strategy
}

// Action is what happens to a record that is not retried.
type Action string

// The actions.
const (
	DLQ  Action = "dlq"  // it is dead-lettered
	Hold Action = "hold" // it stays, and its partition waits
)

// Scope is what shares one breaker.
type Scope string

// The scopes.
const (
	ScopeConsumer  Scope = "consumer"  // all partitions of the consumer
	ScopePartition Scope = "partition" // each partition has its own
)

// Breaker is when a breaker opens. It is read once, when the consumer starts.
type Breaker struct {
	ConsecutiveFailures int           // opens after so many failures in a row; 0: FailureRatio decides
	FailureRatio        float64       // opens when this share of the calls in Window failed: over 0, at most 1
	MinimumCalls        int           // with FailureRatio: never before so many calls in Window
	Window              time.Duration // with FailureRatio: 1 s to 1 h
	Scope               Scope
}

// Strategy is one list of waits with what belongs to it. It is immutable, so any goroutine may use it.
type Strategy struct {
	runs        []run
	jitter      float64
	onExhausted Action
	onPermanent Action
	dlqBudget   int // negative: no limit
	breaker     Breaker
}

// run is one wait, repeated; through is how many intervals there are up to its end. Repetitions are never expanded: a
// strategy of a million waits costs no more than one of ten.
type run struct {
	wait    time.Duration
	through int
}

// Current is s itself, so that a Strategy is a Source.
func (s *Strategy) Current() *Strategy { return s }

// Wait is how long to wait after that attempt, jitter added; false when no interval is left for it. Attempts count from 1;
// anything below is taken for 1.
func (s *Strategy) Wait(attempt int) (time.Duration, bool) {
	i := sort.Search(len(s.runs), func(i int) bool { return s.runs[i].through >= attempt })
	if i == len(s.runs) {
		return 0, false
	}
	return s.jittered(s.runs[i].wait), true
}

// First is the first interval, jitter added.
func (s *Strategy) First() time.Duration { return s.jittered(s.runs[0].wait) }

// Last is the last interval, jitter added. It is the wait of a record that goes on although it is exhausted.
func (s *Strategy) Last() time.Duration { return s.jittered(s.last().wait) }

func (s *Strategy) last() run { return s.runs[len(s.runs)-1] }

// jittered only ever adds, so that no call comes early.
func (s *Strategy) jittered(wait time.Duration) time.Duration {
	most := int64(s.jitter * float64(wait))
	return wait + time.Duration(rand.Int64N(most+1))
}

// Intervals is how many intervals there are. A record is called once more than that.
func (s *Strategy) Intervals() int { return s.last().through }

// OnExhausted is what happens to a record that has no interval left.
func (s *Strategy) OnExhausted() Action { return s.onExhausted }

// OnPermanent is what happens to a record whose error waiting cannot cure.
func (s *Strategy) OnPermanent() Action { return s.onPermanent }

// DLQBudget is how many dead letters may be written without one success in between, where that is limited.
func (s *Strategy) DLQBudget() (limit int, limited bool) {
	return max(s.dlqBudget, 0), s.dlqBudget >= 0
}

// Breaker is when the breaker opens.
func (s *Strategy) Breaker() Breaker { return s.breaker }
