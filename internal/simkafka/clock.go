package simkafka

// The clock owns the one mutex of a cluster and everything that is going to happen.
//
// Whoever takes the mutex first runs what is due, in the order of instants and, within one instant, of planning. So what
// the cluster does at an instant comes before what a client does at that instant, whichever goroutine wakes first.
// Functions that are planned run under the mutex and must not block. For as long as the mutex is held, time stands still.

import (
	"container/heap"
	"sync"
	"time"
)

type clock struct {
	mu    sync.Mutex
	start time.Time
	t     time.Duration // now
	plans plans
	seq   int
	timer *time.Timer
	armed time.Duration // what the timer is set to
}

const unarmed = time.Duration(-1)

type plan struct {
	at  time.Duration
	seq int
	do  func()
}

type plans []plan

func (p plans) Len() int { return len(p) }
func (p plans) Less(i, j int) bool {
	return p[i].at < p[j].at || p[i].at == p[j].at && p[i].seq < p[j].seq
}
func (p plans) Swap(i, j int) { p[i], p[j] = p[j], p[i] }
func (p *plans) Push(x any)   { *p = append(*p, x.(plan)) }
func (p *plans) Pop() any {
	old := *p
	last := old[len(old)-1]
	old[len(old)-1] = plan{}
	*p = old[:len(old)-1]
	return last
}

func (c *clock) init() {
	c.start = time.Now()
	c.timer = time.AfterFunc(time.Hour, func() {
		c.lock()
		c.armed = unarmed
		c.unlock()
	})
	c.timer.Stop()
	c.armed = unarmed
}

// now is the time since the cluster was made.
func (c *clock) now() time.Duration { return c.t }

func (c *clock) lock() {
	c.mu.Lock()
	c.t = time.Since(c.start)
	for len(c.plans) > 0 && c.plans[0].at <= c.t {
		heap.Pop(&c.plans).(plan).do()
	}
}

func (c *clock) unlock() {
	if len(c.plans) > 0 && c.plans[0].at != c.armed {
		c.armed = c.plans[0].at
		c.timer.Reset(c.armed - c.now())
	}
	c.mu.Unlock()
}

// at plans do for an instant; one that has passed means at once, that is when the mutex is next taken.
func (c *clock) at(t time.Duration, do func()) {
	c.seq++
	heap.Push(&c.plans, plan{at: max(t, c.now()), seq: c.seq, do: do})
}

// after plans do for a time from now.
func (c *clock) after(d time.Duration, do func()) { c.at(c.now()+d, do) }
