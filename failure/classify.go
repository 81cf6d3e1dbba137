// The default classifier. It walks the chain from the outside in, into joined errors too, and the first error that says
// something decides: first those that speak for themselves, then those that a rule knows. No rule, no verdict: transient,
// because waiting loses nothing and the strategy bounds it. No client library is imported; its errors are known by
// their methods.

package failure

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"reflect"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Classify is the default classifier. In this order:
//
//   - A mark (Transient, Permanent, RetryAfter), a Failure and a Panic have said it; the outermost wins.
//   - Cancelled and timed out (context, net, os, or a Timeout method that answers true): transient.
//   - A gRPC status, by GRPCStatus: Canceled, Unknown, DeadlineExceeded, ResourceExhausted, Aborted, Internal,
//     Unavailable and Unauthenticated are transient, the other codes permanent.
//   - A SQLSTATE, by SQLState() string: data exceptions (class 22) and violated constraints (class 23) are permanent;
//     all else is transient, deadlock, serialization and lost connections above all, and so is a missing foreign key
//     (23503), whose parent may be on its way.
//   - An HTTP status, by StatusCode, HTTPStatusCode, HTTPStatus or GetStatusCode() int or by a field StatusCode: 408, 425,
//     429 and 5xx are transient, and so are 401 and 407, since it is our credentials that are refused and not the record; other 4xx permanent.
//   - Refused, reset and broken connections, unreachable hosts, unexpected EOF, DNS: transient.
//   - What cannot be read as JSON, UTF-8, a number or a time: permanent.
//   - Anything else: transient.
//
// An error whose own methods panic is transient too.
func Classify(err error) (v Verdict) {
	if err == nil {
		return Verdict{}
	}
	v.Class = fmt.Sprintf("%T", err)
	defer func() { _ = recover() }() // a method of err panics: what was found before that stands

	var said bool
	v.Kind, said = bySelf(err)
	if v.Kind == KindTransient {
		v.RetryAfter = retryAfter(err)
	}
	kind, class := byRule(err)
	v.Class = class
	if !said {
		v.Kind = kind
	}
	return v
}

// bySelf is what the outermost error that speaks for itself says.
func bySelf(err error) (kind Kind, said bool) {
	walk(err, func(err error) bool {
		f, ok := err.(Failure)
		if ok && f.FailureKind() == KindPermanent {
			kind = KindPermanent
		}
		said = ok
		return ok
	})
	return kind, said
}

// retryAfter is the outermost mark's that has one.
func retryAfter(err error) (after time.Duration) {
	walk(err, func(err error) bool {
		if m, ok := err.(*marked); ok {
			after = m.after
		}
		return after > 0
	})
	return after
}

// byRule is what the outermost error that a rule knows is, or transient and a type.
func byRule(err error) (kind Kind, class string) {
	known := walk(err, func(err error) (ok bool) {
		for _, rule := range rules {
			if kind, class, ok = rule(err); ok {
				return true
			}
		}
		return false
	})
	if !known {
		return KindTransient, typeName(err)
	}
	return kind, class
}

// rules look at one error of the chain each, not at what it wraps.
var rules = []func(error) (kind Kind, class string, ok bool){panicked, cut, grpcStatus, sqlState, httpStatus, network, syntax}

func panicked(err error) (Kind, string, bool) {
	_, ok := err.(*Panic)
	return KindPermanent, "panic", ok
}

// cut knows the calls that were given up before they had an answer.
func cut(err error) (Kind, string, bool) {
	if err == context.Canceled {
		return KindTransient, "canceled", true
	}
	t, ok := err.(interface{ Timeout() bool })
	return KindTransient, "timeout", ok && t.Timeout()
}

// grpcCodes are the codes of https://grpc.io/docs/guides/status-codes, without OK.
var grpcCodes = [...]struct {
	name string
	kind Kind
}{
	1:  {"canceled", KindTransient},
	2:  {"unknown", KindTransient},
	3:  {"invalid_argument", KindPermanent},
	4:  {"deadline_exceeded", KindTransient},
	5:  {"not_found", KindPermanent},
	6:  {"already_exists", KindPermanent},
	7:  {"permission_denied", KindPermanent},
	8:  {"resource_exhausted", KindTransient},
	9:  {"failed_precondition", KindPermanent},
	10: {"aborted", KindTransient},
	11: {"out_of_range", KindPermanent},
	12: {"unimplemented", KindPermanent},
	13: {"internal", KindTransient},
	14: {"unavailable", KindTransient},
	15: {"data_loss", KindPermanent},
	16: {"unauthenticated", KindTransient}, // it is we who are refused, not the record
}

// grpcStatus calls err.GRPCStatus().Code() by reflection: both results have types of google.golang.org/grpc.
func grpcStatus(err error) (Kind, string, bool) {
	status, ok := call(reflect.ValueOf(err), "GRPCStatus")
	if !ok {
		return 0, "", false
	}
	code, ok := call(status, "Code")
	if !ok || !code.CanUint() || code.Uint() == 0 || code.Uint() >= uint64(len(grpcCodes)) {
		return 0, "", false
	}
	c := grpcCodes[code.Uint()]
	return c.kind, "grpc " + c.name, true
}

// call calls v's method of that name where it takes nothing and returns one value.
func call(v reflect.Value, name string) (reflect.Value, bool) {
	m := v.MethodByName(name)
	if !m.IsValid() || m.Type().NumIn() != 0 || m.Type().NumOut() != 1 {
		return reflect.Value{}, false
	}
	return m.Call(nil)[0], true
}

// sqlState knows the five letters that PostgreSQL drivers and others give: class and condition,
// https://www.postgresql.org/docs/current/errcodes-appendix.html.
func sqlState(err error) (Kind, string, bool) {
	s, ok := err.(interface{ SQLState() string })
	if !ok || len(s.SQLState()) != 5 {
		return 0, "", false
	}
	const missingForeignKey = "23503"
	state, kind := s.SQLState(), KindTransient
	switch {
	case state == missingForeignKey:
	case state[:2] == "22", state[:2] == "23":
		kind = KindPermanent
	}
	return kind, "sqlstate " + state, true
}

// httpStatus knows the status codes that say that the call failed.
func httpStatus(err error) (Kind, string, bool) {
	code := statusCode(err)
	if code < 400 || code > 599 {
		return 0, "", false
	}
	kind := KindPermanent
	switch {
	case code >= 500, code == http.StatusTooManyRequests, code == http.StatusRequestTimeout, code == http.StatusTooEarly,
		code == http.StatusUnauthorized, code == http.StatusProxyAuthRequired:
		kind = KindTransient
	}
	return kind, "http " + strconv.Itoa(code), true
}

func statusCode(err error) int {
	switch e := err.(type) {
	case interface{ StatusCode() int }:
		return e.StatusCode()
	case interface{ HTTPStatusCode() int }:
		return e.HTTPStatusCode()
	case interface{ HTTPStatus() int }:
		return e.HTTPStatus()
	case interface{ GetStatusCode() int }:
		return e.GetStatusCode()
	}
	v := reflect.Indirect(reflect.ValueOf(err))
	if v.Kind() != reflect.Struct {
		return 0
	}
	if f := v.FieldByName("StatusCode"); f.IsValid() && f.CanInt() {
		return int(f.Int())
	}
	return 0
}

// network knows what a dead or half-dead dependency looks like from here.
func network(err error) (Kind, string, bool) {
	class := ""
	switch err {
	case syscall.ECONNREFUSED:
		class = "connection refused"
	case syscall.ECONNRESET, syscall.ECONNABORTED, syscall.EPIPE, net.ErrClosed:
		class = "connection reset"
	case syscall.EHOSTUNREACH, syscall.ENETUNREACH, syscall.EHOSTDOWN, syscall.ENETDOWN:
		class = "unreachable"
	case io.ErrUnexpectedEOF, io.EOF:
		class = "unexpected eof"
	}
	if _, ok := err.(*net.DNSError); ok {
		class = "dns"
	}
	return KindTransient, class, class != ""
}

// syntax knows a payload that will not get better.
func syntax(err error) (Kind, string, bool) {
	class := ""
	switch err.(type) {
	case *json.SyntaxError, *json.UnmarshalTypeError:
		class = "json"
	case *strconv.NumError:
		class = "number"
	case *time.ParseError:
		class = "time"
	default:
		// Nobody exports a type for it: protobuf and encoding/json say it in the text.
		if leaf(err) && strings.Contains(err.Error(), "invalid UTF-8") {
			class = "utf-8"
		}
	}
	return KindPermanent, class, class != ""
}

// walk calls f with err and with all that it wraps, outermost first, joined errors in their order, until f answers true.
func walk(err error, f func(error) bool) bool {
	if err == nil {
		return false
	}
	if f(err) {
		return true
	}
	switch e := err.(type) {
	case interface{ Unwrap() error }:
		return walk(e.Unwrap(), f)
	case interface{ Unwrap() []error }:
		for _, err := range e.Unwrap() {
			if walk(err, f) {
				return true
			}
		}
	}
	return false
}

func leaf(err error) bool {
	switch err.(type) {
	case interface{ Unwrap() error }, interface{ Unwrap() []error }:
		return false
	}
	return true
}

// typeName is the type of the outermost error that is more than a wrapper: "*billing.LimitError". Where there is none,
// as with errors.New, it is "error".
func typeName(err error) string {
	name := "error"
	walk(err, func(err error) bool {
		t := reflect.TypeOf(err)
		if t.Kind() == reflect.Pointer {
			t = t.Elem()
		}
		switch t.PkgPath() {
		case "errors", "fmt", "github.com/pkg/errors", reflect.TypeFor[marked]().PkgPath():
			return false
		}
		name = fmt.Sprintf("%T", err)
		return true
	})
	return name
}
