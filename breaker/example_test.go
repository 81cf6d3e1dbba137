package breaker_test

import (
	"fmt"
	"time"

	"github.com/breakwater-go/breakwater/breaker"
)

// One failure opens the breaker; the gate says when a single record may find out whether the dependency is well again.
func Example() {
	b := breaker.New(breaker.Settings{Name: "payments", ConsecutiveFailures: 1})
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

	began := b.Stamp() // a call begins, and fails
	b.Fail(began, false, breaker.Failure{Now: now, RetryAt: now.Add(4 * time.Second), First: time.Second, Alone: true})
	fmt.Println(b.State(), "until", b.Gate().Format(time.TimeOnly))

	now = now.Add(time.Second)
	if b.MayProbe(now) {
		probe := b.Probe()
		fmt.Println(b.State(), "- another may begin:", b.MayProbe(now))
		b.Success(probe, true)
	}
	fmt.Println(b.State())
	// Output:
	// open until 12:00:01
	// half-open - another may begin: false
	// closed
}

// While a single record has failed, the record of another partition goes first: its success says that it was the record, and its failure, that
// it is the dependency.
func ExampleChoose() {
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	failed := breaker.Candidate{Callable: true, Witness: true, RetryAt: now.Add(time.Minute), Called: 1}
	other := breaker.Candidate{Callable: true}

	chosen, _ := breaker.Choose(now, []breaker.Candidate{failed, other})
	fmt.Println("with another partition:", chosen)

	_, next := breaker.Choose(now, []breaker.Candidate{failed})
	fmt.Println("alone: not before", next.Format(time.TimeOnly))
	// Output:
	// with another partition: 1
	// alone: not before 12:01:00
}
