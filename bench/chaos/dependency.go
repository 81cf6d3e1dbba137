package main

import (
	"fmt"
	"hash/fnv"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/breakwater-go/breakwater/bench/chaos/judge"
)

// The dependency is what the handlers call, over HTTP. It answers by the record's fate, or by the outage that is on, and notes each call before it answers: so
// the instant that it notes is never later than the one at which the caller knows. (bench/stub is for a person's service; here the caller's name and the order
// of the instants matter.)

// outage is how all calls are answered while the dependency is down.
type outage string

// The outages; "" is none.
const (
	unavailable outage = "answers 503"
	resetting   outage = "resets connections"
	silent      outage = "does not answer"
	sluggish    outage = "takes a second for each answer"
)

// The answers that the handler knows besides those of HTTP.
const (
	statusPanic = 598
	statusDie   = 599
)

type dependency struct {
	destiny destiny
	server  *http.Server
	url     string

	mu     sync.Mutex
	down   outage
	calls  []*judge.Call
	called map[judge.ID]int
	ok     map[judge.ID]bool
}

func startDependency(d destiny) (*dependency, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	dep := &dependency{destiny: d, url: "http://" + l.Addr().String(), called: map[judge.ID]int{}, ok: map[judge.ID]bool{}}
	dep.server = &http.Server{Handler: dep}
	go dep.server.Serve(l)
	return dep, nil
}

func (d *dependency) close() { d.server.Close() }

func (d *dependency) set(o outage) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.down = o
}

// ServeHTTP answers one call.
func (d *dependency) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c, how, nth, err := d.arrive(r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	f := d.destiny.of(c.ID)
	delay := time.Duration(0)
	answer, status := judge.OK, http.StatusOK
	switch {
	case how == silent:
		<-r.Context().Done()
		d.leave(c, judge.Silent)
		return
	case how == resetting:
		d.leave(c, judge.Failed)
		panic(http.ErrAbortHandler)
	case how == unavailable:
		answer, status = judge.Failed, http.StatusServiceUnavailable
	case how == sluggish:
		delay = time.Second
	}
	if how == "" || how == sluggish {
		h := fnv.New32a()
		fmt.Fprint(h, d.destiny.seed, c.ID)
		n := h.Sum32()
		switch {
		case f == poison, f == flaky && nth <= 1+int(n%2):
			answer, status = judge.Failed, http.StatusServiceUnavailable
		case f == permanent:
			answer, status = judge.Refused, http.StatusUnprocessableEntity
		case f == panicking:
			answer, status = judge.Panicked, statusPanic
		case f == deadly:
			answer, status = judge.Died, statusDie
		case f == slow:
			delay += time.Duration(200+n%1300) * time.Millisecond
		}
	}
	if delay > 0 {
		select {
		case <-r.Context().Done():
			d.leave(c, judge.Silent)
			return
		case <-time.After(delay):
		}
	}
	d.leave(c, answer)
	w.WriteHeader(status)
}

// arrive notes that a call has begun, and answers what is on and how often the record was called.
func (d *dependency) arrive(r *http.Request) (c *judge.Call, how outage, nth int, err error) {
	partition, err1 := strconv.ParseInt(r.Header.Get("X-Partition"), 10, 32)
	offset, err2 := strconv.ParseInt(r.Header.Get("X-Offset"), 10, 64)
	attempt, err3 := strconv.Atoi(r.Header.Get("X-Attempt"))
	sent, err4 := strconv.ParseInt(r.Header.Get("X-Sent"), 10, 64)
	if err1 != nil || err2 != nil || err3 != nil || err4 != nil {
		return nil, "", 0, fmt.Errorf("no call of a member: %v", r.Header)
	}
	c = &judge.Call{ID: judge.ID{Partition: int32(partition), Offset: offset}, Caller: r.Header.Get("X-Caller"), Attempt: attempt,
		LastError: r.Header.Get("X-Last-Error"), Sent: time.Unix(0, sent), Began: time.Now(), Answer: judge.Silent}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.calls = append(d.calls, c)
	d.called[c.ID]++
	return c, d.down, d.called[c.ID], nil
}

func (d *dependency) leave(c *judge.Call, a judge.Answer) {
	d.mu.Lock()
	defer d.mu.Unlock()
	c.Answer, c.Ended = a, time.Now()
	if a == judge.OK {
		d.ok[c.ID] = true
	}
}

// seen are all calls so far. One that still runs ends now.
func (d *dependency) seen() []judge.Call {
	d.mu.Lock()
	defer d.mu.Unlock()
	all := make([]judge.Call, len(d.calls))
	for i, c := range d.calls {
		all[i] = *c
		if c.Ended.IsZero() {
			all[i].Ended = time.Now()
		}
	}
	return all
}

// done counts the calls, and the records that were handled.
func (d *dependency) done() (calls, records int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.calls), len(d.ok)
}
