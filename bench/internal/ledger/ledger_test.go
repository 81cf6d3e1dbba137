package ledger

import (
	"path/filepath"
	"sync"
	"testing"
)

func TestTwoMappingsAreOneBook(t *testing.T) {
	path := filepath.Join(t.TempDir(), "book")
	writer, reader := open(t, path), open(t, path)
	writer.Note(1, 2, false)
	writer.Note(1, 2, true)
	writer.Note(0, 0, true)
	if calls, done := reader.Calls(1, 2), reader.Done(1, 2); calls != 2 || done != 1 {
		t.Errorf("record 1/2: %d calls, %d successes; want 2 and 1", calls, done)
	}
	if called, done, outOfOrder := reader.Totals(); called != 2 || done != 2 || outOfOrder != 0 {
		t.Errorf("%d records called, %d done, %d out of order; want 2, 2, 0", called, done, outOfOrder)
	}
}

func TestOrderIsThatOfTheFirstSuccess(t *testing.T) {
	for _, c := range []struct {
		name  string
		notes []int64 // offsets of one partition; negative: the call failed (offset -n-1)
		want  int
	}{
		{"in order", []int64{0, 1, 2}, 0},
		{"a repetition after a crash", []int64{0, 1, 2, 0, 1, 2}, 0},
		{"overtaken", []int64{1, 0}, 1},
		{"a later record was called while this one waited", []int64{-1, 1, 0}, 1},
		{"overtaken by a call that failed", []int64{-2, 0}, 1},
		{"never done", []int64{-1, 1, 2}, 0},
	} {
		l := open(t, filepath.Join(t.TempDir(), "book"))
		for _, n := range c.notes {
			if n < 0 {
				l.Note(0, -n-1, false)
			} else {
				l.Note(0, n, true)
			}
		}
		if _, _, got := l.Totals(); got != c.want {
			t.Errorf("%s: %d out of order, want %d", c.name, got, c.want)
		}
	}
}

func TestNoCallIsForgottenWhenManyWrite(t *testing.T) {
	l := open(t, filepath.Join(t.TempDir(), "book"))
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for range 1000 {
				l.Note(0, 3, true)
			}
		})
	}
	all.Wait()
	if calls, done := l.Calls(0, 3), l.Done(0, 3); calls != 4000 || done != 4000 {
		t.Errorf("%d calls, %d successes; want 4000 of each", calls, done)
	}
	if called, done, _ := l.Totals(); called != 1 || done != 1 {
		t.Errorf("%d records called, %d done; want one", called, done)
	}
}

func open(t *testing.T, path string) *Ledger {
	t.Helper()
	l, err := Open(path, 2, 4)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}
