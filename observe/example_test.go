package observe_test

import (
	"fmt"

	"github.com/breakwater-go/breakwater/observe"
)

func ExampleFunc() {
	observer := observe.Func(func(e observe.Event) {
		fmt.Printf("%v: %s (%s/%d@%d, attempt %d)\n", e.Kind, e.Kind.Sentence(), e.Topic, e.Partition, e.Offset, e.Attempt)
	})
	observer.Observe(observe.Event{Kind: observe.Released, Topic: "orders", Partition: 3, Offset: 42, Attempt: 2})
	// Output: released: held record done; its partition flows (orders/3@42, attempt 2)
}
