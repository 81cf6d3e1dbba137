package failure_test

import (
	"errors"
	"fmt"
	"time"

	"github.com/breakwater-go/breakwater/failure"
)

func Example() {
	for _, err := range []error{
		errors.New("something went wrong"),
		statusCoder(503),
		statusCoder(404),
		failure.RetryAfter(statusCoder(429), 30*time.Second),
		failure.Permanent(errors.New("order 17 has no customer")),
	} {
		v := failure.Classify(err)
		fmt.Printf("%v: %v, class %q, retry after %v\n", err, v.Kind, v.Class, v.RetryAfter)
	}
	// Output:
	// something went wrong: transient, class "error", retry after 0s
	// status 503: transient, class "http 503", retry after 0s
	// status 404: permanent, class "http 404", retry after 0s
	// status 429: transient, class "http 429", retry after 30s
	// order 17 has no customer: permanent, class "error", retry after 0s
}

// A classifier of one's own judges what it knows and leaves the rest to the default one.
func ExampleClassifier() {
	var errClosed = errors.New("the shop is closed")

	var classify failure.Classifier = func(err error) failure.Verdict {
		if errors.Is(err, errClosed) {
			return failure.Verdict{Kind: failure.KindTransient, RetryAfter: time.Hour, Class: "closed"}
		}
		return failure.Classify(err)
	}
	fmt.Printf("%+v\n", classify(fmt.Errorf("order 17: %w", errClosed)))
	// Output: {Kind:transient RetryAfter:1h0m0s Class:closed}
}
