package failure_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/breakwater-go/breakwater/failure"
)

// What other libraries' errors look like from here.

type pgError struct{ state string }

func (e *pgError) Error() string    { return "ERROR (SQLSTATE " + e.state + ")" }
func (e *pgError) SQLState() string { return e.state }

type statusCoder int

func (e statusCoder) Error() string   { return "status " + strconv.Itoa(int(e)) }
func (e statusCoder) StatusCode() int { return int(e) }

type awsError struct{ error }

func (awsError) HTTPStatusCode() int { return 503 }

type echoError struct{ error }

func (echoError) HTTPStatus() int { return 404 }

type generatedError struct{ error }

func (generatedError) GetStatusCode() int { return 422 }

type azureError struct{ StatusCode int }

func (e *azureError) Error() string { return "azure" }

type grpcCode uint32

type grpcStatus struct{ code grpcCode }

func (s *grpcStatus) Code() grpcCode { return s.code }

type grpcError struct{ s *grpcStatus }

func (e *grpcError) Error() string           { return "rpc error" }
func (e *grpcError) GRPCStatus() *grpcStatus { return e.s }

type oddGRPCError struct{}

func (oddGRPCError) Error() string         { return "odd" }
func (oddGRPCError) GRPCStatus(int) string { return "" }

type limitError struct{ kind failure.Kind }

func (e *limitError) Error() string             { return "over the limit" }
func (e *limitError) FailureKind() failure.Kind { return e.kind }

type brokenError struct{ inner *pgError }

func (e *brokenError) Error() string    { return "broken" }
func (e *brokenError) SQLState() string { return e.inner.state }

func grpc(code grpcCode) error { return &grpcError{&grpcStatus{code}} }

func jsonError(text string, into any) error { return json.Unmarshal([]byte(text), into) }

func numberError() error {
	_, err := strconv.Atoi("seven")
	return err
}

func timeError() error {
	_, err := time.Parse(time.RFC3339, "yesterday")
	return err
}

func TestClassify(t *testing.T) {
	const transient, permanent = failure.KindTransient, failure.KindPermanent
	var number int

	for _, c := range []struct {
		name  string
		err   error
		kind  failure.Kind
		class string
	}{
		{"unknown", errors.New("?"), transient, "error"},
		{"unknown, wrapped", fmt.Errorf("charge: %w", errors.New("?")), transient, "error"},
		{"unknown type", fmt.Errorf("charge: %w", &os.LinkError{Err: errors.New("?")}), transient, "*os.LinkError"},

		{"marked permanent", failure.Permanent(errors.New("?")), permanent, "error"},
		{"marked permanent, known as transient", failure.Permanent(io.ErrUnexpectedEOF), permanent, "unexpected eof"},
		{"marked transient, known as permanent", failure.Transient(numberError()), transient, "number"},
		{"marked, then wrapped", fmt.Errorf("charge: %w", failure.Permanent(errors.New("?"))), permanent, "error"},
		{"marked twice: the outer one", failure.Transient(fmt.Errorf("no: %w", failure.Permanent(io.EOF))), transient, "unexpected eof"},
		{"joined: the first", errors.Join(failure.Permanent(io.EOF), failure.Transient(io.EOF)), permanent, "unexpected eof"},
		{"marked inside a known one", &url.Error{Op: "Get", Err: failure.Permanent(context.DeadlineExceeded)}, permanent, "timeout"},
		{"speaks for itself, permanent", &limitError{permanent}, permanent, "*failure_test.limitError"},
		{"speaks for itself, transient", &limitError{transient}, transient, "*failure_test.limitError"},
		{"speaks nonsense", &limitError{7}, transient, "*failure_test.limitError"},

		{"panic", failure.Recovered("boom"), permanent, "panic"},
		{"panic with a transient error", failure.Recovered(failure.Transient(io.EOF)), permanent, "panic"},
		{"panic marked transient", failure.Transient(failure.Recovered("boom")), transient, "panic"},

		{"canceled", fmt.Errorf("charge: %w", context.Canceled), transient, "canceled"},
		{"deadline", context.DeadlineExceeded, transient, "timeout"},
		{"os deadline", os.ErrDeadlineExceeded, transient, "timeout"},
		{"net timeout", &net.OpError{Op: "read", Err: os.ErrDeadlineExceeded}, transient, "timeout"},
		{"connection timed out", &net.OpError{Op: "dial", Err: os.NewSyscallError("connect", syscall.ETIMEDOUT)}, transient, "timeout"},

		{"refused", &url.Error{Op: "Get", Err: &net.OpError{Op: "dial", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}}, transient, "connection refused"},
		{"reset", &net.OpError{Op: "read", Err: os.NewSyscallError("read", syscall.ECONNRESET)}, transient, "connection reset"},
		{"broken pipe", &net.OpError{Op: "write", Err: os.NewSyscallError("write", syscall.EPIPE)}, transient, "connection reset"},
		{"closed by us", &net.OpError{Op: "read", Err: net.ErrClosed}, transient, "connection reset"},
		{"no route", &net.OpError{Op: "dial", Err: os.NewSyscallError("connect", syscall.EHOSTUNREACH)}, transient, "unreachable"},
		{"cut in the middle", fmt.Errorf("read body: %w", io.ErrUnexpectedEOF), transient, "unexpected eof"},
		{"no such host", &net.OpError{Op: "dial", Err: &net.DNSError{IsNotFound: true}}, transient, "dns"},
		{"DNS timeout", &net.OpError{Op: "dial", Err: &net.DNSError{IsTimeout: true}}, transient, "timeout"},

		{"400", statusCoder(400), permanent, "http 400"},
		{"401", statusCoder(401), transient, "http 401"},
		{"403", statusCoder(403), permanent, "http 403"},
		{"407", statusCoder(407), transient, "http 407"},
		{"404", fmt.Errorf("charge: %w", statusCoder(404)), permanent, "http 404"},
		{"408, a timeout", statusCoder(408), transient, "http 408"},
		{"425, too early", statusCoder(425), transient, "http 425"},
		{"429", statusCoder(429), transient, "http 429"},
		{"499", statusCoder(499), permanent, "http 499"},
		{"500", statusCoder(500), transient, "http 500"},
		{"599", statusCoder(599), transient, "http 599"},
		{"200 is no failure", statusCoder(200), transient, "failure_test.statusCoder"},
		{"600 is no HTTP status", statusCoder(600), transient, "failure_test.statusCoder"},
		{"HTTPStatusCode", awsError{errors.New("?")}, transient, "http 503"},
		{"HTTPStatus", echoError{errors.New("?")}, permanent, "http 404"},
		{"GetStatusCode", generatedError{errors.New("?")}, permanent, "http 422"},
		{"field StatusCode", &azureError{409}, permanent, "http 409"},
		{"field StatusCode of nil", (*azureError)(nil), transient, "*failure_test.azureError"},

		{"data exception", &pgError{"22001"}, permanent, "sqlstate 22001"},
		{"bad UTF-8 in SQL", &pgError{"22021"}, permanent, "sqlstate 22021"},
		{"unique violation", fmt.Errorf("insert: %w", &pgError{"23505"}), permanent, "sqlstate 23505"},
		{"missing foreign key", &pgError{"23503"}, transient, "sqlstate 23503"},
		{"serialization", &pgError{"40001"}, transient, "sqlstate 40001"},
		{"deadlock", &pgError{"40P01"}, transient, "sqlstate 40P01"},
		{"connection lost", &pgError{"08006"}, transient, "sqlstate 08006"},
		{"undefined table", &pgError{"42P01"}, transient, "sqlstate 42P01"},
		{"no SQLSTATE", &pgError{""}, transient, "*failure_test.pgError"},

		{"gRPC OK is no failure", grpc(0), transient, "*failure_test.grpcError"},
		{"gRPC Canceled", grpc(1), transient, "grpc canceled"},
		{"gRPC Unknown", grpc(2), transient, "grpc unknown"},
		{"gRPC InvalidArgument", grpc(3), permanent, "grpc invalid_argument"},
		{"gRPC DeadlineExceeded", grpc(4), transient, "grpc deadline_exceeded"},
		{"gRPC NotFound", grpc(5), permanent, "grpc not_found"},
		{"gRPC AlreadyExists", grpc(6), permanent, "grpc already_exists"},
		{"gRPC PermissionDenied", grpc(7), permanent, "grpc permission_denied"},
		{"gRPC ResourceExhausted", grpc(8), transient, "grpc resource_exhausted"},
		{"gRPC FailedPrecondition", grpc(9), permanent, "grpc failed_precondition"},
		{"gRPC Aborted", grpc(10), transient, "grpc aborted"},
		{"gRPC OutOfRange", grpc(11), permanent, "grpc out_of_range"},
		{"gRPC Unimplemented", grpc(12), permanent, "grpc unimplemented"},
		{"gRPC Internal", grpc(13), transient, "grpc internal"},
		{"gRPC Unavailable", fmt.Errorf("charge: %w", grpc(14)), transient, "grpc unavailable"},
		{"gRPC DataLoss", grpc(15), permanent, "grpc data_loss"},
		{"gRPC Unauthenticated", grpc(16), transient, "grpc unauthenticated"},
		{"gRPC code from the future", grpc(17), transient, "*failure_test.grpcError"},
		{"a method of the same name", oddGRPCError{}, transient, "failure_test.oddGRPCError"},

		{"bad JSON", fmt.Errorf("decode: %w", jsonError("{", &number)), permanent, "json"},
		{"JSON of another type", jsonError(`"x"`, &number), permanent, "json"},
		{"bad number", numberError(), permanent, "number"},
		{"bad time", timeError(), permanent, "time"},
		{"bad UTF-8", fmt.Errorf("decode: %w", errors.New("string field contains invalid UTF-8")), permanent, "utf-8"},

		{"UTF-8 only in what wraps", fmt.Errorf("not even invalid UTF-8: %w", statusCoder(503)), transient, "http 503"},

		{"outermost known one wins", fmt.Errorf("%w: %w", statusCoder(503), jsonError("<html>", &number)), transient, "http 503"},
		{"joined with nothing known", errors.Join(errors.New("?"), statusCoder(400)), permanent, "http 400"},
		{"its own method panics", &brokenError{}, transient, "*failure_test.brokenError"},
		{"its own method panics, but it is marked", failure.Permanent(&brokenError{}), permanent, "*failure.marked"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := failure.Classify(c.err)
			if want := (failure.Verdict{Kind: c.kind, Class: c.class}); got != want {
				t.Errorf("got %v %+v, want %v %+v", got.Kind, got, want.Kind, want)
			}
		})
	}
}

// TestClassifyTheRealThing holds the rules against errors that the standard library makes, not ones that we made up.
func TestClassifyTheRealThing(t *testing.T) {
	t.Run("refused connection", func(t *testing.T) {
		server := httptest.NewServer(nil)
		server.Close()
		_, err := http.Get(server.URL)
		want(t, err, failure.Verdict{Class: "connection refused"})
	})
	t.Run("client timeout", func(t *testing.T) {
		end := make(chan struct{})
		server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-end }))
		defer server.Close()
		defer close(end)
		_, err := (&http.Client{Timeout: 10 * time.Millisecond}).Get(server.URL)
		want(t, err, failure.Verdict{Class: "timeout"})
	})
	t.Run("body cut in the middle", func(t *testing.T) {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "100")
			_, _ = io.WriteString(w, "half")
		}))
		defer server.Close()
		response, err := http.Get(server.URL)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		_, err = io.ReadAll(response.Body)
		want(t, err, failure.Verdict{Class: "unexpected eof"})
	})
}

func want(t *testing.T, err error, want failure.Verdict) {
	t.Helper()
	if err == nil {
		t.Fatal("no error")
	}
	if got := failure.Classify(err); got != want {
		t.Errorf("%v: got %+v, want %+v", err, got, want)
	}
}

func TestRetryAfterIsTransientAndSaysHowLong(t *testing.T) {
	bad := numberError()
	for _, c := range []struct {
		name  string
		err   error
		kind  failure.Kind
		after time.Duration
	}{
		{"marked", failure.RetryAfter(bad, time.Minute), failure.KindTransient, time.Minute},
		{"wrapped", fmt.Errorf("charge: %w", failure.RetryAfter(bad, time.Minute)), failure.KindTransient, time.Minute},
		{"marked transient outside", failure.Transient(failure.RetryAfter(bad, time.Minute)), failure.KindTransient, time.Minute},
		{"the outer one wins", failure.RetryAfter(failure.RetryAfter(bad, time.Minute), time.Second), failure.KindTransient, time.Second},
		{"permanent outside: no wait", failure.Permanent(failure.RetryAfter(bad, time.Minute)), failure.KindPermanent, 0},
		{"permanent inside", failure.RetryAfter(failure.Permanent(bad), time.Minute), failure.KindTransient, time.Minute},
		{"zero says nothing", failure.RetryAfter(bad, 0), failure.KindTransient, 0},
		{"negative says nothing", failure.RetryAfter(bad, -time.Minute), failure.KindTransient, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			want(t, c.err, failure.Verdict{Kind: c.kind, RetryAfter: c.after, Class: "number"})
		})
	}
}

func TestMarksKeepNilTextAndChain(t *testing.T) {
	for name, mark := range map[string]func(error) error{
		"Permanent":  failure.Permanent,
		"Transient":  failure.Transient,
		"RetryAfter": func(err error) error { return failure.RetryAfter(err, time.Second) },
	} {
		t.Run(name, func(t *testing.T) {
			if err := mark(nil); err != nil {
				t.Errorf("of nil: %v, want nil", err)
			}
			pg := &pgError{"40001"}
			err := mark(fmt.Errorf("insert: %w", pg))
			if want := "insert: " + pg.Error(); err.Error() != want {
				t.Errorf("reads %q, want %q", err, want)
			}
			var found *pgError
			if !errors.As(err, &found) || found != pg || !errors.Is(err, pg) {
				t.Error("does not unwrap")
			}
		})
	}
	if got := failure.Classify(nil); got != (failure.Verdict{}) {
		t.Errorf("Classify(nil) = %+v, want the zero verdict", got)
	}
}

func TestPanicKeepsItsValueAndStack(t *testing.T) {
	catch := func(f func()) (p *failure.Panic) {
		defer func() { p = failure.Recovered(recover()) }()
		f()
		return nil
	}
	p := catch(func() { panicHere(io.EOF) })
	if p.Error() != "panic: EOF" || !errors.Is(p, io.EOF) {
		t.Errorf("%v does not say or wrap its value", p)
	}
	if !strings.Contains(string(p.Stack), "panicHere") {
		t.Errorf("the stack does not say where:\n%s", p.Stack)
	}
	if p := catch(func() { panicHere(42) }); p.Error() != "panic: 42" || errors.Unwrap(p) != nil {
		t.Errorf("%v does not say its value", p)
	}
	if p := catch(func() { panicHere((*brokenError)(nil)) }); p.Error() != "panic: broken" {
		t.Errorf("got %q", p.Error())
	}
}

//go:noinline
func panicHere(v any) { panic(v) }
