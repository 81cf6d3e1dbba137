package attempts_test

import (
	"context"
	"fmt"
	"time"

	"github.com/breakwater-go/breakwater/attempts"
)

func Example() {
	ctx := context.Background()
	store := attempts.Memory() // or attempts.Redis(client, attempts.RedisConfig{})
	orders := attempts.Partition{Topic: "orders", Partition: 0}
	record := attempts.NewRecord(42, time.Unix(1_700_000_000, 0))

	// The owner says which attempt it was; saying it twice changes nothing.
	for range 2 {
		if _, err := store.Save(ctx, "billing", orders, record, attempts.Entry{Attempts: 3, Wait: time.Minute, LastError: "timeout"}); err != nil {
			fmt.Println(err)
		}
	}

	// The next owner reads the count and what remains of the wait.
	loaded, err := store.Claim(ctx, "billing", "pod-2", []attempts.Partition{orders})
	if err != nil {
		fmt.Println(err)
	}
	entry := loaded[orders].Entries[record]
	fmt.Println(entry.Attempts, entry.LastError, entry.Wait > 59*time.Second)
	// Output: 3 timeout true
}
