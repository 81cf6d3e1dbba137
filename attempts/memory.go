package attempts

// The store of a process that has no other. It lives as long as the process and is bounded: beyond maxRemembered records the
// one that was saved longest ago is forgotten, and would start over. Its clock is the process's own, monotonic, and
// virtual inside a testing/synctest bubble.

import (
	"context"
	"sync"
	"time"
)

const maxRemembered = 10_000

// MemoryStore is a Store in memory. Make one with Memory.
type MemoryStore struct {
	mu     sync.Mutex
	places map[place]*shelf
	count  int    // records on all shelves
	writes uint64 // numbers the saves, so that the oldest can be found
}

// place is where one group keeps one partition.
type place struct {
	group string
	Partition
}

// shelf is what is kept for one place: the hash of the Redis store.
type shelf struct {
	owner   string          // "" is nobody
	guard   string          // the owner that found somebody else's mark, until the first Forget
	records map[int64]*kept // by offset
}

// kept is one entry with the start of its wait.
type kept struct {
	record Record
	entry  Entry
	start  time.Time
	before *kept // what a note replaced, so that it can be taken back; nil also where there was nothing
	fresh  bool  // a note that can be taken back
	write  uint64
}

// Memory makes a Store that forgets everything when the process ends: Durable is false, and a restart starts the strategy
// of a failed record over. It holds 10,000 records at most; beyond that it forgets the one saved longest ago.
func Memory() *MemoryStore {
	return &MemoryStore{places: map[place]*shelf{}}
}

// Durable is false: nothing is kept over a restart.
func (m *MemoryStore) Durable() bool { return false }

// Claim is Store's. It never fails.
func (m *MemoryStore) Claim(_ context.Context, group, owner string, ps []Partition) (map[Partition]Loaded, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	all := make(map[Partition]Loaded, len(ps))
	for _, p := range ps {
		s := m.shelf(place{group, p})
		if s.owner != "" && s.owner != owner {
			s.guard = owner
		}
		s.owner = owner
		found := Loaded{Entries: make(map[Record]Entry, len(s.records)), ForeignMark: s.guard == owner}
		for _, k := range s.records {
			found.Entries[k.record] = k.remaining()
		}
		all[p] = found
	}
	return all, nil
}

// Save is Store's. It fails only for an entry that makes no sense.
func (m *MemoryStore) Save(_ context.Context, group string, p Partition, r Record, e Entry) (Entry, error) {
	if err := e.check(r); err != nil {
		return e, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.writes++
	own := &kept{record: NewRecord(r.Offset, r.Timestamp), entry: e.bounded(), start: time.Now(), write: m.writes, fresh: e.Noted}
	s := m.shelf(place{group, p})
	old := s.records[r.Offset]
	if old == nil {
		m.makeRoom()
		m.count++
	}
	// Making room may have emptied the very shelf that we hold.
	m.places[place{group, p}] = s
	if old != nil && old.record == own.record {
		own = old.merge(own)
	}
	s.records[r.Offset] = own
	return own.remaining(), nil
}

// Unnote is Store's. It never fails.
func (m *MemoryStore) Unnote(_ context.Context, group string, p Partition, r Record) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	at := place{group, p}
	s := m.places[at]
	if s == nil {
		return nil
	}
	k := s.records[r.Offset]
	if k == nil || k.record != NewRecord(r.Offset, r.Timestamp) || !k.fresh {
		return nil
	}
	if k.before != nil {
		s.records[r.Offset] = k.before
		return nil
	}
	m.remove(at, r.Offset)
	return nil
}

// Forget is Store's. It never fails.
func (m *MemoryStore) Forget(_ context.Context, group string, p Partition, below int64) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	at := place{group, p}
	s := m.places[at]
	if s == nil {
		return nil
	}
	s.guard = ""
	for offset := range s.records {
		if offset < below {
			m.remove(at, offset)
		}
	}
	return nil
}

// Release is Store's. It never fails.
func (m *MemoryStore) Release(_ context.Context, group, owner string, ps []Partition) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, p := range ps {
		at := place{group, p}
		if s := m.places[at]; s != nil && s.owner == owner {
			s.owner, s.guard = "", ""
			m.tidy(at)
		}
	}
	return nil
}

// merge decides what stands when own is written over old, as Save says. It is the rule of saveScript.
func (old *kept) merge(own *kept) *kept {
	same := own.entry.Attempts == old.entry.Attempts && own.entry.Noted == old.entry.Noted
	if same && own.entry.Wait <= old.entry.Wait {
		own.entry.Wait, own.start = old.entry.Wait, old.start
	}
	if first := old.entry.FirstFailed; own.entry.FirstFailed.IsZero() || !first.IsZero() && !first.After(own.entry.FirstFailed) {
		own.entry.FirstFailed, own.entry.FirstError = first, old.entry.FirstError
	}
	if own.entry.replaces(old.entry) {
		if own.fresh {
			own.before = &kept{record: old.record, entry: old.entry, start: old.start, write: old.write}
		}
		return own
	}
	stands := *old
	stands.write = own.write
	stands.entry.FirstFailed, stands.entry.FirstError = own.entry.FirstFailed, own.entry.FirstError
	if same {
		stands.entry.Wait, stands.start = own.entry.Wait, own.start
	}
	return &stands
}

// remaining is the entry with what is left of its wait now.
func (k *kept) remaining() Entry {
	e := k.entry
	e.Wait = max(0, min(e.Wait, e.Wait-time.Since(k.start)))
	return e
}

func (m *MemoryStore) shelf(at place) *shelf {
	s := m.places[at]
	if s == nil {
		s = &shelf{records: map[int64]*kept{}}
		m.places[at] = s
	}
	return s
}

func (m *MemoryStore) remove(at place, offset int64) {
	delete(m.places[at].records, offset)
	m.count--
	m.tidy(at)
}

// tidy drops a shelf on which nothing is left.
func (m *MemoryStore) tidy(at place) {
	if s := m.places[at]; s.owner == "" && s.guard == "" && len(s.records) == 0 {
		delete(m.places, at)
	}
}

// makeRoom forgets the record saved longest ago when there is no room for one more. It looks at all of them, which takes
// some hundred microseconds, and only when ten thousand records are failing.
func (m *MemoryStore) makeRoom() {
	if m.count < maxRemembered {
		return
	}
	var where place
	var oldest *kept
	for at, s := range m.places {
		for _, k := range s.records {
			if oldest == nil || k.write < oldest.write {
				where, oldest = at, k
			}
		}
	}
	m.remove(where, oldest.record.Offset)
}
