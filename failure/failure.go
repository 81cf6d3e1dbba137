// Package failure says what an error means: may waiting cure it, or not.
//
// A handler marks what it knows, with Transient, Permanent or RetryAfter, and leaves the rest to Classify. The marks
// keep the error's text and chain, so errors.Is and errors.As see through them.
package failure

import (
	"fmt"
	"runtime/debug"
	"time"
)

// Kind is what waiting can do about an error.
type Kind int

// The kinds. What nobody has judged is transient: the strategy bounds it.
const (
	KindTransient Kind = iota // waiting may cure it: it is tried again
	KindPermanent             // waiting cannot cure it: no retry
)

// String is "transient" or "permanent".
func (k Kind) String() string {
	if k == KindPermanent {
		return "permanent"
	}
	return "transient"
}

// Verdict is what an error means.
type Verdict struct {
	Kind Kind
	// RetryAfter is how long the dependency asked to be left alone; zero where it did not ask. The consumer takes the
	// longer of it and the strategy's interval, and seven days at most. A permanent verdict has none.
	RetryAfter time.Duration
	// Class is a short word for machines, for a header or a metric label: "http 503", "sqlstate 40001", "timeout",
	// "panic", or the Go type of the error, such as "*billing.LimitError".
	Class string
}

// Classifier says what an error means; the error is never nil. It is called from several goroutines. Classify is the
// default; one of your own may call it for the rest.
type Classifier func(error) Verdict

// Failure is implemented by an error type that speaks for itself.
type Failure interface {
	FailureKind() Kind
}

// Permanent marks err as one that waiting cannot cure. Permanent(nil) is nil.
func Permanent(err error) error { return mark(err, KindPermanent, 0) }

// Transient marks err as one that waiting may cure, whatever else would be said of it. Transient(nil) is nil.
func Transient(err error) error { return mark(err, KindTransient, 0) }

// RetryAfter marks err as transient, and says that the dependency asked to be left alone for d. A d of zero or less
// says nothing. RetryAfter(nil, d) is nil.
func RetryAfter(err error, d time.Duration) error { return mark(err, KindTransient, max(d, 0)) }

func mark(err error, kind Kind, after time.Duration) error {
	if err == nil {
		return nil
	}
	return &marked{err, kind, after}
}

// marked is an error with a verdict on it; it reads like the error that it wraps.
type marked struct {
	err   error
	kind  Kind
	after time.Duration
}

func (m *marked) Error() string     { return m.err.Error() }
func (m *marked) Unwrap() error     { return m.err }
func (m *marked) FailureKind() Kind { return m.kind }

// Panic is the error that a caught panic becomes. It is permanent, with the class "panic".
type Panic struct {
	Value any    // what the handler panicked with
	Stack []byte // where, as runtime/debug.Stack writes it
}

// Recovered makes a Panic of what recover returned. Call it in the deferred function itself, so that the stack is still
// the one that panicked.
func Recovered(v any) *Panic { return &Panic{v, debug.Stack()} }

// Error is "panic: " and the value; the stack stays apart.
func (p *Panic) Error() string { return fmt.Sprintf("panic: %v", p.Value) }

// Unwrap is the value, where it is an error.
func (p *Panic) Unwrap() error {
	err, _ := p.Value.(error)
	return err
}

// FailureKind is KindPermanent: the same record would panic again.
func (p *Panic) FailureKind() Kind { return KindPermanent }
