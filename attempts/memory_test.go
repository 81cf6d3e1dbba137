package attempts_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/breakwater-go/breakwater/attempts"
	"github.com/breakwater-go/breakwater/attempts/attemptstest"
)

func TestMemoryKeepsTheLaws(t *testing.T) {
	open := func(*testing.T) attempts.Store { return attempts.Memory() }
	for _, law := range attemptstest.Laws() {
		t.Run(law.Name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { law.Check(t, open, time.Sleep) })
		})
	}
}

func TestMemorySaysThatItForgets(t *testing.T) {
	var s attempts.Store = attempts.Memory()
	if d, ok := s.(attempts.Durability); !ok || d.Durable() {
		t.Error("a store in memory claims to be durable")
	}
}

func TestMemoryWaitsToTheNanosecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, p, r := attempts.Memory(), attempts.Partition{Topic: "orders"}, attempts.NewRecord(1, time.Now())
		time.Sleep(123456)
		got, _ := s.Save(t.Context(), "g", p, r, attempts.Entry{Attempts: 1, Wait: 1000000001})
		if got.Wait != 1000000001 {
			t.Errorf("%d ns remain at once", got.Wait)
		}
		time.Sleep(999)
		all, _ := s.Claim(t.Context(), "g", "o", []attempts.Partition{p})
		if got := all[p].Entries[r].Wait; got != 1000000001-999 {
			t.Errorf("%d ns remain after 999", got)
		}
	})
}

func TestMemoryIsBounded(t *testing.T) {
	const most, more = 10_000, 500
	s := attempts.Memory()
	at := func(i int) (attempts.Partition, attempts.Record) {
		return attempts.Partition{Topic: "orders", Partition: int32(i % 400)}, attempts.NewRecord(int64(i), time.Time{})
	}
	save := func(i, n int) {
		p, r := at(i)
		if _, err := s.Save(t.Context(), "g", p, r, attempts.Entry{Attempts: n}); err != nil {
			t.Fatal(err)
		}
	}
	for i := range most {
		save(i, 1)
	}
	for i := range most / 2 {
		save(i, 1) // the first half is now the younger one, though nothing has changed in it
	}
	for i := range more {
		save(most+i, 1)
	}
	var ps []attempts.Partition
	for i := range int32(400) {
		ps = append(ps, attempts.Partition{Topic: "orders", Partition: i})
	}
	all, err := s.Claim(t.Context(), "g", "o", ps)
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for i := range most + more {
		p, r := at(i)
		_, ok := all[p].Entries[r]
		if want := i < most/2 || i >= most/2+more; ok != want {
			t.Fatalf("record %d kept: %v, want %v", i, ok, want)
		}
		if ok {
			found++
		}
	}
	if found != most {
		t.Errorf("%d records kept, want %d", found, most)
	}
}

func ExampleMemory() {
	ctx, store := context.Background(), attempts.Memory()
	p := attempts.Partition{Topic: "orders", Partition: 3}
	r := attempts.NewRecord(42, time.UnixMilli(1_700_000_000_000))

	loaded, _ := store.Claim(ctx, "billing", "instance-1", []attempts.Partition{p})
	fmt.Println(len(loaded[p].Entries), "failed records")

	_, _ = store.Save(ctx, "billing", p, r, attempts.Entry{Attempts: 1, Wait: time.Minute, LastError: "connection refused"})
	_ = store.Release(ctx, "billing", "instance-1", []attempts.Partition{p})

	loaded, _ = store.Claim(ctx, "billing", "instance-2", []attempts.Partition{p})
	e := loaded[p].Entries[r]
	fmt.Println("attempts:", e.Attempts, "- next call in", e.Wait.Round(time.Minute), "-", e.LastError)

	_ = store.Forget(ctx, "billing", p, 43) // the commit that covers it was acknowledged
	// Output:
	// 0 failed records
	// attempts: 1 - next call in 1m0s - connection refused
}
