package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/breakwater-go/breakwater/bench/stub/scenario"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestWhatACallerSees(t *testing.T) {
	stub := start(t, `{"phases": [
		{"name": "ok", "for": "1h"},
		{"name": "503", "for": "1h", "faults": [{"do": 503}]},
		{"name": "429", "for": "1h", "faults": [{"do": 429, "retryAfter": 3}]},
		{"name": "die", "for": "1h", "faults": [{"do": "die"}]},
		{"name": "slow", "for": "1h", "latency": "20ms"},
		{"name": "drip", "faults": [{"do": "drip", "over": "64ms"}]}
	]}`)
	cases := []struct {
		phase  string
		status int
		header http.Header
		body   string
		takes  time.Duration
	}{
		{"ok", 200, nil, "ok\n", 0},
		{"503", 503, nil, "503 Service Unavailable in phase \"503\"\n", 0},
		{"429", 429, http.Header{"Retry-After": {"3"}}, "429 Too Many Requests in phase \"429\"\n", 0},
		{"die", 500, http.Header{"X-Stub-Die": {"1"}}, "the stub tells its caller to die, header X-Stub-Die\n", 0},
		{"slow", 200, nil, "ok\n", 20 * time.Millisecond},
		{"drip", 200, nil, slow, 60 * time.Millisecond},
	}
	for _, c := range cases {
		t.Run(c.phase, func(t *testing.T) {
			switchTo(t, stub, c.phase)
			began := time.Now()
			resp, err := client(t).Post(stub.URL()+"/charge/orders/0/1", "text/plain", strings.NewReader("a body"))
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			body, err := io.ReadAll(resp.Body)
			if err != nil || resp.StatusCode != c.status || string(body) != c.body || time.Since(began) < c.takes {
				t.Errorf("got %d %q, %v after %v; want %d %q after %v", resp.StatusCode, body, err, time.Since(began), c.status, c.body, c.takes)
			}
			for name := range c.header {
				if got := resp.Header.Get(name); got != c.header.Get(name) {
					t.Errorf("%s is %q, want %q", name, got, c.header.Get(name))
				}
			}
		})
	}
}

func TestAHangingCallEndsWhenItsCallerGivesUp(t *testing.T) {
	stub := start(t, `{"phases": [{"name": "p", "faults": [{"do": "hang"}]}]}`)
	ctx, giveUp := context.WithCancel(context.Background())
	answered := make(chan error, 1)
	go func() { answered <- call(ctx, client(t), stub, "a", 1) }()
	until(t, "the call is in", func() bool { return stub.Summary().InFlight == 1 })
	if got := stub.Report().Log[0].Outcome; got != Pending {
		t.Errorf("the outcome of a call that runs is %q", got)
	}
	select {
	case err := <-answered:
		t.Fatalf("it was answered: %v", err)
	default:
	}
	giveUp()
	if err := <-answered; !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	until(t, "the call is over", func() bool { return stub.Summary().InFlight == 0 })
	wantOutcomes(t, stub, map[string]int{"hang": 1})
}

func TestACallerWhoGoesBeforeTheAnswerIsGone(t *testing.T) {
	stub := start(t, `{"phases": [{"name": "p", "latency": "1h"}]}`)
	ctx, giveUp := context.WithCancel(context.Background())
	answered := make(chan error, 1)
	go func() { answered <- call(ctx, client(t), stub, "a", 1) }()
	until(t, "the call is in", func() bool { return stub.Summary().InFlight == 1 })
	giveUp()
	<-answered
	until(t, "the call is over", func() bool { return stub.Summary().InFlight == 0 })
	wantOutcomes(t, stub, map[string]int{Gone: 1})
}

func TestAResetComesInTheMiddleOfTheBody(t *testing.T) {
	stub := start(t, `{"phases": [{"name": "p", "faults": [{"do": "reset"}]}]}`)
	conn, err := net.Dial("tcp", strings.TrimPrefix(stub.URL(), "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprintf(conn, "POST /charge/a HTTP/1.1\r\nHost: stub\r\n\r\n")
	got, err := io.ReadAll(conn)
	if !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("the connection ended with %v, want a reset", err)
	}
	if text := string(got); text != "" && (!strings.HasPrefix(text, "HTTP/1.1 200 OK\r\n") || !strings.HasSuffix(text, slow[:len(slow)/2])) {
		t.Errorf("got %q before it", text) // nothing at all, where the reset overtook it
	}
	until(t, "the call is over", func() bool { return stub.Summary().InFlight == 0 })
	wantOutcomes(t, stub, map[string]int{"reset": 1})
}

func TestADripIsFeltByteByByte(t *testing.T) {
	stub := start(t, `{"phases": [{"name": "p", "faults": [{"do": "drip", "over": "1h"}]}]}`)
	ctx, giveUp := context.WithCancel(context.Background())
	defer giveUp()
	req, _ := http.NewRequestWithContext(ctx, "GET", stub.URL()+"/a", nil)
	resp, err := client(t).Do(req)
	if err != nil || resp.StatusCode != 200 {
		t.Fatalf("the head of the answer has to come at once: %v", err)
	}
	defer resp.Body.Close()
	giveUp()
	if body, err := io.ReadAll(resp.Body); err == nil || len(body) > 1 {
		t.Errorf("an answer that takes an hour came with %q, %v", body, err)
	}
	until(t, "the call is over", func() bool { return stub.Summary().InFlight == 0 })
	wantOutcomes(t, stub, map[string]int{"drip": 1})
}

func TestARefusingPhaseRefusesForReal(t *testing.T) {
	stub := start(t, `{"phases": [
		{"name": "well", "for": "1h"}, {"name": "gone", "for": "1h", "faults": [{"do": "refuse"}]}, {"name": "slow", "latency": "1h"}]}`)
	c := client(t)
	if err := call(t.Context(), c, stub, "before", 1); err != nil {
		t.Fatal(err)
	}
	for round := range 20 {
		switchTo(t, stub, "gone")
		if err := call(t.Context(), c, stub, "during", 1); err == nil {
			t.Fatalf("round %d: a call on an open connection was answered", round)
		}
		if err := call(t.Context(), c, stub, "during", 1); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Fatalf("round %d: the call after that got %v, want a refused connection", round, err)
		}
		if _, err := net.Dial("tcp", strings.TrimPrefix(stub.URL(), "http://")); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Fatalf("round %d: a new connection got %v, want it refused", round, err)
		}
		switchTo(t, stub, "well")
		if err := call(t.Context(), c, stub, "after", 1); err != nil {
			t.Fatalf("round %d: the port is open again, and yet %v", round, err)
		}
	}

	switchTo(t, stub, "slow")
	answered := make(chan error, 1)
	go func() { answered <- call(t.Context(), c, stub, "cut", 1) }()
	until(t, "the call is in", func() bool { return stub.Summary().InFlight == 1 })
	switchTo(t, stub, "gone")
	if err := <-answered; err == nil {
		t.Error("a call that ran was not cut")
	}
	until(t, "the call is over", func() bool { return stub.Summary().InFlight == 0 })
	wantOutcomes(t, stub, map[string]int{"ok": 21, Gone: 1})
}

// Whoever hears of the turn to a phase that refuses, or away from it, finds the port closed: no call is answered on the wrong side of a turn.
func TestThePortIsClosedWhenAClosedPhaseBeginsAndEnds(t *testing.T) {
	stub := start(t, `{"phases": [{"name": "well", "for": "1h"}, {"name": "gone", "faults": [{"do": "refuse"}]}]}`)
	turns := 0
	defer stub.OnTurn(func(s Span) {
		if turns++; turns == 1 {
			return // it runs already
		}
		if _, err := net.Dial("tcp", strings.TrimPrefix(stub.URL(), "http://")); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("at the turn to %v a connection got %v", s, err)
		}
	})()
	switchTo(t, stub, "gone")
	switchTo(t, stub, "well")
	if turns != 3 {
		t.Errorf("%d turns", turns)
	}
}

func TestAScenarioMayBeginClosed(t *testing.T) {
	stub := start(t, `{"phases": [{"name": "gone", "for": "50ms", "faults": [{"do": "refuse"}]}, {"name": "well"}]}`)
	c := client(t)
	until(t, "the port is open", func() bool { return call(t.Context(), c, stub, "a", 1) == nil })
	r := stub.Report()
	if r.Spans[0].Calls != 0 || r.Spans[1].Begin < 50*time.Millisecond || r.Log[0].At < r.Spans[1].Begin {
		t.Errorf("a call came through at %v, spans %+v", r.Log[0].At, r.Spans)
	}
}

func TestAPortThatIsLostEndsTheStubAndIsSaid(t *testing.T) {
	stub := start(t, `{"phases": [{"name": "gone", "for": "1h", "faults": [{"do": "refuse"}]}, {"name": "well"}]}`)
	thief, err := net.Listen("tcp", strings.TrimPrefix(stub.URL(), "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer thief.Close()
	for _, err := range []error{stub.SetPhase("well"), stub.Err(), stub.Close()} {
		if !errors.Is(err, syscall.EADDRINUSE) {
			t.Errorf("got %v, want it to say that the address is in use", err)
		}
	}
	<-stub.Done()
}

func TestTheScheduleTurnsAndEachTurnIsSaid(t *testing.T) {
	stub := start(t, `{"loop": true, "phases": [
		{"name": "a", "for": "40ms"},
		{"name": "b", "for": "80ms", "faults": [{"do": 503}], "flapping": {"down": "20ms", "up": "20ms"}}]}`)
	spans := make(chan Span, 1000)
	stop := stub.OnTurn(func(s Span) { spans <- s })
	heard := []Span{<-spans}
	for len(heard) < 20 {
		heard = append(heard, <-spans)
	}
	stop()
	report := stub.Report()
	first := slices.IndexFunc(report.Spans, func(s Span) bool { return s.Begin == heard[0].Begin })
	for i, h := range heard {
		s := report.Spans[first+i]
		if s.End, s.Calls, h.Calls = 0, 0, 0; s != h {
			t.Errorf("span %d was said to be %+v, and is reported as %+v", i, h, s)
		}
	}
	for i, s := range report.Spans {
		if i > 0 && s.Begin != report.Spans[i-1].End {
			t.Errorf("span %d begins at %v, the one before ends at %v", i, s.Begin, report.Spans[i-1].End)
		}
		// A machine under load may sleep over a turn, but never takes one before its time.
		into := s.Begin - time.Duration(s.Round)*120*time.Millisecond
		if s.Phase == "b" && into < 40*time.Millisecond || s.Phase == "b" && !s.Down && into < 60*time.Millisecond || into < 0 {
			t.Errorf("span %d came too early: %+v", i, s)
		}
		if s.Phase == "a" && s.Down {
			t.Errorf("span %d has no faults: %+v", i, s)
		}
	}
}

func TestAPhaseThatIsSwitchedToByHandStays(t *testing.T) {
	stub := start(t, `{"loop": true, "phases": [{"name": "a", "for": "10ms"}, {"name": "b", "for": "10ms", "faults": [{"do": 503}], "flapping": {"down": "10ms", "up": "10ms"}}, {"name": "c", "for": "10ms"}]}`)
	spans := make(chan Span, 10_000)
	stub.OnTurn(func(s Span) {
		select {
		case spans <- s:
		default:
		}
	})
	next := func(want func(Span) bool) {
		t.Helper()
		deadline := time.After(10 * time.Second)
		for {
			select {
			case s := <-spans:
				if want(s) {
					return
				}
			case <-deadline:
				t.Fatal("no such span in 10 s")
			}
		}
	}
	switchTo(t, stub, "b")
	next(func(s Span) bool { return s.Phase == "b" && s.ByHand })
	for range 5 { // far longer than the schedule would stay
		for _, down := range []bool{false, true} {
			s := <-spans
			if s.Phase != "b" || !s.ByHand || s.Down != down {
				t.Fatalf("after the switch to b came %+v", s)
			}
		}
	}
	if err := stub.Restart(); err != nil {
		t.Fatal(err)
	}
	next(func(s Span) bool { return s.Phase == "a" && !s.ByHand && s.Round == 0 })
	next(func(s Span) bool { return s.Phase == "c" })
	if err := stub.SetPhase("d"); err == nil || !strings.Contains(err.Error(), `there is "a", "b", "c"`) {
		t.Errorf("got %v", err)
	}
}

// The same calls meet the same faults over HTTP too, however they interleave, whether the caller counts the attempts or leaves that to the stub.
func TestSameSeedSameFaultsOverHTTP(t *testing.T) {
	const file = `{"seed": 3, "poison": [{"share": 0.1, "do": 422}], "phases": [{"name": "p", "faults": [{"do": 503, "share": 0.3}, {"do": 429, "share": 0.2}]}]}`
	outcomes := func(counted bool) map[string]string {
		stub := start(t, file)
		var all sync.WaitGroup
		for worker := range 4 {
			all.Go(func() {
				c := client(t)
				for _, i := range rand.Perm(15) {
					record := fmt.Sprintf("orders/%d/%d", worker, i)
					for attempt := range 4 {
						if counted {
							attempt = -1
						}
						if err := call(t.Context(), c, stub, record, attempt+1); err != nil {
							t.Error(err)
						}
					}
				}
			})
		}
		all.Wait()
		seen := map[string]string{}
		for _, c := range stub.Report().Log {
			seen[fmt.Sprintf("%s attempt %d", c.Record, c.Attempt)] = c.Outcome
		}
		return seen
	}
	first := outcomes(false)
	if len(first) != 240 {
		t.Fatalf("%d different calls, want 240", len(first))
	}
	if again := outcomes(false); !maps.Equal(first, again) {
		t.Error("the same calls met other faults")
	}
	if counted := outcomes(true); !maps.Equal(first, counted) {
		t.Error("the same calls met other faults where the stub counted the attempts")
	}
}

// Under load, with the schedule turning and the port closing, every call stands in the book once, in the span in which it arrived, and all the
// sums agree.
func TestTheBookAddsUp(t *testing.T) {
	stub := start(t, `{"loop": true, "poison": [{"share": 0.1, "do": "die"}], "phases": [
		{"name": "well", "for": "30ms", "latency": {"exponential": "1ms"}},
		{"name": "flapping", "for": "60ms", "faults": [{"do": 503, "share": 0.5}, {"do": "reset", "share": 0.1}], "flapping": {"down": "15ms", "up": "15ms"}},
		{"name": "gone", "for": "20ms", "faults": [{"do": "refuse"}]}]}`)
	var workers sync.WaitGroup
	var oks atomic.Int64
	var enough atomic.Bool
	for worker := range 4 {
		workers.Go(func() {
			c := client(t)
			for i := 0; !enough.Load(); i++ {
				if status, err := status(t.Context(), c, stub, fmt.Sprintf("%d/%d", worker, i), 1); err == nil && status == 200 {
					oks.Add(1)
				}
			}
		})
	}
	until(t, "there have been ten spans, with bad answers among them", func() bool {
		r := stub.Summary()
		return len(r.Spans) >= 10 && r.Phases[1].Outcomes["503"] > 0
	})
	enough.Store(true)
	workers.Wait()
	if err := stub.Close(); err != nil {
		t.Fatal(err)
	}
	r := stub.Report()
	bySpan, byPhase := make([]int, len(r.Spans)), map[string]map[string]int{}
	for _, p := range r.Phases {
		byPhase[p.Phase] = map[string]int{}
	}
	span := 0
	for i, c := range r.Log {
		if i > 0 && c.At < r.Log[i-1].At {
			t.Fatalf("call %d is out of order", i)
		}
		for r.Spans[span].End <= c.At && span < len(r.Spans)-1 {
			span++
		}
		if r.Spans[span].Phase != c.Phase {
			t.Fatalf("call %+v stands in another phase than the span of its time, %+v", c, r.Spans[span])
		}
		bySpan[span]++
		byPhase[c.Phase][c.Outcome]++
		if up := c.Phase == "flapping" && !r.Spans[span].Down; (c.Phase == "well" || up) && (c.Outcome == "503" || c.Outcome == "reset") {
			t.Errorf("all was well, and yet %+v", c)
		}
	}
	for i, s := range r.Spans {
		if s.Calls != bySpan[i] {
			t.Errorf("span %d counts %d calls, the log has %d", i, s.Calls, bySpan[i])
		}
	}
	var lasted time.Duration
	for _, p := range r.Phases {
		lasted += p.Lasted
		if !maps.Equal(p.Outcomes, byPhase[p.Phase]) {
			t.Errorf("phase %q counts %v, the log has %v", p.Phase, p.Outcomes, byPhase[p.Phase])
		}
	}
	first := r.Spans[0].Begin
	if r.Calls != len(r.Log) || r.InFlight != 0 || r.Elapsed != lasted+first {
		t.Errorf("%d calls, %d in the log, %d in flight; %v, phases lasted %v", r.Calls, len(r.Log), r.InFlight, r.Elapsed, lasted+first)
	}
	if booked := byPhase["well"]["ok"] + byPhase["flapping"]["ok"]; booked < int(oks.Load()) {
		t.Errorf("callers saw %d good answers, the book has %d", oks.Load(), booked)
	}
}

func TestWhoACallIsAbout(t *testing.T) {
	cases := []struct {
		method, target string
		header         http.Header
		record         string
		attempt        int
	}{
		{"POST", "/charge/orders/0/17?attempt=3", nil, "orders/0/17", 3},
		{"GET", "/orders/0/17", nil, "orders/0/17", 0},
		{"PUT", "/v1//users/7%20b", nil, "v1//users/7 b", 0},
		{"POST", "/", nil, "", 0},
		{"POST", "/pay?attempt=2", http.Header{"X-Record": {"orders/1/2"}, "X-Attempt": {"5"}}, "orders/1/2", 5},
	}
	for _, c := range cases {
		r, _ := http.NewRequest(c.method, c.target, nil)
		maps.Copy(r.Header, c.header)
		if record, attempt, err := identify(r); record != c.record || attempt != c.attempt || err != nil || isControl(r) {
			t.Errorf("%s %s is %q, attempt %d, %v", c.method, c.target, record, attempt, err)
		}
	}
	for _, attempt := range []string{"0", "-1", "first", "1.5"} {
		r, _ := http.NewRequest("GET", "/a?attempt="+attempt, nil)
		if _, _, err := identify(r); err == nil || !strings.Contains(err.Error(), "send a whole number from 1") {
			t.Errorf("attempt %s: got %v", attempt, err)
		}
	}
	stub := start(t, `{"phases": [{"name": "p"}]}`)
	if code, _ := ask(t, "GET", stub.URL()+"/a?attempt=x"); code != 400 || stub.Summary().Calls != 0 {
		t.Errorf("a bad attempt got %d and counted %d calls", code, stub.Summary().Calls)
	}
}

func TestControl(t *testing.T) {
	stub := start(t, `{"phases": [{"name": "well", "for": "1h"}, {"name": "all down", "for": "1h", "faults": [{"do": 503}]}, {"name": "gone", "faults": [{"do": "refuse"}]}]}`)
	steps := []struct {
		method, path string
		status       int
		says         string
	}{
		{"GET", "/", 200, `phase "well" from 0s on, 0 calls`},
		{"GET", "/", 200, "all down for 1h0m0s: 503 for all"},
		{"POST", "/_stub/phase?name=all+down", 200, `phase "all down" from 0s on, with faults, switched by hand, 0 calls`},
		{"POST", "/charge/orders/0/1", 503, "503"},
		{"GET", "/", 200, "503 1"},
		{"POST", "/_stub/phase?name=gone", 409, "-control"},
		{"POST", "/_stub/phase?name=up", 400, `there is "well", "all down", "gone"`},
		{"GET", "/_stub/phase?name=well", 405, "it is POST /_stub/phase"},
		{"GET", "/_stub/start", 405, "it is POST /_stub/start"},
		{"POST", "/_stub/report", 405, "it is GET /_stub/report"},
		{"HEAD", "/_stub/report", 200, ""},
		{"GET", "/_stub/report?log=no", 400, `log="no" is unknown; write log=0 for the report without a line for each call, log=1 or nothing for all of it`},
		{"GET", "/_stub/report?log=", 400, "write log=0"},
		{"GET", "/_stub/report?log=1", 200, `"log":[`},
		{"GET", "/_stub/nothing", 404, "GET /_stub/report"},
		{"POST", "/_stub/start", 200, `phase "well"`},
		{"GET", "/charge/orders/0/1", 200, "ok"},
	}
	for _, s := range steps {
		status, body := ask(t, s.method, stub.URL()+s.path)
		body = regexp.MustCompile(`from \S+ on`).ReplaceAllString(body, "from 0s on")
		if status != s.status || !strings.Contains(body, s.says) {
			t.Errorf("%s %s: got %d %s; want %d with %q", s.method, s.path, status, body, s.status, s.says)
		}
	}

	var read Report
	_, body := ask(t, "GET", stub.URL()+"/_stub/report")
	if err := json.Unmarshal([]byte(body), &read); err != nil {
		t.Fatal(err)
	}
	want := stub.Report()
	read.Elapsed, read.Started = want.Elapsed, want.Started
	for i := range want.Phases {
		read.Phases[i].Lasted = want.Phases[i].Lasted
	}
	if !reflect.DeepEqual(read, want) || len(read.Log) != 2 {
		t.Errorf("the report came as\n%+v\nand is\n%+v", read, want)
	}
	if _, body := ask(t, "GET", stub.URL()+"/_stub/report?log=0"); strings.Contains(body, `"log"`) {
		t.Errorf("log=0 has the log: %s", body)
	}
}

func TestAWrongMethodIsToldTheRightOne(t *testing.T) {
	control := start(t, `{"phases": [{"name": "p"}]}`).Control()
	for _, c := range []struct{ method, path, allow string }{
		{"GET", "/_stub/start", "POST"}, {"GET", "/_stub/phase", "POST"}, {"HEAD", "/_stub/phase", "POST"},
		{"POST", "/_stub/report", "GET, HEAD"}, {"DELETE", "/", "GET, HEAD"},
	} {
		w := httptest.NewRecorder()
		control.ServeHTTP(w, httptest.NewRequest(c.method, c.path, nil))
		if w.Code != http.StatusMethodNotAllowed || w.Header().Get("Allow") != c.allow {
			t.Errorf("%s %s: %d, Allow %q; want 405 with %q", c.method, c.path, w.Code, w.Header().Get("Allow"), c.allow)
		}
	}
}

func TestControlAtAnotherAddressGoesOnWhileThePortIsClosed(t *testing.T) {
	stub := start(t, `{"phases": [{"name": "well", "for": "1h"}, {"name": "gone", "faults": [{"do": "refuse"}]}]}`)
	control := stub.Control()
	tell := func(method, path string) string {
		w := &recorder{header: http.Header{}}
		r, _ := http.NewRequest(method, path, nil)
		control.ServeHTTP(w, r)
		return w.String()
	}
	if got := tell("POST", "/_stub/phase?name=gone"); !strings.Contains(got, `phase "gone"`) {
		t.Errorf("got %s", got)
	}
	if err := call(t.Context(), client(t), stub, "a", 1); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("got %v", err)
	}
	if got := tell("GET", "/_stub/report"); !strings.Contains(got, `"phase":"gone"`) {
		t.Errorf("got %s", got)
	}
	tell("POST", "/_stub/phase?name=well")
	if err := call(t.Context(), client(t), stub, "a", 1); err != nil {
		t.Errorf("got %v", err)
	}
	if got := tell("POST", "/charge/a"); !strings.Contains(got, "there is GET /") {
		t.Errorf("the control address took a call: %s", got)
	}
}

// net/http doesn't notice that the caller has gone where he had already sent his next request.
func TestCloseEndsACallWhoseCallerHasSentTheNext(t *testing.T) {
	stub := start(t, `{"phases": [{"name": "p", "faults": [{"do": "hang"}]}]}`)
	conn, err := net.Dial("tcp", strings.TrimPrefix(stub.URL(), "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	const request = "GET /a HTTP/1.1\r\nHost: stub\r\n\r\n"
	fmt.Fprint(conn, request)
	until(t, "the call is in", func() bool { return stub.Summary().InFlight == 1 })
	fmt.Fprint(conn, request)
	for range 10 { // by then net/http has seen it
		ask(t, "GET", stub.URL()+"/")
	}
	closed := make(chan struct{})
	go func() { stub.Close(); close(closed) }()
	select {
	case <-closed:
	case <-time.After(10 * time.Second):
		t.Fatal("the stub does not end")
	}
}

func TestACallThatIsCutGetsNoAnswer(t *testing.T) {
	for _, phase := range []string{`"faults": [{"do": "hang"}]`, `"latency": "1h"`, `"faults": [{"do": "drip", "over": "1h"}]`, `"faults": [{"do": "refuse"}]`} {
		s := &Server{scenario: scenario.MustParse(`{"phases": [{"name": "p", ` + phase + `}]}`)}
		s.book = newBook(s.scenario)
		s.book.turn(scenario.Moment{Down: true}, false)
		ctx, cut := context.WithCancel(context.Background())
		cut()
		r, _ := http.NewRequestWithContext(ctx, "GET", "/a", http.NoBody)
		func() {
			defer func() {
				if got := recover(); got != http.ErrAbortHandler {
					t.Errorf("%s: the handler ended with %v, and net/http answers 200 then", phase, got)
				}
			}()
			s.ServeHTTP(&recorder{header: http.Header{}}, r)
		}()
		if r := s.Summary(); r.Calls != 1 || r.InFlight != 0 {
			t.Errorf("%s: %v", phase, r)
		}
	}
}

func TestTheBookIsClosedWhenTheLastCallHasLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBook(scenario.MustParse(`{"phases": [{"name": "p"}]}`))
		b.turn(scenario.Moment{}, false)
		first, _ := b.arrive("a", 1)
		second, _ := b.arrive("b", 1)
		closed := false
		go func() { b.close(); closed = true }()
		for _, v := range []visit{first, second} {
			synctest.Wait()
			if closed {
				t.Fatal("it was closed while a call was in it")
			}
			if _, open := b.arrive("c", 1); open {
				t.Error("it let a call in while it was closing")
			}
			b.leave(v, "ok")
		}
		synctest.Wait()
		if !closed {
			t.Error("it was not closed when the last call had left")
		}
	})
}

func TestCloseEndsRunningCallsAndIsSaidTwice(t *testing.T) {
	stub := start(t, `{"phases": [{"name": "p", "faults": [{"do": "hang"}]}]}`)
	answered := make(chan error, 3)
	for i := range 3 {
		go func() { answered <- call(t.Context(), client(t), stub, fmt.Sprint(i), 1) }()
	}
	until(t, "the calls are in", func() bool { return stub.Summary().InFlight == 3 })
	for range 2 {
		if err := stub.Close(); err != nil {
			t.Error(err)
		}
	}
	for range 3 {
		if err := <-answered; err == nil {
			t.Error("a call was answered")
		}
	}
	first, again := stub.Report(), stub.Report()
	if !reflect.DeepEqual(first, again) || first.InFlight != 0 || first.Phases[0].Outcomes["hang"] != 3 || first.Spans[0].End != first.Elapsed {
		t.Errorf("after Close the report is %+v, then %+v", first, again)
	}
	if err := stub.SetPhase("p"); err == nil || !strings.Contains(err.Error(), "start another one") {
		t.Errorf("got %v", err)
	}
	stub.OnTurn(func(s Span) { t.Errorf("a closed stub said %v", s) })()
}

func TestAnAddressThatCantBeHadIsSaid(t *testing.T) {
	stub := start(t, `{"phases": [{"name": "p"}]}`)
	if _, err := Start(stub.scenario, strings.TrimPrefix(stub.URL(), "http://")); !errors.Is(err, syscall.EADDRINUSE) || !strings.Contains(err.Error(), "give an address") {
		t.Errorf("got %v", err)
	}
}

func TestTheURLOfEveryAddressIsOneThatCanBeCalled(t *testing.T) {
	for _, addr := range []string{"127.0.0.1:0", "localhost:0", ":0", "0.0.0.0:0"} {
		s, err := Start(scenario.MustParse(`{"phases": [{"name": "gone", "for": "1h", "faults": [{"do": "refuse"}]}, {"name": "well"}]}`), addr)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { s.Close() })
		switchTo(t, s, "well")
		if err := call(t.Context(), client(t), s, "a", 1); err != nil {
			t.Errorf("%s: %v", addr, err)
		}
	}
}

func TestTheBookIsBounded(t *testing.T) {
	w := window[int]{limit: 2 * chunk}
	var first *int
	for i := range 10 * chunk {
		p := w.add(i)
		if first == nil {
			first = p
		}
	}
	all := w.all()
	if len(all) < w.limit || len(all) > w.limit+chunk || w.dropped+len(all) != 10*chunk || all[0] != w.dropped || all[len(all)-1] != 10*chunk-1 {
		t.Errorf("%d kept, from %d to %d, %d dropped", len(all), all[0], all[len(all)-1], w.dropped)
	}
	if *first != 0 {
		t.Errorf("a forgotten entry became %d", *first)
	}

	b := newBook(scenario.MustParse(`{"phases": [{"name": "p"}]}`))
	b.log.limit = chunk
	b.turn(scenario.Moment{}, false)
	for i := range 5 * chunk {
		v, _ := b.arrive(fmt.Sprint(i), 1)
		b.leave(v, "ok")
	}
	if r := b.report(true); r.Calls != 5*chunk || r.LogDropped+len(r.Log) != r.Calls || r.Phases[0].Outcomes["ok"] != r.Calls {
		t.Errorf("%d calls, %d in the log, %d dropped, outcomes %v", r.Calls, len(r.Log), r.LogDropped, r.Phases[0].Outcomes)
	}
}

func TestTheReportIsReadable(t *testing.T) {
	r := Report{
		Scenario: "outage.json", Seed: 7, Elapsed: 32*time.Second + 123*time.Millisecond, Calls: 117, InFlight: 1,
		Phases: []PhaseReport{
			{Phase: "well", Lasted: 5 * time.Second, Calls: 100, Outcomes: map[string]int{"ok": 100}},
			{Phase: "down", Lasted: 20 * time.Second, Calls: 17, Outcomes: map[string]int{"hang": 3, "503": 14}},
			{Phase: "well again", Lasted: 7123 * time.Millisecond},
		},
	}
	want := `outage.json, seed 7: 117 calls in 32.1s, 1 of them still running
  phase        lasted   calls   outcomes
  well         5s       100     ok 100
  down         20s      17      503 14, hang 3
  well again   7.123s   0       -
`
	if got := r.String(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// BenchmarkCall is calls over real connections, eight at a time.
func BenchmarkCall(b *testing.B) {
	stub, err := Start(scenario.MustParse(`{"phases": [{"name": "p", "faults": [{"do": 503, "share": 0.1}]}]}`), "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	defer stub.Close()
	transport := &http.Transport{MaxIdleConnsPerHost: 8}
	defer transport.CloseIdleConnections()
	c := &http.Client{Transport: transport}
	b.SetParallelism(4)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if _, err := status(b.Context(), c, stub, "orders/0/17", 1); err != nil {
				b.Error(err)
			}
		}
	})
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "calls/s")
}

// BenchmarkServeHTTP is the stub's own share of a call, without net/http's.
func BenchmarkServeHTTP(b *testing.B) {
	s := &Server{scenario: scenario.MustParse(`{"phases": [{"name": "p", "faults": [{"do": "hang", "share": 0.000001}]}]}`)}
	s.book = newBook(s.scenario)
	s.book.turn(scenario.Moment{Down: true}, false)
	r, _ := http.NewRequest("POST", "/charge/orders/0/17?attempt=1", http.NoBody)
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		w := &recorder{header: http.Header{}}
		for pb.Next() {
			s.ServeHTTP(w, r)
			w.Reset()
		}
	})
}

// start plays a scenario until the test ends.
func start(t *testing.T, json string) *Server {
	t.Helper()
	stub, err := Start(scenario.MustParse(json), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stub.Close() })
	return stub
}

func switchTo(t *testing.T, stub *Server, phase string) {
	t.Helper()
	if err := stub.SetPhase(phase); err != nil {
		t.Fatal(err)
	}
}

// client is a client with connections of its own, which it closes when the test ends.
func client(t *testing.T) *http.Client {
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, Timeout: 10 * time.Second}
}

func call(ctx context.Context, c *http.Client, stub *Server, record string, attempt int) error {
	_, err := status(ctx, c, stub, record, attempt)
	return err
}

// status makes one call; attempt 0 leaves the counting to the stub.
func status(ctx context.Context, c *http.Client, stub *Server, record string, attempt int) (int, error) {
	url := stub.URL() + "/charge/" + record
	if attempt > 0 {
		url += fmt.Sprintf("?attempt=%d", attempt)
	}
	req, err := http.NewRequestWithContext(ctx, "POST", url, strings.NewReader("a body"))
	if err != nil {
		return 0, err
	}
	resp, err := c.Do(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	_, err = io.Copy(io.Discard, resp.Body)
	return resp.StatusCode, err
}

func ask(t *testing.T, method, url string) (int, string) {
	t.Helper()
	req, err := http.NewRequest(method, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := client(t).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(body)
}

func wantOutcomes(t *testing.T, stub *Server, want map[string]int) {
	t.Helper()
	got := map[string]int{}
	for _, p := range stub.Summary().Phases {
		for outcome, n := range p.Outcomes {
			got[outcome] += n
		}
	}
	if !maps.Equal(got, want) {
		t.Errorf("the outcomes are %v, want %v", got, want)
	}
}

// until waits for a condition.
func until(t *testing.T, what string, holds func() bool) {
	t.Helper()
	deadline := time.Now().Add(10 * time.Second)
	for !holds() {
		if time.Now().After(deadline) {
			t.Fatalf("10 s have passed, and it is still not so that %s", what)
		}
		<-time.After(time.Millisecond)
	}
}

// recorder is an http.ResponseWriter that keeps the body.
type recorder struct {
	strings.Builder
	header http.Header
}

func (r *recorder) Header() http.Header { return r.header }
func (r *recorder) WriteHeader(int)     {}
