package server

// One goroutine owns the schedule and the port: it alone turns from one span to the next, on time or because somebody switches, and opens and
// closes the port where a phase says so. Calls are answered by net/http's goroutines, which only read the book's present span.

import (
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"github.com/breakwater-go/breakwater/bench/stub/scenario"
)

// Server is a running stub. All methods may be called from any goroutine.
type Server struct {
	scenario *scenario.Scenario
	addr     *net.TCPAddr
	book     *book

	switches chan change   // to the clock's goroutine
	stop     chan struct{} // asks it to end
	stopped  chan struct{} // it has ended
	err      error         // why it ended by itself; read after stopped
	closing  sync.Once

	listeners struct {
		sync.Mutex
		next int
		all  map[int]func(Span)
	}

	// Of the clock's goroutine alone.
	began   time.Time // the schedule, or the phase that was switched to by hand
	hand    int       // that phase; -1: the schedule runs
	now     scenario.Moment
	serving *serving // nil while the port is closed
	held    io.Closer
}

// change asks the clock for a phase; -1 for the schedule from its start.
type change struct {
	phase int
	done  chan struct{} // closed when it is in force
}

// Start plays the scenario on addr, such as "127.0.0.1:8080"; port 0 takes a free one. See Address. The schedule begins now.
func Start(s *scenario.Scenario, addr string) (*Server, error) {
	addr, err := Address(addr)
	if err != nil {
		return nil, fmt.Errorf("stub: %w", err)
	}
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("stub: %w; give an address of this machine whose port is free", err)
	}
	srv := &Server{
		scenario: s, addr: l.Addr().(*net.TCPAddr), book: newBook(s),
		switches: make(chan change), stop: make(chan struct{}), stopped: make(chan struct{}),
		hand: -1, now: scenario.Moment{Phase: -1},
	}
	srv.listeners.all = map[int]func(Span){}
	srv.began = srv.book.started
	l.Close()
	srv.held = hold(srv.addr)
	left, err := srv.step()
	if err != nil {
		srv.held.Close()
		return nil, err
	}
	go srv.clock(left)
	return srv, nil
}

// URL is where the stub is to be called, without a slash at the end: at 127.0.0.1 where it listens on every address.
func (s *Server) URL() string {
	addr := *s.addr
	if addr.IP.IsUnspecified() {
		addr.IP = net.IPv4(127, 0, 0, 1)
	}
	return "http://" + addr.String()
}

// Addr is where the stub listens.
func (s *Server) Addr() net.Addr { return s.addr }

// Report is what reached the stub so far, with a line for each call (a copy of up to MaxLog lines; calls wait while it is made).
func (s *Server) Report() Report { return s.book.report(true) }

// Summary is the report without the lines.
func (s *Server) Summary() Report { return s.book.report(false) }

// SetPhase switches to a phase by hand: it is in force on return, and lasts until the next switch. The error says which phases there are, or why
// the server has ended.
func (s *Server) SetPhase(name string) error {
	phase, err := s.scenario.Find(name)
	if err != nil {
		return err
	}
	return s.change(phase)
}

// Restart starts the schedule, from the first phase, now. So a benchmark that has warmed up has the outage where the file says.
func (s *Server) Restart() error { return s.change(-1) }

func (s *Server) change(phase int) error {
	c := change{phase, make(chan struct{})}
	select {
	case s.switches <- c:
		select {
		case <-c.done:
			return nil
		case <-s.stopped:
		}
	case <-s.stopped:
	}
	if s.err != nil {
		return s.err
	}
	return fmt.Errorf("stub: closed, so there is no phase to switch; start another one")
}

// OnTurn has f called with the span that runs, and then with each that begins, one at a time, until stop is called. f must not block, nor
// call a method of s that changes something, nor stop.
func (s *Server) OnTurn(f func(Span)) (stop func()) {
	s.listeners.Lock()
	defer s.listeners.Unlock()
	s.listeners.next++
	id := s.listeners.next
	s.listeners.all[id] = f
	if span, running := s.book.span(); running {
		f(span)
	}
	return func() {
		s.listeners.Lock()
		defer s.listeners.Unlock()
		delete(s.listeners.all, id)
	}
}

// Done is closed when the server has ended, by Close or because it can't go on (Err).
func (s *Server) Done() <-chan struct{} { return s.stopped }

// Err is why the server could not go on, once Done is closed: it did not get its port back after a phase that refuses connections.
func (s *Server) Err() error {
	select {
	case <-s.stopped:
		return s.err
	default:
		return nil
	}
}

// Close ends the server: the port is closed, running calls are cut off and noted. The reports stay readable. The error is that of Err.
func (s *Server) Close() error {
	s.closing.Do(func() { close(s.stop) })
	<-s.stopped
	return s.err
}

// clock turns from one span to the next until the server ends.
func (s *Server) clock(left time.Duration) {
	defer close(s.stopped)
	defer s.book.close()
	defer func() { s.shut(); s.held.Close() }()
	for {
		var due <-chan time.Time
		if left > 0 {
			due = time.After(left)
		}
		var c change
		select {
		case <-s.stop:
			return
		case <-due:
		case c = <-s.switches:
			s.began, s.hand, s.now.Phase = time.Now(), c.phase, -1
		}
		if left, s.err = s.step(); s.err != nil {
			return
		}
		if c.done != nil {
			close(c.done)
		}
	}
}

// step turns to the span that it is time for, and answers how long that lasts (0: for ever).
func (s *Server) step() (time.Duration, error) {
	since := time.Since(s.began)
	m := s.scenario.At(since)
	if s.hand >= 0 {
		m = s.scenario.Within(s.hand, since)
	}
	left := m.Left
	if m.Left = 0; m == s.now {
		return left, nil // woken a moment too early
	}
	s.now = m
	if m.Down && s.scenario.Phases[m.Phase].Refuses() {
		s.shut() // first, so that no call is answered in a span that refuses
		s.turn()
		return left, nil
	}
	s.turn() // first, so that no call is answered in a span that is over
	return left, s.open()
}

func (s *Server) turn() {
	s.listeners.Lock()
	defer s.listeners.Unlock()
	span := s.book.turn(s.now, s.hand >= 0)
	for _, f := range s.listeners.all {
		f(span)
	}
}
