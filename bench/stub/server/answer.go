package server

// One call: read who it is about, note its arrival, do what the scenario says, note how it ended. Nothing is decided here.

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/breakwater-go/breakwater/bench/stub/scenario"
)

// DieHeader is in an answer that tells the caller to die on the spot. Its value is "1".
const DieHeader = "X-Stub-Die"

// ServeHTTP answers one call, or a control request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if isControl(r) {
		s.control(w, r, true)
		return
	}
	record, attempt, err := identify(r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	v, open := s.book.arrive(record, attempt)
	if !open {
		abort()
	}
	outcome := Gone
	defer func() { s.book.leave(v, outcome) }()
	if r.Body != http.NoBody {
		_, _ = io.Copy(io.Discard, r.Body) // net/http notices that a caller goes only when it has read all from him
	}
	a := s.scenario.Answer(v.phase, v.down, record, v.Attempt)
	if a.Do != scenario.Hang && a.Do != scenario.Refuse && !wait(r.Context(), a.Latency) {
		abort()
	}
	outcome = a.Outcome
	send(w, r, a, v.Phase)
}

// abort ends a handler without an answer: net/http would send a 200 for one that returns.
func abort() { panic(http.ErrAbortHandler) }

// identify reads the record and the attempt (0: the caller doesn't say) from a request.
func identify(r *http.Request) (record string, attempt int, err error) {
	if record = r.Header.Get("X-Record"); record == "" {
		record = strings.TrimPrefix(strings.TrimPrefix(r.URL.Path, "/"), "charge/")
	}
	text := r.Header.Get("X-Attempt")
	for field := range strings.SplitSeq(r.URL.RawQuery, "&") {
		if value, found := strings.CutPrefix(field, "attempt="); found && text == "" {
			text = value
		}
	}
	if text == "" {
		return record, 0, nil
	}
	if attempt, err = strconv.Atoi(text); err != nil || attempt < 1 {
		return "", 0, fmt.Errorf("attempt %q is no attempt; send a whole number from 1, or nothing and the stub counts", text)
	}
	return record, attempt, nil
}

// send does what the scenario says.
func send(w http.ResponseWriter, r *http.Request, a scenario.Answer, phase string) {
	switch a.Do {
	case scenario.Refuse: // the call was on its way when the port was closed
		abort()
	case scenario.Hang:
		<-r.Context().Done()
		abort()
	case scenario.Reset:
		reset(w)
	case scenario.Drip:
		drip(w, r, a.Over)
	case scenario.OK:
		_, _ = io.WriteString(w, "ok\n")
	case scenario.Die:
		w.Header().Set(DieHeader, "1")
		http.Error(w, "the stub tells its caller to die, header "+DieHeader, a.Status)
	case scenario.Respond:
		if a.RetryAfter > 0 {
			w.Header().Set("Retry-After", strconv.Itoa(int(a.RetryAfter/time.Second)))
		}
		http.Error(w, fmt.Sprintf("%d %s in phase %q", a.Status, http.StatusText(a.Status), phase), a.Status)
	}
}

// slow is the body of an answer that is cut or that drips.
const slow = "This answer takes its time, or never comes to its end at all...\n"

// reset sends half of an answer and then a TCP reset.
func reset(w http.ResponseWriter) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		abort()
	}
	defer conn.Close()
	_, _ = fmt.Fprintf(conn, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(slow), slow[:len(slow)/2])
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0) // so that closing it resets it
	}
}

// drip sends an answer byte by byte.
func drip(w http.ResponseWriter, r *http.Request, over time.Duration) {
	w.Header().Set("Content-Length", strconv.Itoa(len(slow)))
	flush := http.NewResponseController(w).Flush
	for i := range len(slow) {
		if flush() != nil || !wait(r.Context(), over/time.Duration(len(slow))) {
			abort()
		}
		_, _ = io.WriteString(w, slow[i:i+1])
	}
}

// wait is false when the caller went before d was over.
func wait(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
