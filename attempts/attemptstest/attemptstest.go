// Package attemptstest is what every attempts.Store must do, as tests that run against any of them.
//
//	func TestMyStore(t *testing.T) {
//		attemptstest.TestStore(t, func(t *testing.T) attempts.Store { return open(t) }, passTime)
//	}
package attemptstest

// The suite speaks to a store through the methods of attempts.Store alone, and asks nothing of its clock but that it goes on:
// it runs in virtual time and on a real server alike.

import (
	"testing"
	"time"

	"github.com/breakwater-go/breakwater/attempts"
)

// Law is one thing that a store must do.
type Law struct {
	Name  string
	Check func(t *testing.T, open func(t *testing.T) attempts.Store, advance func(d time.Duration))
}

// TestStore checks every law in a subtest of its own.
//
// Open answers an empty store; it is called once or more for each law, and closes what it opened through t.Cleanup. Advance makes
// d pass on the store's clock, and may just wait: the suite asks for less than a second in all. Where subtests are not
// to be had, as inside a testing/synctest bubble, make one bubble for each of Laws.
func TestStore(t *testing.T, open func(t *testing.T) attempts.Store, advance func(d time.Duration)) {
	for _, law := range Laws() {
		t.Run(law.Name, func(t *testing.T) { law.Check(t, open, advance) })
	}
}

// bench is one store under test, with the words that the laws are written in. A record that is not named is `record`, of
// partition `part`, in group `group`.
type bench struct {
	*testing.T
	attempts.Store
	advance func(time.Duration)
}

const (
	group = "billing"
	owner = "owner-1"
	other = "owner-2"

	// tick passes on the store's clock where a law needs time to pass; long is a wait that does not end meanwhile, even
	// on a slow machine, and slack is how slow that machine may be.
	tick  = 30 * time.Millisecond
	long  = 10 * time.Hour
	slack = time.Hour
)

var (
	part   = attempts.Partition{Topic: "orders", Partition: 3}
	record = attempts.NewRecord(17, time.Date(2026, 3, 4, 5, 6, 7, 8e6, time.UTC))
)

func (b bench) save(e attempts.Entry) attempts.Entry { b.Helper(); return b.saveAt(part, record, e) }

func (b bench) saveAt(p attempts.Partition, r attempts.Record, e attempts.Entry) attempts.Entry {
	b.Helper()
	stands, err := b.Save(b.Context(), group, p, r, e)
	if err != nil {
		b.Fatalf("Save(%+v): %v", e, err)
	}
	return stands
}

func (b bench) unnote(r attempts.Record) {
	b.Helper()
	if err := b.Unnote(b.Context(), group, part, r); err != nil {
		b.Fatalf("Unnote: %v", err)
	}
}

func (b bench) forget(below int64) {
	b.Helper()
	if err := b.Forget(b.Context(), group, part, below); err != nil {
		b.Fatalf("Forget: %v", err)
	}
}

func (b bench) release(owner string, ps ...attempts.Partition) {
	b.Helper()
	if err := b.Release(b.Context(), group, owner, ps); err != nil {
		b.Fatalf("Release: %v", err)
	}
}

// claim claims one partition.
func (b bench) claim(group, owner string, p attempts.Partition) attempts.Loaded {
	b.Helper()
	all, err := b.Claim(b.Context(), group, owner, []attempts.Partition{p})
	if err != nil {
		b.Fatalf("Claim: %v", err)
	}
	loaded, ok := all[p]
	if !ok || len(all) != 1 {
		b.Fatalf("Claim of %v answers %v", p, all)
	}
	return loaded
}

// load reads one record of part, as its next owner does.
func (b bench) load(r attempts.Record) (attempts.Entry, bool) {
	b.Helper()
	e, ok := b.claim(group, owner, part).Entries[r]
	return e, ok
}

// wantStored checks what a next owner would find for record. The wait is not compared.
func (b bench) wantStored(want attempts.Entry) {
	b.Helper()
	got, ok := b.load(record)
	if !ok {
		b.Fatalf("nothing is stored, want %+v", want)
	}
	b.wantSame(got, want)
}

// wantNothing checks that a next owner would find nothing for record.
func (b bench) wantNothing() {
	b.Helper()
	if got, ok := b.load(record); ok {
		b.Fatalf("stored is %+v, want nothing", got)
	}
}

// wantSame compares two entries, save for their waits.
func (b bench) wantSame(got, want attempts.Entry) {
	b.Helper()
	if !got.FirstFailed.Equal(want.FirstFailed) {
		b.Errorf("first failed at %v, want %v", got.FirstFailed, want.FirstFailed)
	}
	got.Wait, got.FirstFailed = want.Wait, want.FirstFailed
	if got != want {
		b.Errorf("got  %+v\nwant %+v", got, want)
	}
}

// wantRemains checks what is left of a wait, after passed has gone by on the store's clock: less only by what this machine
// lost, and more only by the millisecond to which a store may round up.
func (b bench) wantRemains(got attempts.Entry, wait, passed time.Duration) {
	b.Helper()
	if most := min(wait, wait-passed+time.Millisecond); got.Wait > most || got.Wait < most-slack {
		b.Errorf("%v remain of a wait of %v after %v", got.Wait, wait, passed)
	}
}
